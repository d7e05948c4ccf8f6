package coordinator_test

import (
	"context"
	"errors"
	"fmt"
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

// TestTheReleaseOfDoIsBounded by its context while that lives, and afterwards by a probe
// interval.
func TestTheReleaseOfDoIsBounded(t *testing.T) {
	const ctxEnds, answersAfter, probe = 3 * time.Second, 2 * time.Second, timeoutOfAll / 10
	errOfWork := errors.New("half done")
	for _, ctxEnd := range []string{"alive", "ended before", "ends during"} {
		for _, server := range []string{"answers", "is late", "is mute", "has expired the session"} {
			for _, work := range []error{nil, errOfWork} {
				coordtest.Case(t, fmt.Sprint(ctxEnd, ", ", server, ", ", work), func(t *testing.T, srv *zktest.Server) {
					c := coordtest.Connect(t, srv)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					var returned time.Time
					err := c.Mutex(lockPath).Do(ctx, func(inside context.Context, _ events.Grant) error {
						switch server {
						case "is late":
							strike(srv, zktest.Delay(answersAfter), isA(zktest.OpDelete))
						case "is mute":
							srv.Mute(c.SessionID(), true)
						case "has expired the session":
							eventstest.Must(t, srv.Expire(c.SessionID()))
							<-inside.Done()
						}
						switch ctxEnd {
						case "ended before":
							cancel()
						case "ends during":
							time.AfterFunc(ctxEnds, cancel)
						default:
							time.AfterFunc(time.Minute, func() { srv.Mute(c.SessionID(), false) })
						}
						returned = time.Now()
						return work
					})
					took := time.Since(returned)
					expired := server == "has expired the session"
					expect(t, expired == errors.Is(err, coordinator.ErrSessionExpired), "%v, want the loss if any", err)
					expect(t, errors.Is(err, errOfWork) == (work != nil) && !strings.Contains(fmt.Sprint(err), "\n"),
						"Do returns %q, want the error of its function with it, on one line", err)
					var most time.Duration
					want := false
					switch {
					case server == "is late" && ctxEnd != "ended before":
						most = answersAfter
					case (server == "is late" || server == "is mute") && ctxEnd == "ended before":
						most = probe // logged, but not an error
					case server == "is mute" && ctxEnd == "ends during":
						most, want = ctxEnds, true
					case server == "is mute":
						most = 2 * time.Minute // until servers answer
					}
					expect(t, took <= most && errors.Is(err, coordinator.ErrReleasePending) == want,
						"Do returns %v after %v, want ErrReleasePending: %v, after at most %v", err, took, want, most)
				})
			}
		}
	}
}

// TestReleaseAndWait returns the servers' answer, or ErrReleasePending, whenever it is
// called. Once the release is confirmed, its context does not matter.
func TestReleaseAndWait(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		brief := func() context.Context { return within(t, time.Second) }
		held, _ := coordtest.Hold(t, c.Mutex(lockPath))
		waits := coordtest.Queue(other.Mutex(lockPath))
		expectError(t, waits.ReleaseAndWait(t.Context()), coordinator.ErrNotAcquired, "one that waits")
		expect(t, len(srv.Children(lockPath)) == 1, "a waiter that has left has %v there, want the holder's node", srv.Children(lockPath))

		srv.Mute(c.SessionID(), true)
		start := time.Now()
		for range 2 {
			expectError(t, held.ReleaseAndWait(brief()), coordinator.ErrReleasePending, "a mute server")
		}
		expect(t, time.Since(start) == 2*time.Second, "it waits for %v, want until each context ends", time.Since(start))
		time.Sleep(timeoutOfAll) // the connection is given up: Done, but unconfirmed
		expectError(t, held.ReleaseAndWait(brief()), coordinator.ErrReleasePending, "an outage")
		expectError(t, held.ReleaseAndWait(brief()), context.DeadlineExceeded, "an outage")
		srv.Mute(c.SessionID(), false)
		eventstest.Must(t, held.ReleaseAndWait(t.Context()))
		expect(t, len(srv.Children(lockPath)) == 0, "%v is left, want nothing once it is confirmed", srv.Children(lockPath))
		over, cancel := context.WithCancel(t.Context())
		cancel()
		for range 50 { // a select between two channels would fail every other time
			eventstest.Must(t, held.ReleaseAndWait(over))
		}

		lost, grant := coordtest.Hold(t, c.Mutex(lockPath))
		eventstest.Must(t, srv.Delete(grant.Node))
		<-lost.Lost()
		expectError(t, lost.ReleaseAndWait(t.Context()), coordinator.ErrNodeRemoved, "a lost lock")

		// A waiter that ends with another lock is not lost: it has a node to delete.
		held, _ = coordtest.Hold(t, other.Mutex(lockPath))
		lost, grant = coordtest.Hold(t, c.Mutex("/outer"))
		waits = c.Mutex(lockPath).Acquire(lost.Context(t.Context()))
		synctest.Wait()
		expect(t, len(srv.Children(lockPath)) == 2, "there are %v, want a holder and a waiter", srv.Children(lockPath))
		strike(srv, zktest.Delay(time.Second), isA(zktest.OpDelete, zktest.OpMulti))
		eventstest.Must(t, srv.Delete(grant.Node))
		<-lost.Lost()
		synctest.Wait() // its context ends the wait
		start = time.Now()
		expectError(t, waits.ReleaseAndWait(t.Context()), coordinator.ErrNodeRemoved, "one that waits under a lost lock")
		expect(t, time.Since(start) == time.Second, "it waits for %v, want a second, until the server answers", time.Since(start))
		eventstest.Must(t, held.ReleaseAndWait(t.Context()))

		outer, _ := coordtest.Hold(t, c.Mutex(lockPath, coordinator.Reentrant()))
		inner := c.Mutex(lockPath, coordinator.Reentrant()).Acquire(outer.Context(t.Context()))
		coordtest.Soon(t, inner)
		cached, _ := coordtest.Hold(t, c.Mutex("/cached", coordinator.Cached()))
		srv.Mute(c.SessionID(), true)
		eventstest.Must(t, inner.ReleaseAndWait(brief()))  // the node stays with the outer one
		eventstest.Must(t, cached.ReleaseAndWait(brief())) // the node stays with the cache
	})
}

// TestCloseEndsAReleaseThatIsPending: if no server confirms the end of the session, or a
// crash record stays, the release is not called confirmed.
func TestCloseEndsAReleaseThatIsPending(t *testing.T) {
	for name, want := range map[string]bool{"a mute server": true, "deletes are put off": false, "deletes are put off, with a record": true} {
		coordtest.Case(t, name, func(t *testing.T, srv *zktest.Server) {
			c := coordtest.Connect(t, srv)
			before, _ := coordtest.Hold(t, c.Mutex("/before"))
			eventstest.Must(t, before.ReleaseAndWait(t.Context()))
			lock := c.Mutex(lockPath)
			if strings.HasSuffix(name, "record") {
				lock = c.Mutex(lockPath, coordinator.DetectCrash())
			}
			held, _ := coordtest.Hold(t, lock)
			if name == "a mute server" {
				strike(srv, zktest.Swallow(), func(zktest.Request) bool { return true })
			} else {
				onEach(srv, zktest.Fail(zktest.Throttled), zktest.OpDelete, zktest.OpMulti)
			}
			ctx := context.WithoutCancel(t.Context())
			result := inBackground(func() error { return held.ReleaseAndWait(ctx) })
			synctest.Wait()
			left := c.Close()
			synctest.Wait()
			expect(t, (left != nil) == want, "Close = %v", left)
			for _, err := range []error{<-result, held.ReleaseAndWait(t.Context())} {
				expect(t, errors.Is(err, coordinator.ErrReleasePending) == want && errors.Is(err, coordinator.ErrClosed) == want,
					"ReleaseAndWait = %v, want ErrReleasePending and ErrClosed: %t", err, want)
			}
			eventstest.Must(t, before.ReleaseAndWait(t.Context()))
			eventstest.Must(t, held.Err())
		})
	}
}

// TestTermsSayThatAReleaseIsPending if their context ends while they wait for it, or the
// coordinator is closed, but not if the context had ended before.
func TestTermsSayThatAReleaseIsPending(t *testing.T) {
	for _, ends := range []string{"before", "during", "by Close"} {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			c := coordtest.Connect(t, srv)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var told []error
			start := time.Now()
			for term, err := range c.Election(lockPath).Terms(ctx) {
				if term == nil {
					told = append(told, err)
					continue
				}
				srv.Mute(c.SessionID(), true)
				switch ends {
				case "before":
					cancel(errOfFunction)
				case "during":
					time.AfterFunc(time.Second, func() { cancel(errOfFunction) })
				default:
					time.AfterFunc(time.Second, func() { _ = c.Close() }) // without an answer
				}
			}
			err, cause, most := errors.Join(told...), errOfFunction, 1010*time.Millisecond
			if ends == "by Close" {
				cause, most = coordinator.ErrClosed, timeoutOfAll
			}
			expect(t, len(told) == 1 && errors.Is(err, cause), "%s: Terms yield %v, want the cause", ends, told)
			expect(t, errors.Is(err, coordinator.ErrReleasePending) == (ends != "before"), "%s: Terms yield %v", ends, told)
			expect(t, time.Since(start) <= most, "%s: they end after %v, want %v at most", ends, time.Since(start), most)
		})
	}
}
