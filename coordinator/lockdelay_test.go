package coordinator_test

import (
	"context"
	"errors"
	"fmt"
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

func delaying(c *coordinator.Coordinator, options ...coordinator.LockOption) *coordinator.Lock {
	return c.Mutex(lockPath, append(options, coordinator.LockDelay(lockDelay))...)
}

// crashOf has a coordinator hold the lock and lose its session, and returns when its node went.
func crashOf(t *testing.T, srv *zktest.Server, l func(*coordinator.Coordinator) *coordinator.Lock) time.Time {
	t.Helper()
	c := coordtest.Connect(t, srv)
	coordtest.Hold(t, l(c))
	expire(t, srv, c)
	synctest.Wait()
	return time.Now()
}

func plain(c *coordinator.Coordinator) *coordinator.Lock { return delaying(c) }

// grantedAfter holds that the lock is granted when the delay is over, and not before; a server's time has milliseconds.
func grantedAfter(t *testing.T, a *coordinator.Acquisition, crash time.Time, want time.Duration) events.Grant {
	t.Helper()
	g, err := a.Wait(t.Context())
	if waited := time.Since(crash); err != nil || waited < want || waited > want+50*time.Millisecond {
		t.Errorf("the next holder is granted the lock %v behind the crash, %v; want %v", waited, err, want)
	}
	return g
}

// TestALockDelayHoldsBackTheNextGrant, and only that: a release ends it. A waiter is told how long it lasts.
func TestALockDelayHoldsBackTheNextGrant(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		waits, behind := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		stream := waits.Events(t.Context())
		holder := coordtest.Connect(t, srv)
		coordtest.Hold(t, delaying(holder))
		next, last := coordtest.Queue(delaying(waits)), coordtest.Queue(delaying(behind))
		expire(t, srv, holder)
		crash := time.Now()
		time.Sleep(time.Second)
		delays := queuedFor(stream)
		if ahead, ok := next.Position(); ahead != 0 || !ok {
			t.Errorf("a waiter within the delay is behind %d, %v; want 0, true", ahead, ok)
		}
		if g := grantedAfter(t, next, crash, lockDelay); g.Abandoned == nil {
			t.Error("behind the delay no crash is told")
		}
		if len(delays) == 0 || delays[len(delays)-1] != lockDelay {
			t.Errorf("the waiter is told of delays of %v; want %v behind the crash", delays, lockDelay)
		}
		next.Release()
		before := time.Now()
		if g := coordtest.Soon(t, last); g.Abandoned != nil || time.Since(before) > time.Second {
			t.Errorf("behind the release the lock comes after %v with %+v, want at once without a crash", time.Since(before), g.Abandoned)
		}
		finish(t, last)
		leftInOrder(t, srv, delaying(behind))
	})
}

// queuedFor returns what the events of a queue that have come tell of delays.
func queuedFor(stream <-chan events.Event) (delays []time.Duration) {
	for {
		select {
		case ev := <-stream:
			if queued, ok := ev.(events.Queued); ok {
				delays = append(delays, queued.Delay)
			}
		default:
			return delays
		}
	}
}

// TestALockDelayGoesOnWithoutItsWaiter: the next one waits for the rest, whether it came before the crash or later, and whatever
// the first one's session has come to.
func TestALockDelayGoesOnWithoutItsWaiter(t *testing.T) {
	for _, early := range []bool{true, false} {
		for what, ends := range map[string]func(*testing.T, *zktest.Server, *coordinator.Coordinator, *coordinator.Acquisition){
			"gives up": func(_ *testing.T, _ *zktest.Server, _ *coordinator.Coordinator, a *coordinator.Acquisition) {
				a.Release()
			},
			"expires": func(t *testing.T, srv *zktest.Server, c *coordinator.Coordinator, _ *coordinator.Acquisition) {
				t.Helper()
				expire(t, srv, c)
			},
			"closes": func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator, _ *coordinator.Acquisition) {
				t.Helper()
				eventstest.Must(t, c.Close())
			},
		} {
			t.Run(what, func(t *testing.T) {
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					first, second := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
					var next *coordinator.Acquisition
					holder := coordtest.Connect(t, srv)
					coordtest.Hold(t, delaying(holder))
					waits := coordtest.Queue(delaying(first))
					if early {
						next = coordtest.Queue(delaying(second))
					}
					expire(t, srv, holder)
					crash := time.Now()
					time.Sleep(10 * time.Second)
					ends(t, srv, first, waits)
					time.Sleep(time.Second)
					switch {
					case !early && what == "expires": // and queues up anew
						next = waits
					case !early:
						next = coordtest.Queue(delaying(second))
					}
					grantedAfter(t, next, crash, lockDelay)
					finish(t, next)
				})
			})
		}
	}
}

// TestALockDelayBeginsAnewWithEachCrash, for the record bears the mark of the one before.
func TestALockDelayBeginsAnewWithEachCrash(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		crash := crashOf(t, srv, plain)
		second, third := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		told := grantedAfter(t, delaying(second).Acquire(t.Context()), crash, lockDelay)
		time.Sleep(time.Minute)
		next := coordtest.Queue(delaying(third))
		expire(t, srv, second)
		crash = time.Now()
		g := grantedAfter(t, next, crash, lockDelay)
		if g.Abandoned == nil || g.Abandoned.Node != told.Abandoned.Node {
			t.Errorf("behind two crashes %+v is told, want the first one's %+v", g.Abandoned, told.Abandoned)
		}
		finish(t, next)
		leftInOrder(t, srv, delaying(third))
	})
}

// TestALockDelayStandsInTheRecord: contenders without the option wait as well, and one with a longer delay waits for that.
func TestALockDelayStandsInTheRecord(t *testing.T) {
	longer := func(c *coordinator.Coordinator) *coordinator.Lock {
		return c.Mutex(lockPath, coordinator.LockDelay(40*time.Second))
	}
	without := func(c *coordinator.Coordinator) *coordinator.Lock { return detecting(c) }
	none := func(c *coordinator.Coordinator) *coordinator.Lock { return c.Mutex(lockPath, coordinator.LockDelay(0)) }
	for what, test := range map[string]struct {
		holder, next func(*coordinator.Coordinator) *coordinator.Lock
		want         time.Duration
	}{
		"a holder with the option":    {plain, without, lockDelay},
		"a holder with a delay of 0":  {plain, none, lockDelay},
		"a contender with the option": {without, plain, lockDelay},
		"a longer one":                {plain, longer, 40 * time.Second},
		"a shorter one":               {longer, plain, 40 * time.Second},
		"neither":                     {without, without, 0},
		"two of 0":                    {none, none, 0},
	} {
		t.Run(what, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				crash := crashOf(t, srv, test.holder)
				second, third := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
				grantedAfter(t, test.next(second).Acquire(t.Context()), crash, test.want)
				time.Sleep(time.Second)
				expire(t, srv, second)
				crash = time.Now()
				a := without(third).Acquire(t.Context())
				grantedAfter(t, a, crash, test.want) // it stays until a holder has released
				finish(t, a)
				a = plain(third).Acquire(t.Context())
				grantedAfter(t, a, time.Now(), 0)
				finish(t, a)
			})
		})
	}
}

// TestAMarkIsNotForALaterCrash:
//
//  1. A crashes without a delay. A contender with the option marks the record and gives up.
//  2. B, without the option, holds, and crashes long after that.
//  3. The next holder waits from then.
func TestAMarkIsNotForALaterCrash(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		crashOf(t, srv, func(c *coordinator.Coordinator) *coordinator.Lock { return detecting(c) })
		second, third := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		tries := delaying(third).Acquire(t.Context())
		time.Sleep(time.Second)
		tries.Release()
		synctest.Wait()
		coordtest.Hold(t, detecting(second))
		time.Sleep(time.Minute)
		expire(t, srv, second)
		a := delaying(third).Acquire(t.Context())
		grantedAfter(t, a, time.Now(), lockDelay)
		finish(t, a)
	})
}

// TestTryDoesNotWaitForALockDelay.
func TestTryDoesNotWaitForALockDelay(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		crash := crashOf(t, srv, plain)
		c := coordtest.Connect(t, srv)
		for time.Since(crash) < lockDelay-2*time.Second {
			if err := coordtest.EndOf(t, delaying(c).Acquire(t.Context(), coordinator.Try())); !errors.Is(err, coordinator.ErrNotAcquired) {
				t.Errorf("within the delay Try ends with %v, want ErrNotAcquired", err)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Second)
		a, _ := coordtest.Hold(t, delaying(c), coordinator.Try())
		finish(t, a)
		leftInOrder(t, srv, delaying(c))
	})
}

// TestGivingUpWithinALockDelayLeavesNoNode.
func TestGivingUpWithinALockDelayLeavesNoNode(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		crashOf(t, srv, plain)
		c := coordtest.Connect(t, srv)
		for what, end := range map[string]struct {
			options []coordinator.AcquireOption
			want    error
		}{
			"a longest wait": {[]coordinator.AcquireOption{coordinator.WithMaxWait(time.Second)}, coordinator.ErrTimeout},
			"its context":    {nil, context.DeadlineExceeded},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			if err := coordtest.EndOf(t, delaying(c).Acquire(ctx, end.options...)); !errors.Is(err, end.want) {
				t.Errorf("within the delay %s ends it with %v, want %v", what, err, end.want)
			}
			cancel()
			synctest.Wait()
			if left := srv.Children(lockPath); len(left) > 0 {
				t.Errorf("behind %s there is %v, want nothing", what, left)
			}
		}
	})
}

// TestANodeRemovedWithinALockDelay is replaced at once, and the delay goes on.
func TestANodeRemovedWithinALockDelay(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		crash := crashOf(t, srv, plain)
		a := coordtest.Queue(delaying(coordtest.Connect(t, srv)))
		time.Sleep(time.Second)
		before := srv.Children(lockPath)
		eventstest.Must(t, srv.Delete(lockPath+"/"+before[0]))
		time.Sleep(time.Second)
		if after := srv.Children(lockPath); len(after) != 1 || after[0] == before[0] {
			t.Errorf("a second after its node was removed there is %v, want another one than %v", after, before)
		}
		grantedAfter(t, a, crash, lockDelay)
		finish(t, a)
	})
}

// TestReadersWaitForALockDelay of a writer, and leaves the mark for others: several readers, and a writer, do so together.
func TestReadersWaitForALockDelay(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		rw := func(c *coordinator.Coordinator) *coordinator.ReadWrite {
			return c.ReadWrite(lockPath, coordinator.LockDelay(lockDelay))
		}
		crash := crashOf(t, srv, func(c *coordinator.Coordinator) *coordinator.Lock { return rw(c).Write() })
		var readers []*coordinator.Acquisition
		for range 3 {
			readers = append(readers, rw(coordtest.Connect(t, srv)).Read().Acquire(t.Context()))
		}
		for _, r := range readers {
			if g := grantedAfter(t, r, crash, lockDelay); g.Abandoned == nil {
				t.Error("a reader is not told of the crash")
			}
		}
		other := coordtest.Connect(t, srv)
		w := rw(other).Write().Acquire(t.Context())
		for _, r := range readers {
			finish(t, r)
		}
		grantedAfter(t, w, time.Now(), 0)
		// The writer has taken the record over, and becomes a reader: it has not crashed.
		r := rw(other).Read().Acquire(w.Context(t.Context()))
		coordtest.Soon(t, r)
		finish(t, w)
		finish(t, r)
		leftInOrder(t, srv, rw(coordtest.Connect(t, srv)).Write())
	})
}

// TestAReaderInItsWritersPlaceBeginsNoDelay: 1. W holds behind a crash without a delay; 2. a reader with one takes its place, and leaves the
// record as it is; 3. W crashes, and the delay begins.
func TestAReaderInItsWritersPlaceBeginsNoDelay(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		delays := func(c *coordinator.Coordinator) *coordinator.ReadWrite {
			return c.ReadWrite(lockPath, coordinator.LockDelay(lockDelay))
		}
		without := func(c *coordinator.Coordinator) *coordinator.Lock {
			return c.ReadWrite(lockPath, coordinator.DetectCrash()).Write()
		}
		crashOf(t, srv, without)
		c := coordtest.Connect(t, srv)
		w, _ := coordtest.Hold(t, without(c))
		coordtest.Soon(t, delays(c).Read().Acquire(w.Context(t.Context())))
		time.Sleep(time.Minute)
		expire(t, srv, c)
		next := delays(coordtest.Connect(t, srv)).Write().Acquire(t.Context())
		grantedAfter(t, next, time.Now(), lockDelay)
		finish(t, next)
	})
}

// TestLostRepliesWithinALockDelay: what marks the record is made again, and so is what takes it over. Neither begins another delay.
func TestLostRepliesWithinALockDelay(t *testing.T) {
	for what, action := range map[string]func() zktest.Action{
		"reply lost": zktest.CutAfter, "request lost": zktest.CutBefore,
		"throttled": func() zktest.Action { return zktest.Fail(zktest.Throttled) },
	} {
		for nth := range 4 { // the mark, behind the delay the mark and the taking over, and the last one once more
			t.Run(fmt.Sprint(what, nth), func(t *testing.T) {
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					crash := crashOf(t, srv, plain)
					second, third := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
					n := 0
					srv.Intercept(func(r zktest.Request) zktest.Action {
						if r.Op != zktest.OpMulti || len(r.Parts) != 2 || r.Parts[1].Op != zktest.OpSetData {
							return zktest.Pass()
						}
						if n++; n-1 == min(nth, 2) || nth == 3 && n == 4 {
							return action()
						}
						return zktest.Pass()
					})
					a := delaying(second).Acquire(t.Context())
					g, err := a.Wait(t.Context())
					if waited := time.Since(crash); err != nil || g.Abandoned == nil || waited < lockDelay || waited > lockDelay+3*time.Second {
						t.Errorf("the lock is granted %v behind the crash with %+v, %v; want %v with it", waited, g.Abandoned, err, lockDelay)
					}
					if n < 3 {
						t.Errorf("the record was written to %d times, want 3 at least", n)
					}
					finish(t, a)
					leftInOrder(t, srv, delaying(third))
				})
			})
		}
	}
}

// TestAContenderThatMayNotMarkTheRecord is told.
func TestAContenderThatMayNotMarkTheRecord(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		acl := coordinator.WithACL(zk.WorldACL(zk.PermRead | zk.PermCreate | zk.PermDelete))
		crashOf(t, srv, func(c *coordinator.Coordinator) *coordinator.Lock { return delaying(c, acl) })
		a := delaying(coordtest.Connect(t, srv)).Acquire(t.Context())
		if err := coordtest.EndOf(t, a); !errors.Is(err, coordinator.ErrNoAuth) || !strings.Contains(err.Error(), recordPath) {
			t.Errorf("without WRITE for the record it ends with %v, want ErrNoAuth with its path", err)
		}
	})
}

// TestBadLockDelays are told at once.
func TestBadLockDelays(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		for _, d := range []time.Duration{-1, time.Minute + 1} {
			if err := refused(c.Mutex(lockPath, coordinator.LockDelay(d)).Acquire(t.Context())); !errors.Is(err, coordinator.ErrInvalid) {
				t.Errorf("a lock-delay of %v ends in %v, want ErrInvalid", d, err)
			}
		}
		for what, l := range map[string]*coordinator.Acquisition{
			"unfair":    c.Unfair("/u", coordinator.LockDelay(1)).Acquire(t.Context()),
			"semaphore": c.Semaphore("/s", 2, coordinator.LockDelay(1)).Acquire(t.Context()),
			"cached":    c.Mutex("/c", coordinator.Cached(), coordinator.LockDelay(1)).Acquire(t.Context()),
		} {
			if err := refused(l); !errors.Is(err, coordinator.ErrKind) {
				t.Errorf("%s: it ends with %v, want ErrKind", what, err)
			}
		}
	})
}

// TestRealLockDelay: by real servers' clocks, while waiters come and go.
func TestRealLockDelay(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel()
	const delay, path, record = 1500 * time.Millisecond, "/locks/delay", "/locks/delay" + session.RecordSuffix
	e := coordtest.Servers(t, 3)
	ctx := coordtest.RealContext(t)
	raw := coordtest.RawClient(t, e.Addr(0))
	on := func(i int) *coordinator.Lock {
		return coordtest.ConnectReal(t, e.Addr(i)).Mutex(path, coordinator.LockDelay(delay))
	}
	recorded := func(want string) bool {
		_, err := raw.Sync(record)
		data, _, get := raw.Get(record)
		return err == nil && get == nil && strings.Contains(string(data), want)
	}
	first, crash := events.Grant{}, time.Time{}
	crashes := func(l *coordinator.Lock, check func(g events.Grant)) {
		t.Helper()
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
			if waited := time.Since(crash); waited < delay-2*time.Millisecond { // a server's time has milliseconds
				t.Errorf("the lock is granted %v behind the crash, want %v at least", waited, delay)
			}
			if g.Abandoned == nil || g.Abandoned.Token != first.Token {
				t.Errorf("behind the delay %+v is told, want the crash of %x", g.Abandoned, first.Token)
			}
			if want := fmt.Sprintf("\ntaken 0x%x %s\n", g.Token, g.Node[strings.LastIndex(g.Node, "/")+1:]); !recorded(want) {
				t.Errorf("the record of the next holder says nothing like %q", want)
			}
		})
	}
}

// TestARecordLeavesRoomForADelay: with the most data that a holder may have, and a contender with a delay behind it.
func TestARecordLeavesRoomForADelay(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		holder, next := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		fits := func(size int) bool {
			a := detecting(holder).Acquire(t.Context(), coordinator.WithData(make([]byte, size)))
			_, err := a.Wait(t.Context())
			coordtest.End(a)
			return err == nil
		}
		least := sort.Search(session.MaxRequest, func(size int) bool { return !fits(size) }) // that is too much
		coordtest.Hold(t, detecting(holder), coordinator.WithData(make([]byte, least-1)))
		expire(t, srv, holder)
		a := delaying(next).Acquire(t.Context())
		grantedAfter(t, a, time.Now(), lockDelay)
		finish(t, a)
	})
}
