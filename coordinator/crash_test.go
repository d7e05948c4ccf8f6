package coordinator_test

import (
	"context"
	"fmt"
	"path"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

const recordPath = lockPath + session.RecordSuffix

// detecting returns the lock that most of these tests use.
func detecting(c *coordinator.Coordinator) *coordinator.Lock {
	return c.Mutex(lockPath, coordinator.DetectCrash())
}

func finish(t *testing.T, a *coordinator.Acquisition) {
	t.Helper()
	a.Release()
	expectError(t, coordtest.EndOf(t, a), nil, "the end after a release")
}

func expire(t *testing.T, srv *zktest.Server, c *coordinator.Coordinator) {
	t.Helper()
	eventstest.Must(t, srv.Expire(c.SessionID()))
}

// refused returns the error of an acquisition that is refused at once, and releases one
// that is not.
func refused(a *coordinator.Acquisition) error {
	synctest.Wait()
	defer a.Release()
	return a.Err()
}

// tellsOf checks whether a Grant reports a crash, and the data of the crashed holder.
func tellsOf(t *testing.T, g events.Grant, crashed bool, data string) {
	t.Helper()
	if (g.Abandoned != nil) != crashed || crashed && string(g.Abandoned.Data) != data {
		t.Fatalf("the holder is told of %+v, want a crash: %v, with the data %q", g.Abandoned, crashed, data)
	}
}

// leftInOrder checks that the next holder gets no report of a crash, and that nothing is
// left.
func leftInOrder(t *testing.T, srv *zktest.Server, l *coordinator.Lock) {
	t.Helper()
	a := l.Acquire(context.Background())
	tellsOf(t, coordtest.Soon(t, a), false, "")
	finish(t, a)
	synctest.Wait()
	expect(t, !srv.Exists(recordPath) && len(srv.Children(lockPath)) == 0, "at the end %v is left", srv.Tree())
}

// TestARecordStandsWhileTheLockIsHeld: the record is beside the lock's directory,
// contains the caller's data, and is deleted together with the node.
func TestARecordStandsWhileTheLockIsHeld(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l, who := detecting(coordtest.Connect(t, srv)), []byte("who\n\nI am")
		option := coordinator.Data(who)
		who[0] = 'X' // the option has a copy
		for range 3 {
			a, grant := coordtest.Hold(t, l, option)
			tellsOf(t, grant, false, "")
			want := fmt.Sprintf("zkgrant holder\nnode %s\ntoken 0x%x\nsince %s\n\nwho\n\nI am",
				path.Base(grant.Node), grant.Token, time.Now().UTC().Format(time.RFC3339Nano))
			expectData(t, srv, recordPath, want)
			expect(t, len(srv.Children(lockPath)) == 1, "a held lock has the nodes %v", srv.Children(lockPath))
			finish(t, a)
			expect(t, !srv.Exists(recordPath), "after the release the record is there, want it gone")
			time.Sleep(time.Second)
		}
	})
}

// TestAbandonIsACrash: abandoning a taken Grant counts as a crash, and so does a panic in
// a term; leaving a term does not. The record says since when the lock was held. The
// first crash is reported until a holder releases.
func TestAbandonIsACrash(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		released, _ := coordtest.Hold(t, detecting(a))
		finish(t, released)
		released.Abandon()
		untaken := coordtest.Queue(detecting(a))
		untaken.Abandon()
		expectError(t, coordtest.EndOf(t, untaken), coordinator.ErrNotAcquired, "an abandoned Grant that was not taken")
		election := a.Election(lockPath, coordinator.DetectCrash())
		for _, err := range election.Terms(t.Context()) {
			eventstest.Must(t, err)
			break
		}
		leftInOrder(t, srv, detecting(b))
		for _, data := range []string{"first", "second"} {
			held, _ := coordtest.Hold(t, detecting(a), coordinator.Data([]byte(data)))
			held.Abandon()
			finish(t, held)
			expect(t, len(srv.Children(lockPath)) == 0, "abandoned, it has the nodes %v", srv.Children(lockPath))
		}
		next, got := coordtest.Hold(t, detecting(b))
		tellsOf(t, got, true, "first")
		finish(t, next)
		leftInOrder(t, srv, detecting(a))

		began := time.Now()
		time.Sleep(time.Second)
		panics(func() {
			for _, err := range election.Terms(t.Context(), named("term")) {
				panic(fmt.Sprint("boom, ", err))
			}
		})
		next, got = coordtest.Hold(t, detecting(b))
		tellsOf(t, got, true, "term")
		since := got.Abandoned.Since
		expect(t, !since.Before(began) && !since.After(time.Now()), "held since %v, want after %v", since, began)
		expect(t, reflect.DeepEqual(next.Grant(), got), "Grant() = %+v, and %+v was delivered", next.Grant(), got)
	})
}

// TestACrashIsToldByTheNameBelowEachChroot: a crash is reported with the node's path
// below the reader's chroot.
func TestACrashIsToldByTheNameBelowEachChroot(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := connectBelow(t, srv, "/some"), connectBelow(t, srv, "/some/deep")
		_, grant := coordtest.Hold(t, a.Mutex("/deep/lock", coordinator.DetectCrash()))
		expire(t, srv, a)
		time.Sleep(time.Second)
		next, got := coordtest.Hold(t, b.Mutex("/lock", coordinator.DetectCrash()))
		tellsOf(t, got, true, "")
		expect(t, srv.Exists("/some/deep/lock"+session.RecordSuffix), "the record is elsewhere: %v", srv.Tree())
		expectEqual(t, "/deep"+got.Abandoned.Node, grant.Node, "the node told below /some/deep, from /some")
		finish(t, next)
		chroot := b.Mutex("/", coordinator.DetectCrash()).Acquire(t.Context())
		expectError(t, chroot.Err(), coordinator.ErrPath, "a lock at the chroot itself")
	})
}

// TestBadInputOfALockThatTellsOfCrashesSendsNothing, and ends at once.
func TestBadInputOfALockThatTellsOfCrashesSendsNothing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		holder, _ := coordtest.Hold(t, c.Mutex("/locks/plain"))
		keeper, _ := coordtest.Hold(t, detecting(c))
		made := counting(srv, isA(zktest.OpCreate, zktest.OpMulti))
		at := func(path string) *coordinator.Lock { return c.Mutex(path, coordinator.DetectCrash()) }
		long := "/" + strings.Repeat("p", session.MaxRequest/2-1000)
		room := session.MaxRequest - session.MarkRoom - 2*len(recordPath) + len(session.RecordSuffix)
		large := coordinator.Data(make([]byte, room-1030))
		inside := keeper.Context(t.Context())
		for what, test := range map[string]struct {
			a    *coordinator.Acquisition
			want error
		}{
			"the root":                {at("/").Acquire(t.Context()), coordinator.ErrPath},
			"beside one without":      {at("/locks/plain").Acquire(t.Context()), coordinator.ErrKind},
			"without, beside one":     {c.Mutex(lockPath).Acquire(t.Context()), coordinator.ErrKind},
			"without, by the holder":  {c.Mutex(lockPath, coordinator.Reentrant()).Acquire(inside), coordinator.ErrKind},
			"too large for a record":  {at(long).Acquire(t.Context()), coordinator.ErrTooLarge},
			"data and path too large": {detecting(c).Acquire(t.Context(), large), coordinator.ErrTooLarge},
		} {
			expectError(t, refused(test.a), test.want, what)
		}
		expectEqual(t, made.Load(), 0, "nodes that were asked for")
		finish(t, holder)
		finish(t, keeper)
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
		looks := strikeNth(srv, 1, func(*zktest.Server, int64) zktest.Action {
			w.Release()
			return zktest.Delay(10 * time.Millisecond)
		}, readsRecord)
		a := rw.Read().Acquire(context.WithoutCancel(w.Context(t.Context())))
		tellsOf(t, coordtest.Soon(t, a), false, "")
		expect(t, looks.Load() > 0, "the reader has not looked at the record")
		finish(t, a)
		leftInOrder(t, srv, rw.Write())
	})
}

// claims reports whether the request claims the lock together with its record, parts
// whether it removes both, and readsRecord whether it reads the record.
func claims(r zktest.Request) bool {
	return r.Op == zktest.OpMulti && len(r.Parts) == 2 && r.Parts[0].Op == zktest.OpCheck && r.Parts[1].Path == recordPath
}

func parts(r zktest.Request) bool {
	return r.Op == zktest.OpMulti && len(r.Parts) > 1 && r.Parts[0].Op == zktest.OpDelete && r.Parts[1].Path == recordPath
}

func readsRecord(r zktest.Request) bool { return r.Op == zktest.OpGetData && r.Path == recordPath }

// Claims and releases are retried, and the next Grant reports an earlier crash only.
func TestLostRepliesOfAClaimAndARelease(t *testing.T) {
	for name, action := range map[string]zktest.Action{
		"reply lost": zktest.CutAfter(), "request lost": zktest.CutBefore(), "throttled": zktest.Fail(zktest.Throttled),
	} {
		for what, is := range map[string]func(zktest.Request) bool{
			"claim": claims, "release": parts, "reading": readsRecord,
		} {
			for i := range 4 {
				crashed, times := i%2 == 1, int32(1+i/2*2)
				coordtest.Case(t, what+", "+name, func(t *testing.T, srv *zktest.Server) {
					a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
					if crashed {
						coordtest.Hold(t, detecting(b), named("first"))
						expire(t, srv, b)
						time.Sleep(time.Second)
					}
					var seen atomic.Int32
					strike(srv, action, func(r zktest.Request) bool { return is(r) && seen.Add(1) <= times })
					first, second := coordtest.Queue(detecting(a)), coordtest.Queue(detecting(a))
					tellsOf(t, coordtest.GrantOf(t, first), crashed, "first")
					first.Release()
					tellsOf(t, coordtest.GrantOf(t, second), false, "")
					second.Release()
					time.Sleep(5 * time.Second)
					srv.Intercept(nil)
					leftInOrder(t, srv, detecting(b))
					expect(t, seen.Load() >= times || what == "reading", "%d of %d requests were lost", seen.Load(), times)
				})
			}
		}
	}
}

// TestALockThatTellsOfCrashesTakesOneRoundTripMore, except for a single waiter.
func TestALockThatTellsOfCrashesTakesOneRoundTripMore(t *testing.T) {
	const cycles = 100
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs, ms := coordtest.Metered(t, srv, 1)
		coordtest.Warm(t, cs[0])
		requests := func(do func()) int { return coordtest.Cost(ms, do).Requests }
		n := requests(func() { holdAgainAndAgain(t, detecting(cs[0]), cycles) })
		expectEqual(t, n, 3*cycles, "requests of %d cycles", cycles)
		n = requests(func() {
			for range cycles {
				a, _ := coordtest.Hold(t, detecting(cs[0]))
				a.Release()
			}
		})
		// A contender that arrives before the answer to the delete may see the node.
		expect(t, n >= 3*cycles && n <= 8*cycles, "%d cycles in a loop took %d requests", cycles, n)
		holder, _ := coordtest.Hold(t, detecting(cs[0]))
		waiter := coordtest.Queue(detecting(cs[0]))
		expectEqual(t, requests(func() { handOver(t, holder, waiter) }), 2, "requests of a handoff to one waiter")
		finish(t, waiter)
		// A lone reader takes one more round trip, too.
		rw := cs[0].ReadWrite("/locks/rw", coordinator.DetectCrash())
		holdAgainAndAgain(t, rw.Read(), 2)
		expectEqual(t, requests(func() { holdAgainAndAgain(t, rw.Read(), 1) }), 3, "requests of a reader alone")
	})
}

// TestALeaseThatEndsBetweenTheProofAndTheClaim:
//
//  1. A create proves that its contender is alone. The answer is late.
//  2. The claim is under way when the lease of that proof runs out.
//  3. The claim is answered in time, and the lock is granted. The holder must be told of
//     its loss.
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
			case <-time.After(2 * timeout): // each of its claims is answered too late
				return
			}
			granted++
			srv.MuteAll(true)
			select {
			case <-a.Lost():
			case <-time.After(timeout):
				t.Errorf("answers take %v: a timeout after the last sign of life nothing is told, want a loss", lag)
			}
		})
	}
	expect(t, granted >= 10, "%d of the lags came to a grant, want at least 10", granted)
}
