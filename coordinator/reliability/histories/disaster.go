package histories

import (
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// realMax ends what hangs on real servers. Nothing takes nearly as long on an idle machine. On a busy one the limit is
// longer.
const realMax = 2 * time.Minute

const (
	crewSize     = 3 // workers of a coordinator
	timeoutTicks = 4 // a session timeout, in ticks of the servers
	slowLock     = "/locks/slow"
)

// disaster breaks real servers and the ways to them.
type disaster struct {
	ensemble *ensemble.Ensemble
	networks [3][]*faultnet.Network // the networks that break together: one of each crew
	history  *history               // of the locks that may be asked for
	told     *history               // of the locks that report crashes
	random   *rand.Rand
	timeout  time.Duration

	coordinators []*coordinator.Coordinator
	wanted       []string // the paths of locks that Revoke may ask for; nil: none
	asking       sync.WaitGroup
}

// dial returns an option to dial through the network that breaks with the others of that number.
func (d *disaster) dial(t *testing.T, number int) coordinator.Option {
	t.Helper()
	network := faultnet.New((&net.Dialer{}).DialContext, nil)
	t.Cleanup(network.Close)
	d.networks[number] = append(d.networks[number], network)
	return coordinator.WithDialer(network.Dial)
}

// connect makes a coordinator.
func (d *disaster) connect(dial coordinator.Option) (*coordinator.Coordinator, error) {
	ctx, cancel := eventstest.Patient(realMax)
	defer cancel()
	return coordinator.Connect(ctx, d.ensemble.Connect(), dial,
		coordinator.WithSessionTimeout(d.timeout), coordinator.WithTickTime(d.timeout/timeoutTicks))
}

// note adds a note to both histories.
func (d *disaster) note(format string, args ...any) {
	d.history.note(format, args...)
	d.told.note(format, args...)
}

// strike breaks something, lets a while go by, and mends it. All kinds take turns.
func (d *disaster) strike(t *testing.T, turn int) {
	t.Helper()
	ctx, cancel := eventstest.Patient(realMax)
	defer cancel()
	who := d.random.IntN(len(d.networks))
	if worker, held := d.history.holder(slowLock); held && d.random.IntN(4) != 0 {
		who = worker / crewSize
	}
	each := func(do func(*faultnet.Network)) {
		for _, network := range d.networks[who] {
			do(network)
		}
	}
	if d.wanted != nil {
		path, asks := pickRevocable(d.random, d.wanted), d.coordinators[d.random.IntN(len(d.coordinators))]
		grace := time.Duration(d.random.Int64N(int64(d.timeout)))
		d.history.note("Revoke asks for %s within %v", path, grace)
		d.asking.Go(func() { d.history.revoke(t, asks, path, grace, 4*d.timeout) })
	}
	switch turn % 8 {
	case 0, 4:
		d.note("%d is partitioned away", who)
		each(func(n *faultnet.Network) { n.Partition() })
	case 1:
		leader, err := d.ensemble.Leader(ctx)
		if err != nil {
			t.Fatal(err)
		}
		d.note("the leader, %d, is killed", leader)
		d.kill(t, leader)
	case 2:
		d.note("%d is not heard", who)
		each(func(n *faultnet.Network) { n.Partition(faultnet.Up) })
	case 3:
		d.note("%d hears nothing", who)
		each(func(n *faultnet.Network) { n.Partition(faultnet.Down) })
	case 5:
		server := d.random.IntN(d.ensemble.Size())
		d.note("%d is killed", server)
		d.kill(t, server)
	case 6:
		d.note("%d is cut off", who)
		each((*faultnet.Network).Cut)
	case 7:
		server := d.random.IntN(d.ensemble.Size())
		d.note("all but %d are killed", server)
		d.kill(t, (server+1)%3, (server+2)%3)
	}
	d.wait(d.timeout/4 + time.Duration(d.random.Int64N(int64(2*d.timeout))))
	each((*faultnet.Network).Heal)
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

// wait lets time pass while the workers check each other.
func (d *disaster) wait(long time.Duration) { <-time.After(long) }
