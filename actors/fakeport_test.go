package actors_test

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

const (
	epoch   = recipes.Epoch(3)
	session = int64(0x1234)
	token   = int64(77)
)

var (
	own   = events.Name{Text: "lock-0000000005", Kind: events.KindLock, Seq: 5}
	older = events.Name{Text: "lock-0000000004", Kind: events.KindLock, Seq: 4}

	errNoAuth = errors.New("no permission")
	errCause  = errors.New("the caller's own cause")
)

// fakePort is a session that a test scripts: it notes the requests and says only
// what it is told to.
type fakePort struct {
	answer func(recipes.Effect) // called with each request, from the drain; nil: the test answers
	onOpen func()               // called by Open; nil: the test says when there is a session

	onLapse func() // called by Lapse, if not nil

	mu       sync.Mutex
	post     actors.Post
	opened   int
	closed   int
	open     bool
	requests []recipes.Effect
	deadline time.Time
	other    recipes.Epoch // the session's, if it is not the usual one
}

// setEpoch says that another session is there.
func (p *fakePort) setEpoch(e recipes.Epoch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.other = e
}

func (p *fakePort) Open(post actors.Post) {
	p.mu.Lock()
	p.post = post
	p.opened++
	p.open = true
	p.mu.Unlock()
	if p.onOpen != nil {
		p.onOpen()
	}
}

func (p *fakePort) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed++
	p.open = false
}

func (p *fakePort) request(e recipes.Effect) {
	p.mu.Lock()
	p.requests = append(p.requests, e)
	p.mu.Unlock()
	if p.answer != nil {
		p.answer(e)
	}
}

func (p *fakePort) Create(e recipes.Create)   { p.request(e) }
func (p *fakePort) List(e recipes.List)       { p.request(e) }
func (p *fakePort) Watch(e recipes.Watch)     { p.request(e) }
func (p *fakePort) Claim(e recipes.Claim)     { p.request(e) }
func (p *fakePort) Advance(e recipes.Advance) { p.request(e) }
func (p *fakePort) Survey(e recipes.Survey)   { p.request(e) }
func (p *fakePort) Enter(e recipes.Enter)     { p.request(e) }
func (p *fakePort) Delete(e recipes.Delete)   { p.request(e) }
func (p *fakePort) Pause(e recipes.Pause)     { p.request(e) }
func (p *fakePort) Discard(e recipes.Discard) { p.request(e) }

func (p *fakePort) Lapse() {
	if p.onLapse != nil {
		p.onLapse()
	}
}

func (p *fakePort) Deadline(of recipes.Epoch) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if of != epoch && of != p.other {
		return time.Time{}
	}
	return p.deadline
}

func (p *fakePort) Session(of recipes.Epoch) int64 {
	if of != epoch {
		return 0
	}
	return session
}

// counts returns how often the port was opened and closed.
func (p *fakePort) counts() (opened, closed int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened, p.closed
}

func (p *fakePort) isOpen() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}

// say posts the inputs as the session does.
func (p *fakePort) say(inputs ...recipes.Input) {
	p.mu.Lock()
	post := p.post
	p.mu.Unlock()
	for _, in := range inputs {
		post(in, nil)
	}
}

// sent returns the requests so far.
func (p *fakePort) sent() []recipes.Effect {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]recipes.Effect(nil), p.requests...)
}

// endError is what the tests' Explain makes of an end.
type endError struct{ actors.End }

func (e endError) Error() string { return fmt.Sprintf("ended: %+v", e.End) }

func (e endError) Unwrap() error { return e.Cause }

// rig is a lock actor on a fake port.
type rig struct {
	*actors.Lock
	port   *fakePort
	group  *actors.Group
	stream *actors.Stream
	house  *actors.House
	gone   atomic.Int32

	explaining func() // called, if not nil, whenever an end is explained
}

// newRig returns an idle lock. What it leaves running is stopped at the end of the
// test, in whose bubble it has to be idle by then.
func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{port: &fakePort{deadline: time.Now().Add(time.Hour)}, group: &actors.Group{}}
	r.stream = actors.NewStream(r.group)
	r.house = &actors.House{Group: r.group, Stream: r.stream, Logger: zap.NewNop()}
	r.renew()
	t.Cleanup(r.close)
	return r
}

// renew puts an idle lock in the place of the one before.
func (r *rig) renew() {
	r.Lock = actors.NewLock(actors.Config{
		ID: 7, Path: "/locks/a", Rule: recipes.Mutex{}, Port: r.port,
		Owner: owner{explain: func(end actors.End) error {
			if r.explaining != nil {
				r.explaining()
			}
			return explain(end)
		}, gone: &r.gone},
		House: r.house,
	})
}

// sibling returns another idle lock in the same house.
func (r *rig) sibling() *rig {
	s := &rig{port: &fakePort{deadline: r.port.deadline}, group: r.group, stream: r.stream, house: r.house}
	s.renew()
	return s
}

// owner counts how often nothing was left.
type owner struct {
	explain func(actors.End) error
	gone    *atomic.Int32
}

func (o owner) Members() []events.Member { return nil }

func (o owner) Explain(end actors.End) error { return o.explain(end) }
func (o owner) Gone()                        { o.gone.Add(1) }

func explain(end actors.End) error {
	if end.Why == recipes.WhyReleased && end.Granted {
		return nil
	}
	return endError{end}
}

func (r *rig) close() {
	r.stream.Close(10 * time.Second)
	r.group.Close()
}

// say posts the inputs and waits until they were handled.
func (r *rig) say(inputs ...recipes.Input) {
	r.port.say(inputs...)
	synctest.Wait()
}

// refuse answers a request with a refusal and its explanation.
func (r *rig) refuse(op recipes.Op, err error) {
	r.port.post(recipes.Refused{Epoch: epoch, Op: op}, err)
	synctest.Wait()
}

// start asks for the lock, without a bound.
func (r *rig) start(t *testing.T, want recipes.Started) {
	t.Helper()
	r.Start(t.Context(), 0, want)
	synctest.Wait()
}

// queued takes a started lock to where it waits behind another.
func (r *rig) queued() {
	r.say(recipes.Opened{Epoch: epoch, Session: session}, recipes.Created{Epoch: epoch, Node: own},
		recipes.Listed{Epoch: epoch, Queue: []events.Name{own, older}, Own: recipes.Own{Name: own, Owner: session, Token: token}})
}

// hold takes a started lock to its Grant.
func (r *rig) hold() {
	r.say(recipes.Opened{Epoch: epoch, Session: session}, recipes.Created{Epoch: epoch, Node: own},
		recipes.Listed{Epoch: epoch, Queue: []events.Name{own}, Own: recipes.Own{Name: own, Owner: session, Token: token}},
		recipes.Claimed{Epoch: epoch, Fresh: true})
}

// grantOf is the Grant that hold leads to.
func grantOf(waited time.Duration) events.Grant {
	return events.Grant{ID: 7, Path: "/locks/a", Node: "/locks/a/" + own.Text, Token: token, Session: session, Waited: waited}
}

// deleted answers the Delete.
func (r *rig) deleted() { r.say(recipes.Deleted{Epoch: epoch}) }

// take returns what the channel holds, and whether it holds anything.
func take[T any](c <-chan T) (v T, ok bool) {
	select {
	case v := <-c:
		return v, true
	default:
		return v, false
	}
}

// mustTake takes what has to be in the channel.
func mustTake[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	v, ok := take(c)
	if !ok {
		t.Fatalf("there is no %T to be read", v)
	}
	return v
}

// isOver checks all that has to hold once a lock is over, and what Err says.
func (r *rig) isOver(t *testing.T, want error) {
	t.Helper()
	synctest.Wait()
	if !isDone(r.Lock) {
		t.Fatal("Done is not closed")
	}
	if got := r.Err(); got != want { //nolint:errorlint // the very error is meant
		t.Errorf("Err is %v, want %v", got, want)
	}
	if r.Valid() || r.Holding() || !r.Deadline().IsZero() {
		t.Error("it is over, and held")
	}
	if g, ok := take(r.Granted()); ok {
		t.Errorf("%+v can be read when it is over", g)
	}
	if l, ok := take(r.Lost()); ok {
		t.Errorf("%+v was not expected", l)
	}
}

// isLeft checks that nothing of the lock is left at the server.
func (r *rig) isLeft(t *testing.T, want int32) {
	t.Helper()
	opened, closed := r.port.counts()
	if gone := r.gone.Load(); gone != want || closed != int(want)*opened {
		t.Errorf("Gone was called %d times, want %d; the port was opened %d times and closed %d times", gone, want, opened, closed)
	}
	if want > 0 && r.port.isOpen() {
		t.Error("the port is open when nothing is left")
	}
}

// goesOn checks that the lock is not over.
func (r *rig) goesOn(t *testing.T, holding bool) {
	t.Helper()
	synctest.Wait()
	if isDone(r.Lock) || r.Err() != nil {
		t.Fatalf("it is over: %v", r.Err())
	}
	if r.Holding() != holding || r.Valid() != holding {
		t.Errorf("held: %v, valid: %v, want %v", r.Holding(), r.Valid(), holding)
	}
}

func isDone(l *actors.Lock) bool {
	select {
	case <-l.Done():
		return true
	default:
		return false
	}
}

// ends is the error that the tests' Explain makes.
func ends(why recipes.Why, granted bool, reason events.Reason, cause error) error {
	return endError{actors.End{Why: why, Granted: granted, Reason: reason, Cause: cause}}
}

// countingContext tells which functions wait for its end, and may have something
// happen when somebody asks for its error. Those functions are not called when it
// ends; a test does that.
type countingContext struct {
	context.Context
	onErr func()
	ended atomic.Bool
	done  chan struct{} // its own, or package context would go past AfterFunc to the parent

	mu      sync.Mutex
	waiting map[int]func()
	last    int
}

func newCountingContext(parent context.Context) *countingContext {
	return &countingContext{Context: parent, done: make(chan struct{}), waiting: map[int]func(){}}
}

func (c *countingContext) Done() <-chan struct{} { return c.done }

// AfterFunc takes the place of package context's own bookkeeping.
func (c *countingContext) AfterFunc(f func()) (stop func() bool) {
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

func (c *countingContext) functions() []func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []func()
	for _, f := range c.waiting {
		all = append(all, f)
	}
	return all
}

func (c *countingContext) Err() error {
	if c.onErr != nil {
		c.onErr()
	}
	if c.ended.Load() {
		return context.Canceled
	}
	return nil
}
