package coordinator_test

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
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

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

// callbacks notes the calls. The leader works until its context ends, and returns after finish.
func (c *called) callbacks(finish func()) coordinator.Callbacks {
	return coordinator.Callbacks{
		OnStartedLeading: func(ctx context.Context) {
			c.say("leads")
			<-ctx.Done()
			finish()
			c.say("returns")
		},
		OnStoppedLeading: func() { c.say("has stopped") },
	}
}

func (c *called) want(t *testing.T, when string, want ...string) {
	t.Helper()
	if got := c.all(); !slices.Equal(got, want) {
		t.Errorf("%s the callbacks are %q, want %q", when, got, want)
	}
}

// TestRunLeadsUntilItsCallbackHasReturned: whatever ends a term ends the callback's context at once. The node stays until the
// callback has returned. Then the node goes, then the other callback is called, and Run returns what ended the term.
func TestRunLeadsUntilItsCallbackHasReturned(t *testing.T) {
	shutdown := errors.New("shutting down")
	for what, test := range map[string]struct {
		end  func(t *testing.T, srv *zktest.Server, c, other *coordinator.Coordinator, cancel context.CancelCauseFunc)
		want error
		gone bool // the node, by the end itself
	}{
		"the end of its context": {want: shutdown, end: func(_ *testing.T, _ *zktest.Server, _, _ *coordinator.Coordinator, cancel context.CancelCauseFunc) {
			cancel(shutdown)
		}},
		"Close": {want: coordinator.ErrClosed, end: func(_ *testing.T, _ *zktest.Server, c, _ *coordinator.Coordinator, _ context.CancelCauseFunc) {
			go c.Close()
		}},
		"revocation": {want: coordinator.ErrRevoked, end: func(t *testing.T, _ *zktest.Server, _, other *coordinator.Coordinator, _ context.CancelCauseFunc) {
			go func() { _ = other.Revoke(t.Context(), electionPath, 0) }() // ends with the test, or before
		}},
		"expiry": {want: coordinator.ErrSessionExpired, gone: true, end: func(t *testing.T, srv *zktest.Server, c, _ *coordinator.Coordinator, _ context.CancelCauseFunc) {
			eventstest.Must(t, srv.Expire(c.SessionID()))
		}},
	} {
		t.Run(what, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				var calls called
				callbacks := calls.callbacks(func() { time.Sleep(3 * time.Second) })
				var left []string
				stopped := callbacks.OnStoppedLeading
				callbacks.OnStoppedLeading = func() {
					left = srv.Children(electionPath)
					stopped()
				}
				ended := make(chan error, 1)
				go func() {
					ended <- c.Election(electionPath, coordinator.Revocable()).Run(ctx, callbacks, coordinator.WithData([]byte("ann")))
				}()
				synctest.Wait()
				nodes := srv.Children(electionPath)
				if len(nodes) != 1 {
					t.Fatalf("while it leads there are the nodes %q, want one", nodes)
				}
				if data, _ := srv.Data(electionPath + "/" + nodes[0]); !strings.HasPrefix(string(data), "ann") {
					t.Errorf("the leader's node has the data %q, want those of its option", data)
				}
				calls.want(t, "while it leads", "leads")
				test.end(t, srv, c, other, cancel)
				time.Sleep(2 * time.Second)
				calls.want(t, "while the callback ends its work", "leads")
				if got := srv.Children(electionPath); len(got) == 0 != test.gone {
					t.Errorf("while the callback ends its work there are the nodes %q; want none: %v", got, test.gone)
				}
				if err := <-ended; !errors.Is(err, test.want) {
					t.Errorf("Run returns %v, want %v", err, test.want)
				}
				calls.want(t, "when Run has returned", "leads", "returns", "has stopped")
				if len(left) > 0 {
					t.Errorf("when OnStoppedLeading was called the nodes %q were there, want none", left)
				}
			})
		})
	}
}

// TestRunResigns: a callback that returns by itself has resigned, and that is no error. A callback that panics has given leadership
// back, too.
func TestRunResigns(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		e := c.Election(electionPath)
		var leading, behind context.Context
		err := e.Run(t.Context(), coordinator.Callbacks{OnStartedLeading: func(ctx context.Context) {
			leading = ctx //nolint:fatcontext // looked at when it has ended
			behind = context.WithoutCancel(ctx)
			if a, ok := coordinator.FromContext(ctx); !ok || !a.Valid() {
				t.Errorf("the callback's context has the term: %v; it should, and that should be held", ok)
			}
		}})
		if err != nil || !errors.Is(context.Cause(leading), coordinator.ErrReleased) {
			t.Errorf("when the callback has returned: Run returns %v, and its context has ended with %v; want nil and ErrReleased",
				err, context.Cause(leading))
		}
		if a, _ := coordinator.FromContext(behind); a.Valid() || len(srv.Children(electionPath)) > 0 {
			t.Errorf("when Run has returned the term is held: %v; there are %q, want nothing", a.Valid(), srv.Children(electionPath))
		}
		func() {
			defer func() {
				if r := recover(); r != "as intended" {
					t.Errorf("recovered %v, want the panic of the callback", r)
				}
			}()
			_ = e.Run(t.Context(), coordinator.Callbacks{
				OnStartedLeading: func(context.Context) { panic("as intended") },
				OnStoppedLeading: func() { t.Error("OnStoppedLeading is called after a panic") },
			})
		}()
		synctest.Wait()
		if left := srv.Children(electionPath); len(left) > 0 {
			t.Errorf("after a panic there are the nodes %q, want none", left)
		}
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
		for what, test := range map[string]struct {
			ctx     context.Context
			c       *coordinator.Coordinator
			path    string
			options []coordinator.AcquireOption
			want    error
		}{
			"the end of its context": {soon, c, electionPath, nil, gone},
			"a closed coordinator":   {t.Context(), closed, electionPath, nil, coordinator.ErrClosed},
			"a path that is none":    {t.Context(), c, "leader", nil, coordinator.ErrPath},
			"an option":              {t.Context(), c, electionPath, []coordinator.AcquireOption{coordinator.Try()}, coordinator.ErrNotAcquired},
		} {
			var calls called
			callbacks := calls.callbacks(func() {})
			callbacks.OnNewLeader = func(events.Leader) {}
			if err := test.c.Election(test.path).Run(test.ctx, callbacks, test.options...); !errors.Is(err, test.want) {
				t.Errorf("%s: Run returns %v, want %v", what, err, test.want)
			}
			calls.want(t, what+":")
		}
		if err := c.Election(electionPath).Run(t.Context(), coordinator.Callbacks{}); !errors.Is(err, coordinator.ErrInvalid) {
			t.Errorf("without OnStartedLeading Run returns %v, want ErrInvalid", err)
		}
	})
}

// TestRunReportsEachLeader: OnNewLeader hears of each leader, one after the other, and of the last one before Run returns.
func TestRunReportsEachLeader(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		ann := campaign(other, "ann")
		ctx, cancel := context.WithCancel(t.Context())
		var calls called
		callbacks := calls.callbacks(func() { time.Sleep(time.Second) })
		callbacks.OnNewLeader = func(l events.Leader) {
			time.Sleep(time.Minute)
			if l.Node != "" { // that there is no leader comes together with the end of Run, and is heard or not
				calls.say("hears " + string(l.Data))
			}
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Election(electionPath).Run(ctx, callbacks, coordinator.WithData([]byte("bob"))) }()
		time.Sleep(2 * time.Minute)
		calls.want(t, "while another one leads", "hears ann")
		ann.Release()
		time.Sleep(time.Second)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run returns %v, want the cause of its context", err)
		}
		calls.want(t, "when Run has returned", "hears ann", "leads", "returns", "has stopped", "hears bob")
	})
}

func TestRealRun(t *testing.T) {
	eventstest.NeedsServers(t)
	e := ensemble.Start(t, 1)
	raw := coordtest.RawClient(t, e.Addr(0))
	run := func(name string) (calls *called, finish chan struct{}, cancel context.CancelFunc, ended chan error) {
		c := coordtest.ConnectReal(t, e.Connect())
		calls, finish, ended = &called{}, make(chan struct{}), make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		callbacks := calls.callbacks(func() { <-finish })
		callbacks.OnStoppedLeading = func() {
			calls.say("has stopped")
			if left := coordtest.QueueOf(t, raw, electionPath); name == "bob" && len(left) > 0 {
				t.Errorf("when the last OnStoppedLeading was called there were the nodes %q, want none", left)
			}
		}
		callbacks.OnNewLeader = func(l events.Leader) { calls.say("hears " + string(l.Data)) }
		go func() { ended <- c.Election(electionPath).Run(ctx, callbacks, coordinator.WithData([]byte(name))) }()
		return calls, finish, cancel, ended
	}
	says := func(c *called, what string) {
		t.Helper()
		eventstest.Eventually(t, "a callback says "+what, func() bool { return slices.Contains(c.all(), what) },
			func() string { return fmt.Sprintf("it says %q", c.all()) })
	}
	ann, annFinishes, stopAnn, annEnded := run("ann")
	defer stopAnn()
	says(ann, "leads")
	bob, bobFinishes, stopBob, bobEnded := run("bob")
	defer stopBob()
	coordtest.Queued(t, raw, electionPath, 2)
	stopAnn()
	says(bob, "hears ann")
	if got := bob.all(); slices.Contains(got, "leads") {
		t.Errorf("while ann's callback has not returned bob is told %q, want that ann leads", got)
	}
	close(annFinishes)
	if err := eventstest.Receive(t, annEnded, "the end of ann's Run"); !errors.Is(err, context.Canceled) {
		t.Errorf("ann's Run returns %v, want the cause of its context", err)
	}
	says(bob, "leads")
	says(bob, "hears bob")
	names := coordtest.Queued(t, raw, electionPath, 1)
	eventstest.Must(t, raw.Delete(electionPath+"/"+names[0], -1))
	close(bobFinishes) // its context has to end before it returns
	if err := eventstest.Receive(t, bobEnded, "the end of bob's Run"); !errors.Is(err, coordinator.ErrNodeRemoved) {
		t.Errorf("bob's Run returns %v, want ErrNodeRemoved", err)
	}
}
