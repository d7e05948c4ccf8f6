package histories_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// A history of locks that tell of crashes on a real ensemble, under the disasters of the others; between two of them
// a coordinator is closed.
func TestRealHistoriesOfCrashes(t *testing.T) {
	const (
		tick    = 500 * time.Millisecond
		timeout = 4 * tick
	)
	grants, faults := reliability.Trials(100, 100, 1_000), reliability.Trials(4, 4, 24)
	t.Parallel()
	e := ensemble.Start(t, 3, ensemble.Tick(tick))
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	c := &chronicle{history: newHistory(0)}
	crew := &witnesses{chronicle: c}
	d := &disaster{ensemble: e, history: c.history, random: random, timeout: timeout}
	for range 3 {
		network := faultnet.New((&net.Dialer{}).DialContext, nil)
		t.Cleanup(network.Close)
		d.networks = append(d.networks, network)
		crew.open(t, func() (*coordinator.Coordinator, error) {
			ctx, cancel := context.WithTimeout(context.Background(), realMax)
			defer cancel()
			return coordinator.Connect(ctx, e.Connect(), coordinator.WithDialer(network.Dial),
				coordinator.WithSessionTimeout(timeout), coordinator.WithTickTime(tick))
		})
		for range crewSize {
			crew.hire(random, timeout/40, timeout)
		}
	}
	var enough atomic.Bool
	finished := crew.start(func(int) bool { return !enough.Load() })
	for i := 0; i < faults || c.grants.Load() < int64(grants); i++ {
		crew.renew(t, crew.desks[random.IntN(len(crew.desks))])
		d.strike(t, i)
	}
	enough.Store(true)
	select {
	case <-finished:
	case <-time.After(realMax):
		t.Fatalf("seed %d: somebody waits, and everything has been mended", seed)
	}
	crew.finish(t)
	ops := c.operations()
	verdict := checkCrashes(t, fmt.Sprint("seed ", seed), ops, c.notes)
	var total crashTally
	total.count(ops)
	if missing := total.missing(); faults > 20 && len(missing) > 0 {
		t.Errorf("no %v in the whole history", missing)
	}
	reliability.Report(t, reliability.RowHistories, "locks that tell of crashes, three real servers: %d operations under %d faults: %s; %v",
		len(ops), len(c.notes), verdict, &total)
}
