package coordtest

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// ElectionPath is the election that most tests use.
const ElectionPath = "/service/leader"

// caller is one acquisition, and the function that runs under it if there is one.
type caller struct {
	name, session string
	wish
	a      *coordinator.Acquisition
	inner  context.Context    // the function's context
	lock   context.Context    // the lock's context, from the Grant on
	finish chan string        // tells the function how to finish; nil if there is no function
	stop   context.CancelFunc // ends the wait for its release; nil until the function has finished
	left   chan struct{}      // closed when the function has ended

	grant   events.Grant // the Grant that was taken
	granted bool         // whether it was taken
	checked bool         // see check
	over    bool
	lost    int // losses received from its channel
	stream  int // losses in the stream
	why     error
}

// wish is the lock and the acquisition that the words of a step describe.
type wish struct {
	kind      string
	paths     []string
	sides     []string // per path: "r" and "w" of read/write locks
	permits   bool     // it may have several holders
	takes     int      // the number of permits; 0 means 1
	placeless bool     // its waiters have no node
	in        *caller  // the caller whose place it may take
	data      string
	lockWords string
	options   []coordinator.LockOption
	acquire   []coordinator.AcquireOption
	ctx       context.Context
	grace     time.Duration
	try       bool
	untaken   bool
	obeys     time.Duration // negative: it does not obey
}

// shared reports whether the nth path may have several holders.
func (w wish) shared(nth int) bool { return w.sides[nth] == "r" }

// excludes reports whether the lock's holder is alone.
func (w wish) excludes() bool { return !w.permits && !w.shared(0) }

// caller returns the latest caller with this name.
func (s *scene) caller(name string) *caller {
	s.mu.Lock() // interceptors call it, too
	defer s.mu.Unlock()
	for _, c := range slices.Backward(s.callers) {
		if c.name == name {
			return c
		}
	}
	s.Fatalf("no caller is named %q", name)
	return nil
}

// wish parses the words of a step of a session.
func (s *scene) wish(session string, words []string) wish {
	w := wish{kind: "mutex", ctx: s.Context(), obeys: -1}
	at := ""
	for _, word := range words {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "at":
			at = value
		case "try":
			w.try, w.acquire = true, append(w.acquire, coordinator.Try())
		case "max":
			w.acquire = append(w.acquire, coordinator.MaxWait(s.duration(value)))
		case "data":
			w.data = value
		case "permits":
			w.takes = s.number(value)
			w.acquire = append(w.acquire, coordinator.Permits(w.takes))
		case "reentrant", "detect", "revocable", "kazoo", "adopt":
			w.lockWords += key
			w.options = append(w.options, map[string]func() coordinator.LockOption{
				"reentrant": coordinator.Reentrant, "detect": coordinator.DetectCrash, "revocable": coordinator.Revocable,
				"kazoo": coordinator.AsKazoo, "adopt": coordinator.AdoptSize,
			}[key]())
		case "in":
			c := s.caller(value)
			if c.session == session && c.a.Valid() && !c.permits {
				w.in = c
			}
			if c.inner != nil {
				w.ctx = c.inner //nolint:fatcontext // each word nests one context
			} else {
				w.ctx = c.a.Context(w.ctx)
			}
		case "detached": // a context that outlives the locks that it carries
			w.ctx = context.WithoutCancel(w.ctx)
		case "within":
			ctx, cancel := context.WithTimeout(w.ctx, s.duration(value))
			s.Cleanup(cancel)
			w.ctx = ctx
		case "ctx":
			if s.contexts[value] == nil {
				s.contexts[value], s.cancel[value] = context.WithCancelCause(w.ctx)
			}
			w.ctx = s.contexts[value]
		case "grace":
			w.grace = s.duration(value)
		case "untaken":
			w.untaken = true
		case "obeys":
			w.obeys = s.duration(value)
		default:
			if path, side, _ := strings.Cut(word, ":"); strings.HasPrefix(path, "/") {
				w.paths, w.sides = append(w.paths, path), append(w.sides, side)
			} else {
				w.kind = word
			}
		}
	}
	if w.kind != "multi" {
		at = cmp.Or(at, map[string]string{"election": ElectionPath}[w.kind], LockPath)
		w.paths, w.sides = []string{at}, []string{map[string]string{"read": "r", "write": "w"}[w.kind]}
	}
	w.placeless, w.permits = w.kind == "unfair", strings.HasPrefix(w.kind, "sem:")
	return w
}

type lock = coordinator.Handle

// bothSides is a read/write lock, for reading its queue.
type bothSides struct {
	*coordinator.Lock
	rw *coordinator.ReadWrite
}

func (b bothSides) Queue(ctx context.Context) ([]events.Contender, error) { return b.rw.Queue(ctx) }

// handle returns the handle and the wish that a session's words describe.
func (s *scene) handle(session string, words []string) (l lock, w wish) {
	c := s.session(session)
	w = s.wish(session, words)
	path := w.paths[0]
	switch kind, size, _ := strings.Cut(w.kind, ":"); kind {
	case "mutex":
		l = c.Mutex(path, w.options...)
	case "read":
		l = c.ReadWrite(path, w.options...).Read()
	case "write":
		l = c.ReadWrite(path, w.options...).Write()
	case "readwrite":
		rw := c.ReadWrite(path, w.options...)
		l = bothSides{rw.Read(), rw}
	case "unfair":
		l = c.Unfair(path, w.options...)
	case "election":
		l = c.Election(path, w.options...)
	case "sem":
		key := fmt.Sprint(session, w.kind, path, w.lockWords)
		if l = s.handles[key]; l == nil {
			l = c.Semaphore(path, s.number(size), w.options...)
			s.handles[key] = l
		}
	case "multi":
		var members []*coordinator.Lock
		for i, path := range w.paths {
			rw := c.ReadWrite(path, w.options...)
			members = append(members, map[string]*coordinator.Lock{
				"r": rw.Read(), "w": rw.Write(), "": c.Mutex(path, w.options...),
			}[w.sides[i]])
		}
		l = c.Multi(members...)
	default:
		s.Fatalf("no kind of lock %q", w.kind)
	}
	s.want(l.Path() == path, "the lock that is asked for with %q is at %s, want %s", words, l.Path(), path)
	return l, w
}

// acquire acquires a lock in a session.
func (s *scene) acquire(do bool, name, session string, words []string) {
	l, w := s.handle(session, words)
	c := &caller{name: name, session: session, wish: w}
	if s.brief && c.data == "" {
		c.data = name
	}
	if c.data != "" {
		c.acquire = append(c.acquire, coordinator.Data([]byte(c.data)))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.callers = append(s.callers, c)
	if do {
		c.finish, c.left = make(chan string), make(chan struct{})
		go s.do(c, l)
		return
	}
	c.a = l.Acquire(c.ctx, c.acquire...)
	go s.await(c)
}

// await records the reports of an acquisition.
func (s *scene) await(c *caller) {
	granted := c.a.Granted()
	if c.untaken {
		granted = nil
	}
	for {
		select {
		case g := <-granted:
			s.enters(c, g, "GRANT")
		case l := <-c.a.Lost():
			s.loses(c, l)
		case <-c.a.Done():
			if len(c.a.Lost()) > 0 { // a loss is reported before the end
				s.loses(c, <-c.a.Lost())
			}
			s.want(len(c.a.Granted()) == 0, "%s is granted after its end", c.name)
			s.mu.Lock()
			c.over = true
			lost := c.lost > 0
			s.mu.Unlock()
			err := c.a.Err()
			s.hear(c.name, err == nil || lost, func() string { return "DONE " + errorName(err) })
			return
		}
	}
}

// enters records a Grant.
func (s *scene) enters(c *caller, g events.Grant, what string) {
	beside := ""
	s.mu.Lock()
	s.want(!c.granted, "%s is granted twice: %+v, and %+v", c.name, c.grant, g)
	c.grant, c.granted = g, true
	for _, other := range s.callers {
		if s.exclusive && c.excludes() && other.excludes() && other.paths[0] == c.paths[0] &&
			other.a != nil && other.a != c.a && other.a.Valid() && other.a.Grant().Node != g.Node {
			beside = " BESIDE " + other.name
		}
	}
	s.mu.Unlock()
	s.hear(c.name, g.Abandoned == nil, func() string { return what + s.granted(g) + beside })
}

// loses records a loss.
func (s *scene) loses(c *caller, l events.Lost) {
	valid := c.a.Valid()
	s.mu.Lock()
	c.lost++
	c.why = l.Err
	s.mu.Unlock()
	s.hear(c.name, false, func() string {
		text := fmt.Sprintf("LOST %v", l.Reason)
		if !s.brief {
			text += fmt.Sprintf(", token %s, %s", s.token(l.Token), errorName(l.Err))
		}
		if !s.vague && !s.brief {
			text += fmt.Sprintf(", held %v", l.Held.Round(time.Millisecond))
		}
		if valid {
			text += ", BUT STILL VALID"
		}
		return text
	})
}

// do runs a function under a lock. The function returns when the scene ends it.
func (s *scene) do(c *caller, l lock) {
	returned := false
	defer func() {
		s.mu.Lock()
		c.over = true
		s.mu.Unlock()
		r := recover()
		if !returned {
			s.hear(c.name, false, func() string { return "did not return" })
		}
		if r != nil {
			s.hear(c.name, false, func() string { return fmt.Sprintf("PANIC %v", r) })
		}
		close(c.left)
	}()
	ctx, stop := context.WithCancel(c.ctx)
	defer stop()
	err := l.Do(ctx, func(ctx context.Context, g events.Grant) error {
		s.mu.Lock()
		c.a, _ = coordinator.FromContext(ctx)
		c.inner = ctx
		s.mu.Unlock()
		s.enters(c, g, "ENTERS")
		ended := ctx.Done()
		var obeys <-chan time.Time
		for {
			select {
			case <-ended:
				cause := context.Cause(ctx)
				s.hear(c.name, false, func() string { return "its context has ended: " + errorName(cause) })
				ended = nil
				if c.obeys >= 0 {
					obeys = time.After(c.obeys)
				}
			case <-obeys:
				return nil
			case how := <-c.finish:
				s.mu.Lock()
				c.stop = stop
				s.mu.Unlock()
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
	}, c.acquire...)
	returned = true
	s.hear(c.name, false, func() string { return "DO " + errorName(err) })
}

// endCallers ends the callers, and checks the end of each.
func (s *scene) endCallers() {
	for _, c := range s.callers {
		if c.finish != nil {
			s.on.settle(func() bool { return true })
			s.mu.Lock()
			stop := c.stop
			s.mu.Unlock()
			if stop != nil {
				stop() // Do may be waiting for a server
				continue
			}
			select {
			case c.finish <- "":
			case <-c.left:
			}
			continue
		}
		s.checkLoss(c)
		c.a.Release()
	}
	s.checkEnd()
}
