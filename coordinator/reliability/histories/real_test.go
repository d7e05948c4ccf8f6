package histories_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// realMax bounds every wait on real servers; nothing takes nearly as long.
const realMax = time.Minute

const (
	crewSize = 3 // workers of a coordinator
	slowLock = "/locks/slow"
)

// A history on a real ensemble, whose servers are killed, one or two at a time, and whose clients are partitioned away.
func TestRealHistories(t *testing.T) {
	const (
		tick    = 500 * time.Millisecond
		timeout = 4 * tick
	)
	operations, faults := reliability.Trials(300, 300, 12_000), reliability.Trials(4, 4, 56)
	t.Parallel()
	e := ensemble.Start(t, 3, ensemble.Tick(tick))
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	// A goroutine that was told of a loss runs in less than the least lead there is.
	crew := newCrew(timeout/25, "/locks/a", "/locks/b", "/locks/rw", "/locks/permits", "/tasks/task", "/service/leader", slowLock)
	d := &disaster{ensemble: e, history: crew.history, random: random, timeout: timeout}
	if seed%2 == 1 {
		crew.marks, d.wanted = append(crew.marks, coordinator.Revocable()), crew.paths
	}
	connecting, cancel := context.WithTimeout(t.Context(), realMax)
	defer cancel()
	for i := range 3 {
		network := faultnet.New((&net.Dialer{}).DialContext, nil)
		t.Cleanup(network.Close)
		c, err := coordinator.Connect(connecting, e.Connect(), coordinator.WithDialer(network.Dial),
			coordinator.WithSessionTimeout(timeout), coordinator.WithTickTime(tick))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Errorf("coordinator %d: Close: %v", i, err)
			}
		})
		d.networks, d.coordinators = append(d.networks, network), append(d.coordinators, c)
		// Some come and go, and some hold for so long that there is something to lose.
		for range crewSize - 1 {
			crew.hire(c, random, timeout/50, timeout).paths = crew.paths[:5]
		}
		crew.hire(c, random, 6*timeout, timeout).paths = crew.paths[5:]
	}
	var enough atomic.Bool
	finished := crew.start(t, func(int) bool { return !enough.Load() })
	for i := 0; i < faults || crew.history.size() < operations; i++ {
		d.strike(t, i)
	}
	d.asking.Wait()
	enough.Store(true)
	select {
	case <-finished:
	case <-time.After(realMax):
		t.Fatalf("seed %d: somebody waits, and everything has been mended", seed)
	}
	verdict := checkHistory(t, fmt.Sprint("seed ", seed), crew.history)
	var total tally
	ops := crew.history.operations()
	total.count(ops)
	if faults > 20 { // fewer may come when nobody has anything to lose
		total.want(t)
	}
	reliability.Report(t, reliability.RowHistories, "three real servers: %d operations under %d faults: %s; %v",
		len(ops), len(crew.history.notes), verdict, &total)
}

// disaster breaks real servers and the ways to them.
type disaster struct {
	ensemble *ensemble.Ensemble
	networks []*faultnet.Network // by coordinator
	history  *history
	random   *rand.Rand
	timeout  time.Duration

	coordinators []*coordinator.Coordinator
	wanted       []string // the paths of locks that somebody may ask for; nil if nobody does
	asking       sync.WaitGroup
}

// strike breaks something, lets a while go by, and mends it. All kinds have their turn.
func (d *disaster) strike(t *testing.T, turn int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), realMax)
	defer cancel()
	who := d.random.IntN(len(d.networks))
	if worker, held := d.history.holder(slowLock); held && d.random.IntN(4) != 0 {
		who = worker / crewSize
	}
	network := d.networks[who]
	if d.wanted != nil {
		path, asks := pickRevocable(d.random, d.wanted), d.coordinators[d.random.IntN(len(d.coordinators))]
		grace := time.Duration(d.random.Int64N(int64(d.timeout)))
		d.history.note("somebody asks for %s within %v", path, grace)
		d.asking.Go(func() { d.history.revoke(t, asks, path, grace, 4*d.timeout) })
	}
	switch turn % 8 {
	case 0, 4:
		d.history.note("%d is partitioned away", who)
		network.Partition()
	case 1:
		leader, err := d.ensemble.Leader(ctx)
		if err != nil {
			t.Fatal(err)
		}
		d.history.note("the leader, %d, is killed", leader)
		d.kill(t, leader)
	case 2:
		d.history.note("%d is not heard", who)
		network.Partition(faultnet.Up)
	case 3:
		d.history.note("%d hears nothing", who)
		network.Partition(faultnet.Down)
	case 5:
		server := d.random.IntN(d.ensemble.Size())
		d.history.note("%d is killed", server)
		d.kill(t, server)
	case 6:
		d.history.note("%d is cut off", who)
		network.Cut()
	case 7:
		server := d.random.IntN(d.ensemble.Size())
		d.history.note("all but %d are killed", server)
		d.kill(t, (server+1)%3, (server+2)%3)
	}
	d.wait(d.timeout/4 + time.Duration(d.random.Int64N(int64(2*d.timeout))))
	network.Heal()
	if err := d.ensemble.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	d.wait(d.timeout / 4)
}

// kill ends servers, which come back a moment later.
func (d *disaster) kill(t *testing.T, servers ...int) {
	t.Helper()
	for _, i := range servers {
		if err := d.ensemble.Kill(i); err != nil {
			t.Fatal(err)
		}
	}
	d.wait(d.timeout / 4)
	for _, i := range servers {
		if err := d.ensemble.Restart(i); err != nil {
			t.Fatal(err)
		}
	}
}

// wait lets time pass while the workers work, who check each other.
func (d *disaster) wait(long time.Duration) { <-time.After(long) }
