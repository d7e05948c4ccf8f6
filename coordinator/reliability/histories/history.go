package histories

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// realMax bounds waits on real servers. Nothing takes nearly as long on an idle machine.
const realMax = 2 * time.Minute

// history is what all workers have recorded. It is safe for concurrent use.
type history struct {
	// halted says that a worker's process may be halted at any moment, so that it notices
	// a loss late. Then the last time at which Valid was true counts.
	halted bool
	// grace is how long a Lost may be in its channel before it is read.
	grace time.Duration

	mu      sync.Mutex
	last    int64 // the latest time returned by now
	ops     []operation
	notes   []note
	tenures map[string][]*tenure // granted and not over, by path
}

func newHistory(grace time.Duration) *history {
	return &history{grace: grace, tenures: map[string][]*tenure{}}
}

// note is a record of a fault that struck the workers.
type note struct {
	at   int64
	text string
}

// now returns a time later than any before.
func (h *history) now() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tick()
}

// tick is now with mu held.
func (h *history) tick() int64 {
	h.last = max(h.last+1, machineTime())
	return h.last
}

func (h *history) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notes = append(h.notes, note{h.tick(), fmt.Sprintf(format, args...)})
}

// add records an operation that was just answered.
func (h *history) add(op operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	op.Return = h.tick()
	h.ops = append(h.ops, op)
}

// take returns the operations recorded since the last take.
func (h *history) take() (ops []operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ops, h.ops = h.ops, nil
	return ops
}

func (h *history) size() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ops)
}

// holder returns a worker that was granted the lock and has neither lost nor released it.
func (h *history) holder(path string) (worker int, held bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.tenures[path]) == 0 {
		return 0, false
	}
	return h.tenures[path][0].op.Worker, true
}

// tenure is one acquisition as its worker sees it. Only its worker calls its methods.
type tenure struct {
	history *history
	lock    *coordinator.Acquisition
	op      operation   // what its operations have in common
	others  []operation // for a multi-lock, the paths and sides of the other members
	over    bool        // released, or done
	told    bool        // notified of a loss

	mu    sync.Mutex
	asked int64 // the call that a Grant would answer
	known int64 // when the lock was last held for certain
}

// begin records that a worker is about to request a lock.
func (h *history) begin(worker int, round int32, path string) *tenure {
	now := h.now()
	return &tenure{history: h, op: operation{Path: path, Worker: worker, Round: round}, asked: now, known: now}
}

// parts returns the tenures of the single locks of this one, its own path first.
func (t *tenure) parts() []*tenure {
	all := []*tenure{t}
	if len(t.others) > 0 {
		all[0] = &tenure{history: t.history, op: t.op}
	}
	for _, other := range t.others {
		op := t.op
		op.Path, op.Shares = other.Path, other.Shares
		all = append(all, &tenure{history: t.history, op: op})
	}
	return all
}

// add records the tenure's operation, with changes, in the history of each of its locks:
// each model then sees whether its member was held.
func (t *tenure) add(k kind, call int64, changes ...func(*operation)) {
	op := t.op
	op.Kind, op.Call = k, call
	for _, change := range changes {
		change(&op)
	}
	t.history.add(op)
	for _, other := range t.others {
		op.Path, op.Shares = other.Path, other.Shares
		t.history.add(op)
	}
}

// granted records a Grant that was read, and calls valid on every tenure that believes
// that it holds the lock.
func (t *tenure) granted(grant events.Grant) {
	t.op.fence = fence{grant.Token, grant.Turn}
	t.add(kindAcquire, t.asked)
	h := t.history
	h.mu.Lock()
	var believers []*tenure
	for _, part := range t.parts() {
		path := part.op.Path
		h.tenures[path] = append(h.tenures[path], t)
		believers = append(believers, h.tenures[path]...)
	}
	h.mu.Unlock()
	for _, other := range believers {
		other.valid()
	}
}

// valid reports whether the lock is held, and records it if so. After the Grant, any
// goroutine may call it.
func (t *tenure) valid() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	call := t.history.now()
	if t.op.Token == 0 || !t.lock.Valid() { // a worker does not hold before it has read the Grant
		return false
	}
	t.add(kindHold, call)
	t.known = call // between the answer and now, it may be lost and granted to another
	return true
}

// wrote records a write to the resource, or a transaction, with the time when it was
// sent.
func (t *tenure) wrote(k kind, sent int64, accepted bool) {
	t.add(k, sent, func(op *operation) { op.Accepted = accepted })
}

// lost records that the loss was read. The loss counts from when it may have been put
// into its channel, because goroutines may run in another order:
//
//  1. The holder's Lost is put into its channel, which wakes the holder's goroutine.
//  2. The node is released, and the next holder's Grant is put into its channel.
//  3. The next holder's goroutine runs first.
func (t *tenure) lost(lost events.Lost) {
	// For a multi-lock, it is unknown which of its paths was revoked.
	revoked := lost.Reason == events.ReasonRevoked && t.op.With == 0
	call := t.lastKnown()
	if !t.history.halted {
		call = max(call, t.history.now()-t.history.grace.Nanoseconds())
	}
	if t.told = true; !t.history.amend(t.op, call, revoked) {
		t.add(kindLose, call, func(op *operation) { op.Revoked = revoked })
	}
	t.forget()
}

// release releases the lock, or leaves the queue.
func (t *tenure) release() {
	t.valid() // if the lock is still held, record that it was at this moment
	call := t.history.now()
	if t.history.halted {
		call = t.lastKnown()
	}
	t.lock.Release()
	t.ends(call)
}

// done records that the acquisition is over.
func (t *tenure) done() { t.ends(t.history.now()) }

// ends reads a loss that came before the worker got to its next step. If there was none,
// it records a release.
func (t *tenure) ends(call int64) {
	select {
	case lost := <-t.lock.Lost():
		t.lost(lost)
	default:
	}
	if !t.over {
		t.add(kindRelease, call)
	}
	t.forget()
}

// amend replaces the Release of the same acquisition by a loss, if there was one, and
// reports whether there was. That Release released nothing. A Lost is read after a
// Release only if the lock was lost before, which the worker checks when it is done:
//
//  1. A deadline ends, and the lock is lost.
//  2. The worker releases the lock, because its time is over as well.
//  3. The Lost is put into the channel.
func (h *history) amend(of operation, call int64, revoked bool) (amended bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.ops {
		if op := &h.ops[i]; op.Kind == kindRelease && op.Worker == of.Worker && op.Round == of.Round {
			op.Kind, op.Call, op.Revoked = kindLose, min(op.Call, call), revoked
			amended = true
		}
	}
	return amended
}

// forget is called when the acquisition no longer holds anything. A Grant that is read
// later does not answer an earlier call.
func (t *tenure) forget() {
	h := t.history
	h.mu.Lock()
	for _, part := range t.parts() {
		path := part.op.Path
		h.tenures[path] = slices.DeleteFunc(h.tenures[path], func(other *tenure) bool { return other == t })
	}
	h.mu.Unlock()
	t.over = true
	t.asked = h.now()
}

func (t *tenure) lastKnown() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known
}
