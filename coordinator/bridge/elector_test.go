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

// TestElectorFollowsTheTerms: IsLeader is nil during a term and at no other time, a loss
// is reported, and Run leads again.
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
		if queue, err := candidate.Queue(t.Context()); err != nil || len(queue) != 1 || string(queue[0].Data) != "ann" {
			t.Errorf("the queue is %v, %v; want the leader with the data ann", queue, err)
		}
		if err := e.Run(ctx); !errors.Is(err, coordinator.ErrInvalid) {
			t.Errorf("Run while it runs: %v, want ErrInvalid", err)
		}

		term, _ := e.Term()
		job := term.Context(t.Context())
		gate := make(chan struct{})
		srv.Intercept(func(r zktest.Request) zktest.Action { // no new session for now
			if r.Op == zktest.OpConnect {
				<-gate
			}
			return zktest.Pass()
		})
		eventstest.Must(t, srv.Expire(c.SessionID()))
		if err := <-lost; !isLoss(err) {
			t.Errorf("OnLost says %v, want a loss", err)
		}
		if err := context.Cause(job); !isLoss(err) {
			t.Errorf("the context of a job ends with %v, want a loss", err)
		}
		leads(false, "after the loss")
		close(gate)
		time.Sleep(time.Minute)
		leads(true, "in the next term")

		again := coordtest.Queue(candidate)
		cancel()
		if err := <-ran; !errors.Is(err, context.Canceled) {
			t.Errorf("Run returns %v, want the cause of its context", err)
		}
		leads(false, "after Run")
		coordtest.Soon(t, again)
		if err := e.IsLeader(t.Context()); !errors.Is(err, context.Canceled) {
			t.Errorf("after Run IsLeader returns %v, want why it has ended", err)
		}
	})
}

// TestElectorSaysWhyItEnded: Run returns what ended the campaign, and IsLeader repeats
// it.
func TestElectorSaysWhyItEnded(t *testing.T) {
	t.Parallel()
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		e := bridge.NewElector(coordtest.Connect(t, srv).Election("leader"))
		if err := e.Run(t.Context()); !errors.Is(err, coordinator.ErrPath) {
			t.Errorf("Run: %v, want ErrPath", err)
		}
		if err := e.IsLeader(t.Context()); !errors.Is(err, bridge.ErrNotLeader) || !errors.Is(err, coordinator.ErrPath) {
			t.Errorf("IsLeader: %v, want ErrNotLeader and ErrPath", err)
		}
	})
}
