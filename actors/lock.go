package actors

import (
	"cmp"
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// End is how an acquisition ended. [Config.Explain] turns it into an error.
type End struct {
	Why     recipes.Why
	Granted bool          // the caller had taken the Grant, or may have
	Reason  events.Reason // of the loss, if Why is WhyLost
	Cause   error         // from the context, or from the server that refused
	Size    int           // of the semaphore, last known, if it is one
}

// Config configures a lock actor.
type Config struct {
	ID   uint64
	Path string // the directory, in the caller's name space

	Owner
	*House
}

// Owner is the caller's side of a lock actor.
type Owner interface {
	// Explain returns the error for Err.
	Explain(End) error
	// Members returns the nodes of a multi-lock that is about to be granted, and nil for
	// any other lock.
	Members() []events.Member
	// Gone is called once, when nothing of the acquisition is left at the server.
	Gone()
}

// House is what the lock actors of one session share.
type House struct {
	Loop   *Loop // of the session
	Stream *Stream
	Logger *zap.Logger
	Limit  time.Duration // how long a Try waits for a server; 0: as long as it takes
	Elects bool          // the locks are terms of elections: the log has them on the info level, not the debug level

	waits waits
}

// Close releases what the house keeps of the callers' contexts. It is called when all
// locks are over.
func (h *House) Close() { h.waits.close() }

// Lock is one acquisition. Its methods may be called from any goroutine and do not block.
type Lock struct {
	cfg     Config
	drive   driver
	born    recipes.Moment
	granted chan events.Grant // size 1; written by the loop, never closed; nil until there is a use for it
	lost    chan events.Lost  // size 1; written by the loop, never closed; nil until there is a use for it
	turn    chan struct{}     // closed by the Grant, or when there will be none; nil until a caller waits for that
	done    chan struct{}     // closed by the loop, last of all; nil until there is a use for it

	gone    bool // written by the loop, with mu held
	detect  bool // mu guards it: a record depends on whether the Grant was taken
	offered bool // mu guards it: the Grant was not taken, and there is no channel for it
	ended   bool // mu guards it: done is closed
	pending bool // mu guards it: and the node may still be there

	// The mutex of the house's waits guards these.
	place int32
	wait  *wait

	mu        sync.Mutex
	state     tenure
	withdrawn recipes.Why // not 0: the caller has withdrawn, or learned of the loss
	failed    bool        // the loop never has anything to do for it
	keep      bool        // the node stays while the caller's function runs
	running   bool        // the Grant was taken under keep: a function may be running
	leaving   bool        // the function has returned, and the driver does not know it yet
	took      bool        // the Grant was taken, as far as known
	placed    bool        // the lock has listed since it last queued up
	reason    events.Reason
	ahead     int32 // contenders, if placed
	epoch     recipes.Epoch
	grant     tenancy       // the zero value until there is one
	waited    time.Duration // from born to the grant
	held      time.Duration // from there to the end
	err       error         // the end, once it is known
	rare      *rare         // nil while all of it is zero
}

// rare is what most locks never have. It is apart to save memory.
type rare struct {
	cause     error               // of the withdrawal
	refusal   error               // of the server that refused the latest request
	onEnd     map[int]func(error) // called when the lock is no longer held
	lastOnEnd int
	timer     *time.Timer         // of the longest wait
	due       time.Time           // when the lock is to be given back; zero: at no time
	revoked   chan events.Revoked // size 1; written by the loop, never closed; nil until there is a use for it
	contended *contended          // nil: the caller has not asked
	abandoned *events.Abandoned
	beside    Beside          // nil for most locks
	feed      *Feed           // which has the events in the place of the channels; nil for most locks
	offered   *entry          // the Grant in the feed
	loss      *events.Lost    // not published yet; nil: there is none
	shared    *shared         // the node, if another lock was admitted to it
	wish      *recipes.Revoke // the latest; nil: the lock was not requested by a revocation
	members   []events.Member // of the Grant of a multi-lock
	returned  chan struct{}   // closed when no function runs under the lock any more; nil: not asked for
	cleared   chan struct{}   // closed when nothing is left at the server; nil: not asked for
}

// tenancy is the part of a Grant that every lock has. The other parts are in rare.
type tenancy struct {
	node           string
	token, session int64
	turn           uint64
}

// rarely returns rare, and makes it if there is none. It is called with mu held.
func (l *Lock) rarely() *rare {
	if l.rare == nil {
		l.rare = &rare{}
	}
	return l.rare
}

// tenure is what the caller may believe.
type tenure uint8

const (
	waiting tenure = iota
	holding
	over // no longer held, and never again
)

// NewLock returns an idle lock actor; [Lock.Start] starts it.
func NewLock(cfg Config, rule recipes.Rule, port Port) *Lock {
	q := &queuer{port: port, machine: recipes.NewMachine(rule)}
	q.init(cfg, q)
	return &q.Lock
}

// Beside receives each input of a lock after the machine, with the machine's effects. The
// loop calls it.
type Beside func(epoch recipes.Epoch, in recipes.Input, effects []recipes.Effect)

// age returns the time since the acquisition was made.
func (l *Lock) age() time.Duration { return time.Duration(MomentOf(time.Now()) - l.born) }

func (l *Lock) init(cfg Config, drive driver) {
	l.cfg, l.drive, l.born = cfg, drive, MomentOf(time.Now())
}

// Want is the request of a caller.
type Want struct {
	Try    bool // end instead of waiting for another contender
	Keep   bool // the caller is a function, which runs from when it reads the Grant until Withdraw
	Strict bool // a lost connection is a loss
	Detect bool // report a holder that did not release
}

// Start requests the lock. The wait ends with ctx, and after maxWait unless that is 0;
// both count only until the Grant is taken. A Try whose answer takes longer than that, or
// than the house's Limit, ends with WhyNoSession. Start is called once. It does nothing
// if the acquisition was withdrawn before.
func (l *Lock) Start(ctx context.Context, maxWait time.Duration, want Want) {
	l.mu.Lock()
	if l.state == over { // withdrawn already; there is nothing to bound
		l.mu.Unlock()
		return
	}
	l.keep, l.detect = want.Keep, want.Detect
	l.cfg.waits.add(ctx, l)
	bound := message{bound: recipes.WhyTimeout}
	if want.Try {
		bound.bound = recipes.WhyNoSession
		if maxWait == 0 {
			maxWait = l.cfg.Limit
		} else {
			bound.cause = context.DeadlineExceeded // the caller's own
		}
	}
	if maxWait > 0 {
		l.rarely().timer = time.AfterFunc(maxWait, func() { l.drive.hand(bound) })
	}
	l.mu.Unlock()
	l.drive.hand(message{input: recipes.Started{Try: want.Try, Strict: want.Strict, Detect: want.Detect}, open: ctx.Err() == nil})
}

// Fail ends an acquisition that was never started; it is over when Fail returns. Fail
// does nothing if the acquisition was withdrawn before.
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
	ended := events.Ended{ID: l.cfg.ID, Path: l.cfg.Path, Err: err}
	if l.logs() {
		l.log(ended)
	}
	l.closeDone(ended)
	l.drive.drop()
	l.cfg.Gone()
}

// hasFailed reports whether the acquisition has ended by Fail.
func (l *Lock) hasFailed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// Withdraw ends the acquisition. After it has returned no Grant can be taken; a slow
// subscriber of the stream still receives the Grant, and then the end. After a loss,
// Withdraw reports that the caller has finished its work under the lock.
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
			l.reclaim()
		}
		tell = l.leave(l.cfg.Explain(End{Why: why, Granted: true}))
	}
	// The node has to stay while a function runs under the lock, and only the function's
	// own caller knows when it has ended.
	stay := why == recipes.WhyClosed && l.running
	in := l.parting(why)
	if why != recipes.WhyClosed {
		l.returns()
	}
	l.mu.Unlock()
	tell()
	if !stay {
		l.drive.hand(message{input: in})
	}
}

// parting is the input with which the machine learns of a withdrawal. If a record depends
// on it, the input has the first reason to end, and whether the Grant was taken: a caller
// that returns from a function that Close has cancelled has not released. It is called
// with mu held.
func (l *Lock) parting(why recipes.Why) recipes.Input {
	if !l.detect {
		return recipes.Withdrawn{Why: why, Ran: l.running}
	}
	return recipes.Withdrawn{Why: cmp.Or(l.withdrawn, why), Taken: l.took, Ran: l.running}
}

// Adopt makes a semaphore's acquisition accept, from now on, any size that it finds.
func (l *Lock) Adopt() { l.drive.hand(message{input: recipes.Adopted{}}) }

// reclaim takes the Grant back. It notes whether the Grant had been taken, and if so for
// how long the lock was held. It is called with mu held, when the state is about to leave
// holding.
func (l *Lock) reclaim() {
	if l.took = !l.retract(); l.took {
		l.held = l.age() - l.waited
	}
	l.running = l.keep && l.took
}

// leave flips the state, with mu held, and returns a function that calls those of OnEnd.
func (l *Lock) leave(err error) func() {
	l.state, l.err = over, err
	tell(&l.turn)
	if l.rare == nil {
		return func() {}
	}
	select {
	case <-l.rare.revoked: // the lock is no longer held
	default:
	}
	l.rare.contended.over()
	hooks := l.rare.onEnd
	l.rare.onEnd = nil
	return func() {
		for _, f := range hooks {
			f(err)
		}
	}
}
