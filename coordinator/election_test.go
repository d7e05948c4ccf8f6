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

// electionPath is the election that most tests hold.
const electionPath = coordtest.ElectionPath

// campaign makes a candidate that has its place. It works in bubbles only.
func campaign(c *coordinator.Coordinator, name string, options ...coordinator.AcquireOption) *coordinator.Acquisition {
	a := c.Election(electionPath).Campaign(context.Background(), append(options, coordinator.WithData([]byte(name)))...)
	synctest.Wait()
	return a
}

// TestALeaderThatIsCutOffHearsOfItFirst: its term is over before the next one begins.
func TestALeaderThatIsCutOffHearsOfItFirst(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cut, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		var over time.Time
		done := make(chan error)
		go func() {
			for term, err := range cut.Election(electionPath).Terms(t.Context()) {
				if err != nil {
					done <- err
					return
				}
				ctx := term.Context(t.Context())
				<-ctx.Done()
				over = time.Now()
				if cause := context.Cause(ctx); !errors.Is(cause, coordinator.ErrLeaseRanOut) || term.Valid() {
					t.Errorf("the context of the term ended with %v, want ErrLeaseRanOut; the term is still valid: %v", cause, term.Valid())
				}
				break
			}
			done <- nil
		}()
		synctest.Wait()
		next := campaign(other, "next")
		session := cut.SessionID()
		srv.Mute(session, true)
		eventstest.Must(t, <-done)
		if next.Valid() {
			t.Error("the next one leads before the term of the leader that is cut off is over, want it to wait")
		}
		if _, err := next.Wait(t.Context()); err != nil || !time.Now().After(over) {
			t.Errorf("the next one: %v; it leads %v after the end of the term, want it later", err, time.Since(over))
		}
		srv.Mute(session, false)
	})
}

// TestTerms: a leader that resigns and campaigns again is behind the others, and leads again. After a lost term Terms campaigns
// again. break resigns for good, and so does a panic.
func TestTerms(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		var led []string
		ended := make(chan struct{}, 2)
		for _, name := range []string{"ann", "bob"} {
			c := coordtest.Connect(t, srv)
			go func() {
				defer func() { ended <- struct{}{} }()
				terms := 0
				for term, err := range c.Election(electionPath).Terms(t.Context(), coordinator.WithData([]byte(name))) {
					if err != nil {
						t.Errorf("%s: a term begins with %v, want nil", name, err)
						continue
					}
					if !term.Valid() || term.Grant().Token == 0 || !srv.Exists(term.Grant().Node) {
						t.Errorf("%s does not hold the term that was yielded, %+v, want it held", name, term.Grant())
					}
					led = append(led, name) // one at a time, or the race detector has something to say
					time.Sleep(time.Minute)
					if terms++; terms == 3 {
						break
					}
					switch terms {
					case 1:
						term.Release() // and remains a candidate
						time.Sleep(time.Second)
					case 2:
						eventstest.Must(t, srv.Expire(c.SessionID()))
						<-term.Lost()
					}
				}
			}()
			time.Sleep(time.Second)
		}
		<-ended
		<-ended
		if got := strings.Join(led, " "); got != "ann bob ann bob ann bob" {
			t.Errorf("they led in the order %s, want ann and bob in turn, three times each", got)
		}
		synctest.Wait()
		if left := srv.Children(electionPath); len(left) != 0 {
			t.Errorf("when all have resigned the nodes %v are left, want none", left)
		}
		c := coordtest.Connect(t, srv)
		func() {
			defer func() {
				if r := recover(); r != "as intended" {
					t.Errorf("recovered %v, want the panic of the body", r)
				}
			}()
			for _, err := range c.Election(electionPath).Terms(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				panic("as intended")
			}
		}()
		synctest.Wait()
		if left := srv.Children(electionPath); len(left) != 0 {
			t.Errorf("after a panic in the body the nodes %v are left, want none", left)
		}
	})
}

// TestTermsThatEndAtOnceDoNotSpin: a body that returns at once leads a few times in ten seconds, and each longer term ends the row. The
// pause ends with its context and with its coordinator.
func TestTermsThatEndAtOnceDoNotSpin(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		writes := srv.Requests(zktest.OpMulti) + srv.Requests(zktest.OpCreate) + srv.Requests(zktest.OpDelete)
		impatient := errors.New("impatient")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, impatient)
		defer cancel()
		began, terms := time.Now(), 0
		for _, err := range c.Election(electionPath).Terms(ctx) {
			if err == nil {
				terms++
			} else if !errors.Is(err, impatient) {
				t.Errorf("terms end with %v, want the cause of their context", err)
			}
		}
		writes = srv.Requests(zktest.OpMulti) + srv.Requests(zktest.OpCreate) + srv.Requests(zktest.OpDelete) - writes
		// Pauses of 0.1, 0.2, 0.4, 0.8, 1.6, 3.2 and 6.4 s, or half of each. A probe a second is a write, too.
		if terms < 6 || terms > 9 || writes > 4*terms+10 || time.Since(began) != 10*time.Second {
			t.Errorf("%d terms and %d writes in %v, want 6 to 9, few, and the end of the context", terms, writes, time.Since(began))
		}

		began, terms = time.Now(), 0
		for _, err := range c.Election(electionPath).Terms(t.Context()) {
			eventstest.Must(t, err)
			if terms++; terms == 10 {
				break
			}
			time.Sleep(time.Second)
		}
		if took := time.Since(began); took != 9*time.Second {
			t.Errorf("nine terms of a second each take %v, want no pause between them", took)
		}

		eventstest.Check(t, c.Close())
		c = coordtest.Connect(t, srv)
		terms = 0
		for _, err := range c.Election(electionPath).Terms(t.Context()) {
			switch terms++; {
			case err == nil && terms == 5: // the pause is 0.8 s at least from here
				began = time.Now()
				time.AfterFunc(10*time.Millisecond, func() { eventstest.Check(t, c.Close()) })
			case err != nil && (!errors.Is(err, coordinator.ErrClosed) || time.Since(began) > 20*time.Millisecond):
				t.Errorf("after %v the terms end with %v, want ErrClosed when the coordinator is closed", time.Since(began), err)
			}
		}
	})
}

// TestALostTermIsFollowedByACampaignAtOnce, however short it was.
func TestALostTermIsFollowedByACampaignAtOnce(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, terms := coordtest.Connect(t, srv), 0
		var lost time.Time
		for term, err := range c.Election(electionPath).Terms(t.Context()) {
			eventstest.Must(t, err)
			if waited := time.Since(lost); terms > 0 && waited > 0 {
				t.Errorf("term %d begins %v after the loss, want at once", terms, waited)
			}
			if terms++; terms == 5 {
				break
			}
			time.Sleep(100 * time.Millisecond) // its end is watched by then
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
		eventstest.Must(t, closed.Close())
		leader := campaign(other, "leader")
		over, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("no more")
		cancel(gone)
		soon, stop := context.WithTimeoutCause(t.Context(), time.Minute, gone)
		defer stop()
		lost, lose := context.WithCancelCause(t.Context())
		lose(&coordinator.LostError{Path: "/outer", Reason: events.ReasonSessionExpired}) // it is no loss of a term
		inMutex := context.Background()
		m, _ := coordtest.Hold(t, c.Mutex(lockPath))
		for what, test := range map[string]struct {
			c       *coordinator.Coordinator
			path    string
			ctx     context.Context
			options []coordinator.AcquireOption
			want    error
		}{
			"a context that is over":    {c, electionPath, over, nil, gone},
			"a context that ends":       {c, electionPath, soon, nil, gone},
			"a coordinator closed":      {closed, electionPath, inMutex, nil, coordinator.ErrClosed},
			"no path":                   {c, "service", inMutex, nil, coordinator.ErrPath},
			"a try":                     {c, electionPath, inMutex, []coordinator.AcquireOption{coordinator.Try()}, coordinator.ErrNotAcquired},
			"patience":                  {c, electionPath, inMutex, []coordinator.AcquireOption{coordinator.WithMaxWait(time.Minute)}, coordinator.ErrTimeout},
			"permits":                   {c, electionPath, inMutex, []coordinator.AcquireOption{coordinator.WithPermits(1)}, coordinator.ErrPermits},
			"another kind of lock":      {c, lockPath, inMutex, nil, coordinator.ErrKind},
			"another kind, and its own": {c, lockPath, m.Context(t.Context()), nil, coordinator.ErrKind},
			"the loss of another lock":  {c, electionPath, lost, nil, coordinator.ErrSessionExpired},
			"its own leadership":        {other, electionPath, leader.Context(t.Context()), nil, coordinator.ErrDeadlock},
		} {
			yielded := 0
			for term, err := range test.c.Election(test.path).Terms(test.ctx, test.options...) {
				if yielded++; term != nil || !errors.Is(err, test.want) {
					t.Errorf("%s: yielded %v, %v, want nil, %v", what, term, err, test.want)
				}
			}
			if yielded != 1 {
				t.Errorf("%s: yielded %d times, want once", what, yielded)
			}
		}
		synctest.Wait() // until the candidates have withdrawn
		if n := len(srv.Children(electionPath)); n != 1 || !leader.Valid() {
			t.Errorf("after all these there are %d candidates, and the leader leads: %v; want it alone", n, leader.Valid())
		}
	})
}

// TestTermsEndWithTheCoordinator: the body's context is cancelled, and then Terms yields why there is no other term.
func TestTermsEndWithTheCoordinator(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		var heard []error
		done := make(chan struct{})
		go func() {
			defer close(done)
			for term, err := range c.Election(electionPath).Terms(t.Context()) {
				if err != nil {
					heard = append(heard, err)
					continue
				}
				ctx := term.Context(t.Context())
				<-ctx.Done()
				heard = append(heard, context.Cause(ctx))
			}
		}()
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		<-done
		if len(heard) != 2 || !errors.Is(heard[0], coordinator.ErrClosed) || !errors.Is(heard[1], coordinator.ErrClosed) {
			t.Errorf("the body heard %v, want ErrClosed from its context and from Terms", heard)
		}
	})
}

// TestATermWithinATerm: with Reentrant it has the same node, which goes with the last term.
func TestATermWithinATerm(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		e := c.Election(electionPath, coordinator.Reentrant())
		for outer, err := range e.Terms(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			for inner, err := range e.Terms(outer.Context(t.Context())) {
				if err != nil || inner.Grant().Node != outer.Grant().Node || inner.Grant().Token != outer.Grant().Token {
					t.Fatalf("the term within %+v is %+v, %v, want the same node and token", outer.Grant(), inner, err)
				}
				break
			}
			synctest.Wait()
			if !outer.Valid() || len(srv.Children(electionPath)) != 1 {
				t.Error("the inner term has ended the outer, want the outer held")
			}
			break
		}
		synctest.Wait()
		if left := srv.Children(electionPath); len(left) != 0 {
			t.Errorf("when all have resigned the nodes %v are left, want none", left)
		}
	})
}

// TestElectionsAreAKindOfLock: beside another kind in one coordinator they are refused.
func TestElectionsAreAKindOfLock(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		campaign(c, "leader")
		for what, lock := range map[string]acquirer{
			"mutex": c.Mutex(electionPath), "read": c.ReadWrite(electionPath).Read(), "semaphore": c.Semaphore(electionPath, 2),
			"unfair": c.Unfair(electionPath), "kazoo's": c.Mutex(electionPath, coordinator.AsKazoo()),
			"kazoo's election": campaigner{c.Election(electionPath, coordinator.AsKazoo())},
		} {
			a := lock.Acquire(t.Context())
			<-a.Done()
			if !errors.Is(a.Err(), coordinator.ErrKind) || !strings.Contains(a.Err().Error(), "is an election here") {
				t.Errorf("%s: %v, want ErrKind that names the election", what, a.Err())
			}
		}
		if c.Election(electionPath).Path() != electionPath {
			t.Errorf("the election is at %s, want %s", c.Election(electionPath).Path(), electionPath)
		}
	})
}

// campaigner has an election's candidates acquire.
type campaigner struct{ *coordinator.Election }

func (c campaigner) Acquire(ctx context.Context, options ...coordinator.AcquireOption) *coordinator.Acquisition {
	return c.Campaign(ctx, options...)
}

// TestElectionAmongKazoos: with the option its candidates have kazoo's names, and any client sees the leader.
func TestElectionAmongKazoos(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		e := c.Election(electionPath, coordinator.AsKazoo())
		seen := e.Observe(t.Context())
		for term, err := range e.Terms(t.Context(), coordinator.WithData([]byte("ann"))) {
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(term.Grant().Node, "__lock__") {
				t.Errorf("the term is granted %+v, want a name of kazoo's", term.Grant())
			}
			synctest.Wait()
			if l := <-seen; l.Node != term.Grant().Node || string(l.Data) != "ann" {
				t.Errorf("an observer hears that %+v leads, want ann with the term's node", l)
			}
			break
		}
	})
}

// TestProclaim: only the leader can change its data.
func TestProclaim(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		e := c.Election(electionPath)
		leader := campaign(c, "first words")
		grant := coordtest.Soon(t, leader)
		waiting := campaign(c, "waits")
		eventstest.Must(t, e.Proclaim(t.Context(), leader, []byte("second words")))
		if data, _ := srv.Data(grant.Node); string(data) != "second words" {
			t.Errorf("the leader's node has %q, want the proclamation", data)
		}
		m, _ := coordtest.Hold(t, c.Mutex(lockPath))
		over, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("no more")
		cancel(gone)
		elsewhere := c.Election(electionPath + "2").Campaign(t.Context())
		coordtest.Soon(t, elsewhere)
		for what, test := range map[string]struct {
			ctx  context.Context
			term *coordinator.Acquisition
			data string
			want error
		}{
			"no term":               {t.Context(), nil, "x", coordinator.ErrNotCandidate},
			"another's lock":        {t.Context(), m, "x", coordinator.ErrNotCandidate},
			"another election":      {t.Context(), elsewhere, "x", coordinator.ErrNotCandidate},
			"another coordinator":   {t.Context(), campaign(other, "other"), "x", coordinator.ErrNotCandidate},
			"one that waits":        {t.Context(), waiting, "x", coordinator.ErrNotAcquired},
			"too much":              {t.Context(), leader, strings.Repeat("x", 1<<20), coordinator.ErrTooLarge},
			"a context that's over": {over, leader, "x", gone},
		} {
			if err := e.Proclaim(test.ctx, test.term, []byte(test.data)); !errors.Is(err, test.want) {
				t.Errorf("%s: %v, want %v", what, err, test.want)
			}
		}
		if data, _ := srv.Data(grant.Node); string(data) != "second words" {
			t.Errorf("after proclamations that are refused the node has %.20q, want the one before", data)
		}
		eventstest.Must(t, srv.Delete(grant.Node))
		if err := e.Proclaim(t.Context(), leader, nil); !errors.Is(err, coordinator.ErrNodeRemoved) {
			t.Errorf("a proclamation of a leader after the removal of its node: %v, want ErrNodeRemoved", err)
		}
		coordtest.Soon(t, waiting)
		waiting.Release()
		if err := e.Proclaim(t.Context(), waiting, nil); !errors.Is(err, coordinator.ErrReleased) {
			t.Errorf("a proclamation of a leader that has resigned: %v, want ErrReleased", err)
		}
	})
}

// TestABodyEndsBeforeTheNextLeads: the term is lost while the session lives, and the body takes its time to stop. The node stays
// until it has, as with a function in Do.
func TestABodyEndsBeforeTheNextLeads(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv, coordinator.WithLossOnSuspend()), coordtest.Connect(t, srv)
		begun, done := make(chan struct{}), make(chan struct{})
		var ended time.Time
		go func() {
			defer close(done)
			for term, err := range c.Election(electionPath).Terms(t.Context()) {
				if err != nil {
					t.Error(err)
					return
				}
				ctx := term.Context(t.Context())
				close(begun)
				<-ctx.Done()
				time.Sleep(3 * time.Second) // it winds down
				ended = time.Now()
				break
			}
		}()
		<-begun
		next := campaign(other, "next")
		synctest.Wait()
		srv.Cut(c.SessionID())
		coordtest.Soon(t, next)
		if at := time.Now(); ended.IsZero() || at.Before(ended) {
			t.Errorf("the next one leads at %v, want it after the end of the body at %v", at, ended)
		}
		<-done
	})
}

// TestAPastObserverLeavesTheNextAlone: names without a GUID come again. An observer that has ended hears of a node that it had
// looked at, and takes nothing from the next observer.
func TestAPastObserverLeavesTheNextAlone(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		const dir, zero, one = "/e", "/e/lock-0000000000", "/e/lock-0000000001"
		must(srv.Create(dir, nil))
		must(srv.Create(one, []byte("x")))
		c := coordtest.Connect(t, srv)
		id, step := c.SessionID(), 0
		srv.Intercept(func(q zktest.Request) zktest.Action {
			if q.Session != id || q.Op != zktest.OpGetData && q.Op != zktest.OpGetChildren2 {
				return zktest.Pass()
			}
			switch step++; step {
			case 2: // the leader that was listed is about to be read
				for _, node := range []string{one, dir} {
					must(srv.Delete(node))
				}
				must(srv.Create(dir, nil))
				must(srv.Create(zero, []byte("first")))
				must(srv.Create(one, []byte("second")))
			case 3: // the listing that follows
				return zktest.CutBefore()
			}
			return zktest.Pass()
		})
		ctx, end := context.WithCancel(t.Context())
		seen := c.Election(dir).Observe(ctx)
		time.Sleep(time.Minute)
		wantLeader(t, srv, seen, "first")
		end()
		synctest.Wait()
		stays := c.Election(dir).Observe(t.Context())
		wantLeader(t, srv, stays, "first")
		must(srv.Delete(one))
		time.Sleep(time.Minute)
		must(c.Close())
		if _, _, closed := said(stays); !closed {
			t.Error("after Close the channel of the observer is open, want it closed")
		}
	})
}
