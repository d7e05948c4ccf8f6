package schedules

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// Promises 1, 2 and 3: the order of holders, how long they hold, and their tokens.

// tenure is a Grant that was taken, until it was released or lost.
type tenure struct {
	life    *life
	path    string
	side    side
	permits int
	root    string // the node and ID of the Grant, or of the Grant whose place it has
	grant   events.Grant
	others  []*tenure   // the tenures of a multi-lock's other members
	at      time.Time   // time of the Grant
	quick   bool        // the holder reads its channels at once
	valid   func() bool // asks the library

	// Guarded by the world's mutex.
	over time.Time
	how  string
	why  events.Reason
}

func newTenure(l *life, path string, s side, grant events.Grant, born time.Time, valid func() bool) *tenure {
	t := &tenure{
		life: l, path: path, side: s, permits: 1, root: fmt.Sprintf("%s of %d", grant.Node, grant.ID), grant: grant, at: born.Add(grant.Waited), quick: true, valid: valid,
	}
	t.addOthers()
	return t
}

func (t *tenure) world() *world { return t.life.client.world }

// begin checks the tenure against other holders, and against contenders ahead.
func (t *tenure) begin() {
	w := t.world()
	w.logf("%d of %s: granted %s, token %x, turn %d, session %x",
		t.grant.ID, t.life.client.name, t.grant.Node, t.grant.Token, t.grant.Turn, t.grant.Session)
	w.count("grants", 1)
	if t.grant.Waited > 0 {
		w.count("grants after waiting", 1)
	}
	w.mu.Lock()
	others := slices.Clone(w.tenures[t.path])
	w.tenures[t.path] = append(w.tenures[t.path], t)
	if id, found := guid(t.grant.Node); found && w.cutAfter.has(id) {
		w.counts["creates recovered"]++
	}
	w.mu.Unlock()
	t.beginOthers()
	beside := false
	for _, other := range others {
		w.exclusive(other, t)
		beside = beside || other.valid() && t.valid() && other.root != t.root
	}
	w.crowd(t.path)
	if beside {
		w.count("grants beside another holder", 1)
	}
	t.first()
	t.passes()
}

// exclusive fails if both are valid at one instant, unless they share the lock. Validity
// ends for good: if a is valid before and after b was seen to be valid, both are valid in
// between.
func (w *world) exclusive(a, b *tenure) {
	if a.path != b.path || a == b || together(a, b) || !a.valid() || !b.valid() || !a.valid() || w.excused(a) || w.excused(b) {
		return
	}
	w.count("two holders", 1)
	w.failf("two holders of %s: %d of %s with token %x since %v, and %d of %s with token %x", a.path,
		a.grant.ID, a.life.client.name, a.grant.Token, a.at.Sub(w.begun), b.grant.ID, b.life.client.name, b.grant.Token)
}

// excused reports whether the library could not have notified the holder in time.
func (w *world) excused(t *tenure) bool {
	return w.decreed.has(t.grant.Session) || w.meddled.has(nameOf(t.grant.Node))
}

// first fails if there is a node with a smaller number that the holder must wait for.
// While the holder's own node exists, the directory is the same, and the numbers are in
// the order in which the server accepted the contenders.
func (t *tenure) first() {
	w := t.world()
	if w.recipe == semaphore || w.recipe == unfair {
		return // a semaphore's holder has left the queue, see enters; an unfair lock has no queue
	}
	number := sequence(t.grant.Node)
	ahead := ""
	for _, child := range w.srv.Children(t.path) {
		if sequence(child) < number && t.side.waitsFor(child) {
			ahead = child
		}
	}
	if ahead != "" && w.srv.Exists(t.grant.Node) && !w.excused(t) {
		w.failf("%d of %s was granted %s, and has to wait for %s", t.grant.ID, t.life.client.name, t.grant.Node, ahead)
	}
}

// sequence returns the number that the server appended to the name, as text that compares
// like the number.
func sequence(node string) string {
	const digits = 10
	return node[max(0, len(node)-digits):]
}

// end records when and how the tenure ended. Only the first call counts.
func (t *tenure) end(how string, why events.Reason) {
	w := t.world()
	w.logf("%d of %s: %s %v", t.grant.ID, t.life.client.name, how, why)
	w.mu.Lock()
	if !t.over.IsZero() {
		w.mu.Unlock()
		return
	}
	for _, one := range append(t.others, t) {
		one.over, one.how, one.why = time.Now(), how, why
	}
	w.mu.Unlock()
	if why != 0 {
		w.count("lost: "+why.String(), 1)
		t.judgeReason()
	}
}

func (t *tenure) judgeReason() {
	w := t.world()
	wrong := true
	switch t.why {
	case events.ReasonSessionExpired:
		wrong = !w.decreed.has(t.grant.Session) // otherwise the lease should have run out earlier
	case events.ReasonNodeRemoved:
		wrong = !w.excused(t)
	case events.ReasonSuspended:
		wrong = !t.life.client.strict
	case events.ReasonLeaseRanOut:
		wrong = w.kind == mild
	case events.ReasonRevoked:
		wrong = !w.revoked.has(t.path)
	default:
	}
	if wrong {
		w.count("lost without need", 1)
		w.failf("%d of %s lost %s without need: %v", t.grant.ID, t.life.client.name, t.path, t.why)
	}
}

// ended returns when the tenure was over for its holder, or the zero time if it
// continues. A coordinator that is being closed has notified every holder when Close
// began.
func (t *tenure) ended() (time.Time, events.Reason) {
	w := t.world()
	w.mu.Lock()
	over, why := t.over, t.why
	w.mu.Unlock()
	if closing := t.life.closing.Load(); closing != nil && (over.IsZero() || closing.Before(over)) {
		return *closing, 0
	}
	return over, why
}

// holders returns the tenures at the paths that are not over.
func (w *world) holders(paths ...string) (all []*tenure) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range paths {
		for _, t := range w.tenures[p] {
			if t.over.IsZero() {
				all = append(all, t)
			}
		}
	}
	return all
}

// inspect checks every holder right after each tick, because sessions end at ticks.
func (w *world) inspect() {
	next := w.begun
	for {
		next = next.Add(w.tick)
		select {
		case <-w.over:
			return
		case <-time.After(time.Until(next) + 1):
		}
		live := w.srv.Sessions()
		all := w.holders(w.paths...)
		for i, t := range all {
			t.check(slices.Contains(live, t.grant.Session))
			for _, other := range all[i+1:] {
				w.exclusive(t, other)
			}
		}
		for _, p := range w.paths {
			w.crowd(p)
		}
		w.checkWatches(len(live))
		w.checkBudgets()
	}
}

// checkBudgets fails if a session has more nodes than its coordinator counts. At this
// moment, nothing uncounted is under way.
func (w *world) checkBudgets() {
	for _, c := range w.clients {
		l := c.get()
		if l == nil {
			continue
		}
		id, nodes, bytes := l.SessionID(), 0, 0
		for _, p := range w.paths {
			for _, node := range w.nodes(p) {
				if id != 0 && w.srv.Owner(node) == id {
					nodes, bytes = nodes+1, bytes+len(node)+4
				}
			}
		}
		if n := l.Nodes(); nodes > n.Nodes || bytes > n.Bytes {
			w.failf("%s: the session has %d nodes of %d bytes, and %+v count", c.name, nodes, bytes, n)
		}
	}
}

// check compares the holder's view with the server's. A loss that is known a moment after
// the session's end was known before it: in between, the library had no time to do
// anything.
func (t *tenure) check(lives bool) {
	w := t.world()
	if over, _ := t.ended(); !over.IsZero() || w.excused(t) {
		return
	}
	there := w.srv.Exists(t.grant.Node)
	if !t.valid() {
		if !lives && t.quick {
			w.failf("%d of %s: the session is over, and the loss was not told", t.grant.ID, t.life.client.name)
		}
		return
	}
	if over, _ := t.ended(); !over.IsZero() {
		return
	}
	if !lives || !there {
		w.count("valid too long", 1)
		w.failf("%d of %s: valid, and the session lives: %v; the node is there: %v",
			t.grant.ID, t.life.client.name, lives, there)
	}
}

// checkWatches fails if, for each session, there are more watches than nodes to watch. A
// connection that was stranded, or lags, still watches nodes that it does not know to be
// gone.
func (w *world) checkWatches(sessions int) {
	if w.behind.Load() {
		return
	}
	nodes := 0
	for _, p := range w.paths {
		nodes += len(w.nodes(p))
	}
	if w.recipe == semaphore || w.recipe == cached {
		nodes += len(w.paths) // directories are watched, too: a semaphore's leases, a cached lock's queue
	}
	if n := w.srv.Watches(); n > nodes*sessions {
		w.failf("%d watches on %d nodes, by %d sessions", n, nodes, sessions)
	}
}

// judgeOrder compares each tenure with every earlier one on its path that excludes it.
func (w *world) judgeOrder() {
	for _, p := range w.paths {
		// The Grant of an excused holder may have been under way when its session or node
		// was taken away.
		all := slices.DeleteFunc(slices.Clone(w.tenures[p]), w.excused)
		slices.SortStableFunc(all, func(a, b *tenure) int {
			return cmp.Or(a.at.Compare(b.at), compareTokens(a, b))
		})
		for i, b := range all {
			for _, a := range all[:i] {
				if !together(a, b) {
					w.judgeTwo(a, b)
				}
			}
		}
	}
}

// compareTokens compares the pairs of token and turn, which must grow.
func compareTokens(a, b *tenure) int {
	return cmp.Or(cmp.Compare(a.grant.Token, b.grant.Token), cmp.Compare(a.grant.Turn, b.grant.Turn))
}

func (w *world) judgeTwo(a, b *tenure) {
	if compareTokens(a, b) >= 0 {
		w.failf("%s: granted out of order: token %x and turn %d of %s at %v, then %x and %d of %s at %v; want the smaller pair first",
			a.path, a.grant.Token, a.grant.Turn, a.grant.Node, a.at.Sub(w.begun), b.grant.Token, b.grant.Turn, b.grant.Node, b.at.Sub(w.begun))
	}
	if !a.quick {
		return
	}
	over, why := a.ended()
	// The same instant is in order: a holder that has lost its lock releases its node
	// then.
	if over.IsZero() || over.After(b.at) {
		when := "never"
		if !over.IsZero() {
			when = over.Sub(w.begun).String()
		}
		w.failf("%s: two holders: %d of %s was granted at %v, and %d of %s, granted at %v, was over at %s (%v); want the end before the next grant",
			a.path, b.grant.ID, b.life.client.name, b.at.Sub(w.begun), a.grant.ID, a.life.client.name, a.at.Sub(w.begun), when, why)
	}
}
