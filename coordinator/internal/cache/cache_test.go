package cache_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/coordinator/internal/cache"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What a cached lock does that neither the explorer of package recipes nor the tests of
// package coordinator see: here a test scripts the session, and decides when it reports
// each thing.

const epoch = recipes.Epoch(3)

var own = events.Name{Text: "lock-0000000005", Kind: events.KindLock, Seq: 5}

// port is a session that reports only what the test says.
type port struct {
	mu    sync.Mutex
	post  actors.Post
	sent  []recipes.Effect
	until time.Time // the end of the lease
	far   bool      // no answered write is recent
}

func (p *port) Open(post actors.Post) recipes.Opened {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.post = post
	return recipes.Opened{}
}

func (p *port) Close() {}

func (p *port) Do(e recipes.Effect) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, e)
}

// requests returns how many requests of this kind were sent.
func (p *port) requests(op recipes.Op) (n int) {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.sent {
		if o, _, _ := recipes.Requested(e); o == op {
			n++
		}
	}
	return n
}

func (p *port) Deadline(of recipes.Epoch) time.Time {
	if of != epoch {
		return time.Time{}
	}
	return p.until
}

func (p *port) Proven(recipes.Epoch) (alive, recent bool) { return true, !p.far }
func (p *port) Interval() time.Duration                   { return time.Second }

// rig is a cached lock, and the session with its node.
type rig struct {
	*port

	t      *testing.T
	house  *actors.House
	handle *cache.Handle
	owner  actors.Owner // of the next lock
	lastID uint64
	gone   int  // acquisitions that left nothing behind
	over   bool // the node is deleted
}

// withRig runs a test in virtual time with a cached lock. At the end the lock is lost,
// and its node is deleted: an idle node would stay for an hour.
func withRig(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) {
		group := &actors.Group{}
		stream := actors.NewStream(group)
		r := &rig{
			port: &port{until: time.Now().Add(time.Hour)}, t: t,
			house: &actors.House{Loop: actors.NewLoop(group, nil), Stream: stream, Logger: zap.NewNop(), Time: actors.TimeOf},
		}
		r.owner = r
		r.handle = &cache.Handle{Caches: cache.New(cache.Config{Size: 1, Idle: time.Hour}), Path: "/locks/a", Keeper: r}
		test(t, r)
		if !r.over {
			r.say(recipes.LeaseRanOut{})
			r.deleted()
		}
		stream.Close(time.Second)
		group.Close()
	})
}

// Queue returns the acquisition that gets the node.
func (r *rig) Queue(_ string, tell actors.Beside) (*actors.Lookout, error) {
	cfg := actors.Config{Path: "/locks/a", Owner: r, House: r.house}
	return actors.NewLookout(cfg, recipes.Mutex{}, r.port, tell), nil
}

func (r *rig) Gone() { r.gone++ }

func (r *rig) Explain(end actors.End) error {
	if end.Why == recipes.WhyReleased && end.Granted {
		return nil
	}
	return endError{end}
}

type endError struct{ actors.End }

func (e endError) Error() string { return fmt.Sprintf("ended: %+v", e.End) }

func (r *rig) config() actors.Config {
	r.lastID++
	return actors.Config{ID: r.lastID, Path: "/locks/a", Owner: r.owner, House: r.house}
}

// say posts the inputs, and waits until they are handled.
func (r *rig) say(inputs ...recipes.Input) {
	for _, in := range inputs {
		r.house.Loop.Hand(func() { r.post(in, nil) })
	}
	synctest.Wait()
}

// waiter returns a waiting caller's lock.
func (r *rig) waiter() *actors.Lock {
	l := r.handle.Lock(r.config())
	l.Start(r.t.Context(), 0, actors.Want{})
	synctest.Wait()
	return l
}

// holder returns a holding caller's lock.
func (r *rig) holder() *actors.Lock {
	r.t.Helper()
	l := r.waiter()
	r.say(
		recipes.Opened{Epoch: epoch, Session: 1}, recipes.Created{Epoch: epoch, Node: own},
		recipes.Listed{Epoch: epoch, Queue: []events.Name{own}, Own: recipes.Own{Name: own, Owner: 1, Token: 7}},
		recipes.Claimed{Epoch: epoch, Fresh: true},
	)
	r.mustTake(l)
	return l
}

// mustTake takes the lock's Grant.
func (r *rig) mustTake(l *actors.Lock) {
	r.t.Helper()
	select {
	case <-l.Granted():
	default:
		r.t.Fatal("there is no Grant, want one")
	}
}

// claims checks the number of claims so far, and that a waiter has no Grant.
func (r *rig) claims(want int, waits *actors.Lock, when string) {
	r.t.Helper()
	if got := r.requests(recipes.OpClaim); got != want || waits.Holding() {
		r.t.Fatalf("%s: %d claims were made, and the waiter holds: %v; want %d, and no Grant", when, got, waits.Holding(), want)
	}
}

// admit returns a lock, not started yet, that reenters the held one, or nil.
func (r *rig) admit(by *actors.Lock) *actors.Lock { return by.Admit(r.config()) }

// deleted answers the delete of the node.
func (r *rig) deleted() {
	r.t.Helper()
	r.over = true
	eventstest.Equal(r.t, r.requests(recipes.OpDelete), 1, "requests for the node to go")
	r.say(recipes.Deleted{Epoch: epoch})
}

func isOver(l *actors.Lock) bool {
	select {
	case <-l.Done():
		return true
	default:
		return false
	}
}

// TestNoTurnIsEnteredAfterTheEndOfTheLease, even if that is not noticed yet, nor after
// the deadline of a revocation, nor after the release.
func TestNoTurnIsEnteredAfterTheEndOfTheLease(t *testing.T) {
	for name, ends := range map[string]func(r *rig, holder *actors.Lock){
		"lease": func(*rig, *actors.Lock) { time.Sleep(time.Hour) },
		"deadline": func(r *rig, _ *actors.Lock) {
			by := actors.MomentOf(time.Now().Add(time.Minute))
			r.say(recipes.RevocationRequested{Epoch: epoch, Node: own, By: by})
			time.Sleep(time.Minute)
		},
		"released": func(_ *rig, holder *actors.Lock) { holder.Withdraw(recipes.WhyReleased) },
	} {
		withRig(t, func(t *testing.T, r *rig) {
			holder := r.holder()
			inner := r.admit(holder)
			if inner == nil {
				t.Fatal("a holder's lock is not entered again")
			}
			inner.Fail(errors.New("not started"))
			ends(r, holder)
			eventstest.Expect(t, r.admit(holder) == nil, "%s: a lock is entered again, want none", name)
			holder.Withdraw(recipes.WhyReleased)
		})
	}
}

// TestNoTurnIsTakenAfterALoss: when the first holder is notified of the loss, the Grants
// of the others have been taken back.
func TestNoTurnIsTakenAfterALoss(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		outer := r.holder()
		inner := r.admit(outer)
		inner.Start(t.Context(), 0, actors.Want{})
		if synctest.Wait(); !inner.Holding() {
			t.Fatal("the inner lock has no Grant")
		}
		heard := false
		outer.OnEnd(func(error) {
			heard = true
			eventstest.Expect(t, !inner.Holding(), "after the loss the inner lock holds")
		})
		r.say(recipes.LeaseRanOut{})
		eventstest.Expect(t, heard && isOver(outer) && isOver(inner),
			"told: %v, over: %v and %v; want all of it", heard, isOver(outer), isOver(inner))
	})
}

// slow is an owner that does something else before it explains the end.
type slow struct {
	*rig

	first func()
}

func (s slow) Explain(end actors.End) error {
	s.first()
	return s.rig.Explain(end)
}

// TestAUseAfterALossSaysWhy: the lock is lost, and while the first holder is losing it,
// the second one uses it.
func TestAUseAfterALossSaysWhy(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		var inner *actors.Lock
		ending := make(chan error, 1)
		r.owner = slow{r, func() {
			go func() {
				inner.Use()
				ending <- inner.Ending()
			}()
			for range 1000 { // until it has used the lock, or waits for this goroutine
				runtime.Gosched()
			}
		}}
		outer := r.holder()
		r.owner = r
		inner = r.admit(outer)
		inner.Start(t.Context(), 0, actors.Want{})
		synctest.Wait()
		r.say(recipes.LeaseRanOut{})
		eventstest.Expect(t, <-ending != nil, "the use of a lost lock shows no loss, want one")
	})
}

// TestTheEndComesAfterTheLoss, even if the caller releases as soon as the lock is lost: a
// turn ends in its caller's goroutine, before the loss is published.
func TestTheEndComesAfterTheLoss(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		stream := r.house.Stream.Subscribe(t.Context())
		holder := r.holder()
		holder.OnEnd(func(error) { holder.Withdraw(recipes.WhyReleased) })
		r.say(recipes.LeaseRanOut{})
		var said []string
		for len(said) < 3 {
			if ev := <-stream; ev.AcquisitionID() != 0 { // otherwise an event of the node
				said = append(said, fmt.Sprintf("%T", ev))
			}
		}
		eventstest.Equal(t, said, []string{"events.Grant", "events.Lost", "events.Ended"}, "the stream")
	})
}

// TestATurnHearsNothingBeforeItIsStarted: a lock is reentered, and lost before the inner
// lock is started. The inner lock is notified of the loss when it is started, and never
// if it fails.
func TestATurnHearsNothingBeforeItIsStarted(t *testing.T) {
	for _, fails := range []bool{false, true} {
		withRig(t, func(t *testing.T, r *rig) {
			outer := r.holder()
			inner := r.admit(outer)
			r.say(recipes.LeaseRanOut{})
			if !isOver(outer) || isOver(inner) || r.gone != 1 {
				t.Fatalf("over: %v, and the inner lock, which is not started: %v; want the first", isOver(outer), isOver(inner))
			}
			var want error = endError{actors.End{Why: recipes.WhyLost, Reason: events.ReasonLeaseRanOut}}
			if fails {
				want = errors.New("failed")
				inner.Fail(want)
			} else {
				inner.Start(t.Context(), 0, actors.Want{})
			}
			synctest.Wait()
			eventstest.ErrorIs(t, inner.Err(), want, "fails %v: the end", fails)
			r.deleted()
			eventstest.Equal(t, r.gone, 3, "fails %v: acquisitions of which nothing is left", fails)
		})
	}
}

// TestABoundBeforeARefusalIsTheEnd: the functions of OnEnd learn that the context of a
// waiter has ended, and only then does a server refuse the node.
func TestABoundBeforeARefusalIsTheEnd(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		waits := r.handle.Lock(r.config())
		waits.Start(ctx, 0, actors.Want{})
		r.say(recipes.Opened{Epoch: epoch, Session: 1})
		var told error
		waits.OnEnd(func(err error) {
			told = err
			refused := recipes.Refused{Epoch: epoch, Op: recipes.OpCreate}
			r.house.Loop.Hand(func() { r.post(refused, errors.New("refused")) })
		})
		cancel(errors.New("enough"))
		synctest.Wait()
		eventstest.Expect(t, isOver(waits) && told != nil && errors.Is(waits.Err(), told),
			"it ended with %v, and the functions of OnEnd were told %v; want the same", waits.Err(), told)
		r.over = true // it was never created
	})
}

// TestANodeRestsAfterALateClaim: an idle node rests, and a caller that withdraws has it
// claimed. The claim is answered only after the node should rest again.
func TestANodeRestsAfterALateClaim(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		holder := r.holder()
		next := r.waiter()
		holder.Withdraw(recipes.WhyReleased)
		r.say(recipes.Armed{Epoch: epoch})
		r.mustTake(next)
		next.Withdraw(recipes.WhyReleased)
		rests := func(want int, when string) {
			t.Helper()
			time.Sleep(3 * time.Second)
			synctest.Wait()
			r.mu.Lock()
			defer r.mu.Unlock()
			n := 0
			for _, e := range r.sent {
				if _, is := e.(recipes.Rest); is {
					n++
				}
			}
			eventstest.Equal(t, n, want, "%s: how often the node rested", when)
		}
		rests(1, "idle")
		withdrawn := r.waiter()
		withdrawn.Withdraw(recipes.WhyReleased)
		rests(1, "while the claim is unanswered")
		r.say(recipes.Claimed{Epoch: epoch, Fresh: true})
		rests(2, "after that")
	})
}

// TestTheEarlierDeadlineCounts: a lock is reentered after a revocation request, and the
// goroutine that enters is slow. It passes that request on only after a newer one, with
// an earlier deadline, has arrived.
func TestTheEarlierDeadlineCounts(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		outer := r.holder()
		at := func(in time.Duration) recipes.Moment { return actors.MomentOf(time.Now().Add(in)) }
		late, soon := at(time.Minute), at(30*time.Second)
		r.say(recipes.RevocationRequested{Epoch: epoch, Node: own, By: late})
		slow := make(chan struct{})
		core, _ := observer.New(zap.DebugLevel)
		r.house.Logger = zap.New(zapcore.RegisterHooks(core, func(e zapcore.Entry) error {
			if e.Message == "lock granted" {
				<-slow
			}
			return nil
		}))
		inner := r.admit(outer)
		entered := make(chan struct{})
		go func() {
			defer close(entered)
			inner.Start(t.Context(), 0, actors.Want{})
		}()
		synctest.Wait() // it logs the Grant
		r.say(recipes.RevocationRequested{Epoch: epoch, Node: own, By: soon})
		close(slow)
		<-entered
		synctest.Wait()
		if got, want := inner.Deadline(), actors.TimeOf(soon); !got.Equal(want) {
			t.Errorf("the inner lock is valid until %v, want %v", got, want)
		}
		if told := <-inner.Revoked(); !told.Deadline.Equal(actors.TimeOf(soon)) {
			t.Errorf("it is told %+v, want the earlier deadline", told)
		}
	})
}

// TestAChangedDirectoryIsReadOnceAnInterval, and at once for a waiting caller.
func TestAChangedDirectoryIsReadOnceAnInterval(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		holder := r.holder()
		next := r.waiter()
		holder.Withdraw(recipes.WhyReleased)
		armed := []recipes.Input{recipes.Armed{Epoch: epoch}, recipes.Changed{Epoch: epoch}}
		r.say(armed[0])
		r.mustTake(next)
		var reads []int
		read := func() { reads = append(reads, r.requests(recipes.OpArm)) }
		r.say(armed[1])
		read() // at once, for the first time
		r.say(armed...)
		read() // not again
		time.Sleep(time.Second)
		read() // an interval later
		r.say(armed...)
		read()
		waits := r.waiter()
		read() // there is a holder
		next.Withdraw(recipes.WhyReleased)
		read() // there is none
		r.say(armed[0])
		r.mustTake(waits)
		eventstest.Equal(t, reads, []int{2, 2, 3, 3, 3, 4}, "how often the directory was read")
	})
}

// TestAClaimIsProofForOneTurn if no answered write is recent, because a round trip takes
// longer.
func TestAClaimIsProofForOneTurn(t *testing.T) {
	withRig(t, func(t *testing.T, r *rig) {
		r.far = true
		holder := r.holder()
		first, second := r.waiter(), r.waiter()
		holder.Withdraw(recipes.WhyReleased)
		r.say(recipes.Armed{Epoch: epoch})
		r.claims(2, first, "when it is watched")
		r.say(recipes.Claimed{Epoch: epoch, Fresh: true})
		r.mustTake(first)
		first.Withdraw(recipes.WhyReleased)
		r.claims(3, second, "for the next turn")
		r.say(recipes.Claimed{Epoch: epoch, Fresh: true})
		r.mustTake(second)
	})
}
