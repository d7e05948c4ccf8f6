package actors

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// End is how an acquisition ended, for [Config.Explain] to put into an error.
type End struct {
	Why     recipes.Why
	Granted bool          // the caller had taken the Grant
	Reason  events.Reason // of the loss, if Why is WhyLost
	Cause   error         // what the context, or the server that refused, had to say
}

// Config is what a lock actor is made with.
type Config struct {
	ID   uint64
	Path string // the directory, in the caller's name space
	Rule recipes.Rule

	Port    Port
	Group   *Group
	Stream  *Stream
	Explain func(End) error
	Gone    func() // called once, when nothing of the acquisition is left at the server
	Logger  *zap.Logger
}

// Lock is one acquisition. Its methods may be called from any goroutine and do
// not block.
type Lock struct {
	cfg     Config
	actor   *Actor[message]
	born    time.Time
	granted chan events.Grant // size 1; written by the drain, closed by nobody
	lost    chan events.Lost  // size 1; written by the drain, closed by nobody
	done    chan struct{}     // closed by the drain, last of all

	// Only the drain touches these.
	machine recipes.Machine
	refusal error
	opened  bool
	gone    bool

	mu        sync.Mutex
	state     tenure
	withdrawn recipes.Why // the caller wants no Grant any more, or no longer, or has been told the loss
	cause     error       // of the withdrawal
	failed    bool        // the drain has nothing to do, now or later
	grant     events.Grant
	epoch     recipes.Epoch
	since     time.Time // of the grant
	held      time.Duration
	took      bool // the Grant was taken, as far as is known
	reason    events.Reason
	err       error               // the end, once it is known
	onEnd     map[int]func(error) // told when it is not held any more
	lastOnEnd int
	stops     []func() bool // of what bounds the wait
}

// tenure is what the caller may believe.
type tenure uint8

const (
	waiting tenure = iota
	holding
	over // not held any more, and never again
)

// message is what the mailbox takes: an input for the machine, or the end of
// what bounds the wait.
type message struct {
	input recipes.Input
	cause error
	open  bool        // open the port first
	bound recipes.Why // WhyContext or WhyTimeout: the wait is over, unless the Grant was taken
}

// NewLock returns an idle lock actor; Start sets it going.
func NewLock(cfg Config) *Lock {
	l := &Lock{
		cfg: cfg, born: time.Now(), machine: recipes.NewMachine(cfg.Rule),
		granted: make(chan events.Grant, 1), lost: make(chan events.Lost, 1), done: make(chan struct{}),
		onEnd: map[int]func(error){},
	}
	l.actor = NewActor(cfg.Group, l.handle)
	return l
}

// Start asks for the lock. The wait ends with ctx, and after maxWait unless that
// is 0; both stop counting when the Grant is taken. It is called once. It does
// nothing if the acquisition was withdrawn before.
func (l *Lock) Start(ctx context.Context, maxWait time.Duration, want recipes.Started) {
	l.mu.Lock()
	if l.state == over { // withdrawn already; there is nothing to bound
		l.mu.Unlock()
		return
	}
	l.stops = append(l.stops, context.AfterFunc(ctx, func() {
		l.actor.Post(message{bound: recipes.WhyContext, cause: context.Cause(ctx)})
	}))
	if maxWait > 0 {
		timer := time.AfterFunc(maxWait, func() { l.actor.Post(message{bound: recipes.WhyTimeout}) })
		l.stops = append(l.stops, timer.Stop)
	}
	l.mu.Unlock()
	l.actor.Post(message{input: want, open: ctx.Err() == nil})
}

func (l *Lock) post(in recipes.Input, err error) { l.actor.Post(message{input: in, cause: err}) }

// Fail ends an acquisition that was never started, and is over when it returns.
// It does nothing if the acquisition was withdrawn before.
func (l *Lock) Fail(err error) {
	l.mu.Lock()
	if l.state == over {
		l.mu.Unlock()
		return
	}
	l.failed = true
	tell := l.leave(err)
	l.mu.Unlock()
	tell()
	l.cfg.Stream.Publish(events.Ended{ID: l.cfg.ID, Path: l.cfg.Path, Err: err})
	close(l.done)
	l.cfg.Gone()
}

// Withdraw ends the acquisition. No Grant can be read after it has returned,
// unless the Grant was taken before: then a subscriber that lags behind still
// gets it, and the end behind it. After a loss it says that the caller has
// finished what it did under the lock.
func (l *Lock) Withdraw(why recipes.Why) {
	l.mu.Lock()
	if l.failed {
		l.mu.Unlock()
		return
	}
	tell := func() {}
	if l.withdrawn == 0 && l.state != over {
		l.withdrawn = why
		if l.state == holding {
			l.settle()
		}
		tell = l.leave(l.cfg.Explain(End{Why: why, Granted: true}))
	}
	l.mu.Unlock()
	tell()
	l.post(recipes.Withdrawn{Why: why}, nil)
}

// settle takes the Grant back and notes whether it had been taken, and for how
// long the lock was held if so. It is called with mu held, when the state is
// about to leave holding.
func (l *Lock) settle() (read bool) {
	read, l.took = l.takeBack()
	if l.took {
		l.held = time.Since(l.since)
	}
	return read
}

// takeBack removes the Grant from the channel, and from the stream if it was
// still there. The Grant was read if it was not in the channel any more, and
// taken if it was read or seen on the stream. It is called with mu held.
func (l *Lock) takeBack() (read, taken bool) {
	select {
	case <-l.granted:
		// Whoever lives on the stream need not read the channel.
		return false, l.cfg.Stream.Retract(l.cfg.ID)
	default:
		return true, true
	}
}

// leave flips the state, with mu held, and returns what tells those who asked.
func (l *Lock) leave(err error) (tell func()) {
	l.state, l.err = over, err
	hooks := l.onEnd
	l.onEnd = nil
	return func() {
		for _, f := range hooks {
			f(err)
		}
	}
}

// handle is the drain's.
func (l *Lock) handle(m message) {
	if m.bound != 0 {
		if !l.boundReached(m) {
			return
		}
		m.input = recipes.Withdrawn{Why: m.bound}
	}
	if m.open && l.machine.State() != recipes.Over {
		l.opened = true
		l.cfg.Port.Open(l.post)
	}
	if _, refused := m.input.(recipes.Refused); refused && m.cause != nil {
		l.refusal = m.cause
	}
	from := l.machine.State()
	var effects []recipes.Effect
	l.machine, effects = l.machine.Step(m.input)
	if ce := l.cfg.Logger.Check(zap.DebugLevel, "step"); ce != nil {
		ce.Write(zap.Uint64("id", l.cfg.ID), zap.String("path", l.cfg.Path), zap.Stringer("from", from),
			zap.Stringer("to", l.machine.State()), zap.Any("input", m.input), zap.Any("effects", effects))
	}
	recipes.Perform(effects, performer{l.cfg.Port, l})
	if l.machine.State() == recipes.Over && !l.gone {
		l.gone = true
		if l.opened {
			l.cfg.Port.Close()
		}
		l.cfg.Gone()
	}
}

// boundReached tells whether the end of what bounds the wait ends the
// acquisition: not if the caller has the Grant, or has withdrawn already, or has
// been told another end.
func (l *Lock) boundReached(m message) bool {
	l.mu.Lock()
	if l.withdrawn != 0 || l.state == over || l.state == holding && l.keptGrant() {
		l.mu.Unlock()
		return false
	}
	l.withdrawn, l.cause = m.bound, m.cause
	tell := l.leave(l.cfg.Explain(End{Why: m.bound, Cause: m.cause}))
	l.mu.Unlock()
	tell()
	return true
}

// keptGrant takes the Grant back unless it was taken; it reports whether it was.
// A Grant that was seen on the stream only stays in the channel, too: the caller
// may be somebody else than the subscriber. It is called with mu held.
func (l *Lock) keptGrant() bool {
	read, taken := l.takeBack()
	if taken && !read {
		l.granted <- l.grant // there is room: it came from there, and mu is held
	}
	return taken
}

// performer sends the requests among the effects to the port and the rest to the
// caller.
type performer struct {
	Port
	lock *Lock
}

func (p performer) Grant(e recipes.Grant)   { p.lock.onGrant(e) }
func (p performer) Lose(e recipes.Lose)     { p.lock.onLose(e) }
func (p performer) Finish(e recipes.Finish) { p.lock.onFinish(e) }
func (p performer) Queue(e recipes.Queue) {
	p.lock.tell(events.Queued{ID: p.lock.cfg.ID, Path: p.lock.cfg.Path, Ahead: e.Ahead})
}
func (p performer) Requeue(_ recipes.Requeue) {
	p.lock.tell(events.Requeued{ID: p.lock.cfg.ID, Path: p.lock.cfg.Path})
}

func (l *Lock) tell(ev events.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.withdrawn == 0 {
		l.cfg.Stream.Publish(ev)
	}
}

// onGrant flips the state first, so that whoever hears of the grant finds it
// valid; then it tells the stream and then the channel. All of it happens under
// the mutex: a Release that comes in between either prevents the Grant or takes
// it back.
func (l *Lock) onGrant(e recipes.Grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.withdrawn != 0 {
		return // the machine is about to hear of it
	}
	l.since = time.Now()
	l.state, l.epoch = holding, l.machine.Epoch()
	l.grant = events.Grant{
		ID: l.cfg.ID, Path: l.cfg.Path, Node: join(l.cfg.Path, e.Node), Token: e.Token,
		Session: l.cfg.Port.Session(l.epoch), Waited: l.since.Sub(l.born),
	}
	l.cfg.Stream.Publish(l.grant)
	l.granted <- l.grant // size 1, and there is one Grant
}

// onLose reports the loss to whoever took the Grant. The state flips first, and
// those who asked with OnEnd hear of it before anybody else; a Grant that nobody
// took is taken back and no loss is reported.
func (l *Lock) onLose(e recipes.Lose) {
	l.mu.Lock()
	if l.withdrawn != 0 {
		l.mu.Unlock()
		return // released in the meantime: not the caller's any more
	}
	l.withdrawn, l.reason = recipes.WhyLost, e.Reason
	read := l.settle()
	err := l.cfg.Explain(End{Why: recipes.WhyLost, Granted: true, Reason: e.Reason})
	tell := l.leave(err)
	lost := events.Lost{ID: l.cfg.ID, Path: l.cfg.Path, Token: l.grant.Token, Reason: e.Reason, Err: err, Held: l.held}
	took := l.took
	l.mu.Unlock()
	tell()
	if took {
		l.cfg.Stream.Publish(lost)
		l.lost <- lost // size 1, and there is one loss
	}
	if !read {
		// No function runs under a Grant that nobody read, so nobody would come
		// and say that it has ended.
		l.post(recipes.Withdrawn{Why: recipes.WhyLost}, nil)
	}
}

func (l *Lock) onFinish(e recipes.Finish) {
	l.mu.Lock()
	end := End{Why: e.Why, Granted: l.took, Reason: l.reason, Cause: l.cause}
	if e.Why == recipes.WhyLost && l.reason == 0 {
		end.Why = l.withdrawn // the caller was quicker than the loss
	}
	if e.Why == recipes.WhyRefused {
		end.Cause = l.refusal
	}
	tell := l.leave(l.cfg.Explain(end))
	stops := l.stops
	l.stops = nil // they hold on to the caller's context
	lost := l.reason != 0 && l.took
	ended := events.Ended{ID: l.cfg.ID, Path: l.cfg.Path, Err: l.err, Held: l.held}
	l.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
	tell()
	if !lost { // else the stream has seen Lost, which is the last word
		l.cfg.Stream.Publish(ended)
	}
	close(l.done)
}

// Granted delivers the Grant, if there is one.
func (l *Lock) Granted() <-chan events.Grant { return l.granted }

// Lost delivers the loss of a Grant that was taken.
func (l *Lock) Lost() <-chan events.Lost { return l.lost }

// Done is closed when it is over.
func (l *Lock) Done() <-chan struct{} { return l.done }

// Err says why it is over; nil before that.
func (l *Lock) Err() error {
	select {
	case <-l.done:
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.err
	default:
		return nil
	}
}

// Valid tells whether the lock is held and its lease has not run out.
func (l *Lock) Valid() bool { return time.Now().Before(l.Deadline()) }

// Deadline returns until when the lock can be believed held without further
// contact; the zero time if it is not held.
func (l *Lock) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != holding {
		return time.Time{}
	}
	return l.cfg.Port.Deadline(l.epoch)
}

// Holding tells whether the lock is granted, and neither released nor lost.
func (l *Lock) Holding() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state == holding
}

// OnEnd has f called once, as soon as the lock is not held any more and will not
// be again; at once if that is so already. It gets what Err will return, or what
// Err would return if the Grant had been taken. It must not block. The function
// returned cancels that.
func (l *Lock) OnEnd(f func(error)) (cancel func()) {
	l.mu.Lock()
	if l.state == over {
		err := l.err
		l.mu.Unlock()
		f(err)
		return func() {}
	}
	l.lastOnEnd++
	id := l.lastOnEnd
	l.onEnd[id] = f
	l.mu.Unlock()
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.onEnd, id)
	}
}

// join puts a node's name behind its directory.
func join(dir, node string) string {
	if dir == "/" {
		return dir + node
	}
	return dir + "/" + node
}
