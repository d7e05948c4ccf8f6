package actors_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The session of the tests, and the token of the node in it.
const (
	Epoch   = recipes.Epoch(3)
	Session = int64(0x1234)
	Token   = int64(77)
)

// Nodes of the queue, and errors.
var (
	Own    = nodeOf(5)
	Older  = nodeOf(4)
	beyond = nodeOf(1<<31 - 1)

	ErrNoAuth = errors.New("no permission")
	ErrCause  = errors.New("the caller's own cause")
)

func nodeOf(seq int64) events.Name {
	return events.Name{Text: fmt.Sprintf("lock-%010d", seq), Kind: events.KindLock, Seq: seq}
}

// The inputs that lead to the Grant of a lock without another contender.
var (
	Opened   = recipes.Opened{Epoch: Epoch, Session: Session}
	Created  = recipes.Created{Epoch: Epoch, Node: Own}
	Listed   = listed(Own)
	Claimed  = recipes.Claimed{Epoch: Epoch, Fresh: true}
	Recorded = recipes.Claimed{Epoch: Epoch, Fresh: true, Recorded: true} // with DetectCrash

	Ahead   = recipes.Gone{Epoch: Epoch, Node: Older} // the contender ahead is gone
	Removed = recipes.Gone{Epoch: Epoch, Node: Own}
)

// listed returns a listing that has found the lock's own node in the queue.
func listed(queue ...events.Name) recipes.Listed {
	own := recipes.Own{Name: Own, Owner: Session, Token: Token}
	return recipes.Listed{Epoch: Epoch, Queue: queue, Own: own}
}

// soon waits until the condition holds. It first polls without a pause, because most
// waits here take nanoseconds, on another processor.
func soon(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 1000 {
		if holds() {
			return
		}
		runtime.Gosched()
	}
	eventstest.Eventually(t, what, holds)
}

// FakePort is a session that a test scripts. It records the requests, and posts only what
// the test passes to it.
type FakePort struct {
	Loop   *actors.Loop         // which calls post
	Answer func(recipes.Effect) // called with each request, by the loop; nil: the test answers
	OnOpen func()               // called by Open; nil: the test posts Opened

	mu       sync.Mutex
	post     actors.Post
	opened   int
	closed   int
	open     bool
	requests []recipes.Effect
	Until    time.Time     // the end of the lease
	Other    atomic.Uint32 // the epoch of the session, unless that is the usual one
}

func (p *FakePort) Open(post actors.Post) recipes.Opened {
	p.mu.Lock()
	p.post, p.open = post, true
	p.opened++
	p.mu.Unlock()
	if p.OnOpen != nil {
		p.OnOpen()
	}
	return recipes.Opened{}
}

func (p *FakePort) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed++
	p.open = false
}

func (p *FakePort) Do(e recipes.Effect) {
	p.mu.Lock()
	p.requests = append(p.requests, e)
	p.mu.Unlock()
	if p.Answer != nil {
		p.Answer(e)
	}
}

func (p *FakePort) Deadline(of recipes.Epoch) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if of != Epoch && of != recipes.Epoch(p.Other.Load()) {
		return time.Time{}
	}
	return p.Until
}

func (p *FakePort) Proven(recipes.Epoch) (alive, recent bool) { return true, true }

func (p *FakePort) Interval() time.Duration { return time.Second }

// Counts returns how often the port was opened and closed, and whether it is open.
func (p *FakePort) Counts() (opened, closed int, open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened, p.closed, p.open
}

// Say posts the inputs as the session does.
func (p *FakePort) Say(inputs ...recipes.Input) {
	for _, in := range inputs {
		p.tell(in, nil)
	}
}

// tell posts an input, with the explanation of a refusal.
func (p *FakePort) tell(in recipes.Input, err error) {
	p.mu.Lock()
	post := p.post
	p.mu.Unlock()
	p.Loop.Hand(func() { post(in, err) })
}

func (p *FakePort) Sent() []recipes.Effect {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

func (p *FakePort) Last() recipes.Effect {
	sent := p.Sent()
	return sent[len(sent)-1]
}

// answerTo returns the successful answer to a request, or nil.
func answerTo(e recipes.Effect) recipes.Input {
	switch e := e.(type) {
	case recipes.Create:
		return recipes.Created{Epoch: e.Epoch, Node: Own}
	case recipes.List:
		found := Listed
		found.Epoch = e.Epoch
		return found
	case recipes.Claim:
		return e.Marks(recipes.Claimed{Epoch: e.Epoch, Fresh: true})
	case recipes.Delete:
		return recipes.Deleted{Epoch: e.Epoch}
	default:
		return nil
	}
}

// EndError is the error that the tests' Explain returns for an end.
type EndError struct{ actors.End }

func (e EndError) Error() string { return fmt.Sprintf("ended: %+v", e.End) }

func Ends(why recipes.Why, granted bool, reason events.Reason, cause error) error {
	return EndError{actors.End{Why: why, Granted: granted, Reason: reason, Cause: cause}}
}

var released = Ends(recipes.WhyReleased, false, 0, nil) // the end of a waiter

// Ended is the last event of a lock that did not hold.
func Ended(err error) events.Ended { return events.Ended{ID: 7, Path: "/locks/a", Err: err} }

type owner struct {
	gone       atomic.Int32 // calls of Gone
	explaining func()       // called, if not nil, whenever an end is explained
}

// Explain returns the error for an end: nil after a release.
func (o *owner) Explain(end actors.End) error {
	if o.explaining != nil {
		o.explaining()
	}
	if end.Why == recipes.WhyReleased && end.Granted {
		return nil
	}
	return EndError{end}
}

func (o *owner) Gone() { o.gone.Add(1) }

// Rig is a lock actor on a fake port.
type Rig struct {
	*actors.Lock
	owner

	Port   *FakePort
	Group  *actors.Group
	Stream *actors.Stream
	House  *actors.House
}

// NewRig returns an idle lock. Its goroutines are stopped at the end of the test; by
// then, the bubble must be idle.
func NewRig(t *testing.T) *Rig {
	t.Helper()
	r := &Rig{Group: &actors.Group{}}
	r.Stream = actors.NewStream(r.Group)
	loop := actors.NewLoop(r.Group, nil)
	r.House = &actors.House{Loop: loop, Stream: r.Stream, Logger: zap.NewNop(), Limit: time.Minute, Time: actors.TimeOf}
	r.Port = &FakePort{Until: time.Now().Add(time.Hour)}
	r.Renew()
	t.Cleanup(r.Shut)
	return r
}

// withRig runs a test in virtual time on an idle lock.
func withRig(t *testing.T, test func(t *testing.T, r *Rig)) {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) { test(t, NewRig(t)) })
}

// withEach is withRig for each case.
func withEach[C any](t *testing.T, cases map[string]C, test func(t *testing.T, r *Rig, c C)) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { withRig(t, func(t *testing.T, r *Rig) { test(t, r, c) }) })
	}
}

// Renew replaces the lock with an idle one that has its own port.
func (r *Rig) Renew() {
	r.Port = &FakePort{Loop: r.House.Loop, Until: r.Port.Until}
	c := actors.Config{ID: 7, Path: "/locks/a", Owner: &r.owner, House: r.House}
	r.Lock = actors.NewLock(c, recipes.Mutex{}, r.Port)
}

// Sibling returns another idle lock of the same house.
func (r *Rig) Sibling() *Rig {
	s := &Rig{Port: r.Port, Group: r.Group, Stream: r.Stream, House: r.House}
	s.Renew()
	return s
}

func (r *Rig) Shut() {
	r.Stream.Close(10 * time.Second)
	r.Group.Close()
}

// Say posts the inputs and waits until they were handled.
func (r *Rig) Say(inputs ...recipes.Input) {
	r.Port.Say(inputs...)
	synctest.Wait()
}

// Refuse answers a request with a refusal and its explanation.
func (r *Rig) Refuse(op recipes.Op, err error) {
	r.Port.tell(recipes.Refused{Epoch: Epoch, Op: op}, err)
	synctest.Wait()
}

// Begin requests the lock, without a bound.
func (r *Rig) Begin(t *testing.T, want actors.Want) {
	t.Helper()
	r.Start(t.Context(), 0, want)
	synctest.Wait()
}

// Queued takes a started lock to its wait behind another contender.
func (r *Rig) Queued() { r.Say(Opened, Created, listed(Own, Older)) }

// Hold takes a started lock to its Grant.
func (r *Rig) Hold() { r.Say(Opened, Created, Listed, Claimed) }

// Holds requests the lock and takes its Grant.
func (r *Rig) Holds(t *testing.T, want actors.Want) {
	t.Helper()
	r.Begin(t, want)
	r.Hold()
	MustTake(t, r.Granted())
}

// Releases releases the lock, and checks that it is over.
func (r *Rig) Releases(t *testing.T) {
	t.Helper()
	r.Withdraw(recipes.WhyReleased)
	r.Deleted()
	r.IsOver(t, nil)
}

var theGrant = events.Grant{
	ID: 7, Path: "/locks/a", Node: "/locks/a/" + Own.Text, Token: Token, Session: Session,
}

func (r *Rig) Deleted() { r.Say(recipes.Deleted{Epoch: Epoch}) }

// sent returns the requests of one kind.
func sent[E recipes.Effect](p *FakePort) (all []E) {
	for _, e := range p.Sent() {
		if e, ok := e.(E); ok {
			all = append(all, e)
		}
	}
	return all
}

// Take returns what the channel holds, and whether it holds anything.
func Take[T any](c <-chan T) (v T, ok bool) {
	select {
	case v := <-c:
		return v, true
	default:
		return v, false
	}
}

// none checks that the channel holds nothing.
func none[T any](t *testing.T, c <-chan T, when string) {
	t.Helper()
	v, ok := Take(c)
	eventstest.Expect(t, !ok, "%s %+v can be read, want none", when, v)
}

func MustTake[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	v, ok := Take(c)
	if !ok {
		t.Fatalf("there is no %T to be read, want one", v)
	}
	return v
}

// IsOver checks everything that must hold once a lock is over, and the result of Err.
func (r *Rig) IsOver(t *testing.T, want error) {
	t.Helper()
	synctest.Wait()
	if !IsDone(r.Lock) {
		t.Fatal("Done is open, want it closed: the lock is over")
	}
	if got := r.Err(); got != want { //nolint:errorlint // identity is meant
		t.Errorf("Err is %v, want %v", got, want)
	}
	eventstest.Expect(t, r.Deadline().IsZero(), "over: deadline %v, want none", r.Deadline())
	r.IsNotHeld(t, "over")
	none(t, r.Granted(), "over")
	none(t, r.Lost(), "over")
}

// WantGone checks how often the lock has called Gone: 0 times or once.
func (r *Rig) WantGone(t *testing.T, want int32) {
	t.Helper()
	opened, closed, open := r.Port.Counts()
	if gone := r.gone.Load(); gone != want || closed != int(want)*opened || want > 0 && open {
		t.Errorf("Gone was called %d times, want %d; the port was opened %d times, closed %d times, and is open: %v",
			gone, want, opened, closed, open)
	}
}

// IsOverAndGone checks that the lock is over and that nothing of it is left at the
// server.
func (r *Rig) IsOverAndGone(t *testing.T, want error) {
	t.Helper()
	r.IsOver(t, want)
	r.WantGone(t, 1)
}

func (r *Rig) IsNotHeld(t *testing.T, when string) {
	t.Helper()
	eventstest.Expect(t, !r.Holding() && !r.Valid(),
		"%s held is %v and valid %v, want neither", when, r.Holding(), r.Valid())
}

func (r *Rig) GoesOn(t *testing.T, holding bool) {
	t.Helper()
	synctest.Wait()
	if IsDone(r.Lock) || r.Err() != nil {
		t.Fatalf("it is over with %v, want it to go on", r.Err())
	}
	eventstest.Expect(t, r.Holding() == holding && r.Valid() == holding,
		"held: %v, valid: %v, want %v", r.Holding(), r.Valid(), holding)
}

func IsDone(l *actors.Lock) bool {
	_, done := Take(l.Done())
	return done
}

// CountingContext reports which functions wait for its end, and can call a function when
// Err is called. It does not call the waiting functions when it ends; the test does that.
type CountingContext struct {
	context.Context
	OnErr func()
	Ended atomic.Bool
	done  chan struct{} // its own: with the parent's, package context would not call AfterFunc

	mu      sync.Mutex
	waiting []func() // nil: no longer waits
}

func NewCountingContext(parent context.Context) *CountingContext {
	return &CountingContext{Context: parent, done: make(chan struct{})}
}

func (c *CountingContext) Done() <-chan struct{} { return c.done }

// AfterFunc replaces package context's own bookkeeping.
func (c *CountingContext) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := len(c.waiting)
	c.waiting = append(c.waiting, f)
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		waited := c.waiting[id] != nil
		c.waiting[id] = nil
		return waited
	}
}

// Functions returns the waiting functions, and how many have ever waited.
func (c *CountingContext) Functions() (all []func(), asked int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.waiting), func(f func()) bool { return f == nil }), len(c.waiting)
}

func (c *CountingContext) Err() error {
	if c.OnErr != nil {
		c.OnErr()
	}
	if c.Ended.Load() {
		return context.Canceled
	}
	return nil
}
