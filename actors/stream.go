package actors

import (
	"context"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// lastWords is how long a subscriber of a closed stream may go without taking an event. Then the rest is dropped.
const lastWords = 100 * time.Millisecond

// Stream hands every published event to every subscriber, in the order of
// publication. Publishing never blocks.
//
// Grant, Lost and Ended reach each subscriber that reads. Exceptions: Retract strikes a Grant that was not taken, and behind Close what
// is left is dropped when a subscriber is slow. Of the others a slow subscriber sees the latest. For it the stream
// keeps, of an acquisition, one Requeued; one Queued, until the Grant or the end outdates it; and one Revoked, until the loss or
// the end outdates it. It also keeps one of each kind of session event. So at most three events of a live acquisition wait. The
// final events of finished acquisitions add up for a subscriber that never reads.
type Stream struct {
	group    *Group
	overhear func(events.Event) // nil: no function does

	mu     sync.Mutex
	subs   map[*subscriber]struct{}
	seen   map[uint64]bool // by acquisition whose Grant was published and that is not over: whether a subscriber has the Grant
	closed bool
	end    time.Time // when closed: what is not taken by then is dropped
}

// NewStream returns an open stream without subscribers, whose goroutines (one
// per subscriber) belong to the group.
func NewStream(group *Group) *Stream {
	return &Stream{group: group, subs: map[*subscriber]struct{}{}, seen: map[uint64]bool{}}
}

// subscriber is one reader's share of the stream. The stream's mutex guards it.
type subscriber struct {
	out     chan events.Event // size 0; written and closed by run
	poke    chan struct{}     // size 1; only a wake-up: look at the queue again
	passive bool              // it takes no Grant

	queue   []*entry          // the head is what is being offered
	struck  int               // how many entries of the queue were struck
	pending map[slot]*entry   // what may be replaced or retracted
	recalls []chan<- struct{} // closed by run when it has stopped offering the head
}

// entry is an event on its way to one subscriber.
type entry struct {
	event  events.Event // nil when struck: retracted or replaced
	frozen bool         // not to be offered: a retraction is under way
}

// slot names an event that waits and can still be changed.
type slot struct {
	id   uint64 // the acquisition's; 0 for session events
	kind kind
}

type kind uint8

const (
	isGrant kind = iota + 1
	isQueued
	isRequeued
	isRevoked
	isConnected
	isSuspended
	isResumed
	isExpired
	isFinal // never changed
)

func slotOf(ev events.Event) slot {
	switch ev := ev.(type) {
	case events.Grant:
		return slot{ev.ID, isGrant}
	case events.Queued:
		return slot{ev.ID, isQueued}
	case events.Requeued:
		return slot{ev.ID, isRequeued}
	case events.Revoked:
		return slot{ev.ID, isRevoked}
	case events.Connected:
		return slot{0, isConnected}
	case events.Suspended:
		return slot{0, isSuspended}
	case events.Resumed:
		return slot{0, isResumed}
	case events.SessionExpired:
		return slot{0, isExpired}
	default:
		return slot{0, isFinal}
	}
}

// Subscribe returns every event published from now on. The channel is closed when ctx ends. When the stream is closed, the channel
// is closed a moment after its last event was offered.
func (s *Stream) Subscribe(ctx context.Context) <-chan events.Event { return s.subscribe(ctx, false) }

// SubscribePassively is Subscribe for a reader that takes no Grant by receiving it. It receives each Grant, also one that is taken
// back.
func (s *Stream) SubscribePassively(ctx context.Context) <-chan events.Event {
	return s.subscribe(ctx, true)
}

func (s *Stream) subscribe(ctx context.Context, passive bool) <-chan events.Event {
	sub := &subscriber{out: make(chan events.Event), poke: make(chan struct{}, 1), passive: passive, pending: map[slot]*entry{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || ctx.Err() != nil || !s.group.Go(func() { s.run(ctx, sub) }) {
		close(sub.out)
		return sub.out
	}
	s.subs[sub] = struct{}{}
	return sub.out
}

// Overhear has f called with each event as it is published, in order. No event is left out, and no Grant is taken. f must not
// block, and must not call a function that publishes. Overhear is called before the first event.
func (s *Stream) Overhear(f func(events.Event)) { s.overhear = f }

// Heard reports whether an event published now would be heard. If not, the event need not be made. A subscriber that comes at the
// same moment may miss the event, as if it had come later.
func (s *Stream) Heard() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.overhear != nil || len(s.subs) > 0 || len(s.seen) > 0
}

// Publish queues the event for every subscriber and returns at once.
func (s *Stream) Publish(ev events.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.overhear != nil {
		s.overhear(ev)
	}
	switch ev := ev.(type) {
	case events.Grant:
		if len(s.subs) > 0 {
			s.seen[ev.ID] = false
		}
	case events.Lost:
		delete(s.seen, ev.ID)
	case events.Ended:
		delete(s.seen, ev.ID)
	}
	for sub := range s.subs {
		sub.push(ev)
	}
}

func (sub *subscriber) push(ev events.Event) {
	switch ev := ev.(type) {
	case events.Grant:
		sub.outdate(slot{ev.ID, isQueued})
	case events.Lost:
		sub.outdate(slot{ev.ID, isRevoked})
	case events.Ended:
		sub.outdate(slot{ev.ID, isQueued})
		sub.outdate(slot{ev.ID, isRevoked})
	}
	at := slotOf(ev)
	e := &entry{event: ev}
	sub.queue = append(sub.queue, e)
	if at.kind != isFinal {
		sub.outdate(at)
		sub.pending[at] = e
	}
	sub.wake()
}

// outdate strikes the event in the slot, if there is one.
func (sub *subscriber) outdate(at slot) {
	if old := sub.pending[at]; old != nil {
		sub.strike(old)
	}
}

func (sub *subscriber) wake() {
	select {
	case sub.poke <- struct{}{}:
	default:
	}
}

// Retract takes the acquisition's Grant back from every subscriber that is not passive, unless one of them has received it. It
// reports whether one has. If so, the others get the Grant, too, in its place. Retract waits only for the stream's own goroutines.
//
// The race with delivery:
//
//  1. A subscriber's goroutine is inside the send of the Grant.
//  2. Retract freezes the Grant for every subscriber, so that no other goroutine begins to offer it. It leaves a recall and pokes.
//  3. The goroutine comes out of its select by the send, and notes that the Grant was seen, or by the poke.
//  4. It closes the recall, and does not offer a frozen Grant again.
//  5. Retract has heard from each goroutine that was offering the Grant. It strikes or thaws.
func (s *Stream) Retract(id uint64) (taken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[id] {
		return true
	}
	at := slot{id, isGrant}
	frozen := map[*subscriber]*entry{}
	var answers []<-chan struct{}
	for sub := range s.subs {
		e := sub.pending[at]
		if e == nil || sub.passive {
			continue
		}
		e.frozen = true
		frozen[sub] = e
		if sub.queue[0] == e {
			answers = append(answers, sub.recall())
		}
	}
	s.mu.Unlock() // for the goroutines that answer
	for _, answer := range answers {
		<-answer
	}
	s.mu.Lock()
	taken = s.seen[id]
	for sub, e := range frozen {
		switch {
		case sub.pending[at] != e: // delivered
		case taken:
			e.frozen = false
		default:
			sub.strike(e)
		}
		sub.wake()
	}
	if !taken {
		for sub := range s.subs {
			sub.outdate(slot{id, isRevoked}) // the wish: there never was a holder
		}
	}
	return taken
}

// recall asks the subscriber's goroutine to stop offering the head. The channel is closed as soon as it has stopped.
func (sub *subscriber) recall() <-chan struct{} {
	answer := make(chan struct{}) // size 0; closed by run, nothing is sent
	sub.recalls = append(sub.recalls, answer)
	sub.wake()
	return answer
}

// strike has the entry not delivered. At most half of the queue are struck entries. So replacing events costs no memory for a
// subscriber that does not read, and hardly any time for a caller of Publish.
func (sub *subscriber) strike(e *entry) {
	delete(sub.pending, slotOf(e.event))
	e.event = nil
	sub.struck++
	if 2*sub.struck <= len(sub.queue) {
		return
	}
	kept := sub.queue[:1] // the head stays: it may be inside the send
	sub.struck = 0
	if kept[0].event == nil {
		sub.struck = 1
	}
	for _, e := range sub.queue[1:] {
		if e.event != nil {
			kept = append(kept, e)
		}
	}
	clear(sub.queue[len(kept):])
	sub.queue = kept
}

// shift takes the head off the queue.
func (sub *subscriber) shift() {
	if sub.queue[0].event == nil {
		sub.struck--
	}
	sub.queue[0] = nil
	sub.queue = sub.queue[1:]
	if len(sub.queue) == 0 {
		sub.queue = nil
	}
}

// Close closes the subscribers' channels behind what is queued. A subscriber gets that as long as it keeps taking events, but not
// beyond the bound. Close returns at once.
func (s *Stream) Close(bound time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.end = true, time.Now().Add(bound)
	for sub := range s.subs {
		sub.wake()
	}
}

// remaining returns how much of the bound is left.
func (s *Stream) remaining() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Until(s.end)
}
