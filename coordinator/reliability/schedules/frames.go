package schedules

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// Runners acquire and release locks in cycles. In turn, each frame of a few cycles meets
// a mishap. At that moment, a release may still be under way, or share its request with
// the next acquire.

const (
	stageTimeout = 10 * time.Second // the session timeout
	warmUp       = 3                // cycles, so that the directory is known to be ours
	undisturbed  = 2                // cycles; each of their frames meets a mishap in turn
	afterwards   = 4                // further cycles
	loopDir      = "/loops"
	cacheIdle    = time.Minute // how long an idle node is kept
	mostPermits  = 2           // a semaphore's size
)

type grip struct {
	of      func(c *coordinator.Coordinator, path string) handle
	nodes   int  // most nodes of one contender at one time; 0: unknown
	rest    int  // nodes that stay when nothing holds or waits
	side    side // the side of a read/write lock
	permits int  // permits of a semaphore; 0: not a semaphore
}

var (
	asMutex  = grip{nodes: 1, of: func(c *coordinator.Coordinator, p string) handle { return c.Mutex(p) }}
	asUnfair = grip{nodes: 1, of: func(c *coordinator.Coordinator, p string) handle { return c.Unfair(p) }}
	// A node that is not kept is deleted after Done, when the next one may already exist.
	asCached = grip{nodes: 2, rest: 1, of: func(c *coordinator.Coordinator, p string) handle { return c.Mutex(p, coordinator.Cached()) }}

	toRead  = grip{nodes: 1, side: shared, of: readSide}
	toWrite = grip{nodes: 1, side: alone, of: writeSide}

	onePermit = grip{nodes: 2, permits: 1, of: func(c *coordinator.Coordinator, p string) handle {
		return c.Semaphore(p, mostPermits)
	}}
	allPermits = grip{nodes: 2, permits: mostPermits, of: func(c *coordinator.Coordinator, p string) handle {
		return bulk{c.Semaphore(p, mostPermits)}
	}}
	asBoth = grip{nodes: 2, of: func(c *coordinator.Coordinator, p string) handle {
		return c.Multi(c.Mutex(p+"/x"), c.ReadWrite(p+"/y").Write())
	}}
	asOneOfBoth    = grip{nodes: 1, of: func(c *coordinator.Coordinator, p string) handle { return c.Mutex(p + "/x") }}
	tellsOfCrashes = grip{nodes: 1, of: func(c *coordinator.Coordinator, p string) handle {
		return c.Mutex(p, coordinator.DetectCrash())
	}}
	waitsAfterACrash = grip{nodes: 1, of: func(c *coordinator.Coordinator, p string) handle {
		return c.Mutex(p, coordinator.LockDelay(500*time.Millisecond))
	}}
)

func readSide(c *coordinator.Coordinator, p string) handle  { return c.ReadWrite(p).Read() }
func writeSide(c *coordinator.Coordinator, p string) handle { return c.ReadWrite(p).Write() }

// bulk acquires all permits.
type bulk struct{ *coordinator.Semaphore }

func (b bulk) Acquire(ctx context.Context, options ...coordinator.AcquireOption) *coordinator.Acquisition {
	return b.Semaphore.Acquire(ctx, append(options, coordinator.Permits(mostPermits))...)
}

type runner struct {
	lock string
	grip
	hold    time.Duration // 0: a cycle takes no time, and the clock stands still
	other   bool          // in its own session, without a mishap
	fresh   bool          // there is no directory yet, and no warm-up
	waits   bool          // waits for the end of each release and for its nodes to go, so that their number is known
	leaves  bool          // releases after hold, whether it was granted or not
	becomes bool          // becomes a reader after it has written
	hasty   bool          // releases the write lock before it knows whether it may read
	crashes bool          // panics under the lock, and acquires it again
	pause   time.Duration // after a release; without it, a loop can starve the waiters of an unfair lock
}

// tracks returns the runners that play together, by name.
func tracks() map[string][]runner {
	const little, long = time.Millisecond, stageTimeout / 50
	a := func(g grip, hold time.Duration) runner { return runner{lock: "a", grip: g, hold: hold} }
	elsewhere := func(lock string, hold time.Duration) runner { return runner{lock: lock, grip: asMutex, hold: hold} }
	other := func(g grip) runner { return runner{lock: "a", grip: g, hold: long, other: true} }
	becomes, crashes, waits := a(toWrite, little), a(tellsOfCrashes, 0), a(waitsAfterACrash, 0)
	becomes.becomes, crashes.crashes, waits.crashes = true, true, true
	hasty := becomes
	hasty.hasty = true
	all := map[string][]runner{
		"alone":                  {a(asMutex, 0)},
		"alone, holds":           {a(asMutex, little)},
		"alone in three locks":   {a(asMutex, 0), elsewhere("b", little), elsewhere("c", 0)},
		"two fight":              {a(asMutex, little), a(asMutex, little)},
		"four fight":             {a(asMutex, 0), a(asMutex, little), a(asMutex, 0), a(asMutex, little)},
		"with another session":   {a(asMutex, little), other(asMutex)},
		"with others, and alone": {a(asMutex, 0), a(asMutex, 0), elsewhere("b", 0), other(asMutex)},
		"read and write":         {a(toRead, 0), a(toRead, little), a(toWrite, 0), other(toRead)},
		"becomes a reader":       {becomes, a(toWrite, 0), a(toRead, 0), other(toWrite)},
		"in haste":               {hasty, other(toWrite)},
		"permits":                {a(onePermit, 0), a(allPermits, little), a(onePermit, little), other(onePermit)},
		"cached, alone":          {a(asCached, 0), a(asCached, little)},
		"cached, and not":        {a(asCached, little), a(asCached, 0), a(asMutex, little)},
		"cached, and another":    {a(asCached, 0), a(asCached, little), other(asCached)},
		"crashes":                {crashes, other(tellsOfCrashes)},
		"waits after a crash":    {waits, other(waitsAfterACrash)},
	}
	// One contender of each kind with its rival.
	for name, g := range map[string][2]grip{
		"mutex": {asMutex, asMutex}, "reader": {toRead, toWrite}, "writer": {toWrite, toRead},
		"permit": {onePermit, allPermits}, "all permits": {allPermits, onePermit}, "unfair": {asUnfair, asUnfair},
		"both": {asBoth, asOneOfBoth}, "cached": {asCached, asMutex}, "tells of crashes": {tellsOfCrashes, tellsOfCrashes},
	} {
		one, rival := a(g[0], 0), other(g[1])
		one.waits = true
		if name == "unfair" {
			rival.pause = long
		}
		fresh, leaves, after, gives := one, one, one, one
		fresh.fresh, leaves.leaves, after.hold = true, true, little
		gives.leaves, gives.hold = true, long/2
		if name == "cached" {
			gives.nodes = 0 // Done does not wait for nodes: while one create is delayed, more follow
		}
		all[name+", in a new directory"] = []runner{fresh}
		all[name+", leaves at once"] = []runner{leaves}
		all[name+", after another"] = []runner{after, rival}
		all[name+", waits and leaves"] = []runner{gives, rival}
	}
	return all
}

// mishap strikes a frame, or a request when it reaches the server.
type mishap struct {
	name    string
	verdict faultnet.Verdict
	cut     time.Duration // the connection is cut this much later; 0: never
	expires bool          // the client is kept away until its session has ended
	server  func(l *laps, session int64) zktest.Action
	silent  bool // a lease may run out before the client notices and reconnects
	robbed  bool // nodes are deleted: their holders notice later, and may not be alone until then
}

func mishaps() []mishap {
	return []mishap{
		{name: "the connection ends before it", verdict: faultnet.CutBefore()},
		{name: "the connection ends after it", verdict: faultnet.CutAfter()},
		{name: "it is lost, and the connection ends later", verdict: faultnet.Drop(), cut: stageTimeout / 20},
		{name: "it is lost with all that follows", verdict: faultnet.Swallow(), silent: true},
		{name: "it is lost with all that follows, and the session", verdict: faultnet.Swallow(), expires: true},
		{name: "it is held up", verdict: faultnet.HoldFor(stageTimeout / 20)},
		{name: "the session ends before it", verdict: faultnet.CutBefore(), expires: true},
		{name: "the session ends after it", verdict: faultnet.CutAfter(), expires: true},
		{name: "it is turned away", server: func(*laps, int64) zktest.Action {
			return zktest.Fail(zktest.Throttled)
		}},
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

// laps is a play of a track, with at most one mishap.
type laps struct {
	*testing.T
	mishap
	track     string
	direction faultnet.Direction
	nth       int // number of the frame or request that it strikes; 0: none
	again     int // the connection ends again this many frames later; 0: never

	srv     *zktest.Server
	network *faultnet.Network
	victim  *coordinator.Coordinator // its frames meet the mishap
	other   *coordinator.Coordinator // undisturbed
	nodes   int                      // the most the victim may have at one time; 0: unknown

	mu     sync.Mutex
	began  bool
	frames [faultnet.Down + 1]int // the victim's frames since the start, without pings
	asked  int                    // the victim's requests that have reached the server since the start
	struck bool                   // the mishap has happened
	holder map[string][]holding
	last   map[string]holding // by lock, the latest holder that excludes others
}

func (l *laps) connect(dial faultnet.Dial) *coordinator.Coordinator {
	l.Helper()
	c, err := coordinator.Connect(context.Background(), l.srv.Addr(),
		coordinator.WithDialer(dial), coordinator.WithSessionTimeout(stageTimeout))
	eventstest.Must(l, err)
	l.Cleanup(func() { _ = c.Close() }) // in case the test fails on the way; a second Close does nothing
	return c
}

func (l *laps) run(t *testing.T) {
	l.T, l.srv = t, zktest.Start(t)
	l.network = faultnet.New(l.srv.DialContext, l.rule)
	l.victim, l.other = l.connect(l.network.Dial), l.connect(l.srv.DialContext)
	l.holder, l.last = map[string][]holding{}, map[string]holding{}
	l.srv.Intercept(l.intercept)
	cycles, runners := undisturbed, tracks()[l.track]
	if runners[0].waits {
		l.nodes = runners[0].nodes
	}
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
			if !r.fresh {
				l.loop(c, r, warmUp, nil)
			}
			<-start
			l.loop(c, r, most, stop)
		})
	}
	synctest.Wait()
	time.Sleep(time.Minute) // all have warmed up, and nothing is under way
	synctest.Wait()
	l.begin(true)
	close(start)
	victims.Wait()
	close(stop)
	others.Wait()
	l.begin(false) // pings continue forever

	for _, r := range runners { // the next contender waits at most for the end of a session
		began := time.Now()
		next := l.cycle(l.other, runner{lock: r.lock, grip: r.grip})
		if took := time.Since(began); next == nil || took > 2*stageTimeout {
			l.Errorf("the next contender waited for %v", took)
			return
		}
		l.over(next)
	}
	time.Sleep(3*stageTimeout + cacheIdle) // the network has long been healed
	for _, node := range l.srv.Tree() {
		left := l.srv.Owner(node) != 0 || strings.HasSuffix(node, session.RecordSuffix)
		eventstest.Expect(l, !left, "left: %s", node)
	}
	eventstest.Equal(l, l.srv.Watches(), 0, "watches that are left")
	eventstest.Check(l, errors.Join(l.victim.Close(), l.other.Close()))
	eventstest.Equal(l, len(l.srv.Sessions()), 0, "sessions that are left")
	l.network.Close()
}

func (l *laps) begin(began bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began = began
}

// loop runs cycles until there were enough of them, or it is stopped.
func (l *laps) loop(c *coordinator.Coordinator, r runner, cycles int, stop <-chan struct{}) {
	var last *coordinator.Acquisition
	for range cycles {
		if last = l.cycle(c, r); last == nil {
			return
		}
		if r.waits {
			l.over(last)
		}
		time.Sleep(r.pause)
		for r.waits && l.count() > r.rest { // Done does not wait for a connection
			time.Sleep(stageTimeout / 100)
		}
		if coordtest.IsClosed(stop) {
			break
		}
	}
	l.over(last)
}

// over waits for the end of an acquisition.
func (l *laps) over(a *coordinator.Acquisition) {
	select {
	case <-a.Done():
		eventstest.Expect(l, !a.Valid(), "valid after Done")
	case <-time.After(10 * stageTimeout):
		l.Errorf("never over; nodes %v", l.srv.Tree())
	}
}

// cycle acquires and releases. It returns the acquisition that ends last, or nil if it
// has failed.
func (l *laps) cycle(c *coordinator.Coordinator, r runner) *coordinator.Acquisition {
	lock := r.of(c, loopDir+"/"+r.lock)
	if r.crashes {
		err := recovered(context.Background(), lock, func(context.Context, events.Grant) error { panic(errPanic) })
		eventstest.Expect(l, errors.Is(err, errPanic) || l.takes(err),
			"Do of a function that panics ended with %v", err)
	}
	a := lock.Acquire(context.Background())
	if r.leaves {
		time.Sleep(r.hold)
		a.Release()
		return a
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*stageTimeout)
	defer cancel()
	grant, err := a.Wait(ctx)
	switch {
	case l.takes(err): // granted, but lost before the Grant was read
		return a
	case err != nil:
		l.Errorf("no grant: %v; nodes %v", err, l.srv.Tree())
		return nil
	}
	l.granted(r, a, grant)
	time.Sleep(r.hold)
	last := a
	if r.becomes {
		last = l.become(r, toRead.of(c, loopDir+"/"+r.lock), a)
	}
	a.Release()
	last.Release()
	return last
}

// become requests the read lock in the writer's place, releases the write lock, and holds
// the read lock for the same time.
func (l *laps) become(r runner, lock handle, writer *coordinator.Acquisition) *coordinator.Acquisition {
	ctx := writer.Context(context.Background())
	if r.hasty {
		ctx = context.WithoutCancel(ctx)
	}
	read := lock.Acquire(ctx)
	if r.hasty {
		writer.Release()
	}
	grant, err := read.Wait(context.Background())
	if err != nil {
		// The writer's node was gone before the reader's create.
		placeless := errors.Is(err, coordinator.ErrNotAcquired) && (l.robbed || r.hasty)
		eventstest.Expect(l, l.takes(err) || placeless, "could not become a reader: %v", err)
		return read
	}
	r.side = shared
	l.granted(r, read, grant)
	writer.Release()
	time.Sleep(r.hold)
	return read
}

// takes reports whether the error is a loss that the mishap causes.
func (m mishap) takes(err error) bool {
	var lost *coordinator.LostError
	return errors.As(err, &lost) && (m.expires ||
		m.robbed && errors.Is(err, coordinator.ErrNodeRemoved) || m.silent && errors.Is(err, coordinator.ErrLeaseRanOut))
}

// rule lets the mishap strike its frame.
func (l *laps) rule(f faultnet.Frame) faultnet.Verdict {
	l.mu.Lock()
	counts := l.began && l.nodes > 0
	l.mu.Unlock()
	if counts {
		l.count()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.began || f.Op == zktest.OpPing {
		return faultnet.Pass()
	}
	l.frames[f.Direction]++
	at := l.frames[f.Direction]
	switch {
	case l.server != nil || l.nth == 0 || f.Direction != l.direction:
		return faultnet.Pass()
	case l.again > 0 && at == l.nth+l.again:
		return faultnet.CutBefore()
	case at != l.nth:
		return faultnet.Pass()
	}
	l.struck = true
	if l.cut > 0 {
		time.AfterFunc(l.cut, l.network.Cut)
	}
	if l.expires {
		id := l.victim.SessionID()
		go func() { // keeps the victim away until its session has ended
			l.network.Partition()
			for slices.Contains(l.srv.Sessions(), id) {
				time.Sleep(time.Second)
			}
			l.network.Heal()
		}()
	}
	return l.verdict
}

// count returns how many nodes the victim has, and fails the test if there are more than
// allowed.
func (l *laps) count() (n int) {
	for _, node := range l.srv.Tree() {
		// Between the two calls the node may be deleted, and then has no owner.
		if owner := l.srv.Owner(node); owner != 0 && owner != l.other.SessionID() {
			n++
		}
	}
	eventstest.Expect(l, l.nodes == 0 || n <= l.nodes,
		"%d nodes of one contender at one time, want %d at most", n, l.nodes)
	return n
}

// intercept is rule for requests that reach the server.
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

// rob deletes the nodes of a session, and the directories that become empty.
func (l *laps) rob(session int64) {
	tree := l.srv.Tree()
	slices.Reverse(tree) // nodes before their directories
	for _, node := range tree {
		switch owner := l.srv.Owner(node); {
		case node == loopDir:
		case owner == session, owner == 0 && len(l.srv.Children(node)) == 0:
			l.unlessQuicker(l.srv.Delete(node))
		}
	}
}

// scribble writes data into the directories that the library did not write.
func (l *laps) scribble() {
	for _, node := range l.srv.Tree() {
		ours := path.Base(node) == "size" || strings.HasSuffix(node, session.RecordSuffix)
		if l.srv.Owner(node) == 0 && node != loopDir && !ours {
			l.unlessQuicker(l.srv.SetData(node, []byte("somebody's data, which name no floor")))
		}
	}
}

// unlessQuicker fails the test for an error, unless another client can have created or
// deleted nodes since the tree was read.
func (l *laps) unlessQuicker(err error) {
	if err != nil && !errors.Is(err, zktest.NoNode) && !errors.Is(err, zktest.NotEmpty) {
		l.Error(err)
	}
}

type holding struct {
	a *coordinator.Acquisition
	runner
	token int64 // for a reader in a writer's place, the writer's token
	turn  uint64
}

// granted checks that no other holder excludes this one, and that a writer's token, or
// its turn, has grown.
func (l *laps) granted(r runner, a *coordinator.Acquisition, grant events.Grant) {
	h := holding{a, r, grant.Token, grant.Turn}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holder[r.lock] = slices.DeleteFunc(l.holder[r.lock], func(o holding) bool { return !o.a.Valid() })
	permits := h.permits
	for _, o := range l.holder[r.lock] {
		if o.a.Valid() {
			permits += o.permits
		}
		share := h.permits > 0 || o.side == shared && h.side == shared || o.token == h.token && o.turn == h.turn
		// Validity ends for good: a holder that is valid before and after the check of
		// another is valid in between.
		if !share && h.a.Valid() && o.a.Valid() && !l.robbed {
			l.Errorf("two holders of %s", r.lock)
		}
	}
	l.holder[r.lock] = append(l.holder[r.lock], h)
	eventstest.Expect(l, permits <= mostPermits || !h.a.Valid() || l.robbed,
		"%d permits of %s are held", permits, r.lock)
	if h.side == shared || h.permits > 0 {
		return
	}
	last := l.last[r.lock]
	grown := h.token > last.token || h.token == last.token && h.turn > last.turn
	// If robbed, two may hold for a moment, and either may come here first.
	eventstest.Expect(l, grown || l.robbed,
		"token %#x, turn %d after %#x, turn %d of %s", h.token, h.turn, last.token, last.turn, r.lock)
	l.last[r.lock] = h
}
