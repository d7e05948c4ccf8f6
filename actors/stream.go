package actors

import (
	"context"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// Stream hands every published event to every subscriber, in the order of
// publication. Publishing never blocks. A subscriber observes: it takes no Grant.
//
// Grant, Lost and Ended reach each subscriber that reads. After Close, the rest is
// dropped if a subscriber is slow. Of the other events a slow subscriber sees the latest,
// see outbox. The final events of finished acquisitions add up for a subscriber that
// never reads.
type Stream struct {
	group    *Group
	overhear func(events.Event) // nil: no function does

	mu     sync.Mutex
	subs   map[*outbox]func() bool // each with what ends the wait for its context
	feeds  map[*Feed]struct{}      // which have the session's events; nil until there is one
	closed bool
}

// NewStream returns an open stream without subscribers. The goroutines that deliver to
// them belong to the group.
func NewStream(group *Group) *Stream {
	return &Stream{group: group, subs: map[*outbox]func() bool{}}
}

// Subscribe returns every event published from now on. The channel is closed when ctx
// ends. When the stream is closed, the channel is closed a moment after its last event
// was offered.
func (s *Stream) Subscribe(ctx context.Context) <-chan events.Event {
	b := newOutbox(s.group)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || ctx.Err() != nil {
		close(b.out)
		return b.out
	}
	s.subs[b] = context.AfterFunc(ctx, func() { s.unsubscribe(b) })
	return b.out
}

func (s *Stream) unsubscribe(b *outbox) {
	s.mu.Lock()
	delete(s.subs, b)
	s.mu.Unlock()
	b.leave()
}

// Overhear has f called with each event as it is published, in order. No event is left
// out. f must not block, and must not call a function that publishes. Overhear is called
// before the first event.
func (s *Stream) Overhear(f func(events.Event)) { s.overhear = f }

// Heard reports whether an event published now would be heard. If not, the event need not
// be made. A subscriber that comes at the same moment may miss the event, as if it had
// come later.
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
	for b := range s.subs {
		b.push(ev, nil)
	}
	if len(s.feeds) > 0 && ev.AcquisitionID() == 0 {
		for f := range s.feeds {
			f.box.push(ev, s)
		}
	}
}

// Close closes the subscribers' channels behind what is queued. A subscriber gets that as
// long as it keeps taking events, but not beyond the bound. Close returns at once.
func (s *Stream) Close(bound time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for b, forget := range s.subs {
		forget() // the context may outlive the stream for long
		b.hurry(bound)
		b.finish()
	}
}

// Part says that the stream is over. For a feed that has no other stream, it is as if the
// feed were closed. It follows Close, when its caller has no more to wait for: perhaps
// that caller is the reader of the feed.
func (s *Stream) Part() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for f := range s.feeds {
		f.lose(s)
	}
	s.feeds = nil
}

// remove forgets a feed.
func (s *Stream) remove(f *Feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.feeds, f)
}
