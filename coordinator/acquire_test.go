package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestDataIsCopiedIntoTheNode(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		data := []byte("host-7")
		option := coordinator.WithData(data)
		data[0] = 'X'
		_, grant := coordtest.Hold(t, c.Mutex(lockPath), option)
		if got, _ := srv.Data(grant.Node); string(got) != "host-7" {
			t.Errorf("the node has %q, want %q", got, "host-7")
		}
	})
}

func TestContextsEndWithTheLockAndSayWhy(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		a := c.Mutex(lockPath).Acquire(t.Context())
		early := a.Context(t.Context())
		if _, err := a.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		parent, cancel := context.WithCancel(t.Context())
		child := a.Context(parent)
		cancel()
		if early.Err() != nil || !errors.Is(child.Err(), context.Canceled) {
			t.Errorf("while the lock is held: %v, and %v below a parent that is over; want nil and context.Canceled",
				early.Err(), child.Err())
		}
		a.Release()
		<-early.Done()
		if cause := context.Cause(early); !errors.Is(cause, coordinator.ErrReleased) {
			t.Errorf("after the release the context ends with %v, want ErrReleased", cause)
		}
		late := a.Context(t.Context())
		<-late.Done()

		b, _ := coordtest.Hold(t, c.Mutex(lockPath))
		ctx := b.Context(t.Context())
		eventstest.Must(t, srv.Expire(c.SessionID()))
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, coordinator.ErrSessionExpired) || b.Valid() {
			t.Errorf("after the loss the context ends with %v, valid: %v; want ErrSessionExpired", cause, b.Valid())
		}
	})
}

// What has to happen in the end is waited for with a bound here, in virtual time: a stuck lock fails these tests at once, and
// not at the time limit of the whole run.

// A lock in one round trip, and handoffs that do not list, as callers see them.

// TestTokensGrowInALoop: each token is the zxid that created the node, by whichever way it was learnt.
func TestTokensGrowInALoop(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs := []*coordinator.Coordinator{coordtest.Connect(t, srv), coordtest.Connect(t, srv)}
		var last int64
		for i := range 20 {
			a, grant := coordtest.Hold(t, cs[i/5%2].Mutex(lockPath))
			listed := srv.Children(lockPath)
			if grant.Token <= last || len(listed) != 1 || grant.Node != lockPath+"/"+listed[0] {
				t.Errorf("cycle %d: %+v is granted after the token %d, with the nodes %v; want a greater one, and its node alone",
					i, grant, last, listed)
			}
			last = grant.Token
			coordtest.End(a)
		}
	})
}

// TestAWaiterWalksBackAsFarAsItRemembers: the waiters between it and the holder give up, the nearest first. It stays where it
// is until the holder goes.
func TestAWaiterWalksBackAsFarAsItRemembers(t *testing.T) {
	const between = 9 // more than it remembers twice
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, others := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		coordtest.Warm(t, c, others)
		holder, held := coordtest.Hold(t, others.Mutex(lockPath))
		ahead := make([]*coordinator.Acquisition, between)
		for i := range ahead {
			ahead[i] = coordtest.Queue(others.Mutex(lockPath))
		}
		last := coordtest.Queue(c.Mutex(lockPath))
		for i := between - 1; i >= 0; i-- {
			ahead[i].Release()
			synctest.Wait()
			if last.Valid() || !holder.Valid() {
				t.Fatalf("with %d between, the last one holds: %v, the holder: %v; want the holder alone", i, last.Valid(), holder.Valid())
			}
		}
		holder.Release()
		if grant := coordtest.Soon(t, last); grant.Token <= held.Token {
			t.Errorf("%+v is granted after %+v, want a greater token", grant, held)
		}
	})
}

// TestGivingUpGrantsNoLock: the directory has a floor, of an earlier holder. It says nothing of a waiter that gives up, and
// that waiter writes none.
func TestGivingUpGrantsNoLock(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs := []*coordinator.Coordinator{coordtest.Connect(t, srv), coordtest.Connect(t, srv), coordtest.Connect(t, srv)}
		coordtest.Warm(t, cs...)
		all := make([]*coordinator.Acquisition, 6)
		for i := range all {
			all[i] = coordtest.Queue(cs[i%len(cs)].Mutex(lockPath))
		}
		for i := range 3 { // the second leaves the first floor
			coordtest.Soon(t, all[i])
			if i < 2 {
				all[i].Release()
			}
		}
		holder, next, last := all[2], all[4], all[5]
		next.Release()
		synctest.Wait()
		all[3].Release()
		synctest.Wait()
		if !holder.Valid() || last.Valid() || len(last.Granted()) != 0 {
			t.Fatalf("when two have given up the holder holds: %v, the last one: %v; want the holder alone", holder.Valid(), last.Valid())
		}
		holder.Release()
		coordtest.Soon(t, last)
	})
}

// TestAFloorThatIsWrittenOverCostsAListing, and nothing else: between the release and the read a contender joins that does not
// know of the others, and marks the directory.
func TestAFloorThatIsWrittenOverCostsAListing(t *testing.T) {
	const waiters = 6
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs := []*coordinator.Coordinator{coordtest.Connect(t, srv), coordtest.Connect(t, srv), coordtest.Connect(t, srv)} // with two sessions the floor is not read
		coordtest.Warm(t, cs...)
		all := make([]*coordinator.Acquisition, 2+waiters)
		for i := range all {
			all[i] = coordtest.Queue(cs[i%3].Mutex(lockPath))
		}
		lists := srv.Requests(zktest.OpGetChildren2)
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Op == zktest.OpGetData && r.Path == lockPath {
				if err := srv.SetData(lockPath, []byte("zkgrant\n")); err != nil {
					t.Error(err)
				}
			}
			return zktest.Pass()
		})
		var last int64
		for _, a := range all {
			grant := coordtest.Soon(t, a)
			if grant.Token <= last || !a.Valid() {
				t.Errorf("%+v is granted after the token %d, valid: %v; want a greater one, and valid", grant, last, a.Valid())
			}
			last = grant.Token
			a.Release()
		}
		if n := srv.Requests(zktest.OpGetChildren2) - lists; n != waiters { // the first one to wait has one ahead only
			t.Errorf("%d listings, want %d, one for each handoff but the first", n, waiters)
		}
	})
}

// TestALoneHolderIsToldOfItsLosses: it has made one request.
func TestALoneHolderIsToldOfItsLosses(t *testing.T) {
	const timeout, locks = 10 * time.Second, 20
	for reason, c := range map[events.Reason]struct {
		within  time.Duration
		happens func(t *testing.T, srv *zktest.Server, held events.Grant)
	}{
		events.ReasonLeaseRanOut: {timeout, func(_ *testing.T, srv *zktest.Server, _ events.Grant) { srv.MuteAll(true) }},
		// The probes look at one of the locks each.
		events.ReasonNodeRemoved: {100 * time.Millisecond, func(t *testing.T, srv *zktest.Server, held events.Grant) {
			if err := srv.Delete(held.Node); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(reason.String(), func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				cs := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(timeout))
				mutex := func(i int) *coordinator.Lock { return cs.Mutex(fmt.Sprint("/locks/", i)) }
				for i := range 3 * locks { // twice, so that the directory is known
					a, _ := coordtest.Hold(t, mutex(i%locks))
					coordtest.End(a)
				}
				sent := coordtest.Traffic(srv)
				var last *coordinator.Acquisition
				var held events.Grant
				for i := range locks {
					last, held = coordtest.Hold(t, mutex(i))
				}
				if n := sent.Load(); n != locks {
					t.Fatalf("%d requests for %d locks, want one each", n, locks)
				}
				srv.Intercept(nil)
				time.Sleep(timeout + timeout/40) // past the first pace, and between two probes
				c.happens(t, srv, held)
				select {
				case lost := <-last.Lost():
					if lost.Reason != reason || lost.Token != held.Token {
						t.Errorf("the holder hears %+v, want %v of the token %d", lost, reason, held.Token)
					}
				case <-time.After(c.within):
					t.Errorf("nothing was heard in %v, want a loss: %v", c.within, reason)
				}
				srv.MuteAll(false)
			})
		})
	}
}

// TestNoSizeForAnotherKindOfLock: a path that is in use as another kind of lock gets no size, whether this process uses it or,
// where that shows, another process.
func TestNoSizeForAnotherKindOfLock(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		coordtest.Hold(t, a.Mutex(lockPath))
		coordtest.Hold(t, a.Unfair(taskPath))
		before := srv.Tree()
		for what, err := range map[string]error{
			"Resize of a mutex":             a.Semaphore(lockPath, 2).Resize(t.Context(), 3),
			"Resize of an unfair lock":      a.Semaphore(taskPath, 2).Resize(t.Context(), 3),
			"Resize of another's":           b.Semaphore(taskPath, 2).Resize(t.Context(), 3),
			"permit of an unfair lock":      coordtest.EndOf(t, b.Semaphore(taskPath, 2).Acquire(t.Context())),
			"permit of an unfair one tried": coordtest.EndOf(t, b.Semaphore(taskPath, 2).Acquire(t.Context(), coordinator.Try())),
		} {
			if !errors.Is(err, coordinator.ErrKind) {
				t.Errorf("%s: %v, want ErrKind", what, err)
			}
		}
		if after := srv.Tree(); !slices.Equal(after, before) {
			t.Errorf("what was refused has left %v, want %v", after, before)
		}
	})
}

// steps is how many requests a waiter takes until it waits: create, list, watch its own node, and the node ahead. A free lock
// in another library's directory takes one less. In one of ours it takes one.
const steps = 4

// TestContextCancelledAtEachStep ends the context at each request of an acquisition, right before the server executes it, and
// again between its execution and its answer; also at each request of a waiter that is granted the lock meanwhile; in a
// directory that is known to be ours, and in another library's.
func TestContextCancelledAtEachStep(t *testing.T) {
	for _, ours := range []bool{false, true} {
		for _, queued := range []bool{false, true} {
			for _, late := range []bool{false, true} {
				for nth := 1; nth <= steps+4; nth++ {
					name := fmt.Sprintf("our directory %v, queued %v, answered late %v, request %d", ours, queued, late, nth)
					t.Run(name, func(t *testing.T) {
						coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) { cancelAt(t, srv, ours, queued, late, nth) })
					})
				}
			}
		}
	}
}

func cancelAt(t *testing.T, srv *zktest.Server, ours, queued, late bool, nth int) {
	t.Helper()
	c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
	before := steps
	if !queued {
		before--
	}
	if ours {
		coordtest.Warm(t, c, other)
		if !queued {
			before = 1
		}
	} else if err := srv.Create(lockPath, nil); err != nil {
		t.Fatal(err)
	}
	var holder *coordinator.Acquisition
	if queued {
		holder, _ = coordtest.Hold(t, other.Mutex(lockPath))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	count, victim := 0, c.SessionID()
	srv.Intercept(func(r zktest.Request) zktest.Action {
		if r.Session != victim || r.Op == zktest.OpPing {
			return zktest.Pass()
		}
		if count++; count != nth {
			return zktest.Pass()
		}
		if !late {
			cancel()
			return zktest.Pass()
		}
		time.AfterFunc(time.Second, cancel)
		return zktest.Delay(2 * time.Second)
	})
	a := c.Mutex(lockPath).Acquire(ctx)
	if queued {
		time.Sleep(5 * time.Second)
		holder.Release()
	}
	patience, stop := context.WithTimeout(context.Background(), time.Hour)
	defer stop()
	_, err := a.Wait(patience)
	switch {
	case errors.Is(err, context.Canceled):
		if ctx.Err() == nil {
			t.Error("Wait says that the context was cancelled, and it was not")
		}
	case err != nil:
		t.Errorf("Wait = %v, want a grant or context.Canceled", err)
	case late && nth <= before:
		t.Error("granted with the context cancelled for a second, want context.Canceled")
	default:
		cancel() // the wait is over
		synctest.Wait()
		if !a.Valid() {
			t.Error("when the grant is taken, and the context cancelled, the lock is not valid, want it held")
		}
		a.Release()
	}
	<-a.Done()
	time.Sleep(3 * time.Second)
	if got := srv.Children(lockPath); len(got) != 0 {
		t.Errorf("when it is over the nodes %v are left, want none", got)
	}
	if n := srv.Watches(); n != 0 {
		t.Errorf("when it is over %d watches are left, want none", n)
	}
	coordtest.Hold(t, c.Mutex(lockPath))
}

// TestQueuedComesWithEachListing compares the events with a waiter's listings: after its create, and again on each new
// connection.
func TestQueuedComesWithEachListing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		for i := range 3 {
			eventstest.Must(t, srv.Create(fmt.Sprintf("%s/lock-%010d", lockPath, i), nil))
		}
		eventstest.Must(t, srv.SetSequence(lockPath, 3))
		c := coordtest.Connect(t, srv)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream := c.Events(ctx)
		var ahead []int
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for ev := range stream {
				if q, ok := ev.(events.Queued); ok {
					ahead = append(ahead, q.Ahead)
				}
			}
		}()
		a := coordtest.Queue(c.Mutex(lockPath))
		for i := range 3 {
			srv.Cut(c.SessionID())
			time.Sleep(time.Second) // until it is connected, and has listed
			eventstest.Must(t, srv.Delete(fmt.Sprintf("%s/lock-%010d", lockPath, i)))
		}
		if _, err := a.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		cancel()
		<-ended
		if want := []int{3, 3, 2, 1}; !slices.Equal(ahead, want) {
			t.Errorf("ahead were %v, want %v", ahead, want)
		}
		if n := srv.Requests(zktest.OpGetChildren2); n != len(ahead) {
			t.Errorf("%d listings, want %d, one for each Queued", n, len(ahead))
		}
	})
}

// TestWaitIsAFuture: each goroutine gets the same Grant while the lock is held, also if its context has ended, and if it was
// received from the channel, or seen on the stream, before. After the end it gets what Err returns, and ErrReleased if that is nil.
func TestWaitIsAFuture(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) { playFuture(t, onTheDouble(t, srv)) })
}

// TestRealWaitIsAFuture is the same on a real server.
func TestRealWaitIsAFuture(t *testing.T) { playFuture(t, onARealServer(t)) }

func playFuture(t *testing.T, s *site) {
	t.Helper()
	c := s.connect()
	stream := c.Events(t.Context())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	holder, _ := coordtest.Hold(t, s.connect().Mutex(lockPath))

	a := c.Mutex(lockPath).Acquire(t.Context())
	if g, err := a.Wait(ended); !errors.Is(err, context.Canceled) || a.Err() != nil {
		t.Errorf("a waiter's Wait with a context that has ended: %+v, %v, and Err %v; want context.Canceled and nil", g, err, a.Err())
	}
	grants := make([]events.Grant, 8)
	var all sync.WaitGroup
	for i := range grants {
		all.Go(func() { grants[i] = coordtest.GrantOf(t, a) })
	}
	holder.Release()
	all.Wait()
	if g := coordtest.GrantOf(t, a); !reflect.DeepEqual(g, a.Grant()) {
		t.Errorf("Wait after the Grant: %+v, want %+v", g, a.Grant())
	}
	for i, g := range grants {
		if !reflect.DeepEqual(g, a.Grant()) || g.Token == 0 {
			t.Errorf("goroutine %d of the %d that waited got %+v, want %+v", i, len(grants), g, a.Grant())
		}
	}
	if g, err := a.Wait(ended); err != nil || g.Token != a.Grant().Token || len(a.Granted()) != 0 {
		t.Errorf("a holder's Wait with a context that has ended: %+v, %v, with %d Grants in the channel; want the Grant, and none", g, err, len(a.Granted()))
	}
	a.Release()
	wantWait(t, a, "released", coordinator.ErrReleased)

	withdrawn := c.Mutex(lockPath).Acquire(t.Context())
	withdrawn.Release()
	wantWait(t, withdrawn, "withdrawn", coordinator.ErrNotAcquired)

	read := c.Mutex(lockPath).Acquire(t.Context())
	fromChannel := eventstest.Receive(t, read.Granted(), "the Grant")
	if g := coordtest.GrantOf(t, read); !reflect.DeepEqual(g, fromChannel) {
		t.Errorf("Wait after Granted: %+v, want %+v", g, fromChannel)
	}
	for seen := false; !seen; {
		g, ok := eventstest.Receive(t, stream, "the Grant on the stream").(events.Grant)
		seen = ok && g.ID == read.ID()
	}
	if err := s.raw.Delete(s.root+fromChannel.Node, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Fatal(err)
	}
	wantWait(t, read, "lost", coordinator.ErrNodeRemoved)
}

// wantWait checks what Wait returns for an acquisition that has ended, or is about to.
func wantWait(t *testing.T, a *coordinator.Acquisition, how string, want error) {
	t.Helper()
	<-a.Done()
	for range 2 {
		g, err := a.Wait(coordtest.RealContext(t))
		if !errors.Is(err, want) || a.Err() != nil && !errors.Is(err, a.Err()) || !reflect.DeepEqual(g, events.Grant{}) {
			t.Errorf("%s: Wait = %+v, %v; want %v, and Err is %v", how, g, err, want, a.Err())
		}
	}
}

// TestWaitInAFunctionThatHasLostItsLock returns the loss, though the acquisition ends no sooner than the function.
func TestWaitInAFunctionThatHasLostItsLock(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		err := c.Mutex(lockPath).Do(t.Context(), func(ctx context.Context, grant events.Grant) error {
			a, _ := coordinator.FromContext(ctx)
			if g, err := a.Wait(ctx); err != nil || g.Token != grant.Token {
				t.Errorf("Wait in a function that holds: %+v, %v; want %+v", g, err, grant)
			}
			eventstest.Must(t, srv.Expire(c.SessionID()))
			<-ctx.Done()
			_, err := a.Wait(context.WithoutCancel(ctx))
			return err
		})
		if !errors.Is(err, coordinator.ErrSessionExpired) {
			t.Errorf("Do of a function that returns the error of Wait after the loss: %v, want ErrSessionExpired", err)
		}
	})
}

// TestPosition: how many contenders are ahead of a waiter of each kind of lock. For the first waiter of a semaphore there are
// none.
func TestPosition(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) { playPosition(t, onTheDouble(t, srv)) })
}

// TestRealPosition is the same on a real server.
func TestRealPosition(t *testing.T) { playPosition(t, onARealServer(t)) }

func playPosition(t *testing.T, s *site) {
	t.Helper()
	c := s.connect()
	wants := func(when string, a *coordinator.Acquisition, ahead int) {
		t.Helper()
		eventstest.Eventually(t, fmt.Sprintf("%s: Position = %d, true", when, ahead), func() bool {
			got, ok := a.Position()
			return ok && got == ahead
		}, func() string {
			got, ok := a.Position()
			return fmt.Sprintf("it is %d, %t", got, ok)
		})
	}
	none := func(when string, a *coordinator.Acquisition) {
		t.Helper()
		if got, ok := a.Position(); got != 0 || ok {
			t.Errorf("%s: Position = %d, %t; want 0, false", when, got, ok)
		}
	}
	for kind, k := range map[string]struct {
		lock        acquirer
		first, each int // ahead of the first waiter, and more for each further one
	}{
		"mutex":      {c.Mutex("/position/mutex"), 1, 1},
		"write":      {c.ReadWrite("/position/readwrite").Write(), 1, 1},
		"election":   {campaigner{c.Election("/position/election")}, 1, 1},
		"multi-lock": {c.Multi(c.Mutex("/position/a"), c.Mutex("/position/b")), 2, 2}, // at both paths
		"semaphore":  {c.Semaphore("/position/semaphore", 1), 0, 1},                   // the holder is in the queue no more
		"unfair":     {c.Unfair("/position/unfair"), 1, 0},                            // there is no queue
	} {
		holder := k.lock.Acquire(t.Context())
		coordtest.GrantOf(t, holder)
		none(kind+": a holder", holder)
		first := k.lock.Acquire(t.Context())
		wants(kind+": the first waiter", first, k.first)
		second := k.lock.Acquire(t.Context())
		wants(kind+": the second waiter", second, k.first+k.each)
		third := k.lock.Acquire(t.Context())
		wants(kind+": the third waiter", third, k.first+2*k.each)
		second.Release()
		wants(kind+": the third waiter, when the second has given up", third, k.first+k.each)
		none(kind+": one that was withdrawn", second)
		holder.Release()
		if kind == "unfair" {
			first.Release()
		} else {
			coordtest.GrantOf(t, first)
			none(kind+": the first waiter, now the holder", first)
			first.Release()
		}
		coordtest.GrantOf(t, third)
		none(kind+": the last one, now the holder", third)
		third.Release()
		_ = coordtest.EndOf(t, third)
		none(kind+": after the end", third)
	}
}
