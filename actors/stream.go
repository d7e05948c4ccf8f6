package actors

import (
	"context"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// lastWords is how long a subscriber may go without taking an event, once the
// stream is closed, before what is left for it is dropped.
const lastWords = 100 * time.Millisecond

// Stream hands every published event to every subscriber, in the order of
// publication. Publishing never blocks.
//
// Grant, Lost and Ended reach each subscriber in any case. Of the others a slow
// subscriber sees the latest: at most one Queued or Requeued per acquisition and
// one of each kind of session event are kept for it.
type Stream struct {
	group *Group

	mu     sync.Mutex
	subs   map[*subscriber]struct{}
	seen   map[uint64]struct{} // acquisitions whose Grant a subscriber has received
	closed bool
}

// NewStream returns an open stream without subscribers, whose goroutines (one
// per subscriber) belong to the group.
func NewStream(group *Group) *Stream {
	return &Stream{group: group, subs: map[*subscriber]struct{}{}, seen: map[uint64]struct{}{}}
}

// subscriber is one reader's share of the stream. The stream's mutex guards it.
type subscriber struct {
	out  chan events.Event // size 0; written and closed by run
	poke chan struct{}     // size 1; only a wake-up: look at the queue again

	queue   []*entry        // the head is what is being offered
	pending map[slot]*entry // what may be replaced or retracted
	recall  chan<- bool     // a retraction waits to hear whether the head was taken
}

// entry is an event on its way to one subscriber; nil when it was struck, being
// retracted or replaced.
type entry struct{ event events.Event }

// slot is where an event waits that can still be changed.
type slot struct {
	id   uint64 // the acquisition's; 0 for session events
	kind kind
}

type kind uint8

const (
	isGrant kind = iota + 1
	isProgress
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
		return slot{ev.ID, isProgress}
	case events.Requeued:
		return slot{ev.ID, isProgress}
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

// Subscribe returns every event published from now on. The channel is closed
// when ctx ends or, a moment after its last event was offered, when the stream
// is closed.
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

// Publish queues the event for every subscriber and returns at once.
func (s *Stream) Publish(ev events.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch ev := ev.(type) {
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
	at := slotOf(ev)
	e := &entry{ev}
	sub.queue = append(sub.queue, e)
	if at.kind != isFinal {
		if old := sub.pending[at]; old != nil {
			sub.strike(old)
		}
		sub.pending[at] = e
	}
	sub.wake()
}

func (sub *subscriber) wake() {
	select {
	case sub.poke <- struct{}{}:
	default:
	}
}

// Retract takes the acquisition's Grant back from every subscriber, unless one
// of them has received it; it reports whether one has. It waits for nobody but
// the stream's own goroutines.
//
// The race with delivery: 1. a subscriber's goroutine is inside the send of the
// Grant; 2. Retract leaves a recall and pokes; 3. the goroutine comes out of its
// select either by the send (taken) or by the poke; 4. in the second case it
// strikes the Grant off its queue before it lets go of the mutex, so that it
// cannot offer it again, and answers the recall with which of the two it was.
func (s *Stream) Retract(id uint64) (taken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var retracted []*subscriber
	var grant events.Event
	for sub := range s.subs {
		e := sub.pending[slot{id, isGrant}]
		if e == nil {
			continue
		}
		grant = e.event
		if sub.queue[0] != e {
			sub.strike(e)
		} else if s.recallHead(sub) {
			break
		}
		retracted = append(retracted, sub)
	}
	if _, taken = s.seen[id]; taken {
		for _, sub := range retracted { // somebody has it, so everybody gets it
			sub.push(grant)
		}
	}
	return taken
}

// recallHead waits, without the mutex, for the subscriber's goroutine to tell
// what became of the event that it is offering.
func (s *Stream) recallHead(sub *subscriber) (taken bool) {
	answer := make(chan bool, 1)
	sub.recall = answer
	sub.wake()
	s.mu.Unlock()
	defer s.mu.Lock()
	return <-answer
}

// strike makes the entry one that will not be delivered.
func (sub *subscriber) strike(e *entry) {
	delete(sub.pending, slotOf(e.event))
	e.event = nil
}

// Close lets the subscribers have what is queued, as long as they keep taking
// it, and then closes their channels. It returns at once.
func (s *Stream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for sub := range s.subs {
		sub.wake()
	}
}

// run delivers to one subscriber until its time is over.
func (s *Stream) run(ctx context.Context, sub *subscriber) {
	defer close(sub.out)
	defer s.leave(sub)
	patience := time.NewTimer(lastWords)
	defer patience.Stop()
	for {
		ev, closed := s.head(sub)
		if ev == nil && closed {
			return
		}
		var out chan<- events.Event // nil, and its case off, while there is nothing to offer
		if ev != nil {
			out = sub.out
		}
		var impatient <-chan time.Time
		if closed {
			patience.Reset(lastWords)
			impatient = patience.C
		}
		select {
		case out <- ev:
			s.delivered(sub, ev)
		case <-sub.poke:
			s.answer(sub)
		case <-impatient:
			return
		case <-ctx.Done():
			return
		}
	}
}

// head drops what was retracted and returns what is to be offered next.
func (s *Stream) head(sub *subscriber) (ev events.Event, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(sub.queue) > 0 && sub.queue[0].event == nil {
		sub.queue = sub.queue[1:]
	}
	if len(sub.queue) == 0 {
		sub.queue = nil
		return nil, s.closed
	}
	return sub.queue[0].event, s.closed
}

func (s *Stream) delivered(sub *subscriber, ev events.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if grant, ok := ev.(events.Grant); ok {
		s.seen[grant.ID] = struct{}{}
	}
	// Between the send and here a newer event of its kind may have struck the
	// head; it still is the head, but the slot is the newer one's.
	if at := slotOf(ev); sub.pending[at] == sub.queue[0] {
		delete(sub.pending, at)
	}
	sub.queue = sub.queue[1:]
	sub.reply(true)
}

// answer strikes the head if it is recalled. A recall names no event: it is made
// while its event is the head, and only a delivery moves the head on.
func (s *Stream) answer(sub *subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sub.recall != nil {
		sub.strike(sub.queue[0])
		sub.reply(false)
	}
}

func (sub *subscriber) reply(taken bool) {
	if sub.recall != nil {
		sub.recall <- taken // size 1, one answer
		sub.recall = nil
	}
}

func (s *Stream) leave(sub *subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subs, sub)
	sub.reply(false)
}
