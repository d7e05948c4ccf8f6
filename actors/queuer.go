package actors

import (
	"time"

	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about a lock that is driven by its own machine. The session's loop steps
// the machine and executes its effects.

// message drives a lock: it is an input for the machine, or the news that a bound of the
// wait was reached.
type message struct {
	input recipes.Input
	cause error
	open  bool        // open the port before the step
	bound recipes.Why // WhyContext, WhyTimeout, WhyNoSession: the wait is over, unless the Grant was taken
	of    *Lock       // the inner lock that it concerns; nil: the actor's own lock
}

// driver grants a lock and takes it back. Its methods do not block.
type driver interface {
	// hand delivers a message. It returns false if the loop has ended, so that nobody
	// will handle the message. It is called with no mutex held.
	hand(m message) bool
	// deadline returns the time until which the session of the epoch counts as alive. It
	// is called while the lock is held, with the lock's mutex held.
	deadline(epoch recipes.Epoch) time.Time
	// use returns the port of the node while the lock is held, or nil. The node is not
	// handed on before done is called. If done is called with spent, it is never handed
	// on.
	use() (port Port, done func(spent bool))
	// admit returns a lock that re-enters this one, or nil.
	admit(cfg Config) *Lock
	// drop gives up the node for a lock that was admitted but never started.
	drop()
}

// queuer is a lock with a machine that queues up for it.
type queuer struct {
	Lock

	port   Port
	beside Beside  // nil for most locks; never changes
	shared *shared // not nil once another lock was admitted; mu guards it, see also handle

	// Only the loop touches these.
	machine recipes.Machine
	opened  bool
}

// NewLock returns an idle lock actor; [Lock.Start] starts it.
func NewLock(cfg Config, rule recipes.Rule, port Port) *Lock {
	q := &queuer{port: port, machine: recipes.NewMachine(rule)}
	q.init(cfg, q)
	return &q.Lock
}

// Beside is called by the loop with each input of a lock, after the machine's step, and
// with the effects of that step.
type Beside func(epoch recipes.Epoch, in recipes.Input, effects []recipes.Effect)

func (q *queuer) hand(m message) bool { return q.cfg.Loop.Hand(func() { q.handle(m) }) }

func (q *queuer) deadline(epoch recipes.Epoch) time.Time { return q.port.Deadline(epoch) }

func (q *queuer) use() (port Port, done func(spent bool)) { return q.port, func(bool) {} }

func (q *queuer) drop() {}

// handle turns a message from the caller's side into an input for the machine. The loop
// calls it.
func (q *queuer) handle(m message) {
	// The bound and the Grant race. boundReached decides, under the mutex, which came
	// first.
	if m.bound != 0 {
		if !q.boundReached(&m) {
			return
		}
		m.input = recipes.Withdrawn{Why: m.bound}
	}
	switch in := m.input.(type) {
	case recipes.Withdrawn:
		holder := m.of
		if holder == nil {
			holder = &q.Lock
		}
		if in.Ran {
			defer holder.hasReturned()
		}
		// The node stays until its last holder leaves, so the machine sees only that
		// withdrawal. Reading shared needs no mutex: only admit sets it, and not on a
		// lock that was withdrawn.
		if q.shared != nil {
			all, last := q.removeHolder(holder, in)
			if !last {
				return
			}
			m.input = all
		}
	case recipes.Started:
		if m.of != nil {
			q.grantTo(m.of)
			return
		}
	}
	if m.open && q.machine.Status().State != recipes.Over {
		q.opened = true
		if opened := q.port.Open(q.step); opened.Epoch != 0 {
			q.machine.Step(opened) // no effects: the machine is not started
		}
	}
	q.step(m.input, m.cause)
}

// step passes one input to the machine and executes its effects: it notifies the holders,
// or sends requests to the port. cause explains a Refused. step is the port's [Post].
func (q *queuer) step(in recipes.Input, cause error) (holds bool) {
	// The machine knows that a server refused a request, but not with which error. If
	// that ends the acquisition, each holder ends with the error.
	if _, refused := in.(recipes.Refused); refused && cause != nil {
		for _, l := range q.remaining() {
			l.mu.Lock()
			l.rarely().refusal = cause
			l.mu.Unlock()
		}
	}

	before := q.machine.Status().State
	effects := q.machine.Step(in)
	now := q.machine.Status()
	if now.Waits {
		q.setAhead(now.Ahead) // before the event that reports it
	}
	ends := now.State == recipes.Over && before != recipes.Over
	if ends && q.opened {
		q.port.Close() // before a caller sees the end and requests the room of its node
	}

	for _, e := range effects {
		switch e := e.(type) {
		case recipes.Grant:
			if recipes.Single(now.Rule) {
				e.Node = "" // it is at the lock's path
			}
			if grant, logs := q.onGrant(e, now.Epoch); logs {
				q.log(grant)
			}
		case recipes.Lose:
			q.onLose(e)
		case recipes.Finish:
			for _, l := range q.remaining() {
				l.finish(e, now.Size, now.State != recipes.Over, nil)
			}
		case recipes.Queue:
			q.onQueue(e)
		case recipes.Requeue:
			q.onRequeue()
		case recipes.Revoke:
			if q.onRevoke(e) && e.By != 0 {
				q.port.Do(e)
			}
		default:
			q.port.Do(e)
		}
	}
	if q.beside != nil {
		q.beside(now.Epoch, in, effects)
	}

	if ends {
		// The outer lock may have left before the inner ones. Its owner learns only now
		// that the node is gone.
		for _, l := range q.remaining() {
			if l != &q.Lock {
				l.onNodeGone()
			}
		}
		q.onNodeGone()
	}
	return now.State == recipes.Held
}
