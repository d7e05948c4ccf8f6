package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// TestRealScenarios plays on one server the cases of the test suites of Curator, kazoo,
// etcd and ZooKeeper that no other test here plays on a real server, and some faults that
// none of them has.
func TestRealScenarios(t *testing.T) {
	eventstest.NeedsServers(t)
	if !eventstest.Full() {
		t.Skip("ZKGRANT_FULL=1 runs it, and make versions; other tests play most of it on the in-process server")
	}
	// This one counts goroutines and watches, so it runs alone.
	t.Run("cancelled waits", func(t *testing.T) { cancelledWaits(t, ensemble.Start(t, 1)) })
	t.Run("together", func(t *testing.T) {
		for name, play := range map[string]func(*testing.T, *site){
			"answers are lost":                      answersAreLost,
			"session ends before the claim":         sessionEndsBeforeTheClaim,
			"session ends before the function":      sessionEndsBeforeTheFunction,
			"leader's session ends":                 leadersSessionEnds,
			"directory is reaped before the create": reapedBeforeTheCreate,
			"directory is removed during a listing": removedDuringAListing,
			"closed during the create":              closedDuringTheCreate,
			"acquired anew during the create":       acquiredAnewDuringTheCreate,
			"released in an outage":                 releasedInAnOutage,
			"context ends in an outage":             contextEndsInAnOutage,
			"events of an outage":                   eventsOfAnOutage,
			"closed before there was a server":      closedBeforeThereWasAServer,
			"one of many tries":                     oneOfManyTries,
			"a hundred callers and eleven permits":  manyCallersForPermits,
			"twenty readers and eight writers":      readersAndWriters,
			"terms after losses and an error":       termsAfterLosses,
			"foreign nodes":                         foreignNodes,
			"Lost is read late":                     lostIsReadLate,
			"access list of lock and parents":       accessLists,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := onARealServer(t)
				makeNodes(t, s.raw, [2]string{s.root})
				play(t, s)
			})
		}
	})
}

// frail is a session whose network breaks on request.
type frail struct {
	*coordinator.Coordinator
	*faultnet.Network

	rule atomic.Pointer[faultnet.Rule]
}

// frail connects through a network that breaks on request.
func (s *site) frail(t *testing.T, options ...coordinator.Option) *frail {
	t.Helper()
	f := &frail{}
	f.Network = faultnet.New(new(net.Dialer).DialContext, func(frame faultnet.Frame) faultnet.Verdict {
		if rule := f.rule.Load(); rule != nil {
			return (*rule)(frame)
		}
		return faultnet.Pass()
	})
	t.Cleanup(f.Network.Close)
	f.Coordinator = s.connect(append(options, coordinator.WithDialer(f.Dial))...)
	t.Cleanup(f.Heal) // runs before the coordinator is closed
	return f
}

// next applies the fate to the next request with one of the operations, or to the next
// successful answer to one. The channel delivers that frame.
func (f *frail) next(d faultnet.Direction, fate func() faultnet.Verdict, ops ...zktest.Op) chan faultnet.Frame {
	struck, once := make(chan faultnet.Frame, 1), atomic.Bool{}
	rule := faultnet.Rule(func(frame faultnet.Frame) faultnet.Verdict {
		if frame.Direction != d || frame.Code != 0 || !slices.Contains(ops, frame.Op) ||
			!once.CompareAndSwap(false, true) {
			return faultnet.Pass()
		}
		struck <- frame
		return fate()
	})
	f.rule.Store(&rule)
	return struck
}

// partition is a verdict with which the frame arrives once the network has healed.
func (f *frail) partition() faultnet.Verdict {
	f.Partition()
	return faultnet.Pass()
}

// suspended breaks the connection, and refuses new ones until Heal.
func (f *frail) suspended(t *testing.T) {
	t.Helper()
	f.Refuse(true)
	f.Cut()
	eventstest.Eventually(t, "a suspension", func() bool { return f.State() == coordinator.StateSuspended })
}

// creating are the operations that create a contender's node.
var creating = []zktest.Op{zktest.OpCreate, zktest.OpCreate2, zktest.OpMulti}

// brief is a session timeout short enough to wait for.
func brief() coordinator.Option { return coordinator.WithSessionTimeout(3 * time.Second) }

// queued waits until the lock's directory has n nodes.
func (s *site) queued(t *testing.T, dir string, n int) []string {
	t.Helper()
	return coordtest.Queued(t, s.raw, s.root+dir, n)
}

// owned checks that a grant's node exists and belongs to the session.
func (s *site) owned(t *testing.T, g events.Grant, session int64) {
	t.Helper()
	there, stat, err := s.raw.Exists(s.root + g.Node)
	expect(t, err == nil && there && stat.EphemeralOwner == session && g.Session == session,
		"granted %+v, its node is there: %v, %v, %+v; want it there, of session %#x", g, there, err, stat, session)
}

// answersAreLost plays a grant, a release and a handoff, once for each kind of request
// involved: the first answer to such a request is lost, and the connection with it.
func answersAreLost(t *testing.T, s *site) {
	for _, c := range []struct {
		op    zktest.Op
		waits bool // with a wait and a crash record, so that a Multi takes and releases the lock
	}{
		{zktest.OpCreateContainer, false}, {zktest.OpCreate, false}, {zktest.OpDelete, false},
		{zktest.OpGetChildren2, true}, {zktest.OpGetData, true}, {zktest.OpMulti, true},
	} {
		dir := "/" + c.op.String()
		f, other := s.frail(t), s.connect()
		var options []coordinator.LockOption
		var first *coordinator.Acquisition
		var before events.Grant
		if c.waits {
			options = []coordinator.LockOption{coordinator.DetectCrash()}
			first, before = coordtest.HoldReal(t, other.Mutex(dir))
		}
		lost := f.next(faultnet.Down, faultnet.CutBefore, c.op)
		a := f.Mutex(dir, options...).Acquire(t.Context())
		if c.waits {
			s.queued(t, dir, 2)
			coordtest.End(first)
		}
		grant := coordtest.GrantOf(t, a)
		s.owned(t, grant, f.SessionID())
		last := other.Mutex(dir, options...).Acquire(t.Context())
		s.queued(t, dir, 2)
		coordtest.NotLost(t, a)
		coordtest.End(a)
		next := coordtest.GrantOf(t, last)
		expect(t, len(lost) == 1, "no answer to %v was lost, want one", c.op)
		expect(t, a.Err() == nil && next.Abandoned == nil && before.Token < grant.Token && grant.Token < next.Token,
			"%v: released: %v; the next Grant is %+v after %+v, %+v; want no error, no crash, and greater tokens",
			c.op, a.Err(), next, grant, before)
		coordtest.End(last)
		s.queued(t, dir, 0)
	}
}

// sessionEndsBeforeTheClaim: a contender has listed the queue and is first, but its
// session ends before its claim. It is granted the lock in its next session.
func sessionEndsBeforeTheClaim(t *testing.T, s *site) {
	f := s.frail(t, brief())
	made(t, s, lockPath+"/stranger") // otherwise the answer to the create would be a grant
	old := f.SessionID()
	claim := f.next(faultnet.Up, f.partition, zktest.OpGetData, zktest.OpMulti)
	a := f.Mutex(lockPath).Acquire(t.Context())
	t.Logf("kept from the server: %v", eventstest.Receive(t, claim, "the claim"))
	s.queued(t, lockPath, 2)
	s.queued(t, lockPath, 1) // the server has ended the session
	expect(t, len(a.Granted()) == 0, "granted without a claim")
	f.Heal()
	grant := coordtest.GrantOf(t, a)
	s.owned(t, grant, f.SessionID())
	expect(t, grant.Session != old, "granted in session %#x, which has ended", old)
	coordtest.NotLost(t, a)
}

// sessionEndsBeforeTheFunction: the answer that grants the lock arrives after the session
// has ended. The function runs once, with a lock that it holds.
func sessionEndsBeforeTheFunction(t *testing.T, s *site) {
	f := s.frail(t, brief())
	answer := f.next(faultnet.Down, f.partition, creating...)
	old, ran := f.SessionID(), 0
	done := inBackground(func() error {
		return f.Mutex(lockPath).Do(coordtest.RealContext(t), func(ctx context.Context, g events.Grant) error {
			ran++
			s.owned(t, g, f.SessionID())
			return ctx.Err()
		})
	})
	eventstest.Receive(t, answer, "the answer to the create")
	s.queued(t, lockPath, 1)
	s.queued(t, lockPath, 0)
	f.Heal()
	err := eventstest.Receive(t, done, "the end of the function")
	expect(t, err == nil && ran == 1 && f.SessionID() != old,
		"Do = %v after %d runs, in session %#x after %#x; want nil, one, another", err, ran, f.SessionID(), old)
}

// leadersSessionEnds: a leader that is cut off has lost its term when the next one leads,
// and does not lead again until that one has released.
func leadersSessionEnds(t *testing.T, s *site) {
	f := s.frail(t, brief())
	first, _ := coordtest.HoldReal(t, f.Election(lockPath))
	second := s.connect().Election(lockPath).Acquire(t.Context())
	s.queued(t, lockPath, 2)
	f.Partition()
	coordtest.GrantOf(t, second)
	expect(t, !first.Valid() && len(first.Lost()) == 1,
		"the second leads; the first is valid: %v, told of %d losses", first.Valid(), len(first.Lost()))
	f.Heal()
	again := f.Election(lockPath).Acquire(t.Context())
	s.queued(t, lockPath, 2)
	expect(t, !again.Valid(), "the first leads again beside the second")
	coordtest.NotLost(t, second)
	coordtest.End(second)
	coordtest.GrantOf(t, again)
}

// reapedBeforeTheCreate: the directory exists when the lock is requested, but is empty,
// and the server removes it before the create arrives. The session may know the directory
// or not.
func reapedBeforeTheCreate(t *testing.T, s *site) {
	other := s.connect()
	for dir, known := range map[string]bool{"/known": true, "/unknown": false} {
		f := s.frail(t)
		before, _ := coordtest.HoldReal(t, other.Mutex(dir))
		if known {
			b := f.Mutex(dir).Acquire(t.Context())
			s.queued(t, dir, 2)
			coordtest.End(b)
		}
		create := f.next(faultnet.Up, faultnet.Hold, creating...)
		a := f.Mutex(dir).Acquire(t.Context())
		eventstest.Receive(t, create, "the create")
		coordtest.End(before)
		eventstest.Eventually(t, dir+" is reaped", func() bool {
			there, _, err := s.raw.Exists(s.root + dir)
			return err == nil && !there
		})
		f.Heal()
		s.owned(t, coordtest.GrantOf(t, a), f.SessionID())
		coordtest.End(a)
		s.queued(t, dir, 0)
	}
}

// removedDuringAListing: other clients remove the directory and all nodes in it while a
// contender lists it. The contender queues up again.
func removedDuringAListing(t *testing.T, s *site) {
	f := s.frail(t)
	held, before := coordtest.HoldReal(t, s.connect().Mutex(lockPath))
	listing := f.next(faultnet.Up, faultnet.Hold, zktest.OpGetChildren, zktest.OpGetChildren2)
	a := f.Mutex(lockPath).Acquire(t.Context())
	eventstest.Receive(t, listing, "the listing")
	for _, name := range s.queued(t, lockPath, 2) {
		eventstest.Must(t, s.raw.Delete(path.Join(s.root+lockPath, name), -1))
	}
	eventstest.Eventually(t, "the directory is removed", func() bool {
		err := s.raw.Delete(s.root+lockPath, -1)
		return err == nil || errors.Is(err, zk.ErrNoNode) // the server may remove it first
	})
	f.Heal()
	expectEqual(t, coordtest.LossOf(t, held).Reason, events.ReasonNodeRemoved, "the reason of the loss")
	grant := coordtest.GrantOf(t, a)
	s.owned(t, grant, f.SessionID())
	expect(t, grant.Token > before.Token, "granted %+v after %+v, want a greater token", grant, before)
	coordtest.End(a)
	s.queued(t, lockPath, 0)
}

// closedDuringTheCreate: nothing is left once Close has returned.
func closedDuringTheCreate(t *testing.T, s *site) {
	f := s.frail(t)
	create := f.next(faultnet.Up, faultnet.Hold, creating...)
	a := f.Mutex(lockPath).Acquire(t.Context())
	eventstest.Receive(t, create, "the create")
	closed := inBackground(f.Coordinator.Close)
	eventstest.Eventually(t, "Close has begun", func() bool {
		return errors.Is(f.Mutex("/other").Acquire(t.Context()).Err(), coordinator.ErrClosed)
	})
	f.Heal()
	eventstest.Check(t, eventstest.Receive(t, closed, "the end of Close"))
	expectError(t, coordtest.EndOf(t, a), coordinator.ErrClosed, "the acquisition")
	names, _, err := s.raw.Children(s.root + lockPath)
	expect(t, len(names) == 0, "Close has left %v (%v), want nothing", names, err)
}

// acquiredAnewDuringTheCreate: only the node of the second acquisition is left.
func acquiredAnewDuringTheCreate(t *testing.T, s *site) {
	f := s.frail(t)
	create := f.next(faultnet.Up, faultnet.Hold, creating...)
	a := f.Mutex(lockPath).Acquire(t.Context())
	eventstest.Receive(t, create, "the create")
	a.Release()
	again := f.Mutex(lockPath).Acquire(t.Context())
	f.Heal()
	expectError(t, coordtest.EndOf(t, a), coordinator.ErrNotAcquired, "the first")
	grant := coordtest.GrantOf(t, again)
	s.queued(t, lockPath, 1)
	s.owned(t, grant, f.SessionID())
	coordtest.End(again)
	s.queued(t, lockPath, 0)
}

// releasedInAnOutage: the node is deleted once there is a connection again, and the
// session lives on. A waiter of the same session keeps its node.
func releasedInAnOutage(t *testing.T, s *site) {
	f, other := s.frail(t), s.connect()
	a, _ := coordtest.HoldReal(t, f.Mutex(lockPath))
	waiter, session := other.Mutex(lockPath).Acquire(t.Context()), f.SessionID()
	s.queued(t, lockPath, 2)
	behind := f.Mutex(lockPath).Acquire(t.Context())
	nodes := s.queued(t, lockPath, 3)
	eventstest.Eventually(t, "it has seen the queue", func() bool {
		_, waits := behind.Position()
		return waits
	})
	f.suspended(t)
	a.Release()
	s.queued(t, lockPath, 3)
	f.Heal()
	coordtest.GrantOf(t, waiter)
	expectError(t, coordtest.EndOf(t, a), nil, "the release")
	expect(t, f.SessionID() == session, "the session is %#x after %#x, want the same", f.SessionID(), session)
	coordtest.End(waiter)
	grant := coordtest.GrantOf(t, behind)
	expect(t, path.Base(grant.Node) == nodes[2], "the waiter has %s, want the last of %v", grant.Node, nodes)
}

// contextEndsInAnOutage: the session ends during an acquisition, and then its context.
// The error is the context's cause, and nothing is left.
func contextEndsInAnOutage(t *testing.T, s *site) {
	f, gone := s.frail(t, brief()), errors.New("no more")
	ctx, cancel := context.WithCancelCause(t.Context())
	answer := f.next(faultnet.Down, f.partition, creating...)
	a := f.Mutex(lockPath).Acquire(ctx)
	eventstest.Receive(t, answer, "the answer to the create")
	s.queued(t, lockPath, 1)
	s.queued(t, lockPath, 0)
	cancel(gone)
	expectError(t, coordtest.EndOf(t, a), gone, "the acquisition")
	f.Heal()
	eventstest.Must(t, f.Ready(coordtest.RealContext(t)))
	s.queued(t, lockPath, 0)
}

// eventsOfAnOutage checks the events of a holder's stream, and their order, when its
// connection breaks and dials are refused.
func eventsOfAnOutage(t *testing.T, s *site) {
	const over = " Suspended Lost Ended SessionExpired Connected"
	suspension := coordinator.WithLossOnSuspend()
	for name, c := range map[string]struct {
		lasting bool
		options []coordinator.Option
		want    string
	}{
		"brief":                  {false, nil, " Suspended Resumed"},
		"brief, loss on suspend": {false, []coordinator.Option{suspension}, " Suspended Lost Ended Resumed"},
		"long":                   {true, []coordinator.Option{brief()}, over},
		"long, loss on suspend":  {true, []coordinator.Option{brief(), suspension}, over},
	} {
		dir := "/" + strings.ReplaceAll(name, " ", "_")
		f := s.frail(t, c.options...)
		a, grant := coordtest.HoldReal(t, f.Mutex(dir))
		stream := f.Events(t.Context())
		f.suspended(t)
		if c.lasting {
			s.queued(t, dir, 0) // the server has ended the session
		}
		f.Heal()
		told, last := "", ""
		for ; last == "" || !strings.HasSuffix(c.want, last); told += last {
			last = strings.Replace(fmt.Sprintf("%T", eventstest.Receive(t, stream, c.want)), "events.", " ", 1)
		}
		expect(t, told == c.want, "%s: the stream says%s, want%s", name, told, c.want)
		if c.want == " Suspended Resumed" {
			coordtest.NotLost(t, a)
			s.owned(t, grant, f.SessionID())
		}
	}
}

// closedBeforeThereWasAServer: a waiting acquisition ends, and Close returns nil.
func closedBeforeThereWasAServer(t *testing.T, _ *site) {
	proxy := ensemble.StartProxy(t, "127.0.0.1:1")
	proxy.Refuse(true)
	c, err := coordinator.Open(proxy.Addr(), coordinator.WithSessionTimeout(10*time.Second))
	eventstest.Must(t, err)
	a := c.Election(lockPath).Acquire(t.Context())
	eventstest.Check(t, c.Close())
	expectError(t, coordtest.EndOf(t, a), coordinator.ErrClosed, "a candidate")
}

func oneOfManyTries(t *testing.T, s *site) {
	var all []*coordinator.Acquisition
	for range 4 {
		lock := s.connect().Mutex(lockPath)
		for range 5 {
			all = append(all, lock.Acquire(t.Context(), coordinator.Try()))
		}
	}
	won := 0
	for _, a := range all {
		if _, err := a.Wait(coordtest.RealContext(t)); err == nil {
			won++
		} else {
			expectError(t, err, coordinator.ErrNotAcquired, "a try")
		}
	}
	expect(t, won == 1, "%d of %d tries have the lock, want one", won, len(all))
	s.queued(t, lockPath, 1)
}

func manyCallersForPermits(t *testing.T, s *site) {
	permitStorm(t, s)
	s.queued(t, semLeases, 0)
}

func readersAndWriters(t *testing.T, s *site) {
	var readers, writers []*coordinator.Acquisition
	for range 4 {
		rw := s.connect().ReadWrite(lockPath)
		for range 5 {
			a, _ := coordtest.HoldReal(t, rw.Read())
			readers = append(readers, a)
		}
	}
	c := s.connect().ReadWrite(lockPath)
	for i := range 8 {
		writers = append(writers, c.Write().Acquire(t.Context()))
		s.queued(t, lockPath, 21+i)
	}
	queue, err := c.Queue(coordtest.RealContext(t))
	eventstest.Must(t, err)
	count := map[events.Kind]int{}
	for _, one := range queue {
		count[one.Kind]++
		expect(t, one.Holding == one.Kind.Reads(), "the queue has %+v, want readers to hold, writers to wait", one)
	}
	expect(t, count[events.KindRead] == 20 && count[events.KindWrite] == 8,
		"the queue has %v, want 20 readers and 8 writers", count)
	for _, a := range readers {
		coordtest.End(a)
	}
	for _, a := range writers {
		coordtest.GrantOf(t, a)
		coordtest.End(a)
	}
}

// termsAfterLosses: a candidate that loses twice leads a third time. The next candidate
// leads after a function of the first has failed. The stream has each Grant, loss and end
// once.
func termsAfterLosses(t *testing.T, s *site) {
	c, next, ctx, failed := s.connect(), s.connect(), coordtest.RealContext(t), errors.New("failed")
	stream, terms := c.Events(t.Context()), 0
	for term, err := range c.Election(lockPath).Terms(ctx) {
		eventstest.Must(t, err)
		if terms++; terms == 3 {
			break
		}
		eventstest.Must(t, s.raw.Delete(s.root+term.Grant().Node, -1))
		coordtest.LossOf(t, term)
	}
	s.queued(t, lockPath, 0)
	var waits *coordinator.Acquisition
	err := c.Election(lockPath).Do(ctx, func(context.Context, events.Grant) error {
		waits = next.Election(lockPath).Acquire(ctx)
		s.queued(t, lockPath, 2)
		return failed
	})
	expectError(t, err, failed, "Do")
	coordtest.GrantOf(t, waits)
	const want = " Grant Lost Ended Grant Lost Ended Grant Ended Grant Ended"
	told := ""
	for strings.Count(told, "Ended") < 4 {
		switch ev := eventstest.Receive(t, stream, "the end of each term").(type) {
		case events.Ended, events.Grant, events.Lost:
			told += strings.Replace(fmt.Sprintf("%T", ev), "events.", " ", 1)
		}
	}
	expect(t, told == want, "the stream says%s, want%s", told, want)
}

// foreignNodes: nodes of other clients count if they are contenders, with or without a
// session; other nodes do not. A node without a session outlives its client.
func foreignNodes(t *testing.T, s *site) {
	made(t, s, lockPath+"/config", lockPath+"/lock-abc", lockPath+"/thread-0000000000")
	dir, open := s.root+lockPath, zk.WorldACL(zk.PermAll)
	stays, err := s.raw.Create(dir+"/lock-", nil, zk.FlagSequence, open)
	eventstest.Must(t, err)
	ends, err := s.raw.CreateProtectedEphemeralSequential(dir+"/lock-", nil, open)
	eventstest.Must(t, err)
	lock := s.connect().Mutex(lockPath)
	a := lock.Acquire(t.Context())
	s.queued(t, lockPath, 6)
	queue, err := lock.Queue(coordtest.RealContext(t))
	expect(t, err == nil && len(queue) == 3 && queue[0].Holding && queue[0].Session == 0 && queue[1].Session != 0,
		"the queue is %+v, %v; want a holder without a session, and two waiters", queue, err)
	for _, node := range []string{stays, ends} {
		expect(t, len(a.Granted()) == 0, "granted beside %s", node)
		eventstest.Must(t, s.raw.Delete(node, -1))
	}
	coordtest.GrantOf(t, a)
}

// lostIsReadLate: the next contender does not wait for a caller that does not read Lost.
// The caller still receives it.
func lostIsReadLate(t *testing.T, s *site) {
	held, grant := coordtest.HoldReal(t, s.connect().Mutex(lockPath))
	next := s.connect().Mutex(lockPath).Acquire(t.Context())
	s.queued(t, lockPath, 2)
	eventstest.Must(t, s.raw.Delete(s.root+grant.Node, -1))
	coordtest.GrantOf(t, next)
	expectError(t, coordtest.EndOf(t, held), coordinator.ErrNodeRemoved, "the acquisition")
	expect(t, len(held.Lost()) == 1, "when the next contender holds no loss is to be read")
	lost := coordtest.LossOf(t, held)
	expect(t, lost.Token == grant.Token && lost.Reason == events.ReasonNodeRemoved,
		"lost %+v, want %+v, because its node was removed", lost, grant)
}

// accessLists: the lock's ACL is set on its node and on each parent created for it.
func accessLists(t *testing.T, s *site) {
	acl := zk.DigestACL(zk.PermAll, "ann", "secret")
	eventstest.Must(t, s.raw.AddAuth("digest", []byte("ann:secret")))
	c := s.connect(coordinator.WithAuth("digest", []byte("ann:secret")))
	a, grant := coordtest.HoldReal(t, c.Mutex("/one/two", coordinator.ACL(acl)))
	for node := grant.Node; node != "/"; node = path.Dir(node) {
		got, _, err := s.raw.GetACL(s.root + node)
		expect(t, err == nil && slices.Equal(got, acl), "%s has %v, %v; want %v", node, got, err, acl)
	}
	coordtest.End(a)
}

// cancelledWaits: ten thousand cancelled waits leave no goroutine, node or watch.
func cancelledWaits(t *testing.T, e *ensemble.Ensemble) {
	const rounds, together = 100, 100
	ctx, raw := coordtest.RealContext(t), coordtest.RawClient(t, e.Addr(0))
	held, _ := coordtest.HoldReal(t, coordtest.ConnectReal(t, e.Addr(0)).Mutex(lockPath))
	lock := coordtest.ConnectReal(t, e.Addr(0)).Mutex(lockPath)
	var before int
	for round := range rounds {
		waiting, cancel := context.WithCancel(ctx)
		all := make([]*coordinator.Acquisition, together)
		for i := range all {
			all[i] = lock.Acquire(waiting)
		}
		coordtest.Queued(t, raw, lockPath, 1+together)
		cancel()
		for _, a := range all {
			expectError(t, coordtest.EndOf(t, a), context.Canceled, "a wait")
		}
		if coordtest.Queued(t, raw, lockPath, 1); round == 0 {
			before = runtime.NumGoroutine()
		}
	}
	coordtest.NotLost(t, held)
	// Two sessions watch the holder's node: the holder's and the waiters'.
	const most = 2
	var watches float64
	var running int
	eventstest.Eventually(t, fmt.Sprintf("at most %d watches, and %d goroutines as before", most, before), func() bool {
		counters, err := e.Counters(ctx, 0)
		eventstest.Check(t, err)
		watches, running = counters["zk_watch_count"], runtime.NumGoroutine()
		return watches > 0 && watches <= most && running <= before
	}, func() string { return fmt.Sprintf("there are %v and %d", watches, running) })
}
