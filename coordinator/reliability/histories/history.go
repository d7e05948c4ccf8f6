package histories

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// realMax ends what hangs on real servers. Nothing takes nearly as long on an idle
// machine.
const realMax = 2 * time.Minute

// history is what all workers have noted. It is safe for concurrent use.
type history struct {
	// halted says that a worker's process may be halted at any moment, so that it hears
	// of a loss late. What counts then is when Valid was last true.
	halted bool
	// grace is how long a Lost may lie in its channel before it is read.
	grace time.Duration

	mu      sync.Mutex
	last    int64 // a time of the machine's clock
	ops     []operation
	notes   []note
	tenures map[string][]*tenure // granted and not over, by path
}

func newHistory(grace time.Duration) *history {
	return &history{grace: grace, tenures: map[string][]*tenure{}}
}

// note is a fault that struck the workers.
type note struct {
	at   int64
	text string
}

// now returns a later time than ever before.
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

// add notes an operation that has just been answered.
func (h *history) add(op operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	op.Return = h.tick()
	h.ops = append(h.ops, op)
}

// take returns what was noted since the last take.
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

// holder returns a worker that was granted the lock and has neither lost it nor given it
// back.
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
	others  []operation // of a multi-lock: the paths and sides of the other members
	over    bool        // released, or done
	told    bool        // of a loss

	mu    sync.Mutex
	asked int64 // the call that a Grant would answer
	known int64 // when it was last held for certain
}

// begin notes that a worker is about to ask for a lock.
func (h *history) begin(worker int, round int32, path string) *tenure {
	now := h.now()
	return &tenure{history: h, op: operation{Path: path, Worker: worker, Round: round}, asked: now, known: now}
}

// parts returns the tenures of the single locks that it consists of, its own path first.
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

// add notes the tenure's operation with a change, in the history of each lock: the model
// of each sees whether its member was not held.
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

// granted notes a Grant that was read, and asks every tenure that believes to hold the
// lock.
func (t *tenure) granted(grant events.Grant) {
	t.op.Token, t.op.Turn = grant.Token, grant.Turn
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

// valid asks whether the lock is held, and notes it if so. After the Grant any goroutine
// may call it.
func (t *tenure) valid() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	call := t.history.now()
	if t.op.Token == 0 || !t.lock.Valid() { // a Grant that was not read is held by no worker
		return false
	}
	t.add(kindHold, call)
	t.known = call // between the answer and now it may be lost, and granted to another
	return true
}

// wrote notes a write to the resource, or a transaction, with the time when it was sent.
func (t *tenure) wrote(k kind, sent int64, accepted bool) {
	t.add(k, sent, func(op *operation) { op.Accepted = accepted })
}

// lost notes that the loss was read. It counts from when it may have been put into its
// channel, which is not the order in which goroutines run:
//
//  1. The holder's Lost is put into its channel, and wakes the holder's goroutine.
//  2. The node is given up, and the next holder's Grant is put into its channel.
//  3. The next holder's goroutine runs first.
func (t *tenure) lost(lost events.Lost) {
	// For a multi-lock it is not known at which of its paths Revoke asked.
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

// release gives the lock back, or withdraws from the queue.
func (t *tenure) release() {
	t.valid() // if it is still held, it was last known to be so at this moment
	call := t.history.now()
	if t.history.halted {
		call = t.lastKnown()
	}
	t.lock.Release()
	t.ends(call)
}

// done notes that the acquisition is over.
func (t *tenure) done() { t.ends(t.history.now()) }

// ends reads a loss that came before the worker got round to its next step, or notes a
// release.
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

// amend has a loss take the place of the Release of the same acquisition, if there was
// one, and reports whether there was. That Release gave nothing back. A Lost is read
// after a Release only if the lock was lost before, which the worker checks when it is
// done:
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

// forget is called when the acquisition holds nothing any more. A Grant that is read
// later answers no earlier call.
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
