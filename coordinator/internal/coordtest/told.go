package coordtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// moment is shorter than any intended wait, and longer than a new connection takes.
const moment = 100 * time.Millisecond

// news is a report that a caller or an observer received.
type news struct {
	line  int
	at    time.Duration
	who   string
	whose string        // sorts simultaneous reports about several callers
	quiet bool          // not printed in a brief scene, which shows it as holders and waiters
	text  func() string // called when nothing is under way
}

// hear records a report to a caller or an observer. It may be called from any goroutine.
func (s *scene) hear(who string, quiet bool, text func() string) {
	s.hearOf(who, "", quiet, text)
}

// hearOf records a report about one of several callers.
func (s *scene) hearOf(who, whose string, quiet bool, text func() string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = append(s.heard, news{s.line, time.Since(s.start), who, whose, quiet, text})
}

// news returns the reports as lines.
func (s *scene) news() (lines []string) {
	s.mu.Lock()
	heard := slices.Clone(s.heard)
	s.mu.Unlock()
	slices.SortStableFunc(heard, func(a, b news) int {
		return cmp.Or(a.line-b.line, cmp.Compare(a.at, b.at), strings.Compare(a.who, b.who), strings.Compare(a.whose, b.whose))
	})
	for _, n := range heard {
		if n.quiet && s.brief {
			continue
		}
		line := n.who + ": " + n.text()
		if n.at >= moment && !s.vague && !s.brief {
			line += fmt.Sprintf(" (after %v)", n.at.Round(time.Millisecond))
		}
		lines = append(lines, line)
	}
	return lines
}

// look takes in the visible results of a step, when nothing is under way.
func (s *scene) look() {
	if !s.brief {
		s.remember()
	}
	s.checkCallers()
	for _, o := range s.observers {
		if !o.slow {
			s.listen(o.name)
		}
	}
}

// state returns what a brief scene prints now.
func (s *scene) state(said []string) string {
	parts := s.who()
	if leases := s.on.Children(LockPath + "/leases"); s.leases && len(leases) > 0 {
		parts = append(parts, fmt.Sprint("leases ", len(leases)))
	}
	return strings.Join(slices.Concat(parts, said, s.news()), "; ")
}

// who returns which callers hold, and which wait.
func (s *scene) who() (parts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	groups := map[string][]string{}
	for _, c := range s.callers {
		what := ""
		switch {
		case c.a == nil: // a function that does not run yet
			if !c.over {
				what = "wait"
			}
		case c.a.Valid():
			what = "hold"
		case !c.over && (c.finish != nil || c.lost > 0):
			what = "have lost"
		case !c.over && c.granted:
			what = "leave"
		case !IsClosed(c.a.Done()):
			what = "wait"
		}
		groups[what] = append(groups[what], c.name)
	}
	for _, what := range []string{"hold", "have lost", "leave", "wait"} {
		if names := groups[what]; len(names) > 1 {
			parts = append(parts, strings.Join(names, " ")+" "+what)
		} else if len(names) == 1 {
			parts = append(parts, names[0]+" "+strings.Replace(what+"s", "have losts", "has lost", 1))
		}
	}
	return parts
}

// standing returns the holders and waiters, the ephemeral nodes with their owners, and
// the requests.
func (s *scene) standing() (lines []string) {
	var nodes, asked []string
	for _, node := range s.nodes() {
		label := s.label(node)
		if !s.ownerless {
			label += " of " + s.nameOf(s.srv.Owner(node))
		}
		nodes = append(nodes, label)
	}
	slices.SortFunc(nodes, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
	s.mu.Lock()
	requests := s.asked
	s.mu.Unlock()
	for id, ops := range requests {
		var parts []string
		for op, n := range ops {
			again := s.vague && op == zktest.OpSetWatches // their number depends on the number of connections
			if parts = append(parts, op.String()); n > 1 && !again {
				parts[len(parts)-1] = fmt.Sprint(n, " ", op)
			}
		}
		slices.Sort(parts)
		asked = append(asked, s.nameOf(id)+": "+strings.Join(parts, ", "))
	}
	slices.Sort(asked)
	lines = append(lines, "== "+cmp.Or(strings.Join(s.who(), "; "), "no caller")+"; "+cmp.Or(strings.Join(nodes, ", "), "no node"))
	if len(asked) > 0 && !s.nocost {
		lines = append(lines, "   "+strings.Join(asked, "; "))
	}
	return lines
}

// nodes returns the paths of all ephemeral nodes.
func (s *scene) nodes() (nodes []string) {
	for _, line := range s.on.tree() {
		node, _, _ := strings.Cut(line, " ")
		nodes = append(nodes, node)
	}
	return nodes
}

// remember labels all new ephemeral nodes, in the order of their numbers.
func (s *scene) remember() {
	nodes := s.nodes()
	slices.SortFunc(nodes, func(a, b string) int {
		na, _ := events.ParseName(path.Base(a))
		nb, _ := events.ParseName(path.Base(b))
		return cmp.Or(int(na.Seq-nb.Seq), strings.Compare(path.Dir(a), path.Dir(b)))
	})
	for _, node := range nodes {
		s.label(node)
	}
}

// label returns a node's label, because its path contains a GUID.
func (s *scene) label(node string) string {
	if node == "" {
		return "no node"
	}
	if s.labels[node] == "" {
		s.labels[node] = fmt.Sprint("n", len(s.labels)+1)
	}
	return s.labels[node]
}

// token names a token by the order of grants, and marks it if that is not the order of
// tokens.
func (s *scene) token(token int64) string {
	i := slices.Index(s.named, token)
	if i < 0 {
		i = len(s.named)
		s.named = append(s.named, token)
	}
	name := fmt.Sprint("t", i+1)
	for j, earlier := range s.named[:i] {
		if earlier > token {
			return fmt.Sprintf("%s (LESS THAN t%d)", name, j+1)
		}
	}
	return name
}

// granted renders a Grant.
func (s *scene) granted(g events.Grant) (text string) {
	if !s.brief {
		text = fmt.Sprintf(" %s %s", s.token(g.Token), s.label(g.Node))
	}
	if g.Waited >= moment && !s.vague && !s.brief {
		text += fmt.Sprintf(", waited %v", g.Waited.Round(time.Millisecond))
	}
	switch b := g.Abandoned; {
	case b != nil && s.brief:
		text += fmt.Sprintf(", abandoned with %q", b.Data)
	case b != nil:
		text += fmt.Sprintf(", abandoned by %s %s with %q", s.label(b.Node), s.token(b.Token), b.Data)
	}
	return text
}

// tree lists every node except the servers' own, with labels for nodes with a GUID.
func (s *scene) tree() string {
	s.remember()
	var all []string
	for _, node := range s.srv.Tree() {
		if label := s.labels[node]; label != "" {
			node = label
		}
		if !strings.HasPrefix(node, "/zookeeper") {
			all = append(all, node)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// queue returns the result of Queue. In a brief scene it checks that each contender
// matches its node.
func (s *scene) queue(session string, words []string) string {
	l, w := s.handle(session, words)
	found, err := l.Queue(w.ctx)
	if err != nil {
		return errorName(err)
	}
	var all []string
	for _, f := range found {
		var text string
		if s.brief {
			text = string(f.Data)
			s.want(slices.Contains(s.on.tree(), f.Node+" "+text) && f.Session == s.session(s.caller(text).session).SessionID(),
				"in the queue is %+v, which is not there or not of that session", f)
			s.checkContender(f, s.caller(text))
		} else if text = s.label(f.Node); !s.ownerless {
			text += " of " + s.nameOf(f.Session)
		}
		if f.Kind != events.KindLock && !s.ownerless {
			text += fmt.Sprintf("(%v)", f.Kind)
		}
		if len(f.Data) > 0 && !s.brief {
			text += fmt.Sprintf(" %q", f.Data)
		}
		if f.Holding {
			text += "+"
		}
		all = append(all, text)
	}
	return strings.TrimSpace("queue: " + strings.Join(all, " "))
}

// checkContender checks what Queue returns for a caller's grant.
func (s *scene) checkContender(f events.Contender, c *caller) {
	permits := 0
	if c.permits {
		permits = max(1, c.takes)
	}
	s.want(f.Permits == permits, "%s is in the queue with %d permits, want %d", c.name, f.Permits, permits)
	// A reader in a writer's place has another node than its token suggests.
	token := c.a.Grant().Token
	s.want(!f.Holding || token == 0 || c.in != nil || f.Token == token,
		"%s is in the queue with the token %d, want that of its grant, %d", c.name, f.Token, token)
}

// follow records the events of a coordinator's stream.
func (s *scene) follow(stream <-chan events.Event, session string) {
	note := func(id uint64, quiet bool, text string) {
		whose := ""
		if c := s.callerOf(session, id); c != nil {
			whose = c.name
		}
		s.hearOf(session, whose, quiet, func() string {
			if c := s.callerOf(session, id); c != nil {
				return "stream: " + c.name + " " + text
			}
			return "stream: " + text
		})
	}
	for ev := range stream {
		switch ev := ev.(type) {
		case events.Grant:
			note(ev.ID, true, "GRANT")
		case events.Lost:
			if c := s.callerOf(session, ev.ID); c != nil {
				s.mu.Lock()
				c.stream++
				s.mu.Unlock()
			}
			note(ev.ID, true, "LOST "+ev.Reason.String())
		case events.Ended:
			text := "ENDED " + errorName(ev.Err)
			if ev.Held > 0 && !s.vague {
				text += fmt.Sprintf(", held %v", ev.Held)
			}
			note(ev.ID, true, text)
		case events.Queued:
			note(ev.ID, true, fmt.Sprintf("queued behind %d", ev.Ahead))
		case events.Requeued:
			note(ev.ID, false, "queues up again")
		case events.Revoked:
			text := "is asked to give it back"
			if !ev.Deadline.IsZero() {
				text += fmt.Sprintf(" within %v", time.Until(ev.Deadline))
			}
			note(ev.ID, true, text)
		case events.Suspended:
			note(0, true, "suspended")
		case events.Resumed:
			note(0, true, "resumed")
		case events.SessionExpired:
			note(0, true, "session expired")
		}
	}
}

// callerOf returns the caller with this acquisition, or nil.
func (s *scene) callerOf(session string, id uint64) *caller {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.callers {
		if c.session == session && c.a != nil && c.a.ID() == id {
			return c
		}
	}
	return nil
}

// An observer receives each leader of an election.
type observer struct {
	name string
	seen <-chan events.Leader
	last events.Leader
	slow bool // it listens only when told to
}

func (s *scene) observe(name, session string, words []string) {
	dir := ElectionPath
	for _, word := range words {
		if at, found := strings.CutPrefix(word, "at="); found {
			dir = at
		}
	}
	seen := s.session(session).Election(dir).Observe(s.Context())
	s.observers = append(s.observers, &observer{name: name, seen: seen, slow: slices.Contains(words, "slow")})
}

// listen records what an observer receives.
func (s *scene) listen(name string) {
	for _, o := range s.observers {
		for more := o.name == name && o.seen != nil; more; {
			l, ok, closed := HeardSoFar(o.seen)
			text := "hears " + string(l.Data)
			switch {
			case closed:
				o.seen = nil
				text = "hears no more"
			case ok && l.Node == "":
				text = "hears of no leader"
			case ok:
				l.Data[0] = 'x' // the data belong to the reader
				s.checkLeader(o, l)
				o.last = l
			}
			if more = ok; ok || closed {
				s.hear(o.name, false, func() string { return text })
			}
		}
	}
}

// HeardSoFar returns the next unread value of an observer's channel if there is one, and
// whether the channel is closed.
func HeardSoFar[T any](seen <-chan T) (heard T, ok, closed bool) {
	select {
	case heard, ok = <-seen:
		return heard, ok, !ok
	default:
		return heard, false, false
	}
}

var errFinished = errors.New("unfinished work")

// errorName names the errors that callers may test for, with their details.
func errorName(err error) string {
	if err == nil {
		return "nil"
	}
	var names []string
	for _, known := range []struct {
		name string
		err  error
	}{
		{"ErrSessionExpired", coordinator.ErrSessionExpired}, {"ErrLeaseRanOut", coordinator.ErrLeaseRanOut},
		{"ErrNodeRemoved", coordinator.ErrNodeRemoved}, {"ErrSuspended", coordinator.ErrSuspended}, {"ErrRevoked", coordinator.ErrRevoked},
		{"ErrReleased", coordinator.ErrReleased}, {"ErrNotAcquired", coordinator.ErrNotAcquired}, {"ErrTimeout", coordinator.ErrTimeout},
		{"ErrDeadlock", coordinator.ErrDeadlock}, {"ErrClosed", coordinator.ErrClosed}, {"ErrOutcomeUnknown", coordinator.ErrOutcomeUnknown},
		{"ErrPath", coordinator.ErrPath}, {"ErrTooLarge", coordinator.ErrTooLarge}, {"ErrNoAuth", coordinator.ErrNoAuth},
		{"ErrQuota", coordinator.ErrQuota}, {"ErrSequenceEnd", coordinator.ErrSequenceEnd}, {"ErrKind", coordinator.ErrKind},
		{"ErrRecord", coordinator.ErrRecord}, {"ErrMembers", coordinator.ErrMembers}, {"ErrDuplicate", coordinator.ErrDuplicate},
		{"ErrSizeMismatch", coordinator.ErrSizeMismatch},
		{"ErrSizeNode", coordinator.ErrSizeNode}, {"ErrPermits", coordinator.ErrPermits}, {"ErrNotHeld", coordinator.ErrNotHeld}, {"ErrNotRevocable", coordinator.ErrNotRevocable}, {"ErrGrace", coordinator.ErrGrace},
		{"ErrData", coordinator.ErrData}, {"its context", errCancelled}, {"its error", errFinished}, {"zk.ErrNodeExists", zk.ErrNodeExists},
		{"context canceled", context.Canceled}, {"deadline exceeded", context.DeadlineExceeded},
	} {
		if errors.Is(err, known.err) {
			names = append(names, known.name)
		}
	}
	if len(names) == 0 {
		return err.Error()
	}
	if errors.Is(err, coordinator.ErrTimeout) {
		names = names[:len(names)-1] // ErrTimeout is a deadline exceeded as well
	}
	if lost := (*coordinator.LostError)(nil); errors.As(err, &lost) {
		names[0] = "LostError " + names[0]
	}
	text := strings.Join(names, " + ")
	if errors.Is(err, coordinator.ErrSizeMismatch) { // the text names both sizes
		text += ": " + err.Error()
	}
	if held := (*events.HeldError)(nil); errors.As(err, &held) {
		text += fmt.Sprintf(", %s has it", held.Holder.Data)
	}
	return text
}
