package bridge_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/bridge"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestElectorFollowsTheTerms: IsLeader is nil during a term and at no other time, a loss is told, and Run leads again.
func TestElectorFollowsTheTerms(t *testing.T) {
	t.Parallel()
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, lost := coordtest.Connect(t, srv), make(chan error, 1)
		candidate := coordtest.Connect(t, srv).Mutex("/leader")
		other, _ := coordtest.Hold(t, candidate)
		e := bridge.NewElector(c.Election("/leader"), bridge.OnLost(func(err error) { lost <- err }))
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

func isLoss(err error) bool { return errors.As(err, new(*coordinator.LostError)) }

// TestElectorSaysWhyItEnded: Run returns what ended the campaign, and IsLeader repeats it.
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

// TestServiceReturnsWhatHappened: the error of the work, the loss, or why there was no term; and the next candidate leads.
func TestServiceReturnsWhatHappened(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	untilTold := func(ctx context.Context, _ events.Grant) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for name, test := range map[string]struct {
		work   func(context.Context, events.Grant) error
		expire bool
		cancel bool
		want   error
		not    error
		hears  error // OnLost
	}{
		"done":    {work: func(context.Context, events.Grant) error { return nil }},
		"failed":  {work: func(context.Context, events.Grant) error { return failed }, want: failed},
		"lost":    {work: untilTold, expire: true, want: coordinator.ErrSessionExpired, not: context.Canceled, hears: coordinator.ErrSessionExpired},
		"stopped": {work: untilTold, cancel: true, want: context.Canceled},
		"no work": {want: coordinator.ErrInvalid},
		"lost, told once": {
			work: func(ctx context.Context, _ events.Grant) error {
				<-ctx.Done()
				return context.Cause(ctx)
			},
			expire: true, want: coordinator.ErrSessionExpired, hears: coordinator.ErrSessionExpired,
		},
		"lost and an error": {
			work: func(ctx context.Context, _ events.Grant) error {
				<-ctx.Done()
				return failed
			},
			expire: true, want: failed, hears: coordinator.ErrSessionExpired,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c, lost := coordtest.Connect(t, srv), make(chan error, 1)
				var work func(context.Context, events.Grant) error
				if test.work != nil {
					work = func(ctx context.Context, g events.Grant) error {
						if g.Token == 0 || g.Path != "/leader" {
							t.Errorf("the work gets %+v, want the grant", g)
						}
						return test.work(ctx, g)
					}
				}
				s := bridge.NewService(c.Election("/leader"), work, bridge.OnLost(func(err error) { lost <- err }))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				served := make(chan error, 1)
				go func() { served <- s.Serve(ctx) }()
				synctest.Wait()
				if test.expire {
					eventstest.Must(t, srv.Expire(c.SessionID()))
				}
				if test.cancel {
					cancel()
				}
				if err := <-served; !errors.Is(err, test.want) || test.not != nil && errors.Is(err, test.not) || test.expire && !isLoss(err) {
					t.Errorf("Serve returns %v, want %v and not %v", err, test.want, test.not)
				} else if err != nil && strings.Count(err.Error(), " lost:") > 1 {
					t.Errorf("Serve returns %q, want one LostError", err)
				}
				next, _ := coordtest.Hold(t, c.Mutex("/leader"))
				coordtest.End(next)
				synctest.Wait()
				var heard error
				if len(lost) > 0 {
					heard = <-lost
				}
				if !errors.Is(heard, test.hears) {
					t.Errorf("OnLost says %v, want %v", heard, test.hears)
				}
			})
		})
	}
	if s := bridge.NewService(new(coordinator.Coordinator).Election("/leader"), nil); s.String() != "leader of /leader" {
		t.Errorf("a supervisor calls it %q", s)
	}
}
