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
// publication. Publishing never blocks. A subscriber observes: it takes no Grant.
//
// Grant, Lost and Ended reach each subscriber that reads. After Close, the rest is dropped
// if a subscriber is slow. Of the other events a slow subscriber sees the latest. For it
// the stream keeps, of an acquisition, one Requeued; one Queued, until the Grant or the end
// outdates it; and one Revoked, until the loss or the end outdates it. It also keeps one of
// each kind of session event. So at most three events of a live acquisition wait. The final
// events of finished acquisitions add up for a subscriber that never reads.
type Stream struct {
	group    *Group
	overhear func(events.Event) // nil: no function does

	mu     sync.Mutex
	subs   map[*subscriber]struct{}
	closed bool
	end    time.Time // when closed: what is not taken by then is dropped
}

// NewStream returns an open stream without subscribers, whose goroutines (one
// per subscriber) belong to the group.
func NewStream(group *Group) *Stream {
	return &Stream{group: group, subs: map[*subscriber]struct{}{}}
}

// subscriber is one reader's share of the stream. The stream's mutex guards it.
type subscriber struct {
	out  chan events.Event // size 0; written and closed by run
	poke chan struct{}     // size 1; only a wake-up: look at the queue again

	queue   []*entry        // the head is what is being offered
	struck  int             // how many entries of the queue were struck
	pending map[slot]*entry // what may be replaced
}

// entry is an event on its way to one subscriber.
type entry struct {
	event events.Event // nil when struck: replaced or outdated
}

// slot names an event that waits and can still be changed.
type slot struct {
	id   uint64 // the acquisition's; 0 for session events
	kind kind
}

type kind uint8

const (
	isQueued kind = iota + 1
	isRequeued
	isRevoked
	isContended
	isConnected
	isSuspended
	isResumed
	isExpired
	isFinal // never changed
)

func slotOf(ev events.Event) slot {
	switch ev := ev.(type) {
	case events.Queued:
		return slot{ev.ID, isQueued}
	case events.Requeued:
		return slot{ev.ID, isRequeued}
	case events.Revoked:
		return slot{ev.ID, isRevoked}
	case events.Contended:
		return slot{ev.ID, isContended}
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
func (s *Stream) Subscribe(ctx context.Context) <-chan events.Event {
	sub := &subscriber{out: make(chan events.Event), poke: make(chan struct{}, 1), pending: map[slot]*entry{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || ctx.Err() != nil || !s.group.Go(func() { s.run(ctx, sub) }) {
		close(sub.out)
		return sub.out
	}
	s.subs[sub] = struct{}{}
	return sub.out
}

// Overhear has f called with each event as it is published, in order. No event is left out. f must not block, and must not call a
// function that publishes. Overhear is called before the first event.
func (s *Stream) Overhear(f func(events.Event)) { s.overhear = f }

// Heard reports whether an event published now would be heard. If not, the event need not be made. A subscriber that comes at the
// same moment may miss the event, as if it had come later.
func (s *Stream) Heard() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.overhear != nil || len(s.subs) > 0
}

// Publish queues the event for every subscriber and returns at once.
func (s *Stream) Publish(ev events.Event) { s.publish(ev, func() {}) }

// PublishGrant is Publish for a Grant that offer makes available to its caller. The
// function of Overhear hears of the Grant first, so that it knows of the Grant before the
// caller acts on it. Then comes offer, and then the subscribers: a reader of the stream
// finds the Grant in the channel, unless it was taken. offer must not block.
func (s *Stream) PublishGrant(grant events.Grant, offer func()) { s.publish(grant, offer) }

func (s *Stream) publish(ev events.Event, offer func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.overhear != nil {
		s.overhear(ev)
	}
	offer()
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
		sub.outdate(slot{ev.ID, isContended})
	case events.Ended:
		sub.outdate(slot{ev.ID, isQueued})
		sub.outdate(slot{ev.ID, isRevoked})
		sub.outdate(slot{ev.ID, isContended})
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

// run delivers to one subscriber until its time is over.
func (s *Stream) run(ctx context.Context, sub *subscriber) {
	defer close(sub.out)
	defer s.leave(sub)
	patience := time.NewTimer(lastWords)
	defer patience.Stop()
	for {
		ev, closed := s.head(sub)
		if closed && ev == nil {
			return
		}
		var out chan<- events.Event // nil while there is nothing to offer, so that its case never runs
		if ev != nil {
			out = sub.out
		}
		var impatient <-chan time.Time
		if closed {
			patience.Reset(min(lastWords, s.remaining()))
			impatient = patience.C
		}
		select {
		case out <- ev:
			s.delivered(sub, ev)
		case <-sub.poke:
		case <-impatient:
			return
		case <-ctx.Done():
			return
		}
	}
}

// head drops struck entries and returns the event to be offered next. ev is nil if nothing is left.
func (s *Stream) head(sub *subscriber) (ev events.Event, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(sub.queue) > 0 && sub.queue[0].event == nil {
		sub.shift()
	}
	if len(sub.queue) == 0 {
		return nil, s.closed
	}
	return sub.queue[0].event, s.closed
}

func (s *Stream) delivered(sub *subscriber, ev events.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Between the send and here a newer event of its kind may have struck the head. It is still the head, but the slot belongs to the
	// newer one.
	if at := slotOf(ev); sub.pending[at] == sub.queue[0] {
		delete(sub.pending, at)
	}
	sub.shift()
}

func (s *Stream) leave(sub *subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subs, sub)
}
