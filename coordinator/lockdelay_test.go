package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sort"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

const lockDelay = 15 * time.Second

// onCoordinator returns a lock of the given coordinator.
type onCoordinator = func(c *coordinator.Coordinator) *coordinator.Lock

// delayedBy is a mutex that delays the next grant after a crash by d.
func delayedBy(d time.Duration, options ...coordinator.LockOption) onCoordinator {
	return func(c *coordinator.Coordinator) *coordinator.Lock {
		return c.Mutex(lockPath, append(options, coordinator.LockDelay(d))...)
	}
}

var (
	delaying = delayedBy(lockDelay)
	without  = detecting
	reading  = func(c *coordinator.Coordinator) *coordinator.Lock {
		return c.ReadWrite(lockPath, coordinator.LockDelay(lockDelay)).Read()
	}
	writing = func(c *coordinator.Coordinator) *coordinator.Lock {
		return c.ReadWrite(lockPath, coordinator.LockDelay(lockDelay)).Write()
	}
)

// crashOf makes a coordinator hold the lock and lose its session. It returns when the
// node was removed.
func crashOf(t *testing.T, srv *zktest.Server, l onCoordinator) time.Time {
	t.Helper()
	c := coordtest.Connect(t, srv)
	coordtest.Hold(t, l(c))
	expire(t, srv, c)
	synctest.Wait()
	return time.Now()
}

// grantedAfter checks that the lock is granted when the delay is over, and not before. A
// server's time has a resolution of a millisecond.
func grantedAfter(t *testing.T, a *coordinator.Acquisition, crash time.Time, want time.Duration) events.Grant {
	t.Helper()
	g, err := a.Wait(t.Context())
	waited := time.Since(crash)
	expect(t, err == nil && waited >= want && waited <= want+50*time.Millisecond,
		"the next holder is granted the lock %v after the crash, %v; want %v", waited, err, want)
	return g
}

// passes checks that a contender is granted the lock when the delay is over, and releases
// it.
func passes(t *testing.T, l *coordinator.Lock, crash time.Time, want time.Duration) {
	t.Helper()
	a := l.Acquire(t.Context())
	grantedAfter(t, a, crash, want)
	finish(t, a)
}

// TestALockDelayHoldsBackTheNextGrant only: a release ends it. Queued says how long it
// lasts.
func TestALockDelayHoldsBackTheNextGrant(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		waits, behind, holder := coordtest.Connect(t, srv), coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		stream := waits.Events(t.Context())
		coordtest.Hold(t, delaying(holder))
		next, last := coordtest.Queue(delaying(waits)), coordtest.Queue(delaying(behind))
		expire(t, srv, holder)
		crash := time.Now()
		time.Sleep(time.Second)
		ahead, ok := next.Position()
		expect(t, ahead == 0 && ok, "a waiter within the delay is behind %d, %v; want 0, true", ahead, ok)
		delay := time.Duration(-1)
		for _, ev := range told(stream) {
			if queued, ok := ev.(events.Queued); ok {
				delay = queued.Delay
			}
		}
		expectEqual(t, delay, lockDelay, "the delay that the waiter hears of at last")
		expect(t, grantedAfter(t, next, crash, lockDelay).Abandoned != nil, "after the delay no crash is told")
		next.Release()
		expect(t, grantedAfter(t, last, time.Now(), 0).Abandoned == nil, "after the release a crash is told")
		finish(t, last)
		leftInOrder(t, srv, delaying(behind))
	})
}

// TestALockDelayGoesOnWithoutItsWaiter: the next waiter waits for the rest, whether it
// arrived before or after the crash, and however the first one ended.
func TestALockDelayGoesOnWithoutItsWaiter(t *testing.T) {
	for _, early := range []bool{true, false} {
		for _, what := range []string{"gives up", "expires", "closes"} {
			coordtest.Case(t, fmt.Sprint(what, early), func(t *testing.T, srv *zktest.Server) {
				first, second, holder := coordtest.Connect(t, srv), coordtest.Connect(t, srv), coordtest.Connect(t, srv)
				coordtest.Hold(t, delaying(holder))
				waits := coordtest.Queue(delaying(first))
				next := waits // if its session expires, it queues up again
				if early {
					next = coordtest.Queue(delaying(second))
				}
				expire(t, srv, holder)
				crash := time.Now()
				time.Sleep(10 * time.Second)
				switch what {
				case "gives up":
					waits.Release()
				case "expires":
					expire(t, srv, first)
				case "closes":
					eventstest.Must(t, first.Close())
				}
				time.Sleep(time.Second)
				if !early && what != "expires" {
					next = coordtest.Queue(delaying(second))
				}
				grantedAfter(t, next, crash, lockDelay)
				finish(t, next)
			})
		}
	}
}

// TestALockDelayStandsInTheRecord: contenders without the option wait as well, and a
// contender with a longer delay waits for its own.
func TestALockDelayStandsInTheRecord(t *testing.T) {
	type row struct {
		holder, next onCoordinator
		want         time.Duration
	}
	none, longer := delayedBy(0), delayedBy(40*time.Second)
	forEach(t, map[string]row{
		"a holder with the option":    {delaying, without, lockDelay},
		"a holder with a delay of 0":  {delaying, none, lockDelay},
		"a contender with the option": {without, delaying, lockDelay},
		"a longer one":                {delaying, longer, 40 * time.Second},
		"a shorter one":               {longer, delaying, 40 * time.Second},
		"neither":                     {without, without, 0},
		"two of 0":                    {none, none, 0},
	}, func(t *testing.T, srv *zktest.Server, x row) {
		crash := crashOf(t, srv, x.holder)
		second, third := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		grantedAfter(t, x.next(second).Acquire(t.Context()), crash, x.want)
		time.Sleep(time.Second)
		expire(t, srv, second)
		passes(t, without(third), time.Now(), x.want) // the delay applies until a holder has released
		passes(t, delaying(third), time.Now(), 0)
	})
}

// TestAMarkIsNotForALaterCrash:
//
//  1. A crashes without a delay. A contender with the option marks the record and gives
//     up.
//  2. B, without the option, holds the lock, and crashes long after that.
//  3. The next holder waits from B's crash on.
func TestAMarkIsNotForALaterCrash(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		crashOf(t, srv, without)
		second, third := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		tries := delaying(third).Acquire(t.Context())
		time.Sleep(time.Second)
		coordtest.End(tries)
		coordtest.Hold(t, without(second))
		time.Sleep(time.Minute)
		expire(t, srv, second)
		passes(t, delaying(third), time.Now(), lockDelay)
	})
}

// TestTryDoesNotWaitForALockDelay: until the delay is over, Try is refused at once.
func TestTryDoesNotWaitForALockDelay(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		crash := crashOf(t, srv, delaying)
		lock := delaying(coordtest.Connect(t, srv))
		for time.Since(crash) < lockDelay-2*time.Second {
			err := coordtest.EndOf(t, lock.Acquire(t.Context(), coordinator.Try()))
			expectError(t, err, coordinator.ErrNotAcquired, "a Try within the delay")
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Second)
		a, _ := coordtest.Hold(t, lock, coordinator.Try())
		finish(t, a)
		leftInOrder(t, srv, lock)
	})
}

// TestANodeRemovedWithinALockDelay is replaced at once, and the delay continues.
func TestANodeRemovedWithinALockDelay(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		crash := crashOf(t, srv, delaying)
		a := coordtest.Queue(delaying(coordtest.Connect(t, srv)))
		time.Sleep(time.Second)
		before := srv.Children(lockPath)
		eventstest.Must(t, srv.Delete(lockPath+"/"+before[0]))
		time.Sleep(time.Second)
		after := srv.Children(lockPath)
		expect(t, len(after) == 1 && after[0] != before[0],
			"a second after its node was removed there is %v, want another one than %v", after, before)
		grantedAfter(t, a, crash, lockDelay)
		finish(t, a)
	})
}

// TestReadersWaitForALockDelay of a writer, several of them together, and leave the mark
// in the record. The writer after them does not wait again.
func TestReadersWaitForALockDelay(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		crash := crashOf(t, srv, writing)
		var readers []*coordinator.Acquisition
		for range 3 {
			readers = append(readers, reading(coordtest.Connect(t, srv)).Acquire(t.Context()))
		}
		for _, r := range readers {
			expect(t, grantedAfter(t, r, crash, lockDelay).Abandoned != nil, "a reader is not told of the crash")
		}
		other := coordtest.Connect(t, srv)
		w := writing(other).Acquire(t.Context())
		for _, r := range readers {
			finish(t, r)
		}
		grantedAfter(t, w, time.Now(), 0)
		// The writer has taken the record over, and becomes a reader: this is not a
		// crash.
		r := reading(other).Acquire(w.Context(t.Context()))
		coordtest.Soon(t, r)
		finish(t, w)
		finish(t, r)
		leftInOrder(t, srv, writing(coordtest.Connect(t, srv)))
	})
}

// TestAReaderInItsWritersPlaceBeginsNoDelay:
//
//  1. W holds after a crash without a delay.
//  2. A reader with a delay takes its place, and leaves the record as it is.
//  3. W crashes, and the delay begins.
func TestAReaderInItsWritersPlaceBeginsNoDelay(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		plain := func(c *coordinator.Coordinator) *coordinator.Lock {
			return c.ReadWrite(lockPath, coordinator.DetectCrash()).Write()
		}
		crashOf(t, srv, plain)
		c := coordtest.Connect(t, srv)
		w, _ := coordtest.Hold(t, plain(c))
		coordtest.Soon(t, reading(c).Acquire(w.Context(t.Context())))
		time.Sleep(time.Minute)
		expire(t, srv, c)
		passes(t, writing(coordtest.Connect(t, srv)), time.Now(), lockDelay)
	})
}

// TestLostRepliesWithinALockDelay: the mark is retried, and so is the write that takes
// the record over. Neither begins another delay.
func TestLostRepliesWithinALockDelay(t *testing.T) {
	for nth := range 4 { // lost: the mark; the mark after the delay; the takeover; the takeover twice
		forEach(t, map[string]zktest.Action{
			fmt.Sprint("reply lost ", nth): zktest.CutAfter(), fmt.Sprint("request lost ", nth): zktest.CutBefore(),
			fmt.Sprint("throttled ", nth): zktest.Fail(zktest.Throttled),
		}, func(t *testing.T, srv *zktest.Server, action zktest.Action) {
			crash := crashOf(t, srv, delaying)
			second, third := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
			n := 0 // writes to the record
			strike(srv, action, func(r zktest.Request) bool {
				if r.Op != zktest.OpMulti || len(r.Parts) != 2 || r.Parts[1].Op != zktest.OpSetData {
					return false
				}
				n++
				return n-1 == min(nth, 2) || nth == 3 && n == 4
			})
			a := delaying(second).Acquire(t.Context())
			g, err := a.Wait(t.Context())
			waited := time.Since(crash)
			expect(t, err == nil && g.Abandoned != nil && waited >= lockDelay && waited <= lockDelay+3*time.Second,
				"it is granted %v after the crash with %+v, %v; want %v with it", waited, g.Abandoned, err, lockDelay)
			expect(t, n >= 3, "the record was written to %d times, want 3 at least", n)
			finish(t, a)
			leftInOrder(t, srv, delaying(third))
		})
	}
}

// TestAContenderThatMayNotMarkTheRecord gets an error that names the record.
func TestAContenderThatMayNotMarkTheRecord(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		acl := coordinator.ACL(zk.WorldACL(zk.PermRead | zk.PermCreate | zk.PermDelete))
		crashOf(t, srv, delayedBy(lockDelay, acl))
		err := coordtest.EndOf(t, delaying(coordtest.Connect(t, srv)).Acquire(t.Context()))
		expect(t, errors.Is(err, coordinator.ErrNoAuth) && strings.Contains(err.Error(), recordPath),
			"without WRITE for the record it ends with %v, want ErrNoAuth with its path", err)
	})
}

// TestRealLockDelay uses the clocks of real servers, while waiters come and go.
func TestRealLockDelay(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel()
	const delay, dir, record = 1500 * time.Millisecond, "/locks/delay", "/locks/delay" + session.RecordSuffix
	e := coordtest.Servers(t, 3)
	ctx := coordtest.RealContext(t)
	raw := coordtest.RawClient(t, e.Addr(0))
	on := func(i int) *coordinator.Lock {
		return coordtest.ConnectReal(t, e.Addr(i)).Mutex(dir, coordinator.LockDelay(delay))
	}
	recorded := func(want string) bool {
		_, err := raw.Sync(record)
		data, _, get := raw.Get(record)
		return err == nil && get == nil && strings.Contains(string(data), want)
	}
	first, crash := events.Grant{}, time.Time{}
	crashes := func(l *coordinator.Lock, check func(g events.Grant)) {
		defer func() { _ = recover() }()
		err := l.Do(ctx, func(_ context.Context, g events.Grant) error {
			check(g)
			crash = time.Now()
			panic("a crash")
		})
		t.Errorf("Do = %v, want it to panic", err)
	}
	crashes(on(0), func(g events.Grant) { first = g })
	waits := on(1).Acquire(ctx)
	eventstest.Eventually(t, "the waiter has marked the record", func() bool { return recorded("\nmarked\n") })
	waits.Release()
	for i := range 2 { // the second one waits for the crash of the first
		crashes(on(i), func(g events.Grant) {
			waited := time.Since(crash)
			expect(t, waited >= delay-2*time.Millisecond, // a server's time has milliseconds
				"the lock is granted %v after the crash, want %v at least", waited, delay)
			expect(t, g.Abandoned != nil && g.Abandoned.Token == first.Token,
				"after the delay %+v is told, want the crash of %x", g.Abandoned, first.Token)
			want := fmt.Sprintf("\ntaken 0x%x %s\n", g.Token, path.Base(g.Node))
			expect(t, recorded(want), "the record of the next holder does not say %q", want)
		})
	}
}

// TestARecordLeavesRoomForADelay, even if its holder has as much data as is allowed.
func TestARecordLeavesRoomForADelay(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		holder, next := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		fits := func(size int) bool {
			a := detecting(holder).Acquire(t.Context(), coordinator.Data(make([]byte, size)))
			_, err := a.Wait(t.Context())
			coordtest.End(a)
			return err == nil
		}
		least := sort.Search(session.MaxRequest, func(size int) bool { return !fits(size) }) // the smallest size that is too large
		coordtest.Hold(t, detecting(holder), coordinator.Data(make([]byte, least-1)))
		expire(t, srv, holder)
		passes(t, delaying(next), time.Now(), lockDelay)
	})
}
