package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestCloseLetsGo of the caller's context, which a lock keeps watching for its next
// acquisition, and of the stream: a subscriber that does not read gets no event after
// Close.
func TestCloseLetsGo(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		parent, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, lock := range []handle{
			c.Mutex(lockPath), c.Mutex("/locks/cached", coordinator.Cached()), c.Election(electionPath),
		} {
			a := lock.Acquire(parent)
			coordtest.GrantOf(t, a)
			coordtest.End(a)
		}
		stream := c.Events(t.Context())
		<-c.Mutex("no path").Acquire(t.Context()).Done()
		eventstest.Must(t, c.Close())
		ev, open := <-stream
		expect(t, !open, "after Close the stream says %+v, want nothing", ev)
		children := reflect.ValueOf(parent).Elem().FieldByName("children")
		expectEqual(t, children.Len(), 0, "children that hang on the parent after Close")
	})
}

// However early the context of Connect ends, no session is left.
func TestConnectThatIsGivenUpLeavesNoSession(t *testing.T) {
	forEach(t, map[string][]coordinator.Option{
		"without identity": nil,
		"with identity":    {coordinator.WithAuth("digest", []byte("u:p"))},
	}, func(t *testing.T, srv *zktest.Server, options []coordinator.Option) {
		srv.Intercept(func(zktest.Request) zktest.Action { return zktest.Delay(2 * time.Millisecond) })
		vain := 0
		for wait := range 15 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(wait)*time.Millisecond)
			c, err := coordinator.Connect(ctx, srv.Addr(), append(options, srv.Option())...)
			cancel()
			if err == nil {
				eventstest.Check(t, c.Close())
			} else {
				vain++
				expectError(t, err, context.DeadlineExceeded, "given up")
			}
			synctest.Wait()
			expectNone(t, srv.Sessions(), "given up after %d ms: sessions that are left", wait)
		}
		expect(t, vain > 0 && vain < 15, "%d of 15 were in vain, want some", vain)
	})
}

// This test counts goroutines and descriptors, so it uses sockets and real time.
func TestCloseWithManyWaitingAndManyHeldLeavesNothing(t *testing.T) {
	const timeout = 10 * time.Second
	waiting, held := eventstest.Amount(300, 1000), eventstest.Amount(30, 100)
	descriptors := func() int {
		open, _ := os.ReadDir("/proc/self/fd") // empty on systems without it
		return len(open)
	}
	// The first socket of a process makes the runtime open a few descriptors for itself.
	// A client starts its last goroutines after it has reported the session; one round
	// trip later, all of them exist.
	a, _ := coordtest.Hold(t, coordtest.Connect(t, zktest.Start(t)).Mutex("/locks/counted"))
	coordtest.End(a)
	goroutines, files := runtime.NumGoroutine(), descriptors()

	srv := zktest.Start(t)
	c, err := coordinator.Connect(t.Context(), srv.Addr(), coordinator.WithSessionTimeout(timeout))
	eventstest.Must(t, err)
	c.Events(t.Context()) // without a reader
	dir := func(i int) string { return fmt.Sprintf("/locks/%d", i) }
	var all []*coordinator.Acquisition
	for i := range held {
		a, _ := coordtest.Hold(t, c.Mutex(dir(i)))
		all = append(all, a)
	}
	for i := range waiting { // half of the waiters are in one queue
		all = append(all, c.Mutex(dir(max(0, i-waiting/2)%held)).Acquire(t.Context()))
	}
	nodes := func() (n int) {
		for i := range held {
			n += len(srv.Children(dir(i)))
		}
		return n
	}
	eventstest.Eventually(t, "all queue up", func() bool { return nodes() == held+waiting },
		func() string { return fmt.Sprintf("there are %d nodes, want %d", nodes(), held+waiting) })
	start := time.Now()
	eventstest.Check(t, c.Close())
	expect(t, time.Since(start) <= timeout, "Close took %v, want the session timeout at most", time.Since(start))
	for _, a := range all {
		if !coordtest.IsClosed(a.Done()) || !errors.Is(a.Err(), coordinator.ErrClosed) || a.Valid() {
			t.Fatalf("after Close an acquisition is valid: %v, Err = %v; want it over", a.Valid(), a.Err())
		}
	}
	expect(t, nodes() == 0, "after Close %d nodes are left, want none", nodes())
	expect(t, len(srv.Sessions()) == 0, "after Close %d sessions are left, want none", len(srv.Sessions()))
	srv.Close()
	eventstest.Eventually(t, "goroutines and descriptors end", func() bool {
		return runtime.NumGoroutine() <= goroutines && descriptors() <= files
	}, func() string {
		return fmt.Sprintf("%d and %d, want %d and %d", runtime.NumGoroutine(), descriptors(), goroutines, files)
	})
}

// flight is how many requests a session has under way at a time.
const flight = 256

// TestCloseRemovesManyNodesTogether: the end of the session removes the nodes that the
// first flight of requests did not, and lets the waiters in.
func TestCloseRemovesManyNodesTogether(t *testing.T) {
	const locks, latency = 2000, time.Millisecond
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		waiting := make([]*coordinator.Acquisition, locks)
		for i := range locks {
			path := fmt.Sprintf("/locks/%d", i)
			coordtest.Hold(t, c.Mutex(path))
			waiting[i] = other.Mutex(path).Acquire(t.Context())
		}
		time.Sleep(5 * time.Second) // every node is watched
		ours := of(c.SessionID())
		requests := striking(srv, zktest.Delay(latency), func(r zktest.Request) bool {
			return ours(r) && r.Op != zktest.OpPing
		})
		start := time.Now()
		eventstest.Check(t, c.Close())
		n, took := requests.Load(), time.Since(start)
		expect(t, n <= flight+1, "Close sent %d requests, want a flight of %d and the end", n, flight)
		expect(t, took <= 10*latency, "Close took %v with a latency of %v, want a few round trips", took, latency)
		for _, a := range waiting {
			coordtest.Soon(t, a)
		}
	})
}

// TestCloseSaysWhatIsLeft: nothing, if a server has confirmed the end of the session.
func TestCloseSaysWhatIsLeft(t *testing.T) {
	const locks, timeout = 300, 10 * time.Second
	const left = "zkgrant: closed, but no server has confirmed the end of the session; " +
		"acquisitions whose nodes may stay until it expires: 76"
	type row struct {
		latency time.Duration
		end     zktest.Action
		want    string
	}
	forEach(t, map[string]row{
		"every answer takes a twentieth of the timeout": {timeout / 20, zktest.Delay(timeout / 20), "<nil>"},
		// A full flight is under way when the next request could be sent.
		"the end of the session is not answered": {time.Millisecond, zktest.Swallow(), left},
	}, func(t *testing.T, srv *zktest.Server, c row) {
		closing := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(timeout))
		for i := range locks {
			coordtest.Hold(t, closing.Mutex(fmt.Sprintf("/locks/%d", i)))
		}
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Op == zktest.OpClose {
				return c.end
			}
			return zktest.Delay(c.latency)
		})
		start := time.Now()
		got := fmt.Sprint(closing.Close())
		took := time.Since(start)
		expect(t, got == c.want && took <= timeout, "Close = %q after %v, want %q", got, took, c.want)
	})
}

// TestCloseRemovesRecords, which are not ephemeral, except those of held locks.
func TestCloseRemovesRecords(t *testing.T) {
	const locks = flight + 1
	type row struct {
		hold    func(*coordinator.Acquisition)
		crashed int
	}
	forEach(t, map[string]row{
		"never taken":   {func(*coordinator.Acquisition) {}, 0},
		"released":      {func(a *coordinator.Acquisition) { <-a.Granted(); a.Release() }, 0},
		"held at Close": {func(a *coordinator.Acquisition) { <-a.Granted() }, locks},
	}, func(t *testing.T, srv *zktest.Server, c row) {
		lock := func(c *coordinator.Coordinator, i int) *coordinator.Lock {
			return c.Mutex(fmt.Sprintf("/locks/%d", i), coordinator.DetectCrash())
		}
		closing := coordtest.Connect(t, srv)
		all := make([]*coordinator.Acquisition, locks)
		for i := range all {
			all[i] = lock(closing, i).Acquire(t.Context())
		}
		time.Sleep(5 * time.Second)
		srv.Intercept(func(zktest.Request) zktest.Action { return zktest.Delay(time.Millisecond) })
		for _, a := range all {
			c.hold(a)
		}
		eventstest.Check(t, closing.Close())
		other, crashed := coordtest.Connect(t, srv), 0
		for i := range all {
			if _, grant := coordtest.Hold(t, lock(other, i)); grant.Abandoned != nil {
				crashed++
			}
		}
		expectEqual(t, crashed, c.crashed, "of %d locks after Close those that tell of a crash", locks)
	})
}

// TestRealCloseOfManyLocks checks that what Close reports is true. How long Close took is
// only logged.
func TestRealCloseOfManyLocks(t *testing.T) {
	eventstest.NeedsServers(t)
	const timeout, hands = 4 * time.Second, 128
	locks := eventstest.Many(2000, 100_000)
	e := largeServer(t)
	ctx := coordtest.RealContext(t)
	c, err := coordinator.Connect(ctx, e.Connect(), coordinator.WithSessionTimeout(timeout),
		coordinator.WithNodeBudget(locks*80)) // too many for a server that has to restart; this one does not
	eventstest.Must(t, err)
	raw := coordtest.RawClient(t, e.Connect())
	path := func(i int) string { return fmt.Sprintf("/of-many-%d", i) }
	var wait sync.WaitGroup
	for hand := range hands {
		wait.Go(func() {
			for i := hand; i < locks; i += hands {
				_, err := c.Mutex(path(i)).Acquire(ctx).Wait(ctx)
				eventstest.Check(t, err)
			}
		})
	}
	wait.Wait()
	start := time.Now()
	err = c.Close()
	took, left := time.Since(start), 0
	for i := range locks {
		if children, _, err := raw.Children(path(i)); err == nil {
			left += len(children)
		}
	}
	t.Logf("Close of %d locks took %v of %v, and says %v; %d nodes are left", locks, took, timeout, err, left)
	expect(t, err != nil || left == 0, "Close says that nothing is left, and %d nodes are", left)
}

func hangs() map[string]func(*zktest.Server) {
	swallow := func(but ...zktest.Op) func(*zktest.Server) {
		return func(srv *zktest.Server) {
			strike(srv, zktest.Swallow(), func(r zktest.Request) bool { return !isA(but...)(r) })
		}
	}
	return map[string]func(*zktest.Server){
		"swallows all":                   swallow(),
		"swallows all but pings":         swallow(zktest.OpPing),
		"swallows all but new sessions":  swallow(zktest.OpPing, zktest.OpConnect),
		"hangs":                          func(srv *zktest.Server) { srv.MuteAll(true) },
		"hangs, and the connection goes": func(srv *zktest.Server) { srv.MuteAll(true); srv.CutAll() },
		"is away":                        func(srv *zktest.Server) { srv.Down(true) },
	}
}

// shutting is a number of releases, each awaited, followed by Close.
type shutting struct {
	timeout  time.Duration
	releases int
	options  []coordinator.LockOption
	idle     time.Duration // between the Grants and the fault, and again after the fault
}

// shuttings returns cases by name, for each timeout and each idle time in thirds of it.
func shuttings(releases int, timeouts []time.Duration, thirds ...time.Duration) map[string]shutting {
	all, record := map[string]shutting{}, []coordinator.LockOption{coordinator.DetectCrash()}
	for _, timeout := range timeouts {
		for _, n := range thirds {
			for what, s := range map[string]shutting{
				"plain":         {timeout, releases, nil, n * timeout / 3},
				"with a record": {timeout, releases, record, n * timeout / 3},
				"no release":    {timeout, 0, nil, n * timeout / 3},
			} {
				all[fmt.Sprintf("T %v, %s, idle %v", timeout, what, s.idle)] = s
			}
		}
	}
	return all
}

// play releases and closes after the fault, and checks how long that takes.
func (s shutting) play(t *testing.T, fault func(*zktest.Server)) {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) {
		srv := zktest.Start(t, zktest.Tick(s.timeout/2))
		c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(s.timeout))
		var held []*coordinator.Acquisition
		for i := range max(1, s.releases) {
			a, _ := coordtest.Hold(t, c.Mutex(fmt.Sprintf("%s/%d", lockPath, i), s.options...))
			held = append(held, a)
		}
		waiting := coordtest.Queue(c.Mutex(lockPath+"/0", s.options...))
		time.Sleep(min(s.idle, s.timeout))
		fault(srv)
		time.Sleep(s.idle)
		start := time.Now()
		for _, a := range held[:s.releases] {
			coordtest.End(a)
		}
		done := time.Since(start)
		_ = c.Close()
		took := time.Since(start)
		expect(t, took <= s.timeout, "the releases took %v, with Close %v; want %v", done, took, s.timeout)
		expect(t, coordtest.IsClosed(waiting.Done()), "after Close an acquisition waits, want it over")
		expectError(t, waiting.Err(), coordinator.ErrClosed, "after Close")
	})
}

// TestReleaseDoneAndCloseTakeTheTimeoutTogether: three releases in a row, each awaited,
// and Close together take at most the session timeout. So does Close alone, however short
// the timeout is: the client library would wait for a second.
func TestReleaseDoneAndCloseTakeTheTimeoutTogether(t *testing.T) {
	all := shuttings(3, []time.Duration{time.Second, 4 * time.Second, 10 * time.Second, 30 * time.Second}, 0, 1, 3, 15)
	for hang, fault := range hangs() {
		for name, s := range all {
			t.Run(hang+", "+name, func(t *testing.T) { s.play(t, fault) })
		}
	}
}

// TestOneReleaseBeforeAServerThatAnswersReads: several releases in a row can take longer,
// because each new connection answers a read and so counts as good.
func TestOneReleaseBeforeAServerThatAnswersReads(t *testing.T) {
	for name, swallowed := range map[string][]zktest.Op{
		"deletes":              {zktest.OpDelete},
		"transactions":         {zktest.OpMulti},
		"both, and the close":  {zktest.OpDelete, zktest.OpMulti, zktest.OpClose},
		"all writes but close": append(slices.Clone(throttledWrites), zktest.OpSync),
	} {
		for how, s := range shuttings(1, []time.Duration{time.Second, 10 * time.Second}, 0) {
			t.Run(name+", "+how, func(t *testing.T) {
				s.play(t, func(srv *zktest.Server) {
					srv.Intercept(func(r zktest.Request) zktest.Action {
						if slices.Contains(swallowed, r.Op) {
							return zktest.Swallow()
						} else if r.Op == zktest.OpConnect { // the caller closes before the next connection
							return zktest.Delay(time.Millisecond)
						}
						return zktest.Pass()
					})
				})
			})
		}
	}
}

// TestShutdownReturnsWhenItsContextEnds, whatever it waits for, and however its context
// ends.
func TestShutdownReturnsWhenItsContextEnds(t *testing.T) {
	const wait = 300 * time.Millisecond
	waits := map[string]func(t *testing.T, srv *zktest.Server, c *coordinator.Coordinator){
		"for a function": func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) {
			go func() {
				_ = c.Mutex(lockPath).Do(context.Background(), func(context.Context, events.Grant) error {
					<-t.Context().Done() // it ignores its own
					return nil
				})
			}()
		},
		"for a reader": func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) {
			stream := c.Events(t.Context())
			for range 1000 {
				c.Mutex("bad").Acquire(t.Context())
			}
			var reader sync.WaitGroup
			t.Cleanup(reader.Wait)
			reader.Go(func() {
				for range stream {
					time.Sleep(10 * time.Millisecond)
				}
			})
		},
	}
	for hang, fault := range hangs() {
		waits["for a server that "+hang] = func(t *testing.T, srv *zktest.Server, c *coordinator.Coordinator) {
			held, _ := coordtest.Hold(t, c.Mutex(lockPath, coordinator.DetectCrash()))
			fault(srv)
			held.Release()
		}
	}
	for name, begin := range waits {
		for _, how := range []string{"deadline", "cancelled"} {
			coordtest.Case(t, name+", "+how, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				begin(t, srv, c)
				synctest.Wait()
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(wait, cancel)
				if how == "deadline" {
					ctx = within(t, wait)
				}
				start := time.Now()
				err := c.Shutdown(ctx)
				took := time.Since(start)
				expect(t, took <= wait, "Shutdown = %v after %v, want it back after %v", err, took, wait)
				expect(t, c.State() == coordinator.StateClosed, "after Shutdown it is %v, want it closed", c.State())
			})
		}
	}
}

// TestShutdownWaitsForAFunctionAsLongAsItMay: for half of the time left in its context,
// or all of it but the time that servers need; without a deadline, until the function
// returns. No other contender is granted the lock earlier.
func TestShutdownWaitsForAFunctionAsLongAsItMay(t *testing.T) {
	const timeout = 10 * time.Second
	type row struct {
		bound  time.Duration // 0: none
		runs   time.Duration // after the end of its context
		waited time.Duration
	}
	forEach(t, map[string]row{
		"no bound":             {0, time.Hour, time.Hour},
		"longer than needed":   {time.Minute, 20 * time.Second, 20 * time.Second},
		"long, and not enough": {time.Minute, time.Hour, time.Minute - timeout/2},
		"short":                {2 * time.Second, time.Hour, time.Second},
	}, func(t *testing.T, srv *zktest.Server, c row) {
		closing, other := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(timeout)), coordtest.Connect(t, srv)
		ended := inBackground(func() error {
			return closing.Mutex(lockPath).Do(context.Background(), func(ctx context.Context, _ events.Grant) error {
				<-ctx.Done()
				time.Sleep(c.runs)
				return nil
			})
		})
		synctest.Wait()
		next := coordtest.Queue(other.Mutex(lockPath))
		ctx := context.Background()
		if c.bound > 0 {
			ctx = within(t, c.bound)
		}
		start := time.Now()
		err := closing.Shutdown(ctx)
		took := time.Since(start)
		told := err != nil && strings.Contains(err.Error(), "functions under a lock are still running: 1")
		expect(t, told == (c.runs > c.waited) && (err == nil || told), "Shutdown = %v, want what still runs", err)
		expect(t, took >= c.waited && took <= c.waited+100*time.Millisecond,
			"Shutdown took %v, want %v for the function and nothing for a server that answers", took, c.waited)
		waited := coordtest.Soon(t, next).Waited
		expect(t, waited >= c.waited, "the next one was let in after %v, want %v or more", waited, c.waited)
		expectError(t, <-ended, coordinator.ErrClosed, "Do")
	})
}

// TestWhatIsLeftIsReturnedAndLogged, so that a caller that ignores the error can find it.
func TestWhatIsLeftIsReturnedAndLogged(t *testing.T) {
	const nodes = "may stay until it expires: 3"
	const records = "crash records may stay for crashes that did not happen: 1"
	for name, c := range map[string]struct {
		bound time.Duration
		after time.Duration // when the caller ends its context
		want  []string
	}{
		"Close":               {time.Hour, time.Hour, []string{nodes, records}},
		"Shutdown":            {time.Second, time.Hour, []string{nodes}},
		"Shutdown is stopped": {time.Minute, time.Second, []string{"enough", nodes}},
	} {
		coordtest.Case(t, name, func(t *testing.T, srv *zktest.Server) {
			closing, logs := logged(t, srv, zap.WarnLevel)
			coordtest.Hold(t, closing.Mutex(lockPath))
			coordtest.Hold(t, closing.Mutex(lockPath+"2", coordinator.DetectCrash()))
			untaken := coordtest.Queue(closing.Mutex(lockPath+"3", coordinator.DetectCrash()))
			expect(t, len(untaken.Granted()) == 1, "there is no Grant to leave alone")
			srv.MuteAll(true)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			defer time.AfterFunc(c.after, func() { cancel(errors.New("enough")) }).Stop()
			bounded, done := context.WithTimeout(ctx, c.bound)
			defer done()
			shut := func() error { return closing.Shutdown(bounded) }
			if name == "Close" {
				shut = closing.Close
			}
			err := shut()
			said := logs.FilterMessage("closed, but not everything is cleaned up").All()
			if err == nil || len(said) != 1 {
				t.Fatalf("it returned %v, and logged %d lines, want an error, and one line of it", err, len(said))
			}
			logged := fmt.Sprint(said[0].ContextMap()["error"])
			for _, want := range c.want {
				expect(t, strings.Contains(err.Error(), want) && strings.Contains(logged, want),
					"it returned %q, and logged %q; want %q in both", err, logged, want)
			}
		})
	}
}

func TestASecondShutdownWaitsForTheFirst(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		coordtest.Hold(t, c.Mutex(lockPath))
		srv.MuteAll(true)
		first := inBackground(c.Close)
		synctest.Wait()
		ctx := within(t, time.Second)
		expectError(t, c.Shutdown(ctx), context.DeadlineExceeded, "a second Shutdown")
		expect(t, len(first) == 0, "the first one is over before, want the second to end with its context")
		third, err := fmt.Sprint(c.Shutdown(t.Context())), <-first
		expect(t, err != nil && third == fmt.Sprint(err), "Close = %v, a third Shutdown = %v", err, third)
		for range 20 { // this context has ended, too
			last := c.Shutdown(ctx)
			expect(t, fmt.Sprint(last) == third, "Shutdown after the end = %v, want %v", last, third)
		}
	})
}
