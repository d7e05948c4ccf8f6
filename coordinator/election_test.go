package coordinator_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// electionPath is the election that most tests use.
const electionPath = coordtest.ElectionPath

// campaign returns a candidate that has joined the queue. It works only in bubbles.
func campaign(c *coordinator.Coordinator, name string) *coordinator.Acquisition {
	return coordtest.Queue(c.Election(electionPath), named(name))
}

func wantCandidates(t *testing.T, srv *zktest.Server, want int, when string) {
	t.Helper()
	synctest.Wait()
	got := srv.Children(electionPath)
	expect(t, len(got) == want, "%s there are the nodes %v, want %d", when, got, want)
}

// The node of a leader whose session lives on stays until its body has ended.
func TestALeaderThatIsCutOffHearsOfItFirst(t *testing.T) {
	for name, want := range map[string]error{
		"cut off": coordinator.ErrLeaseRanOut, "cut": coordinator.ErrSuspended, "closed": coordinator.ErrClosed,
	} {
		coordtest.Case(t, name, func(t *testing.T, srv *zktest.Server) {
			option := map[string]coordinator.Option{"cut": coordinator.WithLossOnSuspend()}[name]
			leader, other := coordtest.Connect(t, srv, option), coordtest.Connect(t, srv)
			var over time.Time
			done := make(chan struct{})
			go func() {
				defer close(done)
				for term, err := range leader.Election(electionPath).Terms(t.Context()) {
					if term == nil {
						expectError(t, err, coordinator.ErrClosed, "the end of the terms")
						return
					}
					ctx := term.Context(t.Context())
					<-ctx.Done()
					expectError(t, context.Cause(ctx), want, "the end of the term's context")
					expect(t, !term.Valid(), "the term is valid when its context has ended")
					if name != "cut off" {
						time.Sleep(3 * time.Second) // the leader winds down
					}
					if over = time.Now(); name != "closed" {
						break
					}
				}
			}()
			synctest.Wait()
			next := campaign(other, "next")
			switch name {
			case "cut off":
				srv.Mute(leader.SessionID(), true)
			case "cut":
				srv.Cut(leader.SessionID())
			case "closed":
				go leader.Close()
			}
			coordtest.GrantOf(t, next)
			expect(t, !over.IsZero() && !time.Now().Before(over), "the next leads before the body has ended: %v", over)
			<-done
		})
	}
}

// TestTerms: a leader that resigns queues up after the others, and so does one that has
// lost its term. break resigns for good, and so does a panic. With Reentrant, a nested
// term shares the node of the outer one, which is deleted when the last of them ends.
func TestTerms(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		var led []string
		ended := make(chan struct{}, 2)
		for _, name := range []string{"ann", "bob"} {
			c := coordtest.Connect(t, srv)
			go func() {
				defer func() { ended <- struct{}{} }()
				terms := 0
				for term, err := range c.Election(electionPath).Terms(t.Context(), coordinator.Data([]byte(name))) {
					if err != nil {
						t.Errorf("%s: a term begins with %v, want nil", name, err)
						return
					}
					g := term.Grant()
					expect(t, term.Valid() && g.Token > 0 && srv.Exists(g.Node), "%s does not hold %+v", name, g)
					led = append(led, name) // one at a time, or the race detector complains
					time.Sleep(time.Minute)
					switch terms++; terms {
					case 1:
						term.Release() // it remains a candidate
						time.Sleep(time.Second)
					case 2:
						eventstest.Must(t, srv.Expire(c.SessionID()))
						<-term.Lost()
					}
					if terms == 3 {
						break
					}
				}
			}()
			time.Sleep(time.Second)
		}
		<-ended
		<-ended
		expectEqual(t, strings.Join(led, " "), "ann bob ann bob ann bob", "the order in which they led")
		wantCandidates(t, srv, 0, "when all have resigned")
		c := coordtest.Connect(t, srv)
		func() {
			defer func() { expect(t, recover() == "as intended", "want the panic of the body") }()
			for _, err := range c.Election(electionPath).Terms(t.Context()) {
				eventstest.Must(t, err)
				panic("as intended")
			}
		}()
		wantCandidates(t, srv, 0, "after a panic in the body")

		e := coordtest.Connect(t, srv).Election(electionPath, coordinator.Reentrant())
		for outer, err := range e.Terms(t.Context()) {
			eventstest.Must(t, err)
			for inner, err := range e.Terms(outer.Context(t.Context())) {
				eventstest.Must(t, err)
				in, out := inner.Grant(), outer.Grant()
				expect(t, in.Node == out.Node && in.Token == out.Token, "the term within %+v is %+v", out, in)
				break
			}
			wantCandidates(t, srv, 1, "after the inner term")
			expect(t, outer.Valid(), "the inner term has ended the outer, want the outer held")
			break
		}
		wantCandidates(t, srv, 0, "after both")
	})
}

// TestTermsThatEndAtOnceDoNotSpin: a pause follows each term, until a term lasts longer.
// A lost term, however short, is followed by a campaign at once.
func TestTermsThatEndAtOnceDoNotSpin(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		writes := counting(srv, isA(zktest.OpMulti, zktest.OpCreate, zktest.OpDelete))
		impatient := errors.New("impatient")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, impatient)
		defer cancel()
		began, terms := time.Now(), 0
		for term, err := range c.Election(electionPath).Terms(ctx) {
			if term != nil {
				terms++
			} else {
				expectError(t, err, impatient, "the end of the terms")
			}
		}
		// The pauses are 0.1, 0.2, 0.4, 0.8, 1.6, 3.2 and 6.4 s, or half of each. A probe
		// per second is a write, too.
		n, took := int(writes.Load()), time.Since(began)
		expect(t, terms >= 6 && terms <= 9 && n <= 4*terms+10 && took == 10*time.Second,
			"%d terms and %d writes in %v, want 6 to 9, few, and 10 s", terms, n, took)

		began, terms = time.Now(), 0
		for _, err := range c.Election(electionPath).Terms(t.Context()) {
			eventstest.Must(t, err)
			if terms++; terms == 10 {
				break
			}
			time.Sleep(time.Second)
		}
		expect(t, time.Since(began) == 9*time.Second, "nine terms of a second take %v", time.Since(began))

		terms = 0
		eventstest.Check(t, c.Close())
		c = coordtest.Connect(t, srv)
		for _, err := range c.Election(electionPath).Terms(t.Context()) {
			switch terms++; {
			case err == nil && terms == 5: // from here, each pause is at least 0.8 s
				began = time.Now()
				time.AfterFunc(10*time.Millisecond, func() { eventstest.Check(t, c.Close()) })
			case err != nil:
				expectError(t, err, coordinator.ErrClosed, "the end of the terms")
				expect(t, time.Since(began) <= 20*time.Millisecond, "the terms end after %v", time.Since(began))
			}
		}
		terms = 0
		var lost time.Time
		for term, err := range coordtest.Connect(t, srv).Election(electionPath).Terms(t.Context()) {
			eventstest.Must(t, err)
			expect(t, terms == 0 || time.Since(lost) == 0, "term %d begins %v after the loss", terms, time.Since(lost))
			if terms++; terms == 5 {
				break
			}
			time.Sleep(100 * time.Millisecond) // by then its node is watched
			eventstest.Must(t, srv.Delete(term.Grant().Node))
			<-term.Lost()
			lost = time.Now()
		}
	})
}

// TestTermsEnd: the error that ends them is yielded once, with a nil acquisition.
func TestTermsEnd(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other, closed := coordtest.Connect(t, srv), coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		closing := coordtest.Connect(t, srv)
		time.AfterFunc(time.Minute, func() { eventstest.Check(t, closing.Close()) })
		eventstest.Must(t, closed.Close())
		leader := campaign(other, "leader")
		gone := errors.New("no more")
		over, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		soon, stop := context.WithTimeoutCause(t.Context(), time.Minute, gone)
		defer stop()
		lost, lose := context.WithCancelCause(t.Context())
		lose(&coordinator.LostError{Path: "/outer", Reason: events.ReasonSessionExpired}) // not the loss of a term
		none := context.Background()
		m, _ := coordtest.Hold(t, c.Mutex(lockPath))
		for what, test := range map[string]struct {
			c      *coordinator.Coordinator
			path   string
			ctx    context.Context
			option coordinator.AcquireOption
			want   error
		}{
			"a context that is over":    {c, electionPath, over, nil, gone},
			"a context that ends":       {c, electionPath, soon, nil, gone},
			"a coordinator closed":      {closed, electionPath, none, nil, coordinator.ErrClosed},
			"a coordinator that closes": {closing, electionPath, none, nil, coordinator.ErrClosed},
			"no path":                   {c, "service", none, nil, coordinator.ErrPath},
			"a try":                     {c, electionPath, none, coordinator.Try(), coordinator.ErrNotAcquired},
			"patience":                  {c, electionPath, none, coordinator.MaxWait(1e9), coordinator.ErrTimeout},
			"permits":                   {c, electionPath, none, coordinator.Permits(1), coordinator.ErrKind},
			"another kind of lock":      {c, lockPath, none, nil, coordinator.ErrKind},
			"another kind, and its own": {c, lockPath, m.Context(t.Context()), nil, coordinator.ErrKind},
			"the loss of another lock":  {c, electionPath, lost, nil, coordinator.ErrSessionExpired},
			"its own leadership":        {other, electionPath, leader.Context(t.Context()), nil, coordinator.ErrDeadlock},
		} {
			yielded := 0
			for term, err := range test.c.Election(test.path).Terms(test.ctx, test.option) {
				yielded++
				expectError(t, err, test.want, what)
				expect(t, term == nil, "%s: a term is yielded beside the error", what)
			}
			expect(t, yielded == 1, "%s: yielded %d times, want once", what, yielded)
		}
		wantCandidates(t, srv, 1, "after all these") // the others have withdrawn
		expect(t, leader.Valid(), "after all these the leader does not lead")
	})
}
