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
	"sync"
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

// TestRealScenarios plays on one server what the test suites of Curator, kazoo and others
// pin down and no other test here plays on a real server, and some faults that none of
// them has.
func TestRealScenarios(t *testing.T) {
	eventstest.NeedsServers(t)
	if !eventstest.Full() {
		t.Skip("ZKGRANT_FULL=1 runs it, and make versions; the scenes play most of this on the in-process server")
	}
	e := ensemble.Start(t, 1)
	// It counts goroutines, so it is alone.
	t.Run("ten thousand cancelled waits", func(t *testing.T) { cancelledWaits(t, e) })
	t.Run("on one server", func(t *testing.T) {
		for name, play := range map[string]func(*testing.T, *site){
			"any answer is lost":                           anyAnswerIsLost,
			"session ends between listing and claim":       sessionEndsBeforeTheClaim,
			"session ends between grant and function":      sessionEndsBeforeTheFunction,
			"directory is reaped before the create":        reapedBeforeTheCreate,
			"directory is removed during a listing":        removedDuringAListing,
			"closed while the create is under way":         closedDuringTheCreate,
			"asked for anew while the create is under way": askedForAnewDuringTheCreate,
			"released in an outage":                        releasedInAnOutage,
			"context ends in an outage":                    contextEndsInAnOutage,
			"events of an outage":                          eventsOfAnOutage,
			"closed before there was a server":             closedBeforeThereWasAServer,
			"one handle, many goroutines":                  oneHandle,
			"another goroutine, three deep":                threeDeep,
			"one of many tries":                            oneOfManyTries,
			"a hundred callers, eleven permits":            manyCallersForPermits,
			"twenty readers, eight writers":                readersAndWriters,
			"leaders take turns":                           leadersTakeTurns,
			"terms after two losses":                       termsAfterLosses,
			"node without a session":                       nodeWithoutASession,
			"foreign children":                             foreignChildren,
			"Lost is read late":                            lostIsReadLate,
			"access list of lock and parents":              accessLists,
			"data are the caller's":                        dataAreTheCallers,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				root := "/" + strings.NewReplacer("/", "-", " ", "_").Replace(t.Name())
				play(t, &site{func(options ...coordinator.Option) *coordinator.Coordinator {
					return coordtest.ConnectReal(t, e.Addr(0)+root, options...)
				}, coordtest.RawClient(t, e.Addr(0)), root})
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
	t.Cleanup(f.Heal) // before the coordinator is closed
	return f
}

// next has the verdict strike the next frame with one of the operations, and returns the
// channel that delivers it.
func (f *frail) next(
	d faultnet.Direction, verdict func() faultnet.Verdict, ops ...zktest.Op,
) <-chan faultnet.Frame {
	struck, once := make(chan faultnet.Frame, 1), atomic.Bool{}
	rule := faultnet.Rule(func(frame faultnet.Frame) faultnet.Verdict {
		if frame.Direction != d || !slices.Contains(ops, frame.Op) || !once.CompareAndSwap(false, true) {
			return faultnet.Pass()
		}
		struck <- frame
		return verdict()
	})
	f.rule.Store(&rule)
	return struck
}

// suspended breaks the connection, and refuses others until Heal.
func (f *frail) suspended(t *testing.T) {
	t.Helper()
	f.Refuse(true)
	f.Cut()
	eventstest.Eventually(t, "the session is suspended", func() bool {
		return f.State() == coordinator.StateSuspended
	})
}

// creating and claiming are the requests that make a contender's node, and that take a lock.
var (
	creating = []zktest.Op{zktest.OpCreate, zktest.OpCreate2, zktest.OpMulti}
	claiming = []zktest.Op{zktest.OpMulti, zktest.OpExists, zktest.OpGetData, zktest.OpSync}
)

// brief is a session timeout short enough to wait for.
func brief() coordinator.Option { return coordinator.WithSessionTimeout(3 * time.Second) }

// queued waits until so many nodes are in the lock's directory.
func (s *site) queued(t *testing.T, dir string, n int) []string {
	t.Helper()
	return coordtest.Queued(t, s.raw, s.root+dir, n)
}

// owned checks that a grant's node is there and belongs to the session.
func (s *site) owned(t *testing.T, g events.Grant, session int64) {
	t.Helper()
	there, stat, err := s.raw.Exists(s.root + g.Node)
	expect(t, err == nil && there && stat.EphemeralOwner == session && g.Session == session,
		"granted %+v, and its node is there: %v, %v, of %+v; want it there, of session %#x",
		g, there, err, stat, session)
}

// anyAnswerIsLost plays a wait, a grant, a release and a handoff, once for each answer on
// the way: that answer is lost, and the connection with it.
func anyAnswerIsLost(t *testing.T, s *site) {
	const most = 14
	var mu sync.Mutex
	lost := map[zktest.Op]int{}
	t.Run("each", func(t *testing.T) {
		for nth := 1; nth <= most; nth++ {
			t.Run(fmt.Sprint(nth), func(t *testing.T) {
				t.Parallel()
				dir, left := fmt.Sprint("/lost/", nth), int32(nth)
				f, other := s.frail(t), s.connect()
				first := other.Mutex(dir).Acquire(t.Context())
				token := coordtest.GrantOf(t, first).Token
				rule := faultnet.Rule(func(frame faultnet.Frame) faultnet.Verdict {
					switch frame.Op {
					case zktest.OpConnect, zktest.OpPing, zktest.OpSetWatches, faultnet.OpEvent, faultnet.OpWord:
						return faultnet.Pass()
					}
					if frame.Direction == faultnet.Down && atomic.AddInt32(&left, -1) == 0 {
						mu.Lock()
						defer mu.Unlock()
						lost[frame.Op]++
						return faultnet.CutBefore()
					}
					return faultnet.Pass()
				})
				f.rule.Store(&rule)
				a := f.Mutex(dir, coordinator.DetectCrash()).Acquire(t.Context())
				s.queued(t, dir, 2)
				coordtest.End(first)
				grant := coordtest.GrantOf(t, a)
				s.owned(t, grant, f.SessionID())
				last := other.Mutex(dir, coordinator.DetectCrash()).Acquire(t.Context())
				s.queued(t, dir, 2)
				coordtest.NotLost(t, a)
				coordtest.End(a)
				next := coordtest.GrantOf(t, last)
				expect(t, a.Err() == nil && next.Abandoned == nil,
					"the release ended with %v, and the next Grant has %+v; want no error and no crash",
					a.Err(), next.Abandoned)
				expect(t, token < grant.Token && grant.Token < next.Token,
					"tokens %d, %d, %d, want them to grow", token, grant.Token, next.Token)
				coordtest.End(last)
				s.queued(t, dir, 0)
			})
		}
	})
	t.Logf("answers lost: %v", lost)
	for _, op := range []zktest.Op{zktest.OpCreate, zktest.OpMulti, zktest.OpDelete} {
		expect(t, lost[op] > 0, "no answer to %v was lost, want one: %v", op, lost)
	}
}

// sessionEndsBeforeTheClaim: the claim of the next in line arrives at the server after
// the end of its session. It is granted the lock with its next session.
func sessionEndsBeforeTheClaim(t *testing.T, s *site) {
	f, first := s.frail(t, brief()), s.connect().Mutex(lockPath).Acquire(t.Context())
	coordtest.GrantOf(t, first)
	next, old := f.Mutex(lockPath).Acquire(t.Context()), f.SessionID()
	s.queued(t, lockPath, 2)
	claim := f.next(faultnet.Up, faultnet.Hold, claiming...)
	coordtest.End(first)
	t.Logf("held: %v", eventstest.Receive(t, claim, "the claim"))
	f.Partition()
	s.queued(t, lockPath, 0)
	f.Heal()
	grant := coordtest.GrantOf(t, next)
	s.owned(t, grant, f.SessionID())
	expect(t, grant.Session != old, "granted in session %#x, which has ended", old)
	coordtest.NotLost(t, next)
}

// sessionEndsBeforeTheFunction: the answer that grants the lock comes when the session
// has ended. The function runs once, with a lock that it holds.
func sessionEndsBeforeTheFunction(t *testing.T, s *site) {
	f := s.frail(t, brief())
	answer := f.next(faultnet.Down, func() faultnet.Verdict {
		f.Partition()
		return faultnet.Pass() // after Heal
	}, creating...)
	old, ran, done := f.SessionID(), 0, make(chan error, 1)
	go func() {
		done <- f.Mutex(lockPath).Do(coordtest.RealContext(t), func(ctx context.Context, g events.Grant) error {
			ran++
			s.owned(t, g, f.SessionID())
			return ctx.Err()
		})
	}()
	eventstest.Receive(t, answer, "the answer to the create")
	s.queued(t, lockPath, 1)
	s.queued(t, lockPath, 0)
	f.Heal()
	err := eventstest.Receive(t, done, "the end of the function")
	expect(t, err == nil && ran == 1 && f.SessionID() != old,
		"Do = %v, and the function ran %d times, in session %#x after %#x; want nil, once, in another session",
		err, ran, f.SessionID(), old)
}

// reapedBeforeTheCreate: the server removes the empty directory, which is there when the
// lock is asked for, before the create arrives. The session knows the directory, or not.
func reapedBeforeTheCreate(t *testing.T, s *site) {
	other := s.connect()
	for dir, known := range map[string]bool{"/known": true, "/unknown": false} {
		f := s.frail(t)
		before, _ := coordtest.Hold(t, other.Mutex(dir))
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
		f.Release()
		s.owned(t, coordtest.GrantOf(t, a), f.SessionID())
		coordtest.End(a)
		s.queued(t, dir, 0)
	}
}

// removedDuringAListing: other clients remove the directory and all that is in it while a
// contender lists it. The contender queues again.
func removedDuringAListing(t *testing.T, s *site) {
	f, held := s.frail(t), s.connect().Mutex(lockPath).Acquire(t.Context())
	token := coordtest.GrantOf(t, held).Token
	listing := f.next(faultnet.Up, faultnet.Hold, zktest.OpGetChildren, zktest.OpGetChildren2)
	a := f.Mutex(lockPath).Acquire(t.Context())
	eventstest.Receive(t, listing, "the listing")
	for _, name := range s.queued(t, lockPath, 2) {
		eventstest.Must(t, s.raw.Delete(path.Join(s.root+lockPath, name), -1))
	}
	eventstest.Eventually(t, "the directory is removed", func() bool {
		err := s.raw.Delete(s.root+lockPath, -1)
		return err == nil || errors.Is(err, zk.ErrNoNode) // the server may be sooner
	})
	f.Release()
	lost := coordtest.LossOf(t, held)
	expect(t, lost.Reason == events.ReasonNodeRemoved, "lost: %v, want %v", lost.Reason, events.ReasonNodeRemoved)
	grant := coordtest.GrantOf(t, a)
	s.owned(t, grant, f.SessionID())
	expect(t, grant.Token > token, "the token is %d after %d, want a greater one", grant.Token, token)
	coordtest.End(a)
	s.queued(t, lockPath, 0)
}

// closedDuringTheCreate: nothing is left when Close has returned.
func closedDuringTheCreate(t *testing.T, s *site) {
	f, closed := s.frail(t), make(chan error, 1)
	create := f.next(faultnet.Up, faultnet.Hold, creating...)
	a := f.Mutex(lockPath).Acquire(t.Context())
	eventstest.Receive(t, create, "the create")
	go func() { closed <- f.Coordinator.Close() }()
	eventstest.Eventually(t, "Close has begun", func() bool {
		return !a.Valid() && f.State() != coordinator.StateConnected || coordtest.IsClosed(a.Done())
	})
	f.Release()
	eventstest.Check(t, eventstest.Receive(t, closed, "the end of Close"))
	expectError(t, coordtest.EndOf(t, a), coordinator.ErrClosed, "the acquisition")
	s.queued(t, lockPath, 0)
}

// askedForAnewDuringTheCreate: one node is left, that of the second acquisition.
func askedForAnewDuringTheCreate(t *testing.T, s *site) {
	f := s.frail(t)
	create := f.next(faultnet.Up, faultnet.Hold, creating...)
	a := f.Mutex(lockPath).Acquire(t.Context())
	eventstest.Receive(t, create, "the create")
	a.Release()
	again := f.Mutex(lockPath).Acquire(t.Context())
	f.Release()
	expectError(t, coordtest.EndOf(t, a), coordinator.ErrNotAcquired, "the first")
	grant := coordtest.GrantOf(t, again)
	s.queued(t, lockPath, 1)
	s.owned(t, grant, f.SessionID())
	coordtest.End(again)
	s.queued(t, lockPath, 0)
}

// releasedInAnOutage: the node goes when there is a connection again, and the session
// lives on.
func releasedInAnOutage(t *testing.T, s *site) {
	f, other := s.frail(t), s.connect()
	a := f.Mutex(lockPath).Acquire(t.Context())
	coordtest.GrantOf(t, a)
	waiter, session := other.Mutex(lockPath).Acquire(t.Context()), f.SessionID()
	s.queued(t, lockPath, 2)
	f.suspended(t)
	a.Release()
	s.queued(t, lockPath, 2)
	f.Heal()
	coordtest.GrantOf(t, waiter)
	expectError(t, coordtest.EndOf(t, a), nil, "the release")
	expect(t, f.SessionID() == session, "the session is %#x after %#x, want the same", f.SessionID(), session)
}

// contextEndsInAnOutage: the session ends in the middle of an acquisition, and then its
// context does. The error is that of the context, and nothing is left.
func contextEndsInAnOutage(t *testing.T, s *site) {
	f, gone := s.frail(t, brief()), errors.New("no more")
	ctx, cancel := context.WithCancelCause(t.Context())
	answer := f.next(faultnet.Down, func() faultnet.Verdict {
		f.Partition()
		return faultnet.Pass()
	}, creating...)
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

// eventsOfAnOutage: what a holder's stream says, in which order, when its connection
// breaks, refused dials and all.
func eventsOfAnOutage(t *testing.T, s *site) {
	const over = "Suspended Lost Ended SessionExpired Connected"
	suspension := coordinator.WithLossOnSuspend()
	for name, c := range map[string]struct {
		lasting bool
		options []coordinator.Option
		want    string
	}{
		"brief":                  {false, nil, "Suspended Resumed"},
		"brief, loss on suspend": {false, []coordinator.Option{suspension}, "Suspended Lost Ended Resumed"},
		"long":                   {true, []coordinator.Option{brief()}, over},
		"long, loss on suspend":  {true, []coordinator.Option{brief(), suspension}, over},
	} {
		dir := "/" + strings.ReplaceAll(name, " ", "_")
		f := s.frail(t, c.options...)
		a := f.Mutex(dir).Acquire(t.Context())
		grant := coordtest.GrantOf(t, a)
		stream := f.Events(t.Context())
		f.suspended(t)
		if c.lasting {
			s.queued(t, dir, 0) // the server has ended the session
		}
		f.Heal()
		var told []string
		for last := ""; !strings.HasSuffix(c.want, " "+last); {
			last = strings.TrimPrefix(fmt.Sprintf("%T", eventstest.Receive(t, stream, c.want)), "events.")
			told = append(told, last)
		}
		expect(t, strings.Join(told, " ") == c.want, "%s: the stream says %v, want %s", name, told, c.want)
		if c.want == "Suspended Resumed" {
			coordtest.NotLost(t, a)
			s.owned(t, grant, f.SessionID())
		}
	}
}

// closedBeforeThereWasAServer: what waits ends, and Close returns nil.
func closedBeforeThereWasAServer(t *testing.T, _ *site) {
	proxy := ensemble.StartProxy(t, "127.0.0.1:1")
	proxy.Refuse(true)
	c, err := coordinator.Open(proxy.Addr(), coordinator.WithSessionTimeout(10*time.Second))
	eventstest.Must(t, err)
	a := c.Election(lockPath).Acquire(t.Context())
	eventstest.Check(t, c.Close())
	expectError(t, coordtest.EndOf(t, a), coordinator.ErrClosed, "a candidate")
}

func oneHandle(t *testing.T, s *site) {
	lock, ctx, inside := s.connect().Mutex(lockPath), coordtest.RealContext(t), atomic.Int32{}
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			for range 20 {
				eventstest.Check(t, lock.Do(ctx, func(ctx context.Context, _ events.Grant) error {
					defer inside.Add(-1)
					expect(t, inside.Add(1) == 1, "two are inside")
					return ctx.Err()
				}))
			}
		})
	}
	all.Wait()
	s.queued(t, lockPath, 0)
}

// threeDeep: a goroutine of the same session, without the holder's context, waits until
// the last of three has released.
func threeDeep(t *testing.T, s *site) {
	lock := s.connect().Mutex(lockPath, coordinator.Reentrant())
	all := nested(t, lock, 3)
	other := lock.Acquire(t.Context())
	s.queued(t, lockPath, 2)
	for _, a := range all {
		expect(t, len(other.Granted()) == 0, "another goroutine is granted the lock beside its holder")
		coordtest.End(a)
	}
	coordtest.GrantOf(t, other)
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
	const permits = 11
	var sems []*coordinator.Semaphore
	for range 4 {
		sems = append(sems, s.connect().Semaphore(semPath, permits))
	}
	most := permitStorm(t, sems, permits, 100, 5)
	expect(t, most == permits, "%d permits were held at most, want %d", most, permits)
	s.queued(t, semLeases, 0)
}

func readersAndWriters(t *testing.T, s *site) {
	var readers, writers []*coordinator.Acquisition
	for range 4 {
		rw := s.connect().ReadWrite(lockPath)
		for range 5 {
			readers = append(readers, rw.Read().Acquire(t.Context()))
			coordtest.GrantOf(t, readers[len(readers)-1])
		}
	}
	c := s.connect().ReadWrite(lockPath)
	for range 8 {
		writers = append(writers, c.Write().Acquire(t.Context()))
	}
	s.queued(t, lockPath, 28)
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

// leadersTakeTurns: each of five leads once in each of three rounds, in the same order.
func leadersTakeTurns(t *testing.T, s *site) {
	const candidates, rounds = 5, 3
	var queue []*coordinator.Acquisition
	var elections []*coordinator.Election
	for i := range candidates {
		elections = append(elections, s.connect().Election(lockPath))
		queue = append(queue, elections[i].Acquire(t.Context()))
		s.queued(t, lockPath, i+1)
	}
	token := int64(0)
	for n := range candidates * rounds {
		grant := coordtest.GrantOf(t, queue[n])
		expect(t, grant.Token > token, "term %d has the token %d after %d", n, grant.Token, token)
		token = grant.Token
		queue = append(queue, elections[n%candidates].Acquire(t.Context()))
		s.queued(t, lockPath, candidates+1)
		expect(t, !slices.ContainsFunc(queue[n+1:], (*coordinator.Acquisition).Valid), "two lead in term %d", n)
		coordtest.End(queue[n])
	}
}

// termsAfterLosses: a candidate that loses twice leads a third time.
func termsAfterLosses(t *testing.T, s *site) {
	terms := 0
	for term, err := range s.connect().Election(lockPath).Terms(coordtest.RealContext(t)) {
		eventstest.Must(t, err)
		if terms++; terms == 3 {
			break
		}
		eventstest.Must(t, s.raw.Delete(s.root+term.Grant().Node, -1))
		coordtest.LossOf(t, term)
	}
	s.queued(t, lockPath, 0)
}

// nodeWithoutASession: a contender that is a persistent node holds until it is deleted,
// also when its client has gone.
func nodeWithoutASession(t *testing.T, s *site) {
	c, all := s.connect(), zk.WorldACL(zk.PermAll)
	makeNodes(t, s.raw, [2]string{s.root + path.Dir(lockPath)}, [2]string{s.root + lockPath})
	node, err := s.raw.Create(s.root+lockPath+"/lock-", nil, zk.FlagSequence, all)
	eventstest.Must(t, err)
	a := c.Mutex(lockPath).Acquire(t.Context())
	s.queued(t, lockPath, 2)
	queue, err := c.Mutex(lockPath).Queue(coordtest.RealContext(t))
	expect(t, err == nil && len(queue) == 2 && queue[0].Session == 0 && queue[0].Holding && !queue[1].Holding,
		"the queue is %+v, %v; want a holder without a session, and a waiter", queue, err)
	expect(t, len(a.Granted()) == 0, "granted beside %s", node)
	eventstest.Must(t, s.raw.Delete(node, -1))
	coordtest.GrantOf(t, a)
}

// foreignChildren: a node of go-zookeeper counts, and children that are no contenders do
// not.
func foreignChildren(t *testing.T, s *site) {
	dir := s.root + lockPath
	makeNodes(t, s.raw, [2]string{path.Dir(dir)}, [2]string{dir}, [2]string{dir + "/config"},
		[2]string{dir + "/lock-abc"}, [2]string{dir + "/thread-0000000000"})
	theirs, err := s.raw.CreateProtectedEphemeralSequential(dir+"/lock-", nil, zk.WorldACL(zk.PermAll))
	eventstest.Must(t, err)
	a := s.connect().Mutex(lockPath).Acquire(t.Context())
	s.queued(t, lockPath, 5)
	expect(t, len(a.Granted()) == 0, "granted beside %s", theirs)
	eventstest.Must(t, s.raw.Delete(theirs, -1))
	coordtest.GrantOf(t, a)
	coordtest.End(a)
	s.queued(t, lockPath, 3)
}

// lostIsReadLate: the next contender does not wait for a caller that does not read Lost.
// The caller still finds it.
func lostIsReadLate(t *testing.T, s *site) {
	held := s.connect().Mutex(lockPath).Acquire(t.Context())
	grant := coordtest.GrantOf(t, held)
	next := s.connect().Mutex(lockPath).Acquire(t.Context())
	s.queued(t, lockPath, 2)
	eventstest.Must(t, s.raw.Delete(s.root+grant.Node, -1))
	coordtest.GrantOf(t, next)
	eventstest.Receive(t, held.Done(), "the end of the acquisition")
	select {
	case lost := <-held.Lost():
		expect(t, lost.Token == grant.Token && lost.Reason == events.ReasonNodeRemoved,
			"lost %+v, want %+v, because its node was removed", lost, grant)
	default:
		t.Error("when the next contender holds no loss is to be read")
	}
}

// accessLists: the lock's access list is that of its node and of each parent made for it.
func accessLists(t *testing.T, s *site) {
	acl := zk.DigestACL(zk.PermAll, "ann", "secret")
	eventstest.Must(t, s.raw.AddAuth("digest", []byte("ann:secret")))
	c := s.connect(coordinator.WithAuth("digest", []byte("ann:secret")))
	a, grant := coordtest.Hold(t, c.Mutex("/one/two", coordinator.ACL(acl)))
	for node := grant.Node; node != "/"; node = path.Dir(node) {
		got, _, err := s.raw.GetACL(s.root + node)
		expect(t, err == nil && slices.Equal(got, acl), "%s has %v, %v; want %v", node, got, err, acl)
	}
	coordtest.End(a)
}

// dataAreTheCallers: what the caller does with its bytes later does not matter.
func dataAreTheCallers(t *testing.T, s *site) {
	mine := []byte("mine")
	a := s.connect().Mutex(lockPath).Acquire(t.Context(), coordinator.Data(mine))
	copy(mine, "yours")
	stored := func(want string) {
		t.Helper()
		data, _, err := s.raw.Get(s.root + coordtest.GrantOf(t, a).Node)
		expect(t, err == nil && string(data) == want, "the node has %q, %v; want %q", data, err, want)
	}
	stored("mine")
	eventstest.Must(t, a.SetData(t.Context(), mine))
	stored("your")
}

// cancelledWaits: they leave no goroutine, no node and no watch.
func cancelledWaits(t *testing.T, e *ensemble.Ensemble) {
	const hands = 50
	waits := eventstest.Many(1000, 10_000)
	c, raw := coordtest.ConnectReal(t, e.Addr(0)), coordtest.RawClient(t, e.Addr(0))
	held, _ := coordtest.Hold(t, coordtest.ConnectReal(t, e.Addr(0)).Mutex(lockPath))
	wait := func() {
		ctx, cancel := context.WithCancel(t.Context())
		a := c.Mutex(lockPath).Acquire(ctx)
		for queued := false; !queued && !coordtest.IsClosed(a.Done()); runtime.Gosched() {
			_, queued = a.Position()
		}
		cancel()
		expectError(t, coordtest.EndOf(t, a), context.Canceled, "a wait")
	}
	counted := func() (watches, goroutines int) {
		counters, err := e.Counters(coordtest.RealContext(t), 0)
		eventstest.Check(t, err)
		return int(counters["zk_watch_count"]), runtime.NumGoroutine()
	}
	wait()
	coordtest.Queued(t, raw, lockPath, 1)
	watches, goroutines := counted()
	var all sync.WaitGroup
	for range hands {
		all.Go(func() {
			for range waits / hands {
				wait()
			}
		})
	}
	all.Wait()
	coordtest.Queued(t, raw, lockPath, 1)
	var now, running int
	as := fmt.Sprintf("%d watches and %d goroutines, as before", watches, goroutines)
	eventstest.Eventually(t, as, func() bool {
		now, running = counted()
		return now <= watches && running <= goroutines
	}, func() string { return fmt.Sprintf("there are %d and %d", now, running) })
	coordtest.NotLost(t, held)
}
