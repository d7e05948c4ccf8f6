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

// campaign makes a candidate that has its place.
func campaign(c *coordinator.Coordinator, name string) *coordinator.Acquisition {
	a := c.Election(coordtest.ElectionPath).Acquire(context.Background(), coordinator.Data([]byte(name)))
	synctest.Wait()
	return a
}

// wantCandidates checks how many candidates' nodes there are.
func wantCandidates(t *testing.T, srv *zktest.Server, want int, when string) {
	t.Helper()
	synctest.Wait()
	got := srv.Children(coordtest.ElectionPath)
	expect(t, len(got) == want, "%s there are the nodes %v, want %d", when, got, want)
}

// expect fails the test unless the condition holds.
func expect(t *testing.T, holds bool, format string, args ...any) {
	t.Helper()
	if !holds {
		t.Errorf(format, args...)
	}
}

// expectError fails the test unless err is the wanted error, or both are nil.
func expectError(t *testing.T, err, want error, what string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// called is what the callbacks of one Run were told, in order.
type called struct {
	mu   sync.Mutex
	said []string
}

func (c *called) say(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said = append(c.said, what)
}

func (c *called) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.said)
}

func (c *called) want(t *testing.T, when string, want ...string) {
	t.Helper()
	got := c.all()
	expect(t, slices.Equal(got, want), "%s the callbacks are %q, want %q", when, got, want)
}

// run has a candidate lead until its context ends, and return after finish. stopped is
// called when it leads no more.
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

// TestRunLeadsUntilItsCallbackHasReturned: then the node goes, the other callback is
// called, and Run returns what ended the term.
func TestRunLeadsUntilItsCallbackHasReturned(t *testing.T) {
	shutdown := errors.New("shutting down")
	for what, test := range map[string]struct {
		end  func(srv *zktest.Server, c, other *coordinator.Coordinator, cancel context.CancelCauseFunc)
		want error
		left int // nodes, after the end itself
	}{
		"the end of its context": {func(_ *zktest.Server, _, _ *coordinator.Coordinator, cancel context.CancelCauseFunc) {
			cancel(shutdown)
		}, shutdown, 1},
		"Close": {func(_ *zktest.Server, c, _ *coordinator.Coordinator, _ context.CancelCauseFunc) {
			go c.Close()
		}, coordinator.ErrClosed, 1},
		"revocation": {func(_ *zktest.Server, _, other *coordinator.Coordinator, _ context.CancelCauseFunc) {
			go func() { _ = other.Revoke(context.Background(), coordtest.ElectionPath, 0) }() // ends with the test, or before
		}, coordinator.ErrRevoked, 1},
		"expiry": {func(srv *zktest.Server, c, _ *coordinator.Coordinator, _ context.CancelCauseFunc) {
			_ = srv.Expire(c.SessionID())
		}, coordinator.ErrSessionExpired, 0},
	} {
		coordtest.Case(t, what, func(t *testing.T, srv *zktest.Server) {
			c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var calls called
			ended := calls.run(ctx, c.Election(coordtest.ElectionPath, coordinator.Revocable()), "ann",
				func() { time.Sleep(3 * time.Second) },
				func() {
					expect(t, len(srv.Children(coordtest.ElectionPath)) == 0, "it has stopped before the node is gone")
				}, nil)
			wantCandidates(t, srv, 1, "while it leads")
			data, _ := srv.Data(coordtest.ElectionPath + "/" + srv.Children(coordtest.ElectionPath)[0])
			expect(t, strings.HasPrefix(string(data), "ann"),
				"the leader's node has the data %q, want those of its option", data)
			calls.want(t, "while it leads", "leads")
			test.end(srv, c, other, cancel)
			time.Sleep(2 * time.Second)
			calls.want(t, "while the callback ends its work", "leads")
			wantCandidates(t, srv, test.left, "while the callback ends its work")
			expectError(t, <-ended, test.want, "Run")
			calls.want(t, "when Run has returned", "leads", "returns", "has stopped")
		})
	}
}

// TestRunReturnsFromMuteServers: after the end of its context it waits for them as long
// as Do does.
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
		expectError(t, <-ended, context.Canceled, "Run")
		expect(t, time.Since(began) <= time.Second, "Run returned after %v, want a probe interval at most", time.Since(began))
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
			expect(t, term != nil && term.Valid(),
				"the callback's context has the term %v, want one that is held", term)
		}})
		expectError(t, err, nil, "when the callback has returned")
		expectError(t, context.Cause(leading), coordinator.ErrReleased, "the end of the callback's context")
		expect(t, !term.Valid(), "when Run has returned the term is held")
		expect(t, len(srv.Children(coordtest.ElectionPath)) == 0,
			"when Run has returned there are %v", srv.Children(coordtest.ElectionPath))
		func() {
			defer func() { expect(t, recover() == "as intended", "want the panic of the callback") }()
			_ = bridge.Run(t.Context(), e, bridge.Callbacks{
				OnStartedLeading: func(context.Context) { panic("as intended") },
				OnStoppedLeading: func() { t.Error("OnStoppedLeading is called after a panic") },
			})
		}()
		wantCandidates(t, srv, 0, "after a panic")
	})
}

// TestRunThatNeverLeads returns why, and does not call OnStoppedLeading.
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
			expectError(t, err, test.want, "Run")
			calls.want(t, fmt.Sprintf("with the end %v", test.want))
		}
		unlucky := bridge.Callbacks{OnStartedLeading: func(context.Context) { t.Error("it leads") }}
		e := c.Election(coordtest.ElectionPath)
		expectError(t, bridge.Run(t.Context(), e, unlucky, coordinator.Try()), coordinator.ErrNotAcquired, "a try")
		expectError(t, bridge.Run(t.Context(), e, bridge.Callbacks{}), coordinator.ErrInvalid, "without OnStartedLeading")
	})
}

// TestRunReportsEachLeader, one after the other, and the last one before it returns.
func TestRunReportsEachLeader(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		ann := campaign(other, "ann")
		ctx, cancel := context.WithCancel(t.Context())
		var calls called
		finish, hears := func() { time.Sleep(time.Second) }, func(l coordinator.Leader) {
			time.Sleep(time.Minute)
			if l.Node != "" { // that there is no leader comes together with the end of Run, and is heard or not
				calls.say("hears " + string(l.Data))
			}
		}
		ended := calls.run(ctx, c.Election(coordtest.ElectionPath), "bob", finish, func() {}, hears)
		time.Sleep(2 * time.Minute)
		calls.want(t, "while another one leads", "hears ann")
		ann.Release()
		time.Sleep(time.Second)
		cancel()
		expectError(t, <-ended, context.Canceled, "Run")
		calls.want(t, "when Run has returned", "hears ann", "leads", "returns", "has stopped", "hears bob")
	})
}
