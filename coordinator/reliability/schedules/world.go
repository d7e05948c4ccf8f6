package schedules

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// world is one running schedule. Everything in it happens in one bubble.
type world struct {
	plan
	t       *testing.T
	begun   time.Time
	srv     *zktest.Server
	clients []*client
	crew    sync.WaitGroup
	healing chan struct{} // closed when the faults are over
	over    chan struct{} // closed at the very end
	// disturbed is set once every client is connected, and the faults may begin.
	disturbed atomic.Bool
	// abandoned is closed if a worker is stuck: the others need not try any longer.
	abandoned chan struct{}
	behind    atomic.Bool // a connection was stranded, or lagged

	mu       sync.Mutex
	trace    []line
	failures []string
	counts   map[string]int
	tenures  map[string][]*tenure // by path, in the order of their reports
	spare    map[string]bool      // by GUID, leases that must be returned
	fates    map[string][]fate    // by path, of a lock that reports crashes
	passed   map[passed][]*tenure // the turns by which a contender was passed, each once

	containers map[string]container // the directories created so far

	decreed  set[int64]  // sessions ended by decree
	meddled  set[string] // nodes that another client deleted, by nameOf
	cutAfter set[string] // GUIDs of creates that were executed but never answered
	asked    set[string] // nodes with a revocation request, by nameOf
	revoked  set[string] // paths of locks that were revoked with a deadline
}

// set is a set that is safe for concurrent use.
type set[K comparable] struct{ all sync.Map }

func (s *set[K]) add(k K) { s.all.Store(k, true) }

func (s *set[K]) has(k K) bool {
	_, found := s.all.Load(k)
	return found
}

// line is a line of the trace. It is formatted only if it is read.
type line struct {
	at     time.Duration
	format string
	args   []any
}

// outcome is the result of a schedule.
type outcome struct {
	plan
	failures []string
	trace    string
	counts   map[string]int
	slowest  time.Duration // from the healing until the last worker was done
}

// playSeed plays the schedule of a seed in a bubble. It takes minutes of virtual time,
// far below the limit of a bubble. It does not fail the test itself: the caller does,
// given the outcome.
func playSeed(t *testing.T, seed uint64) (out outcome) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil { // this is how the bubble reports leaked or stuck goroutines
			panic(fmt.Sprintf("seed %d: %v", seed, r))
		}
	}()
	eventstest.Bubble(t, func(t *testing.T) {
		w := &world{
			plan: newPlan(seed), t: t, begun: time.Now(),
			healing: make(chan struct{}), over: make(chan struct{}), abandoned: make(chan struct{}),
			counts: map[string]int{}, tenures: map[string][]*tenure{}, spare: map[string]bool{},
			fates: map[string][]fate{}, passed: map[passed][]*tenure{}, containers: map[string]container{},
		}
		settings := []zktest.Setting{zktest.Tick(w.tick)}
		if w.followers {
			settings = append(settings, zktest.Followers())
		}
		w.srv = zktest.Start(t, settings...)
		slowest := w.run()
		w.mu.Lock()
		defer w.mu.Unlock()
		out = outcome{plan: w.plan, failures: w.failures, counts: w.counts, slowest: slowest}
		if len(w.failures) > 0 || replayed() {
			out.trace = w.words()
		}
	})
	return out
}

func (w *world) run() time.Duration {
	w.srv.Intercept(w.intercept)
	for i, p := range w.plan.clients {
		w.clients = append(w.clients, newClient(w, i, p))
	}
	for _, c := range w.clients {
		if !c.connect(context.Background()) {
			w.failf("no session at the start")
			return 0
		}
	}
	inspection := sync.WaitGroup{}
	inspection.Go(w.inspect)
	for _, c := range w.clients {
		for i := range c.workers {
			k := &worker{random: newRandom(w.seed, working, 100*c.number+i), world: w, client: c}
			w.crew.Go(k.work)
		}
	}
	w.disturb()
	slowest := w.heal()
	w.settle()
	close(w.over)
	inspection.Wait()
	w.farewell()
	return slowest
}

// heal ends all faults, and waits until every worker has held every lock once more.
func (w *world) heal() time.Duration {
	w.logf("everything heals")
	close(w.healing)
	w.srv.Down(false)
	w.srv.MuteAll(false)
	for _, id := range w.srv.Sessions() {
		w.srv.Mute(id, false)
	}
	for _, c := range w.clients {
		for _, id := range c.ids() { // a muted or stranded session may no longer be its client's current one
			w.srv.Mute(id, false)
			w.srv.Lag(id, false)
			w.srv.Strand(id, false)
		}
		c.network.Heal()
		if c.lossy.Load() {
			c.network.Cut() // a lost request waits for this
		}
	}
	start := time.Now()
	done := make(chan struct{})
	go func() {
		w.crew.Wait()
		close(done)
	}()
	holds := 0
	for _, c := range w.clients {
		holds += c.workers * len(w.paths)
	}
	bound := 5*w.longest() + 30*time.Second + time.Duration(holds)*2*finalHold
	select {
	case <-done:
		return time.Since(start)
	case <-time.After(bound):
	}
	w.count("wedged", 1)
	w.failf("a worker still waits %v after everything healed; server:\n%s", bound, strings.Join(w.srv.Tree(), "\n"))
	close(w.abandoned)
	for _, c := range w.clients {
		c.stop() // then everything ends, or the bubble reports that it does not
	}
	<-done
	return bound
}

// settle checks what is left once no worker wants a lock any more.
func (w *world) settle() {
	// Nodes of a session that could not be closed are deleted when it expires.
	time.Sleep(2*w.longest() + 2*w.tick)
	synctest.Wait()
	if w.recipe == cached && !w.settleIdle() {
		return
	}
	w.judgeLeft()
	n := w.srv.Watches()
	w.expect(n == 0, "%d watches left, and no node to watch", n)
	for _, c := range w.clients {
		if l := c.get(); l != nil && (l.Nodes().Nodes != 0 || l.Nodes().Bytes != 0) {
			w.failf("%s: no node is left, and %+v count", c.name, l.Nodes())
		}
	}
}

// judgeLeft fails if nodes of any contender are left.
func (w *world) judgeLeft() {
	for _, path := range w.paths {
		left := w.nodes(path)
		w.expect(len(left) == 0, "nodes left: %v", left)
	}
}

func (w *world) farewell() {
	for _, c := range w.clients {
		c.stop()
	}
	synctest.Wait()
	w.judgeLeft()
	time.Sleep(w.longest() + 2*w.tick)
	synctest.Wait()
	n, m := len(w.srv.Sessions()), w.srv.Connections()
	w.expect(n+m == 0, "%d sessions and %d connections left", n, m)
	w.judgeOrder()
	w.judgePasses()
	w.judgeFates()
	w.judgeStreams()
}

func (w *world) logf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, line{time.Since(w.begun), format, args})
}

// failf is logf for a violation.
func (w *world) failf(format string, args ...any) {
	w.logf("VIOLATION: "+format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, fmt.Sprintf(format, args...))
}

// expect is failf unless the condition holds.
func (w *world) expect(holds bool, format string, args ...any) {
	if !holds {
		w.failf(format, args...)
	}
}

func (w *world) count(what string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what] += n
}

// words renders the plan and the trace. The caller holds mu.
func (w *world) words() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %v, %v, tells of crashes %v, %v, tick %v, followers %v, %v, locks %v\n",
		w.seed, w.recipe, w.form, w.detects, w.kind, w.tick, w.followers, w.length, w.paths)
	for i, c := range w.plan.clients {
		fmt.Fprintf(&b, "client %d: %+v\n", i, c)
	}
	slices.SortStableFunc(w.trace, func(a, b line) int { return int(a.at - b.at) })
	for _, l := range w.trace {
		fmt.Fprintf(&b, "%12.6f ", l.at.Seconds())
		fmt.Fprintf(&b, l.format, l.args...)
		b.WriteByte('\n')
	}
	return b.String()
}

func (w *world) healed() bool { return coordtest.IsClosed(w.healing) }
