package actors

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// End describes how an acquisition ended. [Config.Explain] turns it into an error.
type End struct {
	Why     recipes.Why
	Granted bool          // the caller took the Grant, or may have
	Reason  events.Reason // of the loss, if Why is WhyLost
	Cause   error         // from the context, or from the server that refused
	Size    int           // of the semaphore, last known, if it is one
}

// Config configures a lock actor.
type Config struct {
	ID   uint64
	Path string // the directory, in the caller's name space

	// Members returns the nodes of a multi-lock that is about to be granted. It is nil
	// for every other kind of lock.
	Members func() []events.Member

	Owner
	*House
}

// Owner is the caller's side of a lock actor.
type Owner interface {
	// Explain returns the error for Err.
	Explain(End) error
	// Gone is called once, when the acquisition has nothing left at the server.
	Gone()
}

// House is what the lock actors of one session and one kind of caller share: locks,
// elections, or the keepers of cached nodes.
type House struct {
	Loop   *Loop // of the session
	Stream *Stream
	Logger *zap.Logger
	Elects bool          // the locks are terms of elections
	Level  zapcore.Level // for all log lines of a lock except a loss
	Limit  time.Duration // how long a Try waits for a server; 0: as long as it takes
	// Time returns what time.Now will return at the Moment, unless the computer is
	// suspended before. After a suspend, the result for the same Moment is earlier.
	Time func(recipes.Moment) time.Time

	waits waits
}

// Close drops the house's last reference to a caller's context. It is called when all
// locks are over.
func (h *House) Close() { h.waits.close() }

// Lock is one acquisition. Its methods may be called from any goroutine, and only Wait
// blocks. This file has the life of a lock, in the order of events; view.go has what a
// caller sees of it.
type Lock struct {
	cfg   Config
	drive driver
	born  time.Duration // since origin

	// The mutex of the house's waits guards these.
	place int32
	wait  *wait

	mu        sync.Mutex // guards all that follows
	state     tenure
	withdrawn recipes.Why   // not 0: the caller withdrew, or the lock was lost
	reason    events.Reason // of the loss
	failed    bool          // Fail ended it: the loop never sees it
	detect    bool          // the driver must know whether the Grant was taken, for a record
	keep      bool          // the node stays while the caller's function runs
	running   bool          // the Grant was taken under keep: a function may be running
	leaving   bool          // the function has returned, but the driver does not know it yet
	offered   bool          // an untaken Grant, for which there is no channel yet
	took      bool          // the Grant was taken, as far as known
	placed    bool          // the lock has listed since it last queued up
	losing    bool          // the loss has yet to be published
	ended     bool          // Done is closed
	pending   bool          // the release is not confirmed: the node may still exist
	gone      bool          // nothing is left at the server
	orphaned  bool          // only the end of the session removes what is left there
	ahead     int32         // contenders, if placed

	epoch  recipes.Epoch // of the Grant
	grant  tenancy       // zero before the Grant
	waited time.Duration // from born to the Grant
	held   time.Duration // from there to the end
	err    error         // the end, once it is known
	rare   *rare         // nil while all its fields are zero

	// Channels are made on first use, because most callers use few of them. Those that
	// carry a value have size 1 and are never closed.
	granted chan events.Grant
	lost    chan events.Lost
	turn    chan struct{} // closed by the Grant, or when there will be none
	done    chan struct{} // closed last of all
	feed    *Feed         // gets the events instead of the channels; nil for most locks
}

// rare holds what most locks never need. It is separate because a process may hold
// 100,000 locks.
type rare struct {
	timer      *time.Timer     // of the longest wait
	members    []events.Member // of the Grant of a multi-lock
	abandoned  *events.Abandoned
	entry      *entry              // the Grant in the feed
	due        recipes.Moment      // the deadline of a revocation; 0: there is none
	revocation *recipes.Revoke     // the latest revocation request; nil: there was none
	revoked    chan events.Revoked // size 1, never closed; nil until there is a use for it
	contended  *contended          // nil: Contended was not called
	refusal    error               // of the server that refused the latest request
	onEnd      map[int]func(error) // called when the lock is no longer held
	lastOnEnd  int
	returned   chan struct{} // closed when no function runs under the lock any more
	cleared    chan struct{} // closed when nothing is left at the server
}

// rarely returns rare, allocated on first use. It is called with mu held.
func (l *Lock) rarely() *rare {
	if l.rare == nil {
		l.rare = &rare{}
	}
	return l.rare
}

// tenancy is the part of a Grant that every lock has.
type tenancy struct {
	node           string // its name; empty if it is at the lock's path
	token, session int64
	turn           uint64
}

// tenure is the state of the lock as the caller sees it.
type tenure uint8

const (
	waiting tenure = iota
	holding
	over // not held, and never will be again
)

// init initializes a lock, before any other goroutine sees it.
func (l *Lock) init(cfg Config, drive driver) {
	l.cfg, l.drive, l.born = cfg, drive, time.Since(origin)
}

// Want holds the options of a request.
type Want struct {
	Try       bool // end rather than wait for another contender
	Downgrade bool // the reader takes the place of its own writer, the only contender ahead
	Keep      bool // a function holds the lock, from when it reads the Grant until Withdraw
	Strict    bool // treat a lost connection as a loss
	Detect    bool // report a previous holder that did not release
}

// Start requests the lock. It waits until ctx ends, and no longer than maxWait unless
// that is 0. Neither bounds anything once the Grant is taken. A Try whose answer takes
// longer than maxWait, or than the house's Limit if maxWait is 0, ends with WhyNoSession.
// Start is called once. It does nothing if the acquisition was withdrawn before.
func (l *Lock) Start(ctx context.Context, maxWait time.Duration, want Want) {
	l.mu.Lock()
	if l.state == over { // withdrawn already
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
	// A downgrade never waits for another contender, but a Try would find the writer ahead.
	started := recipes.Started{Try: want.Try && !want.Downgrade, Strict: want.Strict, Detect: want.Detect}
	l.drive.hand(message{input: started, open: ctx.Err() == nil})
}

// Adopt makes a semaphore's acquisition accept whatever size it finds from now on.
func (l *Lock) Adopt() { l.drive.hand(message{input: recipes.Adopted{}}) }

func (l *Lock) onQueue(e recipes.Queue) {
	l.tell(events.Queued{ID: l.cfg.ID, Path: l.cfg.Path, Ahead: e.Ahead, Delay: e.Delay})
}

func (l *Lock) onRequeue() {
	l.noteRequeue()
	l.tell(events.Requeued{ID: l.cfg.ID, Path: l.cfg.Path})
}

// noteRequeue notes that the lock has lost its place in the queue.
func (l *Lock) noteRequeue() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.placed = false
}

// setAhead notes how many contenders are ahead, before the event that reports it.
func (l *Lock) setAhead(ahead int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.placed, l.ahead = true, int32(ahead)
}

func (l *Lock) tell(ev events.Event) {
	l.mu.Lock()
	notified := l.withdrawn == 0
	if notified {
		l.publish(ev)
	}
	l.mu.Unlock()
	if notified && l.logs() {
		l.log(ev)
	}
}

// onGrant changes the state first, so that a reader of the Grant finds it valid. Then
// it calls the hooks, fills the channel, and publishes to the stream. All of this happens
// under mu, so a concurrent Release either prevents the Grant or takes it back. onGrant
// returns the Grant if it is to be logged.
func (l *Lock) onGrant(e recipes.Grant, epoch recipes.Epoch) (grant events.Grant, logs bool) {
	var members []events.Member
	if l.cfg.Members != nil {
		members = l.cfg.Members()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// Release promises that no Grant can be taken after it.
	if l.withdrawn != 0 {
		return grant, false // the machine will see the end next
	}
	l.state, l.epoch, l.grant = holding, epoch, tenancy{e.Node, e.Token, e.Session, e.Turn}
	if members != nil || e.Abandoned != nil {
		r := l.rarely()
		r.members, r.abandoned = members, e.Abandoned
	}
	l.waited = time.Since(origin) - l.born
	logs = l.logs() // the level may change
	heard := l.cfg.Stream.Heard()
	if heard || logs { // else it is not used
		grant = l.granting()
	}
	// The stream calls offer between the hooks and its subscribers, so that every hook
	// has run by the time the caller gets the Grant.
	if heard {
		l.cfg.Stream.publish(grant, l.offer)
	} else {
		l.offer()
	}
	if l.turn != nil {
		close(l.turn)
		l.turn = nil
	}
	if l.rare != nil && l.rare.contended != nil {
		l.watchNewcomers()
	}
	return grant, logs
}

// granting returns the Grant as the caller gets it, the same each time. It is called with
// mu held, after the Grant.
func (l *Lock) granting() events.Grant {
	grant := events.Grant{
		ID: l.cfg.ID, Path: l.cfg.Path, Node: l.cfg.Path, Token: l.grant.token,
		Session: l.grant.session, Turn: l.grant.turn, Waited: l.waited,
	}
	if l.rare != nil {
		grant.Abandoned, grant.Members = l.rare.abandoned, slices.Clone(l.rare.members) // the caller's own
	}
	switch {
	case grant.Members != nil:
		grant.Node = grant.Members[0].Node
	case l.grant.node == "": // the lock is its node
	case l.cfg.Path == "/":
		grant.Node = "/" + l.grant.node
	default:
		grant.Node = l.cfg.Path + "/" + l.grant.node
	}
	return grant
}

// offer makes the Grant available to the caller. It is called with mu held.
func (l *Lock) offer() {
	switch {
	case l.feed != nil:
		l.rarely().entry = l.feed.box.push(l.granting(), nil)
	case l.granted == nil:
		l.offered = true
	default:
		l.granted <- l.granting() // never blocks: size 1, and there is only one Grant
	}
}

// retract takes the Grant back unless the caller has taken it, and reports whether it
// did. It is called with mu held.
func (l *Lock) retract() bool {
	if l.feed != nil {
		return l.feed.box.retract(l.rarely().entry)
	}
	if l.granted == nil {
		was := l.offered
		l.offered = false
		return was
	}
	select {
	case <-l.granted:
		return true
	default:
		return false
	}
}

// reclaim takes the Grant back. If the caller took it before, reclaim notes how long the
// lock was held. It is called with mu held, just before the state leaves holding.
func (l *Lock) reclaim() {
	if l.took = !l.retract(); l.took {
		l.held = time.Since(origin) - l.born - l.waited
	}
	l.running = l.keep && l.took
}

// boundReached reports whether the end of its context or of its maximum wait ends the
// acquisition. It does not if the caller has taken the Grant, has withdrawn, or already
// saw another end. If the message of a Try has a cause, the limit is the caller's own
// MaxWait, which takes back an untaken Grant.
func (l *Lock) boundReached(m *message) bool {
	l.mu.Lock()
	// The servers answered in time, but the caller did not take the Grant. That is a
	// timeout, not a missing session.
	if l.state == holding && m.bound == recipes.WhyNoSession && m.cause != nil {
		m.bound = recipes.WhyTimeout
	}
	// The bound limits only the wait, so a taken Grant stays.
	late := l.withdrawn != 0 || l.state == over
	if late || l.state == holding && (m.bound == recipes.WhyNoSession || !l.retract()) {
		l.mu.Unlock()
		return false
	}
	l.withdrawn = m.bound
	tell := l.leave(l.cfg.Explain(End{Why: m.bound, Cause: m.cause}))
	l.mu.Unlock()
	tell()
	return true
}

// revoke publishes a revocation request and its deadline, and reports whether the caller
// still holds. A new request replaces the previous one, because its deadline is earlier.
// Two goroutines may be late with one each; then the earlier deadline counts.
func (l *Lock) revoke(e recipes.Revoke) (holds bool) {
	l.mu.Lock()
	if l.withdrawn != 0 {
		l.mu.Unlock()
		return false
	}
	if r := l.rare; r != nil && r.due != 0 && (e.By == 0 || e.By >= r.due) {
		l.mu.Unlock()
		return true
	}
	revoked := events.Revoked{ID: l.cfg.ID, Path: l.cfg.Path}
	if e.By != 0 {
		revoked.Deadline = l.cfg.Time(e.By)
		l.rarely().due = e.By
	}
	l.publish(revoked)
	if l.feed == nil {
		revocations := l.revocations()
		select {
		case <-revocations: // the one that was not read is out of date
		default:
		}
		revocations <- revoked // size 1, and mu is held
	}
	l.mu.Unlock()
	if l.logs() {
		l.log(revoked)
	}
	return true
}

// forfeit changes the state and takes back an untaken Grant. report then calls the
// functions of OnEnd, and after them publishes the loss if the Grant was taken.
func (l *Lock) forfeit(e recipes.Lose) (report func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.withdrawn != 0 {
		return func() {} // released meanwhile, so it is no longer the caller's
	}
	l.withdrawn, l.reason = recipes.WhyLost, e.Reason
	// The loss of an untaken Grant is not reported.
	if l.state == holding { // otherwise it is an inner lock without a Grant
		l.reclaim()
	}
	err := l.cfg.Explain(End{Why: recipes.WhyLost, Granted: true, Reason: e.Reason})
	tell := l.leave(err)
	lost := events.Lost{
		ID: l.cfg.ID, Path: l.cfg.Path, Token: l.grant.token, Reason: e.Reason, Err: err, Held: l.held,
	}
	l.losing = l.took
	runs, in := l.running, l.withdrawal(recipes.WhyLost)
	return func() {
		// The line comes first, because many programs end themselves when they hear of the
		// loss. The state has changed already, so a reader of Lost finds Valid false.
		l.logLoss(lost)
		tell()
		l.mu.Lock()
		if l.losing {
			l.publishLoss(lost)
		}
		l.mu.Unlock()
		if !runs { // otherwise Withdraw reports the end of the function
			l.drive.hand(message{input: in})
		}
	}
}

// publishLoss publishes the loss. It is called with mu held, and only once. The end may
// overtake it:
//
//  1. The state changes, because the lock is lost.
//  2. The caller releases. The driver does not run in the loop, so it ends the lock at
//     once.
//  3. The goroutine of step 1 publishes the loss.
//
// Hence step 2 publishes the loss, before the end.
func (l *Lock) publishLoss(lost events.Lost) {
	l.losing = false
	l.publish(lost)
	if l.feed == nil {
		if l.lost == nil {
			l.lost = make(chan events.Lost, 1)
		}
		l.lost <- lost // never blocks: size 1, and there is only one loss
	}
}

// Withdraw ends the acquisition. Once it has returned, no Grant can be taken, although a
// slow subscriber of the stream still receives the Grant before the end. After a loss,
// Withdraw reports that the caller has finished its work under the lock.
func (l *Lock) Withdraw(why recipes.Why) {
	l.mu.Lock()
	if l.failed {
		l.mu.Unlock()
		return
	}
	// The first withdrawal counts. A later one only reports that the function has
	// returned.
	tell := func() {}
	first := l.withdrawn == 0 && l.state != over
	if first {
		l.withdrawn = why
		// An untaken Grant in the channel could otherwise be read after Release.
		if l.state == holding {
			l.reclaim()
		}
		tell = l.leave(l.cfg.Explain(End{Why: why, Granted: true}))
	}
	// The node must stay while a function runs under the lock, and only the function's
	// own caller knows when it has returned.
	stay := why == recipes.WhyClosed && l.running
	in := l.withdrawal(why)
	if l.running && why != recipes.WhyClosed {
		l.running, l.leaving = false, true
	}
	l.mu.Unlock()
	tell()
	if stay || l.drive.hand(message{input: in}) || !first {
		return
	}
	// Nobody else ends a lock that was not started when the loop ended:
	//
	//  1. A coordinator is closed, and its loop with it.
	//  2. An acquisition of it joins a feed. The coordinator is about to refuse it.
	//  3. The feed is closed, and withdraws it.
	//  4. The coordinator refuses it, and Fail leaves the end to the withdrawal.
	l.finish(recipes.Finish{Why: why}, 0, false, nil)
	l.onNodeGone()
}

// Force gives up the node even if a function is still running under the lock. It is
// called after Withdraw, when there is no time left to wait for the function.
func (l *Lock) Force() {
	l.mu.Lock()
	in := l.withdrawal(recipes.WhyClosed)
	if l.running {
		l.running, l.leaving = false, true
	}
	l.mu.Unlock()
	l.drive.hand(message{input: in})
}

// withdrawal returns the input that reports a withdrawal to the driver. Under detect, it
// carries the first reason to end and whether the Grant was taken: a caller whose
// function returns because Close cancelled it has not released the lock. It is called
// with mu held.
func (l *Lock) withdrawal(why recipes.Why) recipes.Input {
	if !l.detect {
		return recipes.Withdrawn{Why: why, Ran: l.running}
	}
	return recipes.Withdrawn{Why: cmp.Or(l.withdrawn, why), Taken: l.took, Ran: l.running}
}

// hasReturned notes that the driver knows that the function has returned.
func (l *Lock) hasReturned() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaving = false
	if l.rare != nil && l.rare.returned != nil {
		close(l.rare.returned)
		l.rare.returned = nil
	}
}

// leave changes the state, with mu held, and returns a function that calls those
// registered with OnEnd.
func (l *Lock) leave(err error) func() {
	l.state, l.err = over, err
	if l.turn != nil {
		close(l.turn)
		l.turn = nil
	}
	if l.rare == nil {
		return func() {}
	}
	// After the end, an unread revocation request is pointless.
	select {
	case <-l.rare.revoked: // the lock is no longer held
	default:
	}
	if l.rare.contended != nil {
		l.rare.contended.over()
	}
	hooks := l.rare.onEnd
	l.rare.onEnd = nil
	return func() {
		for _, f := range hooks {
			f(err)
		}
	}
}

// Fail ends an acquisition that was never started; it is over when Fail returns. If it
// was withdrawn before, Fail does nothing, and the withdrawal ends it, perhaps later.
func (l *Lock) Fail(err error) {
	l.mu.Lock()
	if l.state == over {
		l.mu.Unlock()
		return
	}
	l.failed = true
	l.mu.Unlock()
	l.finish(recipes.Finish{}, 0, false, err)
	l.drive.drop()
	l.cfg.Gone()
}

// hasFailed reports whether Fail ended the acquisition.
func (l *Lock) hasFailed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// finish reports that the acquisition is over: to the functions of OnEnd, the log, the
// stream, the feed, and finally Done. size is the last known size of a semaphore. pending
// means that the node may still exist. A non-nil failure becomes the result of Err,
// unless the lock was withdrawn before.
//
// It is called once, so Done is closed once:
//
//   - The machine finishes once, when at most one holder of its node is left. Every other
//     one has left, and [queuer.removeHolder] finishes it unless it has failed.
//   - A guest's host ends it once, unless it has failed.
//   - A lock that has failed was neither started nor withdrawn, and cannot be from then
//     on.
//   - Withdraw calls it for a lock that had not ended when its loop did. There is no
//     other first withdrawal.
func (l *Lock) finish(e recipes.Finish, size int, pending bool, failure error) {
	l.mu.Lock()
	if failure == nil || l.withdrawn != 0 {
		failure = l.verdict(e, size)
	}
	l.pending = pending
	tell := l.leave(failure)
	lost := l.reason != 0 && l.took // logged already
	ended := events.Ended{ID: l.cfg.ID, Path: l.cfg.Path, Err: l.err, Held: l.held}
	if l.rare != nil && l.rare.timer != nil {
		l.rare.timer.Stop()
	}
	l.mu.Unlock()
	// The functions of OnEnd may call the lock, so mu must not be held.
	l.cfg.waits.remove(l)
	tell()
	if !lost && l.logs() {
		l.log(ended)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	// The end may overtake the loss, and readers must see the loss first; see
	// publishLoss.
	if l.losing {
		l.publishLoss(events.Lost{
			ID: l.cfg.ID, Path: l.cfg.Path, Token: l.grant.token, Reason: l.reason, Err: l.err, Held: l.held,
		})
	}
	if l.cfg.Stream.Heard() {
		l.cfg.Stream.publish(ended, nil)
	}
	if l.feed != nil {
		l.feed.end(l, ended)
	}
	// Done comes last, so that its reader finds the final Err, and every event queued.
	l.ended = true
	if l.done != nil {
		close(l.done)
	}
}

// verdict returns the error of an acquisition that the driver has ended. It is called
// with mu held.
func (l *Lock) verdict(e recipes.Finish, size int) error {
	switch l.withdrawn {
	case recipes.WhyContext, recipes.WhyTimeout, recipes.WhyNoSession:
		return l.err // OnEnd has reported this already, before the machine reached another end
	default:
	}
	end := End{Why: e.Why, Granted: l.took, Reason: l.reason, Size: size}
	switch {
	case e.Why == recipes.WhyLost && l.reason == 0,
		e.Why == recipes.WhyReleased, e.Why == recipes.WhyPanicked, e.Why == recipes.WhyClosed:
		// The caller withdrew before the loss, Close before the function returned, or
		// another holder of the node before this one.
		end.Why = l.withdrawn
	case l.withdrawn == recipes.WhyClosed:
		end.Why = l.withdrawn // OnEnd has reported this already
	case e.Why == recipes.WhyRefused && l.rare != nil:
		end.Cause = l.rare.refusal
	}
	return l.cfg.Explain(end)
}

// onNodeGone reports that nothing of the lock is left at the server.
func (l *Lock) onNodeGone() {
	l.mu.Lock()
	l.gone = true
	if l.rare != nil && l.rare.cleared != nil {
		close(l.rare.cleared)
		l.rare.cleared = nil
	}
	l.mu.Unlock()
	l.cfg.Gone()
}

// publish gives an event to the stream and to the feed. It is called with mu held.
func (l *Lock) publish(ev events.Event) {
	l.cfg.Stream.publish(ev, nil)
	if l.feed != nil {
		l.feed.box.push(ev, nil)
	}
}
