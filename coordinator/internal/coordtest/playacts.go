package coordtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

var errCancelled = errors.New("cancelled by the caller")

// act carries one line out, and returns what it has to say by itself.
func (p *play) act(t *testing.T, verb string, args []string) string {
	t.Helper()
	arg := func(i int) string {
		if i >= len(args) {
			t.Fatalf("%s %s: too few arguments", verb, strings.Join(args, " "))
		}
		return args[i]
	}
	fail := func(err error) {
		if err != nil {
			t.Fatalf("%s %s: %v", verb, strings.Join(args, " "), err)
		}
	}
	each := func(do func(id int64)) {
		for _, name := range args {
			id := p.session(t, name).SessionID()
			p.nameOf(id)
			do(id)
		}
	}
	switch verb {
	case "scene":
		p.begin(t, args)
		p.mu.Lock()
		p.start, p.asked = time.Now(), map[int64]map[zktest.Op]int{}
		p.mu.Unlock()
	case "connect":
		p.connect(t, arg(0), args[1:])
	case "acquire", "do":
		p.acquire(t, verb == "do", arg(0), arg(1), args[2:])
	case "finish":
		p.callers[arg(0)].finish <- strings.Join(args[1:], " ")
	case "release":
		p.callers[arg(0)].a.Release()
	case "leave":
		return p.leave(args)
	case "take":
		close(p.callers[arg(0)].take)
	case "cancel":
		p.contexts[arg(0)](errCancelled)
	case "revoke":
		o := p.read(t, args[2:])
		c := p.session(t, arg(1))
		go func() {
			err := c.Revoke(t.Context(), o.path, o.grace)
			p.hear(arg(0), func() string { return "REVOKED " + errorName(err) })
		}()
	case "queue":
		return p.look(t, p.session(t, arg(0)), args[1:])
	case "warm":
		for range 2 {
			for _, name := range args {
				a, _ := Hold(t, p.session(t, name).Mutex(LockPath))
				a.Release()
				<-a.Done()
			}
		}
		p.mu.Lock()
		clear(p.asked)
		p.mu.Unlock()
	case "close":
		c := p.session(t, arg(0))
		go func() {
			err := c.Close()
			p.hear(arg(0), func() string { return "CLOSED " + errorName(err) })
		}()
	case "sleep":
		<-time.After(duration(t, arg(0)))
	case "expire":
		each(func(id int64) { fail(p.srv.Expire(id)) })
	case "cut":
		each(p.srv.Cut)
	case "mute", "unmute":
		each(func(id int64) { p.srv.Mute(id, verb == "mute") })
	case "hush": // it is not heard, and hears nothing
		each(func(id int64) { p.srv.Mute(id, true); p.srv.Cut(id) })
	case "lag", "unlag":
		each(func(id int64) { p.srv.Lag(id, verb == "lag") })
	case "strand", "unstrand":
		each(func(id int64) { p.srv.Strand(id, verb == "strand") })
	case "down", "up":
		p.srv.Down(verb == "down")
	case "cutall":
		p.srv.CutAll()
	case "delete":
		fail(p.srv.Delete(p.node(arg(0))))
	case "create":
		fail(p.srv.Create(arg(0), []byte(strings.Join(args[1:], " "))))
	case "set":
		fail(p.srv.SetData(p.node(arg(0)), []byte(strings.Join(args[1:], " "))))
	case "data":
		data, there := p.srv.Data(p.node(arg(0)))
		return fmt.Sprintf("%q (there: %v)", data, there)
	case "reap":
		return fmt.Sprintf("reaped %d", p.srv.Reap())
	case "watches":
		return fmt.Sprintf("%d watches", p.srv.Watches())
	case "tree":
		return p.tree()
	case "next", "always":
		p.mu.Lock()
		defer p.mu.Unlock()
		p.faults = append(p.faults, fault{session: arg(0), op: arg(1), action: action(t, arg(2)), once: verb == "next"})
	case "hold":
		p.mu.Lock()
		defer p.mu.Unlock()
		p.resume = make(chan zktest.Action)
		p.faults = append(p.faults, fault{session: arg(0), op: arg(1), once: true, held: p.resume})
	case "resume":
		p.resume <- action(t, arg(0))
	case "pass":
		p.mu.Lock()
		defer p.mu.Unlock()
		p.faults = nil
	default:
		t.Fatalf("no command %q", verb)
	}
	return ""
}

// leave releases the callers one by one, and tells if somebody is in meanwhile who was not before.
func (p *play) leave(args []string) string {
	in := func() (names []string) {
		synctest.Wait()
		for _, name := range slices.Sorted(maps.Keys(p.callers)) {
			if c := p.callers[name]; c.a != nil && c.a.Valid() && !slices.Contains(args, name) {
				names = append(names, name)
			}
		}
		return names
	}
	before := in()
	for i, name := range args {
		<-time.After(time.Second)
		if now := in(); !slices.Equal(now, before) {
			return fmt.Sprintf("%v HOLD with %d left, and held before: %v", now, len(args)-i, before)
		}
		for _, later := range args[i:] {
			if !p.callers[later].a.Valid() {
				return later + " DOES NOT HOLD any more"
			}
		}
		p.callers[name].a.Release()
		synctest.Wait()
		p.mu.Lock() // in whatever order they leave, the same is printed
		p.heard = slices.DeleteFunc(p.heard, func(n news) bool { return n.who == name && n.text() == "DONE nil" })
		p.mu.Unlock()
	}
	return "each held until it was released, and no other caller"
}

func action(t *testing.T, text string) zktest.Action {
	t.Helper()
	key, value, _ := strings.Cut(text, "=")
	switch key {
	case "pass":
		return zktest.Pass()
	case "cut-before":
		return zktest.CutBefore()
	case "cut-after":
		return zktest.CutAfter()
	case "swallow":
		return zktest.Swallow()
	case "delay":
		return zktest.Delay(duration(t, value))
	case "fail":
		return zktest.Fail(map[string]zktest.Code{"throttled": zktest.Throttled}[value])
	}
	t.Fatalf("no action %q", text)
	return zktest.Pass()
}

// node returns the path of a caller's node, or the path itself.
func (p *play) node(name string) string {
	if c := p.callers[name]; c != nil && c.grant.Node != "" {
		return c.grant.Node
	}
	for node, label := range p.nodes {
		if label == name {
			return node
		}
	}
	return name
}

// tree lists every node but those of the servers, with labels for those that have a GUID.
func (p *play) tree() string {
	p.remember()
	var all []string
	for _, node := range p.srv.Tree() {
		if label := p.nodes[node]; label != "" {
			node = label
		}
		if !strings.HasPrefix(node, "/zookeeper") {
			all = append(all, node)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// session returns the coordinator of that name, which it connects when it is named first.
func (p *play) session(t *testing.T, name string) *coordinator.Coordinator {
	t.Helper()
	if p.sessions[name] == nil {
		p.connect(t, name, nil)
	}
	return p.sessions[name]
}

// nameOf returns the name of a session, also of one that is over.
func (p *play) nameOf(id int64) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.named(id)
}

// named is nameOf with the lock held.
func (p *play) named(id int64) string {
	for name, c := range p.sessions {
		if id != 0 && c.SessionID() == id {
			p.ids[id] = name
		}
	}
	return or(p.ids[id], "the server")
}

func (p *play) connect(t *testing.T, name string, args []string) {
	t.Helper()
	options, stream := []coordinator.Option{p.srv.Option()}, false
	for _, arg := range args {
		switch key, value, _ := strings.Cut(arg, "="); key {
		case "timeout":
			options = append(options, coordinator.WithSessionTimeout(duration(t, value)))
		case "tick":
			options = append(options, coordinator.WithTickTime(duration(t, value)))
		case "probe":
			options = append(options, coordinator.WithProbeInterval(duration(t, value)))
		case "loss-on-suspend":
			options = append(options, coordinator.WithLossOnSuspend())
		case "stream":
			stream = true
		default:
			t.Fatalf("connect: no argument %q", arg)
		}
	}
	c, err := coordinator.Connect(t.Context(), p.srv.Addr(), options...)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.sessions[name] = c
	p.mu.Unlock()
	p.nameOf(c.SessionID())
	if stream {
		go p.listen(c.Events(t.Context()), name)
	}
}

// listen notes what a coordinator's stream says.
func (p *play) listen(stream <-chan events.Event, session string) {
	note := func(id uint64, text string) {
		p.hear(session, func() string {
			if name := p.callerOf(session, id); name != "" {
				return "stream: " + name + " " + text
			}
			return "stream: " + text
		})
	}
	for ev := range stream {
		switch ev := ev.(type) {
		case events.Grant:
			note(ev.ID, "GRANT")
		case events.Lost:
			name := p.callerOf(session, ev.ID) // of several that lose it together, none is first
			p.hear(session+name, func() string { return "stream: LOST " + ev.Reason.String() })
		case events.Ended:
			note(ev.ID, "ENDED "+errorName(ev.Err)+map[bool]string{true: fmt.Sprintf(", held %v", ev.Held)}[ev.Held > 0 && !p.vague])
		case events.Queued:
			note(ev.ID, fmt.Sprintf("queued behind %d", ev.Ahead))
		case events.Requeued:
			note(ev.ID, "queues up again")
		case events.Revoked:
			if ev.Deadline.IsZero() {
				note(ev.ID, "is asked to give it back")
			} else {
				note(ev.ID, fmt.Sprintf("is asked to give it back within %v", time.Until(ev.Deadline)))
			}
		case events.Suspended:
			note(0, "suspended")
		case events.Resumed:
			note(0, "resumed")
		case events.SessionExpired:
			note(0, "session expired")
		}
	}
}

// callerOf returns the name of the caller with that acquisition.
func (p *play) callerOf(session string, id uint64) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, c := range p.callers {
		if c.session == session && c.a != nil && c.a.ID() == id {
			return name
		}
	}
	return ""
}

// beside returns what is to be said if another caller holds the lock beside one that holds it alone.
func (p *play) beside(k *caller, g events.Grant) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, c := range p.callers {
		if p.exclusive && k.alone && c.alone && c.path == k.path && c.a != nil && c.a != k.a && c.a.Valid() && c.a.Grant().Node != g.Node {
			return " BESIDE " + name
		}
	}
	return ""
}

// wish is what the arguments of an acquisition say.
type wish struct {
	path, kind string
	lock       []coordinator.LockOption
	options    []coordinator.AcquireOption
	ctx        context.Context
	grace      time.Duration
	untaken    bool
	obeys      time.Duration // negative: not at all
}

func (p *play) read(t *testing.T, args []string) wish {
	t.Helper()
	w := wish{path: LockPath, kind: "mutex", ctx: t.Context(), obeys: -1}
	for _, arg := range args {
		switch key, value, _ := strings.Cut(arg, "="); key {
		case "path":
			w.path = value
		case "kind":
			w.kind = value
		case "try":
			w.options = append(w.options, coordinator.Try())
		case "wait":
			w.options = append(w.options, coordinator.WithMaxWait(duration(t, value)))
		case "data":
			w.options = append(w.options, coordinator.WithData([]byte(value)))
		case "permits":
			n, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
			w.options = append(w.options, coordinator.WithPermits(n))
		case "reentrant", "detect", "revocable", "kazoo", "adopt":
			w.lock = append(w.lock, map[string]func() coordinator.LockOption{
				"reentrant": coordinator.Reentrant, "detect": coordinator.DetectCrash, "revocable": coordinator.Revocable,
				"kazoo": coordinator.AsKazoo, "adopt": coordinator.AdoptSize,
			}[key]())
		case "inside":
			w.ctx = p.callers[value].inside(w.ctx) //nolint:fatcontext // one argument is one context inside another
		case "detached": // a context that outlives the locks it tells of
			w.ctx = context.WithoutCancel(w.ctx)
		case "ctx":
			if p.contexts[value] == nil {
				w.ctx, p.contexts[value] = context.WithCancelCause(w.ctx)
				p.ctx[value] = w.ctx
			}
			w.ctx = p.ctx[value]
		case "grace":
			w.grace = duration(t, value)
		case "untaken":
			w.untaken = true
		case "obeys":
			w.obeys = duration(t, value)
		default:
			t.Fatalf("no argument %q", arg)
		}
	}
	return w
}

// inside returns a context that tells of the caller's lock: that of its function, if it has one.
func (c *caller) inside(parent context.Context) context.Context {
	if c.ctx != nil {
		return c.ctx
	}
	return c.a.Context(parent)
}

// lock is what every kind of lock has.
type lock interface {
	Acquire(ctx context.Context, options ...coordinator.AcquireOption) *coordinator.Acquisition
	Do(ctx context.Context, f func(context.Context, events.Grant) error, options ...coordinator.AcquireOption) error
	Queue(ctx context.Context) ([]events.Contender, error)
}

// election is a lock whose holder leads.
type election struct {
	lock // has no function
	*coordinator.Election
}

func (e election) Acquire(ctx context.Context, options ...coordinator.AcquireOption) *coordinator.Acquisition {
	return e.Campaign(ctx, options...)
}

func (e election) Queue(ctx context.Context) ([]events.Contender, error) {
	return e.Election.Queue(ctx)
}

// readWrite is both sides of a lock, to be looked at.
type readWrite struct {
	lock
	*coordinator.ReadWrite
}

func (rw readWrite) Queue(ctx context.Context) ([]events.Contender, error) {
	return rw.ReadWrite.Queue(ctx)
}

// handle returns the lock that the wish is for.
func (w wish) handle(t *testing.T, c *coordinator.Coordinator) lock {
	t.Helper()
	switch kind, rest, _ := strings.Cut(w.kind, ":"); kind {
	case "mutex":
		return c.Mutex(w.path, w.lock...)
	case "read":
		return c.ReadWrite(w.path, w.lock...).Read()
	case "write":
		return c.ReadWrite(w.path, w.lock...).Write()
	case "readwrite":
		return readWrite{ReadWrite: c.ReadWrite(w.path, w.lock...)}
	case "unfair":
		return c.Unfair(w.path, w.lock...)
	case "election":
		return election{Election: c.Election(w.path, w.lock...)}
	case "semaphore":
		n, err := strconv.Atoi(rest)
		if err != nil {
			t.Fatal(err)
		}
		return c.Semaphore(w.path, n, w.lock...)
	case "multi":
		var members []*coordinator.Lock
		for at := range strings.SplitSeq(rest, ":") {
			members = append(members, c.Mutex(at, w.lock...))
		}
		return c.Multi(members...)
	}
	t.Fatalf("no kind of lock %q", w.kind)
	return nil
}

func (p *play) acquire(t *testing.T, do bool, name, session string, args []string) {
	t.Helper()
	c := p.session(t, session)
	w := p.read(t, args)
	k := &caller{
		session: session, path: w.path, alone: slices.Contains([]string{"mutex", "write", "unfair", "election"}, w.kind), take: make(chan struct{}),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.callers[name] = k
	if do {
		k.finish = make(chan string)
		go p.do(w, name, k, w.handle(t, c))
		return
	}
	k.a = w.handle(t, c).Acquire(w.ctx, w.options...)
	go p.follow(name, k, w.untaken)
}

// follow notes what an acquisition tells.
func (p *play) follow(name string, k *caller, untaken bool) {
	granted := k.a.Granted()
	if untaken {
		granted = nil
	}
	take, lost := k.take, k.a.Lost()
	for {
		select {
		case <-take:
			granted, take = k.a.Granted(), nil
		case g := <-granted:
			k.grant, granted = g, nil
			beside := p.beside(k, g)
			p.hear(name, func() string { return p.granted(g) + beside })
		case l := <-lost:
			valid := k.a.Valid()
			p.hear(name, func() string {
				text := fmt.Sprintf("LOST %v, token %s, %s", l.Reason, p.token(l.Token), errorName(l.Err))
				if !p.vague {
					text += fmt.Sprintf(", held %v", l.Held.Round(time.Millisecond))
				}
				if valid {
					text += ", BUT STILL VALID"
				}
				return text
			})
			lost = nil
		case <-k.a.Done():
			select { // a loss is told before the end
			case l := <-lost:
				p.hear(name, func() string {
					return fmt.Sprintf("LOST %v, token %s, %s", l.Reason, p.token(l.Token), errorName(l.Err))
				})
			default:
			}
			select {
			case g := <-k.a.Granted():
				p.hear(name, func() string { return "AFTER THE END: " + p.granted(g) })
			default:
			}
			err := k.a.Err()
			k.over = true
			p.hear(name, func() string { return "DONE " + errorName(err) })
			return
		}
	}
}

func (p *play) granted(g events.Grant) string {
	text := fmt.Sprintf("GRANT %s %s", p.token(g.Token), p.label(g.Node))
	if g.Waited >= moment && !p.vague {
		text += fmt.Sprintf(", waited %v", g.Waited.Round(time.Millisecond))
	}
	if b := g.Abandoned; b != nil {
		text += fmt.Sprintf(", abandoned by %s %s with %q", p.label(b.Node), p.token(b.Token), b.Data)
	}
	return text
}

// do runs a function under a lock that stays inside until it is told to finish.
func (p *play) do(w wish, name string, k *caller, l lock) {
	defer func() {
		k.over = true
		if r := recover(); r != nil {
			p.hear(name, func() string { return fmt.Sprintf("PANIC %v", r) })
		}
	}()
	returned := false
	defer func() {
		if !returned {
			p.hear(name, func() string { return "did not return" })
		}
	}()
	err := l.Do(w.ctx, func(ctx context.Context, g events.Grant) error {
		p.mu.Lock()
		k.a, _ = coordinator.FromContext(ctx)
		k.ctx, k.grant = ctx, g
		p.mu.Unlock()
		beside := p.beside(k, g)
		p.hear(name, func() string { return "ENTERS " + strings.TrimPrefix(p.granted(g), "GRANT ") + beside })
		ended := ctx.Done()
		var obeys <-chan time.Time
		for {
			select {
			case <-ended:
				cause := context.Cause(ctx)
				p.hear(name, func() string { return "its context has ended: " + errorName(cause) })
				ended = nil
				if w.obeys >= 0 {
					obeys = time.After(w.obeys)
				}
			case <-obeys:
				return nil
			case how := <-k.finish:
				switch how {
				case "err":
					return errFinished
				case "panic":
					panic("boom")
				case "exit":
					runtime.Goexit()
				}
				return nil
			}
		}
	}, w.options...)
	returned = true
	p.hear(name, func() string { return "DO " + errorName(err) })
}

// look says what a look at a queue finds.
func (p *play) look(t *testing.T, c *coordinator.Coordinator, args []string) string {
	t.Helper()
	w := p.read(t, args)
	p.remember()
	found, err := w.handle(t, c).Queue(w.ctx)
	var all []string
	for _, f := range found {
		text := p.label(f.Node)
		if !p.ownerless {
			text += fmt.Sprintf(" of %s, %v", p.nameOf(f.Session), f.Kind)
		}
		if len(f.Data) > 0 {
			text += fmt.Sprintf(" %q", f.Data)
		}
		if f.Holding {
			text += " holds"
		}
		all = append(all, text)
	}
	if err != nil {
		all = append(all, errorName(err))
	}
	return "queue: " + or(strings.Join(all, "; "), "nobody")
}
