package coordtest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/session/zktest"
)

var errCancelled = errors.New("cancelled by the caller")

// step does one step, and returns what the step itself prints.
func (s *scene) step(words []string) (said []string) {
	if len(words) == 0 {
		return nil
	}
	verb, words := words[0], append(words[1:len(words):len(words)], make([]string, 3)...)
	args := words[:len(words)-3] // the given words; in words, a missing one is empty
	text := []byte(strings.Join(args[min(1, len(args)):], " "))
	tell := func(err error) {
		if err != nil {
			said = append(said, errorName(err))
		}
	}
	switch verb {
	case "connect":
		s.connect(words[0], args[1:])
	case "acquire", "do":
		s.acquire(verb == "do", words[0], words[1], args[2:])
	case "finish":
		c := s.caller(words[0])
		if c.finish == nil {
			s.Fatalf("%s is no function", words[0])
		}
		select {
		case c.finish <- string(text):
		case <-c.left:
			s.Fatalf("the function of %s has ended already", words[0])
		case <-s.inVain():
			s.Fatalf("the function of %s has not begun", words[0])
		}
	case "cancel":
		if s.cancel[words[0]] == nil {
			s.Fatalf("no context is named %q", words[0])
		}
		s.cancel[words[0]](errCancelled)
	case "release":
		for _, name := range args {
			a := s.caller(name).a
			a.Release()
			s.want(!a.Valid(), "%s is valid right after its release", name)
		}
	case "observe":
		s.observe(words[0], words[1], args[2:])
	case "read":
		s.listen(words[0])
	case "setdata":
		tell(s.caller(words[0]).a.SetData(s.Context(), text))
	case "resize":
		l, _ := s.handle(words[0], args[2:])
		tell(l.(*coordinator.Semaphore).Resize(s.Context(), s.number(words[1])))
	case "txn":
		res, err := s.caller(words[0]).a.Txn(s.Context(), &zk.CreateRequest{Path: words[1], Acl: zk.WorldACL(zk.PermAll)})
		tell(err)
		s.want(err != nil || len(res) == 1 && res[0].String == words[1],
			"the transaction of %s was answered %+v", words[0], res)
	case "revoke":
		c, w := s.session(words[1]), s.wish(words[1], args[2:])
		go func() {
			err := c.Revoke(s.Context(), w.paths[0], w.grace)
			s.hear(words[0], err == nil, func() string { return "REVOKED " + errorName(err) })
		}()
	case "queue":
		said = append(said, s.queue(words[0], args[1:]))
	case "warm":
		var all []*coordinator.Coordinator
		for _, name := range args {
			all = append(all, s.session(name))
		}
		Warm(s.T, all...)
		s.begin()
	case "close":
		c := s.session(words[0])
		go func() {
			err := c.Close()
			s.hear(words[0], err == nil, func() string { return "CLOSED " + errorName(err) })
		}()
	case "wait":
		if d := s.duration(words[0]); s.srv != nil { // on a real server the expected state is awaited
			time.Sleep(d) // time.Sleep, because the watchdog would take a long wait for a timer for a hang
		}
	case "delete":
		s.must(s.on.Delete(s.node(args...)))
	case "create":
		s.must(s.on.Create(words[0], text))
	case "set":
		s.must(s.on.SetData(s.node(words[0]), text))
	case "data":
		data, there := s.on.Data(s.node(words[0]))
		if !there {
			return []string{words[0] + " is not there"}
		}
		said = append(said, fmt.Sprintf("%s has %q", words[0], data))
	default:
		if s.srv == nil {
			s.Fatalf("no step %q for a real server", verb)
		}
		said = s.fault(verb, words, args)
	}
	return said
}

// inVain returns a channel that ends a wait for something that happens at once or never,
// in virtual time.
func (s *scene) inVain() <-chan time.Time {
	if s.srv == nil {
		return nil
	}
	return time.After(time.Minute)
}

// fault does a step that needs the double or virtual time.
func (s *scene) fault(verb string, words, args []string) (said []string) {
	lasting := map[string]func(id int64, on bool){"mute": s.srv.Mute, "unmute": s.srv.Mute, "lag": s.srv.Lag, "unlag": s.srv.Lag}
	if set := lasting[verb]; set != nil {
		for _, name := range args {
			if !strings.HasPrefix(verb, "un") {
				s.broken[name] = s.session(name).SessionID() // it may have another session when this ends
			}
			set(s.broken[name], !strings.HasPrefix(verb, "un"))
		}
		return nil
	}
	switch verb {
	case "expire":
		id := s.session(words[0]).SessionID()
		s.nameOf(id)
		s.must(s.srv.Expire(id))
	case "cut":
		s.srv.Cut(s.session(words[0]).SessionID())
	case "down", "up":
		s.srv.Down(verb == "down")
	case "sequence":
		s.must(s.srv.SetSequence(words[0], int32(s.number(words[1]))))
	case "reap":
		said = append(said, fmt.Sprintf("reaped %d", s.srv.Reap()))
	case "watches":
		said = append(said, fmt.Sprintf("%d watches", s.srv.Watches()))
	case "leave":
		said = append(said, s.leave(args))
	case "tree":
		said = append(said, s.tree())
	case "next", "always":
		s.addFault(&fault{session: words[0], op: words[1], action: s.action(words[2]), once: verb == "next"})
	case "hold":
		s.resume = make(chan zktest.Action)
		held := s.resume
		s.addFault(&fault{session: words[0], op: words[1], once: true, action: func() zktest.Action { return <-held }})
	case "resume":
		if s.resume == nil {
			s.Fatalf("no step `hold` before `resume`")
		}
		select {
		case s.resume <- s.action(words[0])():
			s.resume = nil
		case <-s.inVain():
			s.Fatalf("no request is held")
		}
	case "pass":
		s.noFaults()
	default:
		s.Fatalf("no step %q", verb)
	}
	return said
}

// A fault is the fate of the next matching request, or of every one.
type fault struct {
	session string
	op      string
	action  func() zktest.Action
	once    bool
	struck  bool
}

func (s *scene) addFault(f *fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, f)
}

// noFaults removes the faults, and fails for each one that struck no request.
func (s *scene) noFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		s.want(f.struck, "a fault was arranged for %q of %q, and no such request came", f.op, f.session)
	}
	s.faults = nil
}

// action parses the fate of a request.
func (s *scene) action(text string) func() zktest.Action {
	key, value, _ := strings.Cut(text, "=")
	action := zktest.Pass()
	switch key {
	case "pass":
	case "cut-before":
		action = zktest.CutBefore()
	case "cut-after":
		action = zktest.CutAfter()
	case "swallow":
		action = zktest.Swallow()
	case "delay":
		action = zktest.Delay(s.duration(value))
	case "fail": // =throttled
		action = zktest.Fail(zktest.Throttled)
	case "delete":
		return func() zktest.Action {
			s.must(s.on.Delete(s.node(value)))
			return zktest.Pass()
		}
	default:
		s.Fatalf("no action %q", text)
	}
	return func() zktest.Action { return action }
}

// intercept counts a request and decides its fate.
func (s *scene) intercept(r zktest.Request) zktest.Action {
	if r.Op == zktest.OpPing || r.Op == zktest.OpClose {
		return zktest.Pass()
	}
	if action := s.decide(r); action != nil {
		return action() // without the mutex, because it may wait
	}
	return zktest.Pass()
}

func (s *scene) decide(r zktest.Request) func() zktest.Action {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Op != zktest.OpConnect {
		if s.asked[r.Session] == nil {
			s.asked[r.Session] = map[zktest.Op]int{}
		}
		s.asked[r.Session][r.Op]++
	}
	for i, f := range s.faults {
		named := f.op == r.Op.String() || f.op == "any" && r.Op != zktest.OpConnect || f.op == "create" && Creates(r)
		if named && (f.session == "any" || f.session == s.nameLocked(r.Session)) {
			f.struck = true
			if f.once {
				s.faults = slices.Delete(s.faults, i, i+1)
			}
			return f.action
		}
	}
	return nil
}

// node returns the node that the words name: a path, a label, or a caller's node. A
// number selects another one of the caller's nodes.
func (s *scene) node(words ...string) string {
	name, nth := words[0], 0
	if len(words) > 1 {
		nth = s.number(words[1])
	}
	if strings.HasPrefix(name, "/") {
		return name
	}
	for node, label := range s.labels {
		if label == name {
			return node
		}
	}
	var nodes []string
	for _, line := range s.on.tree() {
		if node, data, _ := strings.Cut(line, " "); s.brief && data == name {
			nodes = append(nodes, node)
		}
	}
	if grant := s.caller(name).a.Grant(); nodes == nil && grant.Node != "" { // the caller's data are not its name
		nodes = []string{grant.Node}
	}
	if nth >= len(nodes) {
		s.Fatalf("%v has no such node; there are %q", words, s.on.tree())
	}
	return nodes[nth]
}

// session returns the coordinator with this name, which connects at its first use.
func (s *scene) session(name string) *coordinator.Coordinator {
	if s.sessions[name] == nil {
		s.connect(name, nil)
	}
	return s.sessions[name]
}

func (s *scene) connect(name string, words []string) {
	stream := s.brief || slices.Contains(words, "stream")
	var options []coordinator.Option
	if slices.Contains(words, "loss-on-suspend") {
		options = append(options, coordinator.WithLossOnSuspend())
	}
	c := s.on.connect(s.T, options...)
	s.mu.Lock()
	s.sessions[name], s.streams[name] = c, stream
	s.mu.Unlock()
	s.nameOf(c.SessionID())
	if stream {
		go s.follow(c.Events(s.Context()), name)
	}
}

// nameOf returns the name of a session, even after its end.
func (s *scene) nameOf(id int64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nameLocked(id)
}

func (s *scene) nameLocked(id int64) string {
	for name, c := range s.sessions {
		if id != 0 && c.SessionID() == id {
			s.ids[id] = name
		}
	}
	return cmp.Or(s.ids[id], "the server")
}

// leave releases the callers one by one, and reports if another caller was granted the
// lock meanwhile.
func (s *scene) leave(names []string) string {
	others := func() (in []string) {
		synctest.Wait()
		for _, c := range s.callers {
			if c.a != nil && c.a.Valid() && !slices.Contains(names, c.name) {
				in = append(in, c.name)
			}
		}
		return in
	}
	before := others()
	for i, name := range names {
		<-time.After(time.Second)
		if now := others(); !slices.Equal(now, before) {
			return fmt.Sprintf("%v HOLD with %d left, and held before: %v", now, len(names)-i, before)
		}
		for _, later := range names[i:] {
			if !s.caller(later).a.Valid() {
				return later + " DOES NOT HOLD any more"
			}
		}
		s.caller(name).a.Release()
		synctest.Wait()
		s.mu.Lock() // so that the result does not depend on the order
		s.heard = slices.DeleteFunc(s.heard, func(n news) bool { return n.who == name && n.text() == "DONE nil" })
		s.mu.Unlock()
	}
	return "each held until it was released, and no other caller"
}

// number parses a number.
func (s *scene) number(text string) int {
	n, err := strconv.Atoi(text)
	s.must(err)
	return n
}
