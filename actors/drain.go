package actors

import (
	"slices"
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about a lock that a machine of its own drives. The session's loop steps
// the machine, and carries out its effects.

// message is what drives a lock: an input for the machine, or the end of what bounds the
// wait.
type message struct {
	input recipes.Input
	cause error
	open  bool        // open the port first
	bound recipes.Why // WhyContext, WhyTimeout, WhyNoSession: the wait is over, unless the Grant was taken
	of    *Lock       // the inner lock that it is about; nil: the actor's own
}

// driver brings a lock its Grant, and takes the lock back. Its methods do not block.
type driver interface {
	// hand passes a message on. The caller holds no mutex.
	hand(m message)
	// deadline returns until when the session of the epoch can be believed alive. The
	// lock is held, and the caller has its mutex.
	deadline(epoch recipes.Epoch) time.Time
	// use returns the port of the node while the lock is held, or nil. The node stays
	// with the holder until done is called, or until the node is deleted if done is
	// called with spent.
	use() (port Port, done func(spent bool))
	// admit returns a lock that enters this one again, or nil.
	admit(cfg Config) *Lock
	// drop gives up what a lock was admitted to. The lock was never started.
	drop()
}

// queuer is a lock with an actor that queues up for it.
type queuer struct {
	Lock

	port Port

	// Only the loop touches these.
	machine recipes.Machine
	opened  bool
}

func (q *queuer) hand(m message) { q.cfg.Loop.Hand(func() { q.handle(m) }) }

func (q *queuer) deadline(epoch recipes.Epoch) time.Time { return q.port.Deadline(epoch) }

func (q *queuer) use() (port Port, done func(spent bool)) { return q.port, func(bool) {} }

func (q *queuer) drop() {}

// post is called by the loop, and so handles the input at once.
func (q *queuer) post(in recipes.Input, err error) (holds bool) {
	q.handle(message{input: in, cause: err})
	return q.machine.Holds()
}

// told returns the function that hears the inputs, or nil.
func (q *queuer) told() Beside {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.rare == nil {
		return nil
	}
	return q.rare.beside
}

// handle is called by the loop.
func (q *queuer) handle(m message) {
	if m.bound != 0 {
		if !q.boundReached(&m) {
			return
		}
		m.input = recipes.Withdrawn{Why: m.bound}
	}
	switch in := m.input.(type) {
	case recipes.Withdrawn:
		who := m.of
		if who == nil {
			who = &q.Lock
		}
		if in.Ran {
			defer who.hasReturned()
		}
		all, last := q.leaves(who, in)
		if !last {
			return
		}
		if all != in { // else it is spared an allocation
			m.input = all
		}
	case recipes.Started:
		if m.of != nil {
			q.receives(m.of)
			return
		}
	}
	if m.open && q.machine.State() != recipes.Over {
		q.opened = true
		if opened := q.port.Open(q.post); opened.Epoch != 0 {
			q.machine, _ = q.machine.Step(opened) // no effects: the machine is not started
		}
	}
	if _, refused := m.input.(recipes.Refused); refused && m.cause != nil {
		q.left(func(l *Lock) { l.refuses(m.cause) })
	}
	var effects []recipes.Effect
	before := q.machine.State()
	q.machine, effects = q.machine.Step(m.input)
	if ahead, known := q.machine.Ahead(); known {
		q.stands(ahead)
	}
	ends := q.machine.State() == recipes.Over && before != recipes.Over
	if ends && q.opened {
		q.port.Close() // before a caller can see the end, and ask for the room that its node had
	}
	for _, e := range effects {
		q.carryOut(e)
	}
	if beside := q.told(); beside != nil {
		beside(q.machine.Epoch(), m.input, effects)
	}
	if ends {
		q.ends()
	}
}

// ends is called when nothing is left at the server.
func (q *queuer) ends() {
	for _, l := range q.inners() {
		l.nothingIsLeft()
	}
	q.nothingIsLeft()
}

// nothingIsLeft reports that nothing of the lock is left at the server.
func (l *Lock) nothingIsLeft() {
	l.isGone()
	l.cfg.Gone()
}

// refuses notes that a server has refused the latest request.
func (l *Lock) refuses(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rarely().refusal = cause
}

// boundReached reports whether the acquisition ends because its bound is reached. It does
// not if the caller has the Grant, has withdrawn already, or learned of another end. A
// Try whose bound has a cause has the caller's MaxWait: that takes back a Grant that was
// not taken.
func (l *Lock) boundReached(m *message) bool {
	l.mu.Lock()
	if l.state == holding && m.bound == recipes.WhyNoSession && m.cause != nil {
		m.bound = recipes.WhyTimeout
	}
	if l.withdrawn != 0 || l.state == over || l.state == holding && (m.bound == recipes.WhyNoSession || !l.retract()) {
		l.mu.Unlock()
		return false
	}
	l.withdrawn, l.rarely().cause = m.bound, m.cause
	tell := l.leave(l.cfg.Explain(End{Why: m.bound, Cause: m.cause}))
	l.mu.Unlock()
	tell()
	return true
}

// carryOut notifies the caller, or sends a request to the port.
func (q *queuer) carryOut(e recipes.Effect) {
	switch e := e.(type) {
	case recipes.Grant:
		if q.machine.Single() {
			e.Node = "" // it is at the lock's path
		}
		if grant, logs := q.onGrant(e, q.machine.Epoch()); logs {
			q.log(grant)
		}
	case recipes.Lose:
		q.loses(e)
	case recipes.Finish:
		pending := q.machine.State() != recipes.Over
		q.left(func(l *Lock) { l.onFinish(e, q.machine.Size(), pending) })
	case recipes.Queue:
		q.queues(e)
	case recipes.Requeue:
		q.requeues()
	case recipes.Revoke:
		if q.asksBack(e) && e.By != 0 {
			q.port.Do(e)
		}
	default:
		q.port.Do(e)
	}
}

func (l *Lock) queues(e recipes.Queue) {
	l.tell(events.Queued{ID: l.cfg.ID, Path: l.cfg.Path, Ahead: e.Ahead, Delay: e.Delay})
}

func (l *Lock) requeues() {
	l.noteRequeue()
	l.tell(events.Requeued{ID: l.cfg.ID, Path: l.cfg.Path})
}

func (l *Lock) tell(ev events.Event) {
	l.mu.Lock()
	told := l.withdrawn == 0
	if told {
		l.publish(ev)
	}
	l.mu.Unlock()
	if told && l.logs() {
		l.log(ev)
	}
}

// onGrant flips the state first, so that every reader of the Grant finds it valid. Then
// come hooks, the channel, and the stream. All of it happens under the mutex: a Release
// that comes in between prevents the Grant or takes it back. It returns the Grant if that
// is to be logged.
func (l *Lock) onGrant(e recipes.Grant, epoch recipes.Epoch) (grant events.Grant, logs bool) {
	members := l.cfg.Members()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.withdrawn != 0 {
		return grant, false // the machine is about to learn of it
	}
	if members != nil {
		l.rarely().members = members
	}
	l.waited = l.age()
	if e.Abandoned != nil {
		l.rarely().abandoned = e.Abandoned
	}
	l.state, l.epoch, l.grant = holding, epoch, tenancy{e.Node, e.Token, e.Session, e.Turn}
	logs = l.logs() // the level may change
	heard := l.heard()
	if heard || logs { // else it is not used
		grant = l.granting()
	}
	if heard {
		l.cfg.Stream.PublishGrant(grant, l.offer)
	} else {
		l.offer()
	}
	tell(&l.turn)
	if l.rare != nil && l.rare.contended != nil {
		l.watchNewcomers()
	}
	return grant, logs
}

// granting returns the Grant as the caller gets it, the same each time. There is one, and
// mu is held.
func (l *Lock) granting() events.Grant {
	node := l.cfg.Path
	var members []events.Member
	switch {
	case l.rare != nil && l.rare.members != nil:
		members = slices.Clone(l.rare.members) // the caller's own
		node = members[0].Node
	case l.grant.node != "":
		node = join(node, l.grant.node)
	}
	grant := events.Grant{
		ID: l.cfg.ID, Path: l.cfg.Path, Node: node, Token: l.grant.token,
		Session: l.grant.session, Turn: l.grant.turn, Waited: l.waited, Members: members,
	}
	if l.rare != nil {
		grant.Abandoned = l.rare.abandoned
	}
	return grant
}

// forfeits changes the state, and withdraws a Grant that was not taken. report publishes
// the end, to the functions of OnEnd before any other reader, and the loss if the Grant
// was taken.
func (l *Lock) forfeits(e recipes.Lose) (report func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.withdrawn != 0 {
		return func() {} // released in the meantime: not the caller's any more
	}
	l.withdrawn, l.reason = recipes.WhyLost, e.Reason
	if l.state == holding { // else it is an inner lock without a Grant
		l.reclaim()
	}
	err := l.cfg.Explain(End{Why: recipes.WhyLost, Granted: true, Reason: e.Reason})
	tell := l.leave(err)
	lost := events.Lost{ID: l.cfg.ID, Path: l.cfg.Path, Token: l.grant.token, Reason: e.Reason, Err: err, Held: l.held}
	if l.took {
		l.rarely().loss = &lost
	}
	runs, in := l.running, l.parting(recipes.WhyLost)
	return func() {
		l.logLoss(lost)
		tell()
		l.mu.Lock()
		l.publishLoss()
		l.mu.Unlock()
		if !runs { // else Withdraw says when the function has ended
			l.drive.hand(message{input: in})
		}
	}
}

// onFinish reports that the acquisition is over. size is a semaphore's size, last known.
// pending says that the node may still be there.
func (l *Lock) onFinish(e recipes.Finish, size int, pending bool) {
	l.finish(func() error {
		l.pending = pending
		end := End{Why: e.Why, Granted: l.took, Reason: l.reason, Size: size}
		if l.rare != nil {
			end.Cause = l.rare.cause
		}
		switch {
		case e.Why == recipes.WhyLost && l.reason == 0, e.Why == recipes.WhyReleased, e.Why == recipes.WhyPanicked, e.Why == recipes.WhyClosed:
			end.Why = l.withdrawn // the caller came before the loss, Close before a function's end, or another holder before this one
		case l.withdrawn == recipes.WhyContext, l.withdrawn == recipes.WhyTimeout, l.withdrawn == recipes.WhyNoSession:
			return l.err // OnEnd has reported this already, before the machine reached another end
		case l.withdrawn == recipes.WhyClosed:
			end.Why = l.withdrawn // the same
		}
		if end.Why == recipes.WhyRefused && l.rare != nil {
			end.Cause = l.rare.refusal
		}
		return l.cfg.Explain(end)
	})
}

// finish reports that the acquisition is over. explain returns what Err is to say; it is
// called with mu held.
func (l *Lock) finish(explain func() error) {
	l.mu.Lock()
	tell := l.leave(explain())
	lost := l.reason != 0 && l.took
	ended := events.Ended{ID: l.cfg.ID, Path: l.cfg.Path, Err: l.err, Held: l.held}
	var timer *time.Timer
	if l.rare != nil {
		timer = l.rare.timer
	}
	l.mu.Unlock()
	if timer != nil {
		timer.Stop()
	}
	l.cfg.waits.remove(l)
	tell()
	if !lost && l.logs() {
		l.log(ended)
	}
	l.closeDone(ended)
}

// heard reports whether an event published now would be heard. It is called with mu held.
func (l *Lock) heard() bool { return l.feed() != nil || l.cfg.Stream.Heard() }

// publish gives an event to the stream and to the feed. It is called with mu held.
func (l *Lock) publish(ev events.Event) {
	l.cfg.Stream.Publish(ev)
	if feed := l.feed(); feed != nil {
		feed.box.push(ev, nil)
	}
}

// publishLoss publishes the loss, if that was not done yet. It is called with mu held.
// The end may come first:
//
//  1. The state flips, because the lock is lost.
//  2. The caller releases, and the driver is not the loop: it ends the lock at once.
//  3. The goroutine of step 1 publishes the loss.
//
// Hence step 2 publishes the loss before the end.
func (l *Lock) publishLoss() {
	if l.rare == nil || l.rare.loss == nil {
		return
	}
	lost := *l.rare.loss
	l.rare.loss = nil
	l.publish(lost)
	if l.rare.feed == nil {
		l.losses() <- lost // size 1, and there is one loss
	}
}

// join appends a node's name to its directory.
func join(dir, node string) string {
	if dir == "/" {
		return dir + node
	}
	return dir + "/" + node
}
