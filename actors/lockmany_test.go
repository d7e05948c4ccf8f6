package actors_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/actors/internal/actorstest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
)

func TestAHundredWithdrawals(t *testing.T) {
	for n := range 200 {
		r := actorstest.NewRig(t)
		readily(r.Port, false)
		var told atomic.Int32
		r.OnEnd(func(error) { told.Add(1) })
		r.Start(t.Context(), 0, recipes.Started{})
		if n%2 == 0 {
			eventstest.Receive(t, r.Granted(), "Grant")
		}
		var leaving sync.WaitGroup
		for range 100 {
			leaving.Go(func() {
				r.Withdraw(recipes.WhyReleased)
				if _, ok := actorstest.Take(r.Granted()); ok || r.Holding() || r.Valid() {
					t.Error("it is held after Withdraw, or a Grant can be read")
				}
			})
		}
		leaving.Wait()
		eventstest.Receive(t, r.Done(), "end")
		r.Shut()
		deletes := 0
		for _, e := range r.Port.Sent() {
			if _, ok := e.(recipes.Delete); ok {
				deletes++
			}
		}
		if told.Load() != 1 || r.Gone.Load() != 1 || deletes > 1 {
			t.Fatalf("the end was told %d times, Gone %d times, and there were %d deletes; want once each", told.Load(), r.Gone.Load(), deletes)
		}
	}
}

// TestManyLocksAtOnce has many acquisitions share a group and a stream, each
// taken, released, lost or given up, and checks the stream as a whole.
func TestManyLocksAtOnce(t *testing.T) {
	const locks = 500
	var group actors.Group
	stream := actors.NewStream(&group)
	var gone atomic.Int32
	var reading, going sync.WaitGroup
	for range 3 {
		c := stream.Subscribe(t.Context())
		reading.Go(func() {
			said := map[uint64][]string{}
			for ev := range c {
				switch ev := ev.(type) {
				case events.Grant:
					said[ev.ID] = append(said[ev.ID], "grant")
				case events.Lost:
					said[ev.ID] = append(said[ev.ID], "lost")
				case events.Ended:
					said[ev.ID] = append(said[ev.ID], "ended")
				}
			}
			for id := range uint64(locks) {
				switch got := said[id]; {
				case slices.Equal(got, []string{"grant", "lost"}), slices.Equal(got, []string{"grant", "ended"}), slices.Equal(got, []string{"ended"}):
				default:
					t.Errorf("the stream has %v of lock %d, want a grant and its end, or an end", got, id)
				}
			}
		})
	}
	for id := range locks {
		going.Go(func() {
			port := &actorstest.FakePort{}
			readily(port, id%2 == 0)
			l := actors.NewLock(actors.Config{
				ID: uint64(id), Path: "/locks/a", Rule: recipes.Mutex{}, Port: port,
				Owner: actorstest.NewOwner(&gone), House: &actors.House{Group: &group, Stream: stream, Logger: zap.NewNop()},
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			l.Start(ctx, 0, recipes.Started{})
			spin(id)
			switch id % 4 {
			case 0:
				l.Withdraw(recipes.WhyReleased)
			case 1:
				<-l.Granted()
				port.Say(recipes.Expired{})
			case 2:
				cancel()
				select {
				case <-l.Granted():
					l.Withdraw(recipes.WhyClosed)
				case <-l.Done():
				}
			case 3:
				soon(t, "granted", l.Holding)
				port.Say(recipes.LeaseRanOut{})
			}
			eventstest.Receive(t, l.Done(), "end")
		})
	}
	going.Wait()
	soon(t, "nothing left", func() bool { return gone.Load() == locks })
	if n := stream.Remembered(); n != 0 {
		t.Errorf("the stream remembers %d acquisitions that are over, want none", n)
	}
	stream.Close(10 * time.Second)
	reading.Wait()
	group.Close()
}
