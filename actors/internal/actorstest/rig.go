// Package actorstest has what the tests of actors share: a lock actor, the session it
// talks to, and checks of what it does.
package actorstest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// The session of the tests, and the token of the node in it.
const (
	Epoch   = recipes.Epoch(3)
	Session = int64(0x1234)
	Token   = int64(77)
)

// Nodes of the queue, and errors.
var (
	Own   = events.Name{Text: "lock-0000000005", Kind: events.KindLock, Seq: 5}
	Older = events.Name{Text: "lock-0000000004", Kind: events.KindLock, Seq: 4}

	ErrNoAuth = errors.New("no permission")
	ErrCause  = errors.New("the caller's own cause")
)

// What the session says on the way to the Grant of a lock without another contender.
var (
	Opened  = recipes.Opened{Epoch: Epoch, Session: Session}
	Created = recipes.Created{Epoch: Epoch, Node: Own}
	Listed  = recipes.Listed{
		Epoch: Epoch, Queue: []events.Name{Own}, Own: recipes.Own{Name: Own, Owner: Session, Token: Token},
	}
	Claimed  = recipes.Claimed{Epoch: Epoch, Fresh: true}
	Recorded = recipes.Claimed{Epoch: Epoch, Fresh: true, Recorded: true} // with DetectCrash

	Ahead   = recipes.Gone{Epoch: Epoch, Node: Older} // the contender ahead is gone
	Removed = recipes.Gone{Epoch: Epoch, Node: Own}
)

// FakePort is a session that a test scripts. It notes the requests, and says only what
// the test tells it to.
type FakePort struct {
	Loop   *actors.Loop         // which posts
	Answer func(recipes.Effect) // called with each request, by the loop; nil: the test answers
	OnOpen func()               // called by Open; nil: the test posts Opened

	mu       sync.Mutex
	post     actors.Post
	opened   int
	closed   int
	open     bool
	requests []recipes.Effect
	Until    time.Time     // the end of the lease
	other    recipes.Epoch // the session's, if it is not the usual one
}

// SetEpoch puts another session in the place of the usual one.
func (p *FakePort) SetEpoch(e recipes.Epoch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.other = e
}

func (p *FakePort) Open(post actors.Post) recipes.Opened {
	p.mu.Lock()
	p.post = post
	p.opened++
	p.open = true
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

// Do notes the request, and has it answered.
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
	if of != Epoch && of != p.other {
		return time.Time{}
	}
	return p.Until
}

func (p *FakePort) Proven(recipes.Epoch) (alive, recent bool) { return true, true }

func (p *FakePort) Interval() time.Duration { return time.Second }

func (p *FakePort) Session(of recipes.Epoch) int64 {
	if of != Epoch {
		return 0
	}
	return Session
}

// Counts returns how often the port was opened and closed.
func (p *FakePort) Counts() (opened, closed int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened, p.closed
}

func (p *FakePort) IsOpen() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
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

// Sent returns the requests so far.
func (p *FakePort) Sent() []recipes.Effect {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]recipes.Effect(nil), p.requests...)
}

// Deletes counts the requests for the node to go, and returns the last one.
func (r *Rig) Deletes() (n int, last recipes.Delete) {
	for _, e := range r.Port.Sent() {
		if d, ok := e.(recipes.Delete); ok {
			n, last = n+1, d
		}
	}
	return n, last
}

// EndError is the error that the tests' Explain makes of an end.
type EndError struct{ actors.End }

func (e EndError) Error() string { return fmt.Sprintf("ended: %+v", e.End) }

func (e EndError) Unwrap() error { return e.Cause }

// Rig is a lock actor on a fake port.
type Rig struct {
	*actors.Lock
	Port   *FakePort
	Group  *actors.Group
	Stream *actors.Stream
	House  *actors.House
	Gone   atomic.Int32

	Explaining func() // called, if not nil, whenever an end is explained
}

// NewRig returns an idle lock. What it leaves running is stopped at the end of the test;
// by then its bubble has to be idle.
func NewRig(t *testing.T) *Rig {
	t.Helper()
	r := &Rig{Group: &actors.Group{}}
	r.Stream = actors.NewStream(r.Group)
	r.House = &actors.House{Loop: actors.NewLoop(r.Group, nil), Stream: r.Stream, Logger: zap.NewNop(), Limit: time.Minute}
	r.Port = &FakePort{Loop: r.House.Loop, Until: time.Now().Add(time.Hour)}
	r.Renew()
	t.Cleanup(r.Shut)
	return r
}

// Renew replaces the lock by an idle one.
func (r *Rig) Renew() {
	r.Lock = actors.NewLock(actors.Config{
		ID: 7, Path: "/locks/a",
		Owner: owner{explain: func(end actors.End) error {
			if r.Explaining != nil {
				r.Explaining()
			}
			return Explain(end)
		}, gone: &r.Gone},
		House: r.House,
	}, recipes.Mutex{}, r.Port)
}

// Sibling returns another idle lock of the same house.
func (r *Rig) Sibling() *Rig {
	s := &Rig{Port: &FakePort{Loop: r.House.Loop, Until: r.Port.Until}, Group: r.Group, Stream: r.Stream, House: r.House}
	s.Renew()
	return s
}

// NewOwner returns the owner of a lock. It explains every end, and counts the calls of
// Gone.
func NewOwner(gone *atomic.Int32) actors.Owner { return owner{Explain, gone} }

// owner counts the calls of Gone.
type owner struct {
	explain func(actors.End) error
	gone    *atomic.Int32
}

func (o owner) Explain(end actors.End) error { return o.explain(end) }
func (o owner) Gone()                        { o.gone.Add(1) }

// Explain returns the error for an end: nil after a release.
func Explain(end actors.End) error {
	if end.Why == recipes.WhyReleased && end.Granted {
		return nil
	}
	return EndError{end}
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

// Begin asks for the lock, without a bound.
func (r *Rig) Begin(t *testing.T, want actors.Want) {
	t.Helper()
	r.Start(t.Context(), 0, want)
	synctest.Wait()
}

// Queued takes a started lock to its wait behind another contender.
func (r *Rig) Queued() {
	r.Say(Opened, Created, recipes.Listed{Epoch: Epoch, Queue: []events.Name{Own, Older}, Own: Listed.Own})
}

// Hold takes a started lock to its Grant.
func (r *Rig) Hold() {
	r.Say(Opened, Created, Listed, Claimed)
}

// Holds asks for the lock and takes its Grant.
func (r *Rig) Holds(t *testing.T, want actors.Want) {
	t.Helper()
	r.Begin(t, want)
	r.Hold()
	MustTake(t, r.Granted())
}

// Releases gives the lock back, and checks that it is over.
func (r *Rig) Releases(t *testing.T) {
	t.Helper()
	r.Withdraw(recipes.WhyReleased)
	r.Deleted()
	r.IsOver(t, nil)
}

// GrantOf is the Grant that Hold leads to.
func GrantOf(waited time.Duration) events.Grant {
	return events.Grant{ID: 7, Path: "/locks/a", Node: "/locks/a/" + Own.Text, Token: Token, Session: Session, Waited: waited}
}

// Deleted answers the Delete.
func (r *Rig) Deleted() { r.Say(recipes.Deleted{Epoch: Epoch}) }

// Take returns what the channel holds, and whether it holds anything.
func Take[T any](c <-chan T) (v T, ok bool) {
	select {
	case v := <-c:
		return v, true
	default:
		return v, false
	}
}

// MustTake takes what has to be in the channel.
func MustTake[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	v, ok := Take(c)
	if !ok {
		t.Fatalf("there is no %T to be read, want one", v)
	}
	return v
}

// IsOver checks all that has to hold once a lock is over, and what Err says.
func (r *Rig) IsOver(t *testing.T, want error) {
	t.Helper()
	synctest.Wait()
	if !IsDone(r.Lock) {
		t.Fatal("Done is open, want it closed: the lock is over")
	}
	if got := r.Err(); got != want { //nolint:errorlint // identity is meant
		t.Errorf("Err is %v, want %v", got, want)
	}
	if r.Valid() || r.Holding() || !r.Deadline().IsZero() {
		t.Errorf("over: valid %t, holding %t, deadline %v; want none of them", r.Valid(), r.Holding(), r.Deadline())
	}
	if g, ok := Take(r.Granted()); ok {
		t.Errorf("%+v can be read when it is over, want nothing", g)
	}
	if l, ok := Take(r.Lost()); ok {
		t.Errorf("%+v can be read when it is over, want no loss", l)
	}
}

// WantGone checks how often the lock has called Gone: 0 times or once.
func (r *Rig) WantGone(t *testing.T, want int32) {
	t.Helper()
	opened, closed := r.Port.Counts()
	if gone := r.Gone.Load(); gone != want || closed != int(want)*opened {
		t.Errorf("Gone was called %d times, want %d; the port was opened %d times and closed %d times", gone, want, opened, closed)
	}
	if want > 0 && r.Port.IsOpen() {
		t.Error("the port is open when nothing is left")
	}
}

// IsOverAndGone checks that the lock is over, and that nothing of it is left at the
// server.
func (r *Rig) IsOverAndGone(t *testing.T, want error) {
	t.Helper()
	r.IsOver(t, want)
	r.WantGone(t, 1)
}

// IsNotHeld checks that the lock is neither held nor valid.
func (r *Rig) IsNotHeld(t *testing.T, when string) {
	t.Helper()
	if r.Holding() || r.Valid() {
		t.Errorf("%s held is %v and valid %v, want neither", when, r.Holding(), r.Valid())
	}
}

// HasNoGrant checks that no Grant can be read.
func (r *Rig) HasNoGrant(t *testing.T, when string) {
	t.Helper()
	if g, ok := Take(r.Granted()); ok {
		t.Errorf("%s %+v can be read, want no Grant", when, g)
	}
}

// GoesOn checks that the lock is not over.
func (r *Rig) GoesOn(t *testing.T, holding bool) {
	t.Helper()
	synctest.Wait()
	if IsDone(r.Lock) || r.Err() != nil {
		t.Fatalf("it is over with %v, want it to go on", r.Err())
	}
	if r.Holding() != holding || r.Valid() != holding {
		t.Errorf("held: %v, valid: %v, want %v", r.Holding(), r.Valid(), holding)
	}
}

func IsDone(l *actors.Lock) bool {
	select {
	case <-l.Done():
		return true
	default:
		return false
	}
}

// Ends is the error that the tests' Explain makes.
func Ends(why recipes.Why, granted bool, reason events.Reason, cause error) error {
	return EndError{actors.End{Why: why, Granted: granted, Reason: reason, Cause: cause}}
}

// CountingContext tells which functions wait for its end, and may call a function when
// its error is asked for. It does not call the waiting functions when it ends; a test
// does that.
type CountingContext struct {
	context.Context
	OnErr func()
	Ended atomic.Bool
	done  chan struct{} // its own: with the parent's, package context would not call AfterFunc

	mu      sync.Mutex
	waiting map[int]func()
	last    int
}

func NewCountingContext(parent context.Context) *CountingContext {
	return &CountingContext{Context: parent, done: make(chan struct{}), waiting: map[int]func(){}}
}

func (c *CountingContext) Done() <-chan struct{} { return c.done }

// AfterFunc replaces package context's own bookkeeping.
func (c *CountingContext) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	id := c.last
	c.waiting[id] = f
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, ok := c.waiting[id]
		delete(c.waiting, id)
		return ok
	}
}

// Asked returns how many functions there have been.
func (c *CountingContext) Asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

func (c *CountingContext) Functions() []func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []func()
	for _, f := range c.waiting {
		all = append(all, f)
	}
	return all
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
