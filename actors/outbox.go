package actors

import (
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// lastWords is how long the reader of a closed outbox may go without taking an event.
// Then the rest is dropped.
const lastWords = 100 * time.Millisecond

// outbox queues the events for one reader. A goroutine delivers them, and ends when none
// is left.
//
// Grant, Lost and Ended stay until the reader takes them. Of the other events a slow
// reader sees the latest: of an acquisition, one Requeued and one Queued, until the Grant
// or the end outdates them; one Revoked, until the loss or the end outdates it; and one
// of each kind of session event. So at most three events of an acquisition wait.
type outbox struct {
	group *Group            // of the goroutine
	out   chan events.Event // size 0: what was sent is read
	poke  chan struct{}     // size 1; only a wake-up: look at the queue again

	mu      sync.Mutex
	queue   []*entry
	struck  int             // how many entries of the queue were struck
	pending map[slot]*entry // what may be replaced
	offered *entry          // the head, while it is inside the send
	settled sync.Cond       // offered was sent or is not offered any more
	running bool            // a goroutine delivers

	hurried bool      // the reader has to continue taking events
	since   time.Time // if hurried: since when it has taken none
	end     time.Time // if not zero: what is not taken by then is dropped
	last    bool      // the channel is closed after what is queued
	closed  bool      // nothing is queued any more
	over    bool      // the channel is closed
}

// entry is an event on its way to the reader.
type entry struct {
	at    slot
	event events.Event // nil when struck: replaced, outdated or taken back
	read  bool
}

// slot names an event that waits and can still be changed.
type slot struct {
	of   *Stream // in a feed, the stream of a session event; else nil
	id   uint64  // the acquisition's; 0 for session events
	kind kind
}

type kind uint8

const (
	isFinal kind = iota // never replaced
	isQueued
	isRequeued
	isRevoked
	isContended
	isConnected
	isSuspended
	isResumed
	isExpired
)

func kindOf(ev events.Event) kind {
	switch ev.(type) {
	case events.Queued:
		return isQueued
	case events.Requeued:
		return isRequeued
	case events.Revoked:
		return isRevoked
	case events.Contended:
		return isContended
	case events.Connected:
		return isConnected
	case events.Suspended:
		return isSuspended
	case events.Resumed:
		return isResumed
	case events.SessionExpired:
		return isExpired
	default:
		return isFinal
	}
}

func newOutbox(group *Group) *outbox {
	b := &outbox{group: group, out: make(chan events.Event), poke: make(chan struct{}, 1),
		pending: map[slot]*entry{}}
	b.settled.L = &b.mu
	return b
}

// push queues an event and returns at once. In a feed, of is the stream of a session
// event.
func (b *outbox) push(ev events.Event, of *Stream) *entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.add(ev, of)
}

// add is push with mu held.
func (b *outbox) add(ev events.Event, of *Stream) *entry {
	if b.closed {
		return nil
	}
	// A reader that is late does not need to hear of a wait that is over.
	id := ev.AcquisitionID()
	switch ev.(type) {
	case events.Grant:
		b.outdate(slot{id: id, kind: isQueued}, slot{id: id, kind: isRequeued})
	case events.Lost:
		b.outdate(slot{id: id, kind: isRevoked}, slot{id: id, kind: isContended})
	case events.Ended:
		for waits := isQueued; waits <= isContended; waits++ {
			b.outdate(slot{id: id, kind: waits})
		}
	}
	e := &entry{event: ev, at: slot{of: of, id: id, kind: kindOf(ev)}}
	b.queue = append(b.queue, e)
	if e.at.kind != isFinal {
		b.outdate(e.at)
		b.pending[e.at] = e
	}
	if !b.running {
		b.running = b.group.Go(b.run)
	}
	return e
}

// outdate strikes the events in the slots.
func (b *outbox) outdate(all ...slot) {
	for _, at := range all {
		if old := b.pending[at]; old != nil {
			b.strike(old)
		}
	}
}

func (b *outbox) wake() {
	select {
	case b.poke <- struct{}{}:
	default:
	}
}

// strike marks the entry as not to be delivered. At most half of the queue are struck
// entries, so replacing events costs no memory for a reader that does not read, and
// hardly any time.
func (b *outbox) strike(e *entry) {
	delete(b.pending, e.at)
	e.event = nil
	b.struck++
	if e == b.offered {
		b.wake()
	}
	if 2*b.struck <= len(b.queue) {
		return
	}
	kept := b.queue[:1] // the head stays: it may be inside the send
	b.struck = 0
	if kept[0].event == nil {
		b.struck = 1
	}
	for _, e := range b.queue[1:] {
		if e.event != nil {
			kept = append(kept, e)
		}
	}
	clear(b.queue[len(kept):])
	b.queue = kept
}

// retract takes an event back, and reports whether that was in time: the reader does not
// get it. It decides between a reader and a caller that withdraws:
//
//  1. The goroutine is inside the send, and strike wakes it.
//  2. The send may have gone through by then. Only the goroutine knows.
//  3. It notes which of the two has happened, and retract reads that. It waits for no
//     reader.
func (b *outbox) retract(e *entry) bool {
	if e == nil {
		return true // it was never queued
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.event != nil && !e.read && !b.closed {
		b.strike(e)
	}
	for b.offered == e {
		b.settled.Wait()
	}
	return !e.read
}

// head drops struck entries and returns the event to be offered next, or nil.
func (b *outbox) head() events.Event {
	for len(b.queue) > 0 && b.queue[0].event == nil {
		b.shift()
	}
	if len(b.queue) == 0 {
		return nil
	}
	return b.queue[0].event
}

// shift takes the head off the queue.
func (b *outbox) shift() {
	if b.queue[0].event == nil {
		b.struck--
	}
	b.queue[0] = nil
	b.queue = b.queue[1:]
	if len(b.queue) == 0 {
		b.queue = nil
	}
}

// run delivers until nothing is left.
func (b *outbox) run() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.since = time.Now() // the reader could not take anything before
	for ev := b.head(); ev != nil; ev = b.head() {
		b.offered = b.queue[0]
		var late <-chan time.Time
		if b.hurried {
			late = time.After(b.patience())
		}
		// The send is made without mu: a reader may take its time, and push must not wait.
		b.mu.Unlock()
		sent, tooLate := false, false
		select {
		case b.out <- ev:
			sent = true
		case <-b.poke:
		case <-late:
			tooLate = true
		}
		b.mu.Lock()
		if sent {
			b.delivered()
		}
		// Only now does a retract that waits for settled know the outcome of the send.
		b.offered = nil
		b.settled.Broadcast()
		if tooLate {
			b.drop()
		}
	}
	b.running = false
	b.shut()
}

// shut closes the channel if it is time. No goroutine runs.
func (b *outbox) shut() {
	if (b.last || b.closed) && !b.over {
		b.closed, b.over = true, true
		close(b.out)
	}
}

// delivered notes that the reader has got what was offered. A newer event of its kind may
// have struck it meanwhile, and has the slot then.
func (b *outbox) delivered() {
	e := b.offered
	e.read = true
	if b.hurried {
		b.since = time.Now()
	}
	if b.closed {
		return // the queue was dropped
	}
	if b.pending[e.at] == e {
		delete(b.pending, e.at)
	}
	b.shift()
}

// patience returns for how long what is offered may still wait for the reader.
func (b *outbox) patience() time.Duration {
	left := lastWords - time.Since(b.since)
	if !b.end.IsZero() {
		left = min(left, time.Until(b.end))
	}
	return left
}

// hurry bounds the waits for the reader from now on: for one event by lastWords, and for
// all of them by the bound, unless that is below 0.
func (b *outbox) hurry(bound time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if !b.hurried {
		b.hurried, b.since = true, now
	}
	if bound >= 0 {
		b.end = now.Add(bound)
	}
	b.wake()
}

// finish closes the channel after what is queued.
func (b *outbox) finish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = true
	if !b.running {
		b.shut()
	}
}

// leave closes the channel, and drops what is queued.
func (b *outbox) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop()
	if !b.running {
		b.shut()
	}
}

// drop forgets what is queued, for good.
func (b *outbox) drop() {
	b.closed, b.queue, b.pending, b.struck = true, nil, nil, 0
	b.wake()
}
