package histories

import (
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

func TestMain(m *testing.M) {
	runChild() // returns unless this process is a child
	goleak.VerifyTestMain(m)
}

const (
	crewSize     = 3 // workers per coordinator
	timeoutTicks = 4 // a session timeout, in ticks of the servers
	slowLock     = "/locks/slow"
)

// Histories of locks of all kinds on a real ensemble whose servers are killed, one or two
// at a time, and whose clients are partitioned away. In some, locks are revoked.
func TestRealHistories(t *testing.T) {
	const tick = 500 * time.Millisecond
	t.Parallel()
	eventstest.NeedsServers(t)
	operations, faults := reliability.Trials(150, 300, 12_000), reliability.Trials(2, 4, 56)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	d := &disaster{
		ensemble: ensemble.Start(t, 3, ensemble.Tick(tick)), random: rand.New(rand.NewPCG(seed, 0)), timeout: timeoutTicks * tick,
		revokes: seed%2 == 1,
		// A goroutine that was notified of a loss runs within less than the shortest
		// lead.
		history: newHistory(timeoutTicks * tick / 25),
	}
	var enough atomic.Bool
	finished := start(d.crew(t, func() bool { return !enough.Load() }), func(w *worker) { w.run(t) })
	for i := 0; i < faults || d.history.size() < operations; i++ {
		d.strike(t, i)
	}
	d.asking.Wait()
	enough.Store(true)
	eventstest.Receive(t, finished, "the workers, now that everything has been mended")

	ops := d.history.ops
	verdict, total := check(t, "the workers", ops, d.history.notes), tally(ops)
	if faults > 20 { // with fewer faults, none may strike a holder
		for _, what := range []string{
			"Grant", "valid", "write", "write refused", "loss", "release", "to a reader", "in a writer's place", "read", "of a multi-lock", "turn",
		} {
			eventstest.Expect(t, total[what] > 0,
				"no %s in the whole history: it proves nothing about that", what)
		}
		eventstest.Expect(t, !d.revokes || total["loss to Revoke"] > 0 && total["gone after Revoke"] > 0,
			"in the whole history no holder was asked to go, and is gone: %v", total)
	}
	reliability.Report(t, reliability.RowHistories, "three real servers: %d operations under %d faults, %s (%s)",
		len(ops), len(d.history.notes), verdict, reliability.Counts(total))
}

func tally(ops []operation) map[string]int {
	n := map[string]int{}
	for _, op := range ops {
		n[op.Kind.String()]++
		for what, is := range map[string]bool{
			"to a reader":         op.Kind == kindAcquire && op.Shares,
			"in a writer's place": op.Kind == kindAcquire && op.Writer != 0,
			"of a multi-lock":     op.Kind == kindAcquire && op.With > 0,
			"turn":                op.Kind == kindAcquire && op.Turn > 0,
			"write refused":       op.Kind == kindWrite && !op.Accepted,
			"loss to Revoke":      op.Kind == kindLose && op.Revoked,
		} {
			if is {
				n[what]++
			}
		}
	}
	return n
}

// disaster breaks real servers and the connections to them.
type disaster struct {
	ensemble *ensemble.Ensemble
	networks [3]*faultnet.Network
	history  *history
	random   *rand.Rand
	timeout  time.Duration
	revokes  bool

	coordinators []*coordinator.Coordinator
	paths        []string
	asking       sync.WaitGroup
}

// crew returns the workers. Some hold locks briefly, and some for so long that there is
// something to lose. Workers of one session hand the cached lock to each other.
func (d *disaster) crew(t *testing.T, more func() bool) (all []*worker) {
	t.Helper()
	brief := []string{"/locks/a", "/locks/b", "/locks/rw", "/locks/permits", "/tasks/task", "/locks/cached"}
	d.paths = slices.Concat(brief, []string{"/service/leader", slowLock})
	resources := map[string]*resource{}
	for _, path := range d.paths {
		resources[path] = &resource{}
	}
	var marks []coordinator.LockOption
	if d.revokes {
		marks = append(marks, coordinator.Revocable())
	}
	for i := range d.networks {
		d.networks[i] = faultnet.New((&net.Dialer{}).DialContext, nil)
		t.Cleanup(d.networks[i].Close)
		c := coordtest.ConnectReal(t, d.ensemble.Connect(), coordinator.WithDialer(d.networks[i].Dial),
			coordinator.WithSessionTimeout(d.timeout), coordinator.WithTickTime(d.timeout/timeoutTicks))
		d.coordinators = append(d.coordinators, c)
		for n := range crewSize {
			w := &worker{
				number: len(all), coordinator: c, history: d.history, resources: resources, paths: brief, marks: marks, more: more,
				pace: d.timeout / 50, patience: d.timeout, random: rand.New(rand.NewPCG(d.random.Uint64(), 0)),
			}
			switch {
			case n == crewSize-1:
				w.paths, w.pace = d.paths[len(brief):], 6*d.timeout
			case i == 0:
				w.paths = brief[len(brief)-1:]
			}
			w.rest = w.pace / 4
			all = append(all, w)
		}
	}
	return all
}

// revoke revokes one of the locks. An unfair lock cannot be revoked.
func (d *disaster) revoke(t *testing.T) {
	path, asks := d.paths[d.random.IntN(len(d.paths))], d.coordinators[d.random.IntN(len(d.coordinators))]
	if !d.revokes || kindAt(path) == unfair {
		return
	}
	grace := time.Duration(d.random.Int64N(int64(d.timeout)))
	d.history.note("Revoke asks for %s within %v", path, grace)
	d.asking.Go(func() { d.history.revoke(t, asks, path, grace, 4*d.timeout) })
}

// strike breaks something, lets a while pass, and mends it. The kinds of fault take
// turns.
func (d *disaster) strike(t *testing.T, turn int) {
	t.Helper()
	ctx, cancel := eventstest.Patient(realMax)
	defer cancel()
	who, server := d.random.IntN(len(d.networks)), d.random.IntN(d.ensemble.Size())
	if worker, held := d.history.holder(slowLock); held && d.random.IntN(4) != 0 {
		who = worker / crewSize
	}
	d.revoke(t)
	switch network := d.networks[who]; turn % 8 {
	case 0, 4:
		d.history.note("%d is partitioned away", who)
		network.Partition()
	case 1:
		leader, err := d.ensemble.Leader(ctx)
		eventstest.Must(t, err)
		d.kill(t, leader)
	case 2:
		d.history.note("%d is not heard", who)
		network.Partition(faultnet.Up)
	case 3:
		d.history.note("%d hears nothing", who)
		network.Partition(faultnet.Down)
	case 5:
		d.kill(t, server)
	case 6:
		d.history.note("%d is cut off", who)
		network.Cut()
	case 7:
		d.kill(t, (server+1)%3, (server+2)%3)
	}
	d.wait(d.timeout/4 + time.Duration(d.random.Int64N(int64(2*d.timeout))))
	d.networks[who].Heal()
	eventstest.Must(t, d.ensemble.Wait(ctx))
	d.wait(d.timeout / 4)
}

func (d *disaster) kill(t *testing.T, servers ...int) {
	t.Helper()
	d.history.note("the servers %v are killed", servers)
	for _, i := range servers {
		eventstest.Must(t, d.ensemble.Kill(i))
	}
	d.wait(d.timeout / 4)
	for _, i := range servers {
		eventstest.Must(t, d.ensemble.Restart(i))
	}
}

// wait lets time pass while the workers check each other.
func (d *disaster) wait(long time.Duration) { <-time.After(long) }
