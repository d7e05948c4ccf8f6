package actors

import (
	"context"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// Stream delivers every published event to every subscriber, in the order of publication.
// Publishing never blocks. A subscriber only observes: it takes no Grant.
//
// Grant, Lost and Ended reach each subscriber that reads. After Close, the rest is
// dropped if a subscriber is slow. Of other events, a slow subscriber receives the
// latest; see outbox. For a subscriber that never reads, the final events of finished
// acquisitions accumulate.
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

// Subscribe delivers every event published from now on. The channel is closed when ctx
// ends, or, when the stream is closed, a moment after its last event was offered.
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

// Overhear registers f, which is called with each event as it is published, in order and
// without omission. f must not block, and must not call a function that publishes.
// Overhear is called before the first event.
func (s *Stream) Overhear(f func(events.Event)) { s.overhear = f }

// Heard reports whether anything would receive an event published now. If not, the event
// need not be made. A subscriber that comes at the same moment may miss the event, as if
// it had come later.
func (s *Stream) Heard() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.overhear != nil || len(s.subs) > 0
}

// Publish queues the event for every subscriber and returns at once.
func (s *Stream) Publish(ev events.Event) { s.publish(ev, nil) }

// publish is Publish for an event of a lock. offer, if not nil, makes a Grant available to
// its caller. The function of Overhear receives the Grant before that, so that it knows of
// the Grant before the caller acts on it. The subscribers receive it after that: a reader
// of the stream finds the Grant in the channel, unless it was taken. offer must not block.
func (s *Stream) publish(ev events.Event, offer func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.overhear != nil {
		s.overhear(ev)
	}
	if offer != nil {
		offer()
	}
	for b := range s.subs {
		b.push(ev, nil)
	}
	if len(s.feeds) > 0 && ev.AcquisitionID() == 0 {
		for f := range s.feeds {
			f.box.push(ev, s)
		}
	}
}

// Close closes the subscribers' channels after what is queued. A subscriber receives that
// as long as it keeps taking events, but not beyond the bound. Close returns at once.
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

// Part notes that the stream is over. For a feed without another stream, that has the
// effect of closing the feed. It follows Close, when its caller has nothing more to wait
// for: that caller may be the reader of the feed.
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
