package schedules

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// A loop releases a lock and acquires it again without waiting for the end of the release: the release may still be under way, or
// share its request with the acquire, when a mishap comes.

const (
	warmUp      = 3 // cycles, after which the directory is known to be ours
	undisturbed = 2 // cycles, of which each frame meets with a mishap in turn
	afterwards  = 4 // cycles
	loopDir     = "/loops"
	cacheIdle   = time.Minute // after which a kept node goes if it is not asked for
)

// runner is a worker in a loop.
type runner struct {
	lock  string
	hold  time.Duration // if it is 0, a cycle takes no time, and the clock stands still
	other bool          // in a session of its own, without a mishap
	side  side          // of a read/write lock; 0: the lock is a mutex
	// becomes a reader after it has written
	becomes bool
	permits int  // of a semaphore; 0: the lock is none
	cached  bool // the mutex's node is kept
}

func tracks() map[string][]runner {
	const little, long = time.Millisecond, stageTimeout / 50
	return map[string][]runner{
		"alone":                  {{lock: "a"}},
		"alone, holds":           {{lock: "a", hold: little}},
		"alone in three locks":   {{lock: "a"}, {lock: "b", hold: little}, {lock: "c"}},
		"two fight":              {{lock: "a", hold: little}, {lock: "a", hold: little}},
		"four fight":             {{lock: "a"}, {lock: "a", hold: little}, {lock: "a"}, {lock: "a", hold: little}},
		"with another session":   {{lock: "a", hold: little}, {lock: "a", hold: long, other: true}},
		"with others, and alone": {{lock: "a"}, {lock: "a"}, {lock: "b"}, {lock: "a", hold: long, other: true}},
		"read and write": {
			{lock: "rw", side: shared}, {lock: "rw", side: shared, hold: little}, {lock: "rw", side: alone},
			{lock: "rw", side: shared, hold: long, other: true},
		},
		"writes, becomes a reader": {
			{lock: "rw", side: alone, becomes: true, hold: little}, {lock: "rw", side: alone}, {lock: "rw", side: shared},
			{lock: "rw", side: alone, hold: little, other: true},
		},
		"permits": {
			{lock: "s", permits: 1}, {lock: "s", permits: size, hold: little}, {lock: "s", permits: 1, hold: little},
			{lock: "s", permits: 1, hold: long, other: true},
		},
		"cached, alone":                {{lock: "k", cached: true}, {lock: "k", cached: true, hold: little}},
		"cached, with one that is not": {{lock: "k", cached: true, hold: little}, {lock: "k", cached: true}, {lock: "k", hold: little}},
		"cached, with another session": {
			{lock: "k", cached: true}, {lock: "k", cached: true, hold: little}, {lock: "k", hold: long, cached: true, other: true},
		},
	}
}

// mishap strikes a frame, or a request when it comes to the server.
type mishap struct {
	name    string
	verdict faultnet.Verdict
	cut     time.Duration // the connection is cut so much later; 0: never
	expires bool          // the client is kept away until its session has ended
	server  func(l *laps, session int64) zktest.Action
	silent  bool // a lease may run out before the client notices and has another connection
	robbed  bool // nodes are deleted: their holders are told afterwards, and may not be alone until then
}

func mishaps() []mishap {
	return []mishap{
		{name: "the connection ends before it", verdict: faultnet.CutBefore()},
		{name: "the connection ends after it", verdict: faultnet.CutAfter()},
		{name: "it is lost, and the connection ends later", verdict: faultnet.Drop(), cut: stageTimeout / 20},
		{name: "it is lost with all that follows", verdict: faultnet.Swallow(), silent: true},
		{name: "it is held up", verdict: faultnet.HoldFor(stageTimeout / 20)},
		{name: "the session ends before it", verdict: faultnet.CutBefore(), expires: true},
		{name: "the session ends after it", verdict: faultnet.CutAfter(), expires: true},
		{name: "it is turned away", server: func(*laps, int64) zktest.Action { return zktest.Fail(zktest.Throttled) }},
		{name: "another client deletes the nodes before it", robbed: true, server: func(l *laps, session int64) zktest.Action {
			l.rob(session)
			return zktest.Pass()
		}},
		{name: "another client deletes the nodes before it, and its answer is lost", robbed: true,
			server: func(l *laps, session int64) zktest.Action {
				l.rob(session)
				return zktest.CutAfter()
			}},
		{name: "another client writes over the directories' data before it", server: func(l *laps, _ int64) zktest.Action {
			l.scribble()
			return zktest.Pass()
		}},
	}
}

// laps is a play of a few runners, with one mishap.
type laps struct {
	*stage
	mishap
	direction faultnet.Direction
	nth       int // the frame, or request, that meets with it; 0: none

	mu     sync.Mutex
	began  bool
	frames [faultnet.Down + 1]int // since the start, of the victim, without pings
	asked  int                    // requests of the victim that have come to the server since the start
	struck bool                   // the mishap has happened
	holder map[string][]holding
	last   map[string]holding // by lock, the latest granted holder that excludes others
}

// run plays the laps.
func (l *laps) run(runners []runner) {
	l.holder, l.last = map[string][]holding{}, map[string]holding{}
	l.srv.Intercept(l.intercept)

	cycles := undisturbed
	if l.nth > 0 {
		cycles += afterwards
	}
	var victims, others sync.WaitGroup
	stop, start := make(chan struct{}), make(chan struct{})
	for _, r := range runners {
		run, c, most := &victims, l.victim, cycles
		if r.other {
			run, c, most = &others, l.other, 1<<30
		}
		run.Go(func() {
			l.loop(c, r, warmUp, nil)
			<-start
			l.loop(c, r, most, stop)
		})
	}
	synctest.Wait()
	time.Sleep(time.Minute) // all have warmed up, and nothing is under way
	synctest.Wait()
	l.mu.Lock()
	l.began = true
	l.mu.Unlock()
	close(start)
	victims.Wait()
	close(stop)
	others.Wait()
	l.mu.Lock()
	l.began = false // pings go on for ever
	l.mu.Unlock()

	time.Sleep(3*stageTimeout + cacheIdle)
	for _, node := range l.srv.Tree() {
		if strings.Contains(node, "/_c_") {
			l.Errorf("left: %s", node)
		}
	}
	if n := l.srv.Watches(); n > 0 {
		l.Errorf("%d watches left", n)
	}
	l.leave()
}

// loop acquires and releases until it has done so often enough or is stopped. It waits for the last release only.
func (l *laps) loop(c *coordinator.Coordinator, r runner, cycles int, stop <-chan struct{}) {
	lock := r.handle(c, r.side)
	var last *coordinator.Acquisition
	for range cycles {
		a := lock.Acquire(context.Background())
		ctx, cancel := context.WithTimeout(context.Background(), 10*stageTimeout)
		grant, err := a.Wait(ctx)
		cancel()
		if l.takes(err) { // granted, and lost before the Grant was read
			last = a
			continue
		}
		if err != nil {
			l.Errorf("no grant: %v; nodes %v", err, l.srv.Tree())
			return
		}
		h := holding{a, r.side, r.permits, grant.Token, grant.Turn}
		l.granted(r.lock, h)
		if r.hold > 0 {
			time.Sleep(r.hold)
		}
		if r.becomes {
			last = l.become(r, r.handle(c, shared), h)
		} else {
			last = a
		}
		a.Release()
		last.Release()
		if isStopped(stop) {
			break
		}
	}
	select {
	case <-last.Done():
	case <-time.After(10 * stageTimeout):
		l.Errorf("never over; nodes %v", l.srv.Tree())
	}
}

// takes tells whether the error is a loss that the mishap causes.
func (m mishap) takes(err error) bool {
	var lost *coordinator.LostError
	return errors.As(err, &lost) &&
		(m.expires || m.robbed && errors.Is(err, coordinator.ErrNodeRemoved) || m.silent && errors.Is(err, coordinator.ErrLeaseRanOut))
}

func isStopped(stop <-chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return false
	}
}

// rule has the one frame meet with the mishap.
func (l *laps) rule(f faultnet.Frame) faultnet.Verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.began || f.Op == zktest.OpPing {
		return faultnet.Pass()
	}
	l.frames[f.Direction]++
	if l.server != nil || l.nth == 0 || f.Direction != l.direction || l.frames[f.Direction] != l.nth {
		return faultnet.Pass()
	}
	l.struck = true
	if l.cut > 0 {
		time.AfterFunc(l.cut, l.network.Cut)
	}
	if l.expires {
		l.keepAway()
	}
	return l.verdict
}

// intercept does the same for a request at the server.
func (l *laps) intercept(q zktest.Request) zktest.Action {
	l.mu.Lock()
	if !l.began || q.Op == zktest.OpPing || q.Op == zktest.OpConnect || q.Session != l.victim.SessionID() {
		l.mu.Unlock()
		return zktest.Pass()
	}
	l.asked++
	strikes := l.server != nil && l.asked == l.nth
	l.struck = l.struck || strikes
	l.mu.Unlock()
	if !strikes {
		return zktest.Pass()
	}
	return l.server(l, q.Session)
}

// rob deletes the nodes of a session, and the directories that are empty then.
func (l *laps) rob(session int64) {
	tree := l.srv.Tree()
	slices.Reverse(tree) // nodes before their directories
	for _, node := range tree {
		switch {
		case node == loopDir:
		case l.srv.Owner(node) == session, l.srv.Owner(node) == 0 && len(l.srv.Children(node)) == 0:
			l.unlessQuicker(l.srv.Delete(node), zktest.NoNode, zktest.NotEmpty)
		}
	}
}

// scribble writes data into the directories that the library did not write.
func (l *laps) scribble() {
	for _, node := range l.srv.Tree() {
		if l.srv.Owner(node) != 0 || node == loopDir || path.Base(node) == "size" {
			continue
		}
		l.unlessQuicker(l.srv.SetData(node, []byte("somebody's data, which name no floor")), zktest.NoNode)
	}
}

// unlessQuicker fails the test for an error, except those that come when another client makes or deletes nodes between the look at
// the tree and this.
func (l *laps) unlessQuicker(err error, quicker ...zktest.Code) {
	for _, code := range quicker {
		if errors.Is(err, code) {
			return
		}
	}
	if err != nil {
		l.Error(err)
	}
}

// What the runners of a loop hold.

// handle makes the handle for the runner's lock.
func (r runner) handle(c *coordinator.Coordinator, s side) handle {
	switch path := loopDir + "/" + r.lock; {
	case r.permits > 0:
		return bulk{c.Semaphore(path, size), r.permits}
	case s == alone:
		return toWrite(c, path)
	case s == shared:
		return toRead(c, path)
	case r.cached:
		return c.Mutex(path, coordinator.Cached())
	default:
		return c.Mutex(path)
	}
}

// become asks to read in the writer's place, gives the write lock back, and holds the read lock for as long.
func (l *laps) become(r runner, lock handle, writer holding) *coordinator.Acquisition {
	read := lock.Acquire(writer.a.Context(context.Background()))
	if _, err := read.Wait(context.Background()); err != nil {
		placeless := l.robbed && errors.Is(err, coordinator.ErrNotAcquired) // the writer's node was gone before the reader's create
		if !l.takes(err) && !placeless {
			l.Errorf("could not become a reader: %v", err)
		}
		return read
	}
	l.granted(r.lock, holding{read, shared, 0, writer.token, 0})
	writer.a.Release()
	if r.hold > 0 {
		time.Sleep(r.hold)
	}
	return read
}

// holding is a granted lock.
type holding struct {
	a       *coordinator.Acquisition
	side    side
	permits int
	token   int64 // of a reader in a writer's place: the writer's token
	turn    uint64
}

// granted checks that no other holder excludes this one, and that a writer's token, or its turn, has grown.
func (l *laps) granted(lock string, h holding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holder[lock] = slices.DeleteFunc(l.holder[lock], func(o holding) bool { return !o.a.Valid() })
	permits := h.permits
	for _, o := range l.holder[lock] {
		if o.a.Valid() {
			permits += o.permits
		}
		share := h.permits > 0 || o.side == shared && h.side == shared || o.token == h.token && o.turn == h.turn
		// Validity ends for good: a holder that is valid before and after another was is valid in between.
		if !share && h.a.Valid() && o.a.Valid() && !l.robbed {
			l.Errorf("two holders of %s", lock)
		}
	}
	l.holder[lock] = append(l.holder[lock], h)
	if permits > size && h.a.Valid() && !l.robbed {
		l.Errorf("%d permits of %s are held", permits, lock)
	}
	if h.side == shared || h.permits > 0 {
		return
	}
	last := l.last[lock]
	grown := h.token > last.token || h.token == last.token && h.turn > last.turn
	if !grown && !l.robbed { // robbed, two may hold for a moment, and either may come here first
		l.Errorf("token %#x, turn %d after %#x, turn %d of %s", h.token, h.turn, last.token, last.turn, lock)
	}
	l.last[lock] = h
}
