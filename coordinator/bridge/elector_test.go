package bridge_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/bridge"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestElectorFollowsTheTerms: IsLeader returns nil only during a term, a loss is
// reported, and Run leads again.
func TestElectorFollowsTheTerms(t *testing.T) {
	t.Parallel()
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, lost := coordtest.Connect(t, srv), make(chan error, 1)
		candidate := coordtest.Connect(t, srv).Mutex("/leader")
		other, _ := coordtest.Hold(t, candidate)
		e := bridge.NewElector(c.Election("/leader"), bridge.OnLost(func(err error) { lost <- err }),
			bridge.WithAcquire(coordinator.Data([]byte("ann"))), nil)
		leads := func(want bool, when string) {
			t.Helper()
			synctest.Wait()
			err := e.IsLeader(t.Context())
			term, ok := e.Term()
			if got := err == nil; got != want || ok != want || !got && !errors.Is(err, bridge.ErrNotLeader) || ok && term.Grant().Token == 0 {
				t.Errorf("%s: IsLeader returns %v, and Term %v, want to lead: %v", when, err, ok, want)
			}
		}
		leads(false, "before Run")
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- e.Run(ctx) }()
		leads(false, "behind the leader")
		coordtest.End(other)
		leads(true, "as the leader")
		queue, err := candidate.Queue(t.Context())
		eventstest.Expect(t, err == nil && len(queue) == 1 && string(queue[0].Data) == "ann",
			"the queue is %v, %v; want the leader with the data ann", queue, err)
		eventstest.ErrorIs(t, e.Run(ctx), coordinator.ErrInvalid, "Run while it runs")

		term, _ := e.Term()
		job := term.Context(t.Context())
		gate := make(chan struct{})
		srv.Intercept(func(r zktest.Request) zktest.Action { // keep it from getting a new session for now
			if r.Op == zktest.OpConnect {
				<-gate
			}
			return zktest.Pass()
		})
		eventstest.Must(t, srv.Expire(c.SessionID()))
		wantLoss(t, <-lost, "OnLost")
		wantLoss(t, context.Cause(job), "the end of the context of a job")
		leads(false, "after the loss")
		close(gate)
		time.Sleep(time.Minute)
		leads(true, "in the next term")

		again := coordtest.Queue(candidate)
		cancel()
		eventstest.ErrorIs(t, <-ran, context.Canceled, "Run")
		leads(false, "after Run")
		coordtest.Soon(t, again)
		eventstest.ErrorIs(t, e.IsLeader(t.Context()), context.Canceled, "after Run IsLeader")
		bad := bridge.NewElector(c.Election("leader"))
		eventstest.ErrorIs(t, bad.Run(t.Context()), coordinator.ErrPath, "Run with a bad path")
		eventstest.ErrorIs(t, bad.IsLeader(t.Context()), bridge.ErrNotLeader, "IsLeader with a bad path")
		eventstest.ErrorIs(t, bad.IsLeader(t.Context()), coordinator.ErrPath, "IsLeader with a bad path")
	})
}
