package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// electionPath is the election that most tests hold.
const electionPath = "/service/leader"

// campaign makes a candidate that has taken its place. It works in bubbles only.
func campaign(c *coordinator.Coordinator, name string, options ...coordinator.AcquireOption) *coordinator.Acquisition {
	a := c.Election(electionPath).Campaign(context.Background(), append(options, coordinator.WithData([]byte(name)))...)
	synctest.Wait()
	return a
}

// TestOneLeadsAfterTheOther: in the order in which they came, with growing tokens, and never two at a time. Whoever leaves
// before its turn has nobody lead who did not.
func TestOneLeadsAfterTheOther(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs := []*coordinator.Coordinator{coordtest.Connect(t, srv), coordtest.Connect(t, srv), coordtest.Connect(t, srv)}
		var all []*coordinator.Acquisition
		for i := range 9 {
			all = append(all, campaign(cs[i%3], fmt.Sprint("candidate ", i)))
		}
		var last int64
		for len(all) > 0 {
			grant, err := all[0].Wait(t.Context())
			if err != nil || grant.Token <= last || grant.Node != all[0].Grant().Node {
				t.Fatalf("%+v, %v after token %d", grant, err, last)
			}
			last = grant.Token
			if len(all) > 3 { // the last one, and one from the middle, leave
				for _, i := range []int{len(all) - 1, 2} {
					all[i].Release()
					<-all[i].Done()
					all = slices.Delete(all, i, i+1)
				}
			}
			synctest.Wait()
			for i, a := range all[1:] {
				if a.Valid() || a.Grant().Node != "" {
					t.Errorf("%d leads beside the first", i+1)
				}
			}
			queue, err := cs[0].Election(electionPath).Queue(t.Context())
			if err != nil || len(queue) != len(all) || queue[0].Node != grant.Node || !queue[0].Holding {
				t.Errorf("%d candidates in %+v, %v", len(all), queue, err)
			}
			all[0].Release()
			if all[0].Valid() {
				t.Error("leads and has resigned")
			}
			all = all[1:]
		}
	})
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
					t.Errorf("%v, valid: %v", cause, term.Valid())
				}
				break
			}
			done <- nil
		}()
		synctest.Wait()
		next := campaign(other, "next")
		session := cut.SessionID()
		srv.Mute(session, true)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if next.Valid() {
			t.Error("the next one led before")
		}
		if _, err := next.Wait(t.Context()); err != nil || !time.Now().After(over) {
			t.Errorf("%v; over since %v", err, time.Since(over))
		}
		srv.Mute(session, false)
	})
}

// TestTerms: whoever resigns and goes on is behind the others, and leads again; a term that is lost is followed by a
// campaign; break resigns for good; and so does a panic.
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
						t.Error(err)
						continue
					}
					if !term.Valid() || term.Grant().Token == 0 || !srv.Exists(term.Grant().Node) {
						t.Errorf("%s does not hold what was yielded: %+v", name, term.Grant())
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
						if err := srv.Expire(c.SessionID()); err != nil {
							t.Error(err)
						}
						<-term.Lost()
					}
				}
			}()
			time.Sleep(time.Second)
		}
		<-ended
		<-ended
		if got := strings.Join(led, " "); got != "ann bob ann bob ann bob" {
			t.Errorf("%s led", got)
		}
		synctest.Wait()
		if left := srv.Children(electionPath); len(left) != 0 {
			t.Errorf("left %v", left)
		}
		c := coordtest.Connect(t, srv)
		func() {
			defer func() {
				if r := recover(); r != "as intended" {
					t.Errorf("recovered %v", r)
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
			t.Errorf("left by a panic: %v", left)
		}
	})
}

// TestTermsEnd: what ends them is yielded once, with a nil acquisition.
func TestTermsEnd(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other, closed := coordtest.Connect(t, srv), coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		if err := closed.Close(); err != nil {
			t.Fatal(err)
		}
		leader := campaign(other, "leader")
		over, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("no more")
		cancel(gone)
		soon, stop := context.WithTimeoutCause(t.Context(), time.Hour, gone)
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
					t.Errorf("%s: %v, %v", what, term, err)
				}
			}
			if yielded != 1 {
				t.Errorf("%s: yielded %d times", what, yielded)
			}
		}
		synctest.Wait() // for those who have withdrawn
		if n := len(srv.Children(electionPath)); n != 1 || !leader.Valid() {
			t.Errorf("%d candidates, the leader leads: %v", n, leader.Valid())
		}
	})
}

// TestTermsEndWithTheCoordinator: the body's context is cancelled, and then it hears why there is no other term.
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
			t.Errorf("heard %v", heard)
		}
	})
}

// TestATermWithinATerm: with Reentrant it has the same node, which goes with the last.
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
					t.Fatalf("%+v, %v", inner, err)
				}
				break
			}
			synctest.Wait()
			if !outer.Valid() || len(srv.Children(electionPath)) != 1 {
				t.Error("the inner term has ended the outer")
			}
			break
		}
		synctest.Wait()
		if left := srv.Children(electionPath); len(left) != 0 {
			t.Errorf("left %v", left)
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
				t.Errorf("%s: %v", what, a.Err())
			}
		}
		if c.Election(electionPath).Path() != electionPath {
			t.Error("another path")
		}
	})
}

// campaigner has an election's candidates acquire.
type campaigner struct{ *coordinator.Election }

func (c campaigner) Acquire(ctx context.Context, options ...coordinator.AcquireOption) *coordinator.Acquisition {
	return c.Campaign(ctx, options...)
}

// TestElectionAmongKazoos: with the option its candidates bear kazoo's names, and anybody sees who leads.
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
				t.Errorf("%+v", term.Grant())
			}
			synctest.Wait()
			if l := <-seen; l.Node != term.Grant().Node || string(l.Data) != "ann" {
				t.Errorf("%+v leads", l)
			}
			break
		}
	})
}

// TestProclaim: the leader says something else, and nobody but the leader.
func TestProclaim(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		e := c.Election(electionPath)
		leader := campaign(c, "first words")
		grant := coordtest.Soon(t, leader)
		waiting := campaign(c, "waits")
		if err := e.Proclaim(t.Context(), leader, []byte("second words")); err != nil {
			t.Fatal(err)
		}
		if data, _ := srv.Data(grant.Node); string(data) != "second words" {
			t.Errorf("%s", data)
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
			"nobody":                {t.Context(), nil, "x", coordinator.ErrNotCandidate},
			"another's lock":        {t.Context(), m, "x", coordinator.ErrNotCandidate},
			"another election":      {t.Context(), elsewhere, "x", coordinator.ErrNotCandidate},
			"another coordinator":   {t.Context(), campaign(other, "other"), "x", coordinator.ErrNotCandidate},
			"one who waits":         {t.Context(), waiting, "x", coordinator.ErrNotAcquired},
			"too much":              {t.Context(), leader, strings.Repeat("x", 1<<20), coordinator.ErrTooLarge},
			"a context that's over": {over, leader, "x", gone},
		} {
			if err := e.Proclaim(test.ctx, test.term, []byte(test.data)); !errors.Is(err, test.want) {
				t.Errorf("%s: %v, want %v", what, err, test.want)
			}
		}
		if data, _ := srv.Data(grant.Node); string(data) != "second words" {
			t.Errorf("%.20s", data)
		}
		if err := srv.Delete(grant.Node); err != nil {
			t.Fatal(err)
		}
		if err := e.Proclaim(t.Context(), leader, nil); !errors.Is(err, coordinator.ErrNodeRemoved) {
			t.Errorf("of one who was removed: %v", err)
		}
		coordtest.Soon(t, waiting)
		waiting.Release()
		if err := e.Proclaim(t.Context(), waiting, nil); !errors.Is(err, coordinator.ErrReleased) {
			t.Errorf("of one who has resigned: %v", err)
		}
	})
}
