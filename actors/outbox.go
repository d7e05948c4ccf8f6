package actors

import (
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// lastWords is how long the reader of a closed outbox may go without taking an event
// before the remaining ones are dropped.
const lastWords = 100 * time.Millisecond

// outbox queues events for one reader. A goroutine delivers them, and exits when none are
// left.
//
// Grant, Lost and Ended stay queued until the reader takes them. Of all other events, a
// slow reader sees only the latest of each kind: per acquisition, one Queued and one
// Requeued, until the Grant or the end outdates them; and one Revoked and one Contended,
// until the loss or the end outdates them. Session events are queued once per kind.
type outbox struct {
	group *Group            // the delivering goroutine's
	out   chan events.Event // size 0: once sent, an event is read
	poke  chan struct{}     // size 1; wakes the goroutine to look at the queue again

	mu      sync.Mutex
	queue   []*entry
	struck  int             // number of struck entries in the queue
	pending map[slot]*entry // entries that may be replaced
	offered *entry          // the head of the queue, while it is being sent
	settled sync.Cond       // signals that offered was sent or is no longer offered
	running bool            // the goroutine is delivering

	hurried bool      // the reader must keep taking events
	since   time.Time // if hurried: when the reader last took one
	end     time.Time // if not zero: events not taken by then are dropped
	last    bool      // close the channel after the queued events
	closed  bool      // no further events are queued
	over    bool      // the channel is closed
}

// entry is an event on its way to the reader.
type entry struct {
	at    slot
	event events.Event // nil when struck: replaced, outdated or taken back
	read  bool
}

// slot identifies a queued event that can still be replaced.
type slot struct {
	of   *Stream // in a feed, the stream of a session event; else nil
	id   uint64  // of the acquisition; 0 for session events
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

// push queues an event and returns at once. of is the stream of a session event in a
// feed, else nil.
func (b *outbox) push(ev events.Event, of *Stream) *entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.add(ev, of)
}

// add is like push, with mu held.
func (b *outbox) add(ev events.Event, of *Stream) *entry {
	if b.closed {
		return nil
	}
	// A slow reader need not learn of a wait that is over.
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

// strike marks the entry as not to be delivered. At most half of the queue is struck
// entries, so that events replaced for a reader that never reads cost no memory, and
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
	kept := b.queue[:1] // the head stays: it may be in the middle of the send
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

// retract takes an event back, and reports whether it was in time, so that the reader
// does not get it. It decides the race between a reader and a caller that withdraws:
//
//  1. The goroutine is in the middle of the send, and strike wakes it.
//  2. The send may have gone through by then. Only the goroutine knows.
//  3. It notes the outcome, which retract reads. No step waits for the reader.
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

// head drops struck entries and returns the next event to offer, or nil.
func (b *outbox) head() events.Event {
	for len(b.queue) > 0 && b.queue[0].event == nil {
		b.shift()
	}
	if len(b.queue) == 0 {
		return nil
	}
	return b.queue[0].event
}

// shift removes the head of the queue.
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

// run delivers events until none are left.
func (b *outbox) run() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.since = time.Now() // until now, the reader could not take anything
	for ev := b.head(); ev != nil; ev = b.head() {
		b.offered = b.queue[0]
		var late <-chan time.Time
		if b.hurried {
			late = time.After(b.patience())
		}
		// mu is not held during the send: a reader may be slow, and push must not wait
		// for it.
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
		// Only now can a waiting retract see the outcome of the send.
		b.offered = nil
		b.settled.Broadcast()
		if tooLate {
			b.drop()
		}
	}
	b.running = false
	b.shut()
}

// shut closes the channel if that is due and the goroutine is not running.
func (b *outbox) shut() {
	if !b.running && (b.last || b.closed) && !b.over {
		b.closed, b.over = true, true
		close(b.out)
	}
}

// delivered notes that the reader has the offered event. In the meantime, a newer event
// of its kind may have struck it and taken its slot.
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

// patience returns how much longer the offered event may wait for the reader.
func (b *outbox) patience() time.Duration {
	left := lastWords - time.Since(b.since)
	if !b.end.IsZero() {
		left = min(left, time.Until(b.end))
	}
	return left
}

// hurry limits from now on how long events wait for the reader: each one by lastWords,
// and all of them together by the bound, unless that is negative.
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

// finish closes the channel after the queued events.
func (b *outbox) finish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = true
	b.shut()
}

// leave drops the queued events and closes the channel.
func (b *outbox) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop()
	b.shut()
}

// drop discards the queue and refuses further events.
func (b *outbox) drop() {
	b.closed, b.queue, b.pending, b.struck = true, nil, nil, 0
	b.wake()
}
