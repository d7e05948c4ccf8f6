package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

const recordPath = lockPath + session.RecordSuffix

// detecting is the lock that most of these tests fight for.
func detecting(c *coordinator.Coordinator, options ...coordinator.LockOption) *coordinator.Lock {
	return c.Mutex(lockPath, append(options, coordinator.DetectCrash())...)
}

// finish releases and waits for the end.
func finish(t *testing.T, a *coordinator.Acquisition) {
	t.Helper()
	a.Release()
	if err := coordtest.EndOf(t, a); err != nil {
		t.Errorf("the acquisition ended with %v after its release, want nil", err)
	}
}

// leftInOrder checks that the lock can be acquired, that no crash is reported, and that nothing is left of it.
func leftInOrder(t *testing.T, srv *zktest.Server, l *coordinator.Lock) {
	t.Helper()
	a := l.Acquire(context.Background())
	if g := coordtest.Soon(t, a); g.Abandoned != nil {
		t.Errorf("the next holder is told of %+v, want no crash", g.Abandoned)
	}
	finish(t, a)
	synctest.Wait()
	if srv.Exists(recordPath) || len(srv.Children(lockPath)) > 0 {
		t.Errorf("when all have released %v is left, want neither a node nor a record", srv.Tree())
	}
}

// TestARecordStandsWhileTheLockIsHeld: it is beside the directory, and goes with the node at the release.
func TestARecordStandsWhileTheLockIsHeld(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := detecting(coordtest.Connect(t, srv))
		for range 3 {
			a, grant := coordtest.Hold(t, l, coordinator.WithData([]byte("who\n\nI am")))
			data, _ := srv.Data(recordPath)
			want := fmt.Sprintf("zkgrant holder\nnode %s\ntoken 0x%x\nsince %s\n\nwho\n\nI am",
				path.Base(grant.Node), grant.Token, time.Now().UTC().Format(time.RFC3339Nano))
			if string(data) != want || grant.Abandoned != nil {
				t.Errorf("the record of the holder is %q, want %q; it is told of %+v, want no crash", data, want, grant.Abandoned)
			}
			if got := srv.Children(lockPath); len(got) != 1 {
				t.Errorf("while the lock is held its directory has %v, want the holder's node alone", got)
			}
			finish(t, a)
			if srv.Exists(recordPath) {
				t.Error("after the release the record is there, want it gone")
			}
			time.Sleep(time.Second)
		}
	})
}

// expire ends the coordinator's session at the server.
func expire(t *testing.T, srv *zktest.Server, c *coordinator.Coordinator) {
	t.Helper()
	eventstest.Must(t, srv.Expire(c.SessionID()))
}

// TestAPanicInATermIsACrash; leaving a term is none. The record says since when the lock was held, and Grant returns what was
// delivered.
func TestAPanicInATermIsACrash(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		for _, err := range a.Election(lockPath, coordinator.DetectCrash()).Terms(t.Context()) {
			if err != nil {
				t.Fatalf("the first term begins with %v, want nil", err)
			}
			break
		}
		leftInOrder(t, srv, detecting(b))
		began := time.Now()
		time.Sleep(time.Second)
		func() {
			defer func() { _ = recover() }()
			for _, err := range a.Election(lockPath, coordinator.DetectCrash()).Terms(t.Context(), coordinator.WithData([]byte("first"))) {
				panic(fmt.Sprint("boom, ", err))
			}
		}()
		next, got := coordtest.Hold(t, detecting(b))
		if got.Abandoned == nil || string(got.Abandoned.Data) != "first" {
			t.Fatalf("after the panic the next holder is told %+v, want a crash with the data %q", got.Abandoned, "first")
		}
		if since := got.Abandoned.Since; since.Before(began) || since.After(time.Now()) {
			t.Errorf("the crashed term was held since %v, want a time between %v and %v", since, began, time.Now())
		}
		if again := next.Grant(); !reflect.DeepEqual(again, got) {
			t.Errorf("Grant() = %+v, want what was delivered: %+v", again, got)
		}
	})
}

// TestAbandonIsACrash, of a Grant that was taken and not released. The node goes at once, and the first such holder's record stays
// until a holder has released.
func TestAbandonIsACrash(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		released, _ := coordtest.Hold(t, detecting(a))
		finish(t, released)
		released.Abandon()
		untaken := detecting(a).Acquire(t.Context())
		synctest.Wait()
		untaken.Abandon()
		if err := coordtest.EndOf(t, untaken); !errors.Is(err, coordinator.ErrNotAcquired) {
			t.Errorf("an abandoned Grant that was not taken ends with %v, want ErrNotAcquired", err)
		}
		leftInOrder(t, srv, detecting(b))
		for _, data := range []string{"first", "second"} {
			held, _ := coordtest.Hold(t, detecting(a), coordinator.WithData([]byte(data)))
			held.Abandon()
			held.Release()
			if err := coordtest.EndOf(t, held); err != nil || len(srv.Children(lockPath)) > 0 {
				t.Errorf("the abandoned lock ends with %v and has the nodes %v, want nil and none", err, srv.Children(lockPath))
			}
		}
		next, got := coordtest.Hold(t, detecting(b))
		if got.Abandoned == nil || string(got.Abandoned.Data) != "first" {
			t.Errorf("the next holder is told %+v, want a crash with the data %q", got.Abandoned, "first")
		}
		finish(t, next)
		leftInOrder(t, srv, detecting(a))
	})
}

// TestACrashIsToldByTheNameBelowEachChroot: by the name of the node there.
func TestACrashIsToldByTheNameBelowEachChroot(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := connectBelow(t, srv, "/some"), connectBelow(t, srv, "/some/deep")
		_, grant := coordtest.Hold(t, a.Mutex("/deep/lock", coordinator.DetectCrash()))
		expire(t, srv, a)
		time.Sleep(time.Second)
		next, got := coordtest.Hold(t, b.Mutex("/lock", coordinator.DetectCrash()))
		if got.Abandoned == nil || "/deep"+got.Abandoned.Node != grant.Node || !srv.Exists("/some/deep/lock"+session.RecordSuffix) {
			t.Errorf("the crash of %s below /some is told below /some/deep as %+v, want that node without /deep", grant.Node, got.Abandoned)
		}
		finish(t, next)
		if acq := b.Mutex("/", coordinator.DetectCrash()).Acquire(t.Context()); !errors.Is(acq.Err(), coordinator.ErrPath) {
			t.Errorf("a lock at the chroot itself ends with %v, want ErrPath", acq.Err())
		}
	})
}

// refused returns the end of an acquisition that was refused, and releases an acquisition that was not.
func refused(a *coordinator.Acquisition) error {
	synctest.Wait()
	defer a.Release()
	return a.Err()
}

// TestBadInputOfALockThatTellsOfCrashesSendsNothing, and ends at once.
func TestBadInputOfALockThatTellsOfCrashesSendsNothing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		holder, _ := coordtest.Hold(t, c.Mutex("/locks/plain"))
		keeper, _ := coordtest.Hold(t, detecting(c))
		before := srv.Requests(zktest.OpCreate) + srv.Requests(zktest.OpMulti)
		for what, test := range map[string]struct {
			acq  *coordinator.Acquisition
			want error
		}{
			"the root":                {c.Mutex("/", coordinator.DetectCrash()).Acquire(t.Context()), coordinator.ErrPath},
			"unfair":                  {c.Unfair("/u", coordinator.DetectCrash()).Acquire(t.Context()), coordinator.ErrKind},
			"semaphore":               {c.Semaphore("/s", 2, coordinator.DetectCrash()).Acquire(t.Context()), coordinator.ErrKind},
			"beside one without":      {c.Mutex("/locks/plain", coordinator.DetectCrash()).Acquire(t.Context()), coordinator.ErrKind},
			"without, beside one":     {c.Mutex(lockPath).Acquire(t.Context()), coordinator.ErrKind},
			"without, by the holder":  {c.Mutex(lockPath, coordinator.Reentrant()).Acquire(keeper.Context(t.Context())), coordinator.ErrKind},
			"too large for a record":  {c.Mutex("/"+strings.Repeat("p", session.MaxRequest/2-1000), coordinator.DetectCrash()).Acquire(t.Context()), coordinator.ErrTooLarge},
			"data and path too large": {detecting(c).Acquire(t.Context(), coordinator.WithData(make([]byte, session.MaxRequest-session.MarkRoom-1030-2*len(recordPath)+len(session.RecordSuffix)))), coordinator.ErrTooLarge},
		} {
			if err := refused(test.acq); !errors.Is(err, test.want) {
				t.Errorf("%s: the acquisition ended with %v, want %v", what, err, test.want)
			}
		}
		if err := c.Semaphore("/s", 2, coordinator.DetectCrash()).Resize(t.Context(), 3); !errors.Is(err, coordinator.ErrKind) {
			t.Errorf("Resize = %v, want ErrKind", err)
		}
		synctest.Wait()
		if n := srv.Requests(zktest.OpCreate) + srv.Requests(zktest.OpMulti); n != before {
			t.Errorf("%d nodes were asked for, want none", n-before)
		}
		finish(t, holder)
		finish(t, keeper)
		// The largest accepted data are what servers take, also when the next holder is told of them.
		data := make([]byte, session.MaxRequest-session.MarkRoom-3*len(recordPath)-1100)
		coordtest.Hold(t, detecting(c), coordinator.WithData(data))
		expire(t, srv, c)
		time.Sleep(time.Second)
		if _, g := coordtest.Hold(t, detecting(c)); g.Abandoned == nil || len(g.Abandoned.Data) != len(data) {
			t.Errorf("the crash of a holder with %d bytes is told as %.100v, want all of its data", len(data), g.Abandoned)
		}
	})
}

// TestAWriterThatReleasesWhileItsReaderLooks:
//
//  1. The reader in its place reads the record.
//  2. The writer releases, and its node and the record are gone.
//  3. The reader sees that the node is gone. The writer has not crashed.
func TestAWriterThatReleasesWhileItsReaderLooks(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		rw := coordtest.Connect(t, srv).ReadWrite(lockPath, coordinator.DetectCrash())
		w, _ := coordtest.Hold(t, rw.Write())
		looked := false
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Op != zktest.OpGetData || r.Path != recordPath || looked {
				return zktest.Pass()
			}
			looked = true
			w.Release()
			return zktest.Delay(10 * time.Millisecond)
		})
		a := rw.Read().Acquire(context.WithoutCancel(w.Context(t.Context())))
		if g := coordtest.Soon(t, a); g.Abandoned != nil || !looked {
			t.Errorf("the reader has looked at the record: %v, and is told of %+v; want it to look, and no crash", looked, g.Abandoned)
		}
		finish(t, a)
		leftInOrder(t, srv, rw.Write())
	})
}

// records tells whether the request claims the lock together with its record, and parts whether it removes both.
func records(r zktest.Request) bool {
	return r.Op == zktest.OpMulti && len(r.Parts) == 2 && r.Parts[0].Op == zktest.OpCheck && r.Parts[1].Path == recordPath
}

func parts(r zktest.Request) bool {
	return r.Op == zktest.OpMulti && len(r.Parts) > 1 && r.Parts[0].Op == zktest.OpDelete && r.Parts[1].Path == recordPath
}

// TestLostRepliesOfAClaimAndARelease: a claim is retried, and its record is its own; a release is retried, and the record is gone.
func TestLostRepliesOfAClaimAndARelease(t *testing.T) {
	actions := map[string]func() zktest.Action{
		"reply lost": zktest.CutAfter, "request lost": zktest.CutBefore,
		"throttled": func() zktest.Action { return zktest.Fail(zktest.Throttled) },
	}
	for name, action := range actions {
		for what, is := range map[string]func(zktest.Request) bool{
			"claim": records, "release": parts,
			"reading": func(r zktest.Request) bool { return r.Op == zktest.OpGetData && r.Path == recordPath },
		} {
			for _, times := range []int{1, 3} {
				for _, crashed := range []bool{false, true} {
					t.Run(what+", "+name, func(t *testing.T) {
						coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
							a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
							if crashed {
								coordtest.Hold(t, detecting(b))
								expire(t, srv, b)
								time.Sleep(time.Second)
							}
							left := times
							srv.Intercept(func(r zktest.Request) zktest.Action {
								if left == 0 || !is(r) {
									return zktest.Pass()
								}
								left--
								return action()
							})
							first := coordtest.Queue(detecting(a))
							second := coordtest.Queue(detecting(a))
							g, err := first.Wait(t.Context())
							if err != nil || (g.Abandoned != nil) != crashed {
								t.Errorf("the first is told of %+v, %v; want a crash: %v", g.Abandoned, err, crashed)
							}
							first.Release()
							if g, err := second.Wait(t.Context()); err != nil || g.Abandoned != nil {
								t.Errorf("the second is told of %+v, %v; want no crash, the first has released", g.Abandoned, err)
							}
							second.Release()
							time.Sleep(5 * time.Second)
							srv.Intercept(nil)
							leftInOrder(t, srv, detecting(b))
							if left > 0 && what != "reading" {
								t.Errorf("%d of %d requests were not lost, want all of them lost", left, times)
							}
						})
					})
				}
			}
		}
	}
}

// TestGivingUpWhileTheClaimIsUnderWay: the record is made all the same, and goes with the node.
func TestGivingUpWhileTheClaimIsUnderWay(t *testing.T) {
	for _, reply := range []string{"slow", "lost"} {
		for _, crashed := range []bool{false, true} {
			t.Run(reply, func(t *testing.T) {
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
					if crashed {
						coordtest.Hold(t, detecting(b))
						expire(t, srv, b)
						time.Sleep(time.Second)
					}
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					seen := false
					srv.Intercept(func(r zktest.Request) zktest.Action {
						if seen || !records(r) {
							return zktest.Pass()
						}
						seen = true
						if reply == "lost" {
							go cancel()
							return zktest.CutAfter()
						}
						time.AfterFunc(100*time.Millisecond, cancel)
						return zktest.Delay(200 * time.Millisecond)
					})
					acq := detecting(a).Acquire(ctx)
					<-acq.Done()
					time.Sleep(5 * time.Second)
					if !seen || len(srv.Children(lockPath)) > 0 || srv.Exists(recordPath) != crashed {
						t.Errorf("the claim was under way: %v; %v is left, want a record: %v, and no contender", seen, srv.Tree(), crashed)
					}
					last, g := coordtest.Hold(t, detecting(b))
					if (g.Abandoned != nil) != crashed {
						t.Errorf("after one that gave up the next is told of %+v, want a crash: %v", g.Abandoned, crashed)
					}
					finish(t, last)
					leftInOrder(t, srv, detecting(b))
				})
			})
		}
	}
}

// TestALockThatTellsOfCrashesTakesOneRoundTripMore, also in a loop, and none more for a waiter that would claim.
func TestALockThatTellsOfCrashesTakesOneRoundTripMore(t *testing.T) {
	const cycles = 100
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs, ms := coordtest.Metered(t, srv, 1)
		coordtest.Warm(t, cs[0])
		for name, wait := range map[string]bool{"awaited": true, "in a loop": false} {
			before := coordtest.Total(ms)
			for range cycles {
				a, _ := coordtest.Hold(t, detecting(cs[0]))
				a.Release()
				if wait {
					<-a.Done()
				}
			}
			synctest.Wait()
			// A contender that comes before the delete is answered may see the node, and lists.
			if n := coordtest.Total(ms).Minus(before); wait && n.Requests != 3*cycles || n.Requests < 3*cycles || n.Requests > 8*cycles {
				t.Errorf("%s: %d cycles took %+v, want 3 requests each", name, cycles, n)
			}
		}
		holder, _ := coordtest.Hold(t, detecting(cs[0]))
		waiter := coordtest.Queue(detecting(cs[0]))
		before := coordtest.Total(ms)
		handOver(t, holder, waiter)
		if n := coordtest.Total(ms).Minus(before); n.Requests != 2 {
			t.Errorf("a handoff to the only one that waits took %+v, want 2 requests", n)
		}
		finish(t, waiter)

		// A lone reader takes one more, too.
		rw := cs[0].ReadWrite("/locks/rw", coordinator.DetectCrash())
		for range 2 {
			r, _ := coordtest.Hold(t, rw.Read())
			finish(t, r)
		}
		before = coordtest.Total(ms)
		r, _ := coordtest.Hold(t, rw.Read())
		finish(t, r)
		if n := coordtest.Total(ms).Minus(before); n.Requests != 3 {
			t.Errorf("a reader alone took %+v, want 3 requests", n)
		}
	})
}

// TestAReleaseWithoutAConnection: a release without a connection is one if the session still exists at the next connection. Otherwise
// the next holder is told of a crash that was none.
func TestAReleaseWithoutAConnection(t *testing.T) {
	for _, outage := range []time.Duration{2 * time.Second, time.Minute} {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
			holder, grant := coordtest.Hold(t, detecting(a))
			session := a.SessionID()
			srv.Mute(session, true)
			time.Sleep(time.Second)
			if !holder.Valid() {
				t.Error("a second after the connection went the lock is lost, want it held")
			}
			finish(t, holder)
			time.Sleep(outage)
			srv.Mute(session, false)
			last, got := coordtest.Hold(t, detecting(b))
			if ended := outage == time.Minute; (got.Abandoned != nil) != ended || ended && got.Abandoned.Node != grant.Node {
				t.Errorf("released in an outage of %v, the next is told of %+v, want a crash: %v", outage, got.Abandoned, ended)
			}
			finish(t, last)
			leftInOrder(t, srv, detecting(a))
		})
	}
}

// TestGivingUpBeforeReentryIsNoCrash: it has done nothing, and the others have released. The scheduler decides when the
// session answers, so there are many.
func TestGivingUpBeforeReentryIsNoCrash(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		l := detecting(a, coordinator.Reentrant())
		for range eventstest.Amount(60, 500) {
			outer, _ := coordtest.Hold(t, l)
			var inner []*coordinator.Acquisition
			for i := range 50 {
				inner = append(inner, l.Acquire(outer.Context(context.Background())))
				if i >= 5 {
					inner[i-5].Release()
				}
			}
			for _, in := range inner {
				coordtest.End(in)
			}
			finish(t, outer)
			last, grant := coordtest.Hold(t, detecting(b))
			finish(t, last)
			if grant.Abandoned != nil {
				t.Fatalf("the next holder is told of %+v, want no crash", grant.Abandoned)
			}
		}
		leftInOrder(t, srv, detecting(b))
	})
}

// TestALeaseThatEndsBetweenTheProofAndTheClaim:
//
//  1. A create proves that its contender is alone. The answer comes late.
//  2. The claim is under way when the lease of that proof runs out.
//  3. The claim is answered in time, and granted. The holder is told of its loss.
func TestALeaseThatEndsBetweenTheProofAndTheClaim(t *testing.T) {
	const timeout = 20 * time.Second
	granted := 0
	for lag := timeout / 8; lag < timeout/2; lag += timeout / 200 {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			network := coordtest.NewMeter(srv)
			c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(timeout), coordinator.WithDialer(network.Dial))
			coordtest.Warm(t, c)
			network.Lag(faultnet.Down, lag)
			time.Sleep(timeout)
			a := detecting(c).Acquire(t.Context())
			select {
			case <-a.Granted():
			case <-time.After(2 * timeout): // its claims are answered too late, one after the other
				return
			}
			granted++
			srv.MuteAll(true)
			select {
			case <-a.Lost():
			case <-time.After(timeout):
				t.Errorf("answers take %v: a timeout after the last sign of life nothing is told, want a loss", lag)
			}
			srv.MuteAll(false)
		})
	}
	if granted < 10 {
		t.Errorf("%d of the lags came to a grant, want at least 10", granted)
	}
}

// TestRealDetectCrash: releases and crashes of holders on three servers, the next holder on another server each time.
func TestRealDetectCrash(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel()
	const path, record = "/locks/crash", "/locks/crash" + session.RecordSuffix
	e := coordtest.Servers(t, 3)
	ctx := coordtest.RealContext(t)
	conn := coordtest.RawClient(t, e.Addr(0))
	locks := make([]*coordinator.ReadWrite, 0, 3)
	for i := range 3 {
		locks = append(locks, coordtest.ConnectReal(t, e.Addr(i)).ReadWrite(path, coordinator.DetectCrash()))
	}
	stands := func() bool {
		t.Helper()
		if _, err := conn.Sync(path); err != nil {
			t.Fatal(err)
		}
		there, _, err := conn.Exists(record)
		if err != nil {
			t.Fatal(err)
		}
		return there
	}
	crashed := ""                                  // the first crashed holder since the last release
	for round := range eventstest.Amount(15, 30) { // each of what may happen, on each of the servers
		l := locks[round%3]
		reader := l.Read().Acquire(ctx)
		g := coordtest.GrantOf(t, reader)
		waiter := l.Write().Acquire(ctx, coordinator.WithData([]byte("waiter")))
		if told := g.Abandoned; (told != nil) != (crashed != "") || told != nil && told.Node != crashed {
			t.Errorf("round %d: a reader is told %+v, want that %q has crashed", round, told, crashed)
		}
		reader.Release()
		g = coordtest.GrantOf(t, waiter)
		if told := g.Abandoned; (told != nil) != (crashed != "") || told != nil && (told.Node != crashed || string(told.Data) != "waiter") {
			t.Errorf("round %d: a writer is told %+v, want that %q has crashed", round, told, crashed)
		}
		if !stands() {
			t.Errorf("round %d: no record stands while the lock is held, want one", round)
		}
		switch round % 5 {
		case 1, 2: // another client deletes its node
			eventstest.Must(t, conn.Delete(g.Node, -1))
			<-waiter.Done()
			if crashed == "" {
				crashed = g.Node
			}
		case 3: // it becomes a reader
			again := l.Read().Acquire(waiter.Context(ctx))
			if got := coordtest.GrantOf(t, again); (got.Abandoned != nil) != (crashed != "") {
				t.Errorf("round %d: a reader in the place of a writer is told %+v, want a crash: %v", round, got.Abandoned, crashed != "")
			}
			coordtest.End(waiter)
			coordtest.End(again)
			crashed = ""
		default:
			coordtest.End(waiter)
			crashed = ""
		}
		if err := waiter.Err(); crashed == "" && err != nil {
			t.Errorf("round %d: released, it ends with %v, want nil", round, err)
		}
		if stands() != (crashed != "") {
			t.Errorf("round %d: the record stands: %v, want %v", round, stands(), crashed != "")
		}
	}
}

// TestRealDetectCrashExpired: the session of a holder ends, with a waiter and without.
func TestRealDetectCrashExpired(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel()
	e := coordtest.Servers(t, 1)
	for name, waits := range map[string]bool{"no waiter": false, "a waiter": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := coordtest.RealContext(t)
			p := ensemble.StartProxy(t, e.Addr(0))
			c, err := coordinator.Connect(ctx, p.Addr(), coordinator.WithSessionTimeout(2*time.Second))
			eventstest.Must(t, err)
			lock := func(c *coordinator.Coordinator) *coordinator.Lock {
				return c.Mutex(fmt.Sprint("/expired/", waits), coordinator.DetectCrash())
			}
			before := time.Now()
			a := lock(c).Acquire(ctx, coordinator.WithData([]byte("who")))
			g := coordtest.GrantOf(t, a)
			next := lock(coordtest.ConnectReal(t, e.Connect()))
			var waiter *coordinator.Acquisition
			if waits {
				waiter = next.Acquire(ctx)
			}
			p.Refuse(true)
			p.Cut()
			coordtest.LossOf(t, a)
			if !waits {
				waiter = next.Acquire(ctx)
			}
			got := coordtest.GrantOf(t, waiter).Abandoned
			if got == nil || got.Node != g.Node || got.Token != g.Token || string(got.Data) != "who" || got.Since.Before(before) || got.Since.After(time.Now()) {
				t.Errorf("the next holder is told of %+v, want the crash of %+v since %v", got, g, before)
			}
			finish(t, waiter)
			_ = c.Close() // it cannot tell the server
		})
	}
}
