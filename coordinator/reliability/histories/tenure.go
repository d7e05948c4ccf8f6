package histories

import (
	"slices"
	"sync"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

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

// granted notes a Grant that was read, and asks every tenure that believes to hold the lock.
func (t *tenure) granted(grant events.Grant) {
	t.op.Token, t.op.Turn = grant.Token, grant.Turn
	op := t.op
	op.Kind, op.Call, op.Session = kindAcquire, t.asked, grant.Session
	t.add(op)

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

// valid asks whether the lock is held, and notes it if so. After the Grant any goroutine may call it.
func (t *tenure) valid() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	op := t.op
	op.Kind, op.Call = kindHold, t.history.now()
	if op.Token == 0 || !t.lock.Valid() { // a Grant that was not read is held by no worker
		return false
	}
	t.add(op)
	t.known = op.Call // between the answer and now it may be lost, and granted to another
	return true
}

// wrote notes a write to the resource, or a transaction, with the time when it was sent.
func (t *tenure) wrote(k kind, sent int64, accepted bool) {
	op := t.op
	op.Kind, op.Call, op.Accepted = k, sent, accepted
	t.add(op)
}

// read notes what was read from the resource, with the time when it was asked.
func (t *tenure) read(sent, value int64) {
	op := t.op
	op.Kind, op.Call, op.Value = kindRead, sent, value
	t.add(op)
}

// lost notes that the loss was read.
func (t *tenure) lost(lost events.Lost) {
	op := t.op
	// For a multi-lock it is not known at which of its paths Revoke asked.
	op.Kind, op.Revoked = kindLose, lost.Reason == events.ReasonRevoked && op.With == 0
	if t.history.halted {
		op.Call = t.lastKnown()
	} else {
		op.Call = max(t.lastKnown(), t.history.delivered())
	}
	if t.told = true; !t.history.amend(op) {
		t.add(op)
	}
	t.forget()
}

// release gives the lock back, or withdraws from the queue.
func (t *tenure) release() {
	op := t.op
	op.Kind = kindRelease
	t.valid() // if it is still held, it was last known to be so at this moment
	op.Call = t.history.now()
	if t.history.halted {
		op.Call = t.lastKnown()
	}
	t.lock.Release()
	t.hear()
	if !t.over {
		t.add(op)
	}
	t.forget()
}

// done notes that the acquisition is over.
func (t *tenure) done() {
	t.hear()
	if !t.over {
		op := t.op
		op.Kind, op.Call = kindRelease, t.history.now()
		t.add(op)
	}
	t.forget()
}

// amend has a loss take the place of the Release of the same acquisition, if there was one, and reports whether there was. That
// Release gave nothing back. A Lost is read after a Release only if the lock was lost before, which the worker checks when it
// is done:
//
//  1. A deadline ends, and the lock is lost.
//  2. The worker releases the lock, because its time is over as well.
//  3. The Lost is put into the channel.
func (h *history) amend(lost operation) (amended bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.ops {
		if op := &h.ops[i]; op.Kind == kindRelease && op.Worker == lost.Worker && op.Round == lost.Round {
			op.Kind, op.Call, op.Revoked = kindLose, min(op.Call, lost.Call), lost.Revoked
			amended = true
		}
	}
	return amended
}

// hear reads a loss that came before the worker got round to its next step. An acquisition that was asked for its lock while it
// waited is an example: its loss comes at once.
func (t *tenure) hear() {
	select {
	case lost := <-t.lock.Lost():
		t.lost(lost)
	default:
	}
}

// forget is called when the acquisition holds nothing any more. A Grant that is read later answers no earlier call.
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
