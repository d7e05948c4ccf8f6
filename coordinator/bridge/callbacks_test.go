package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/bridge"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// campaign returns a candidate that has joined the queue.
func campaign(c *coordinator.Coordinator, name string) *coordinator.Acquisition {
	a := c.Election(coordtest.ElectionPath).Acquire(context.Background(), coordinator.Data([]byte(name)))
	synctest.Wait()
	return a
}

func wantCandidates(t *testing.T, srv *zktest.Server, want int, when string) {
	t.Helper()
	synctest.Wait()
	eventstest.Equal(t, len(srv.Children(coordtest.ElectionPath)), want, "the nodes %s", when)
}

type called struct {
	mu   sync.Mutex
	said []string
}

func (c *called) say(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said = append(c.said, what)
}

func (c *called) want(t *testing.T, when string, want ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	eventstest.Expect(t, slices.Equal(c.said, want), "%s the callbacks are %q, want %q", when, c.said, want)
}

// run calls Run in a goroutine, with a candidate that leads until its context ends and
// returns after finish. stopped is called when it leads no more.
func (c *called) run(
	ctx context.Context, e *coordinator.Election, name string, finish, stopped func(), hears func(coordinator.Leader),
) <-chan error {
	ended := make(chan error, 1)
	go func() {
		ended <- bridge.Run(ctx, e, bridge.Callbacks{
			OnStartedLeading: func(ctx context.Context) {
				c.say("leads")
				<-ctx.Done()
				finish()
				c.say("returns")
			},
			OnStoppedLeading: func() { stopped(); c.say("has stopped") },
			OnNewLeader:      hears,
		}, coordinator.Data([]byte(name)))
	}()
	return ended
}

// TestRunLeadsUntilItsCallbackHasReturned: then the node is deleted, the other callback
// is called, and Run returns the error that ended the term.
func TestRunLeadsUntilItsCallbackHasReturned(t *testing.T) {
	shutdown := errors.New("shutting down")
	type stage struct {
		srv      *zktest.Server
		c, other *coordinator.Coordinator
		cancel   context.CancelCauseFunc
	}
	for what, test := range map[string]struct {
		end  func(stage)
		want error
		left int // nodes left right after the end
	}{
		"the end of its context": {func(s stage) { s.cancel(shutdown) }, shutdown, 1},
		"Close":                  {func(s stage) { go s.c.Close() }, coordinator.ErrClosed, 1},
		"revocation": {func(s stage) {
			// It ends with the test or earlier.
			go func() { _ = s.other.Revoke(context.Background(), coordtest.ElectionPath, 0) }()
		}, coordinator.ErrRevoked, 1},
		"expiry": {func(s stage) { _ = s.srv.Expire(s.c.SessionID()) }, coordinator.ErrSessionExpired, 0},
	} {
		coordtest.Case(t, what, func(t *testing.T, srv *zktest.Server) {
			c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var calls called
			finish, stopped := func() { time.Sleep(3 * time.Second) }, func() {
				eventstest.Equal(t, len(srv.Children(coordtest.ElectionPath)), 0, "the nodes when it has stopped")
			}
			e := c.Election(coordtest.ElectionPath, coordinator.Revocable())
			ended := calls.run(ctx, e, "ann", finish, stopped, nil)
			wantCandidates(t, srv, 1, "while it leads")
			data, _ := srv.Data(coordtest.ElectionPath + "/" + srv.Children(coordtest.ElectionPath)[0])
			eventstest.Expect(t, strings.HasPrefix(string(data), "ann"), "the leader's node has the data %q", data)
			calls.want(t, "while it leads", "leads")
			test.end(stage{srv, c, other, cancel})
			time.Sleep(2 * time.Second)
			calls.want(t, "while the callback ends its work", "leads")
			wantCandidates(t, srv, test.left, "while the callback ends its work")
			eventstest.ErrorIs(t, <-ended, test.want, "Run")
			calls.want(t, "when Run has returned", "leads", "returns", "has stopped")
		})
	}
}

// TestRunReturnsFromMuteServers: after its context has ended, Run waits for the servers
// as long as Do does.
func TestRunReturnsFromMuteServers(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var calls called
		ended := calls.run(ctx, c.Election(coordtest.ElectionPath), "ann", func() {}, func() {}, nil)
		wantCandidates(t, srv, 1, "while it leads")
		srv.MuteAll(true)
		began := time.Now()
		cancel()
		eventstest.ErrorIs(t, <-ended, context.Canceled, "Run")
		eventstest.Expect(t, time.Since(began) <= time.Second, "Run returned after %v", time.Since(began))
		calls.want(t, "when Run has returned", "leads", "returns", "has stopped")
		srv.MuteAll(false)
		wantCandidates(t, srv, 0, "when the servers are heard again")
	})
}

// TestRunResigns when its callback returns or panics.
func TestRunResigns(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		e := coordtest.Connect(t, srv).Election(coordtest.ElectionPath)
		var leading context.Context
		var term *coordinator.Acquisition
		err := bridge.Run(t.Context(), e, bridge.Callbacks{OnStartedLeading: func(ctx context.Context) {
			leading = ctx //nolint:fatcontext // looked at when it has ended
			term, _ = coordinator.FromContext(ctx)
			eventstest.Expect(t, term != nil && term.Valid(), "the callback's context has the term %v", term)
		}})
		eventstest.ErrorIs(t, err, nil, "when the callback has returned")
		eventstest.ErrorIs(t, context.Cause(leading), coordinator.ErrReleased, "the end of the callback's context")
		eventstest.Expect(t, !term.Valid(), "when Run has returned the term is held")
		eventstest.Equal(t, len(srv.Children(coordtest.ElectionPath)), 0, "the nodes when Run has returned")
		func() {
			defer func() { eventstest.Expect(t, recover() == "as intended", "want the panic of the callback") }()
			_ = bridge.Run(t.Context(), e, bridge.Callbacks{
				OnStartedLeading: func(context.Context) { panic("as intended") },
				OnStoppedLeading: func() { t.Error("OnStoppedLeading is called after a panic") },
			})
		}()
		wantCandidates(t, srv, 0, "after a panic")
	})
}

// TestRunThatNeverLeads returns the error, and does not call OnStoppedLeading.
func TestRunThatNeverLeads(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, closed, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		eventstest.Must(t, closed.Close())
		campaign(other, "leader")
		gone := errors.New("no more")
		soon, stop := context.WithTimeoutCause(t.Context(), time.Minute, gone)
		defer stop()
		for _, test := range []struct {
			c    *coordinator.Coordinator
			path string
			want error
		}{
			{closed, coordtest.ElectionPath, coordinator.ErrClosed}, {c, "leader", coordinator.ErrPath}, {c, coordtest.ElectionPath, gone},
		} {
			var calls called
			nothing := func() {}
			err := <-calls.run(soon, test.c.Election(test.path), "bob", nothing, nothing, func(coordinator.Leader) {})
			eventstest.ErrorIs(t, err, test.want, "Run")
			calls.want(t, fmt.Sprintf("with the end %v", test.want))
		}
		unlucky := bridge.Callbacks{OnStartedLeading: func(context.Context) { t.Error("it leads") }}
		e := c.Election(coordtest.ElectionPath)
		eventstest.ErrorIs(t, bridge.Run(t.Context(), e, unlucky, coordinator.Try()), coordinator.ErrNotAcquired,
			"Try")
		eventstest.ErrorIs(t, bridge.Run(t.Context(), e, bridge.Callbacks{}), coordinator.ErrInvalid,
			"without OnStartedLeading")
	})
}

// TestRunReportsEachLeader, one after the other, the last one before it returns.
func TestRunReportsEachLeader(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		ann := campaign(other, "ann")
		ctx, cancel := context.WithCancel(t.Context())
		var calls called
		finish, hears := func() { time.Sleep(time.Second) }, func(l coordinator.Leader) {
			time.Sleep(time.Minute)
			if l.Node != "" { // the last report, no leader, races with the end of Run
				calls.say("hears " + string(l.Data))
			}
		}
		ended := calls.run(ctx, c.Election(coordtest.ElectionPath), "bob", finish, func() {}, hears)
		time.Sleep(2 * time.Minute)
		calls.want(t, "while another one leads", "hears ann")
		ann.Release()
		time.Sleep(time.Second)
		cancel()
		eventstest.ErrorIs(t, <-ended, context.Canceled, "Run")
		calls.want(t, "when Run has returned", "hears ann", "leads", "returns", "has stopped", "hears bob")
	})
}
