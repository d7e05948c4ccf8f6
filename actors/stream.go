package actors

import (
	"context"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// Stream delivers every published event to every subscriber, in order of publication.
// Publishing never blocks. A subscriber only observes: receiving a Grant does not take
// it.
//
// Every Grant, Lost and Ended reaches each subscriber that reads; of other events, a slow
// subscriber receives only the latest (see outbox). After Close, a slow subscriber loses
// what it has not read. For a subscriber that never reads, the final events of finished
// acquisitions accumulate.
type Stream struct {
	group    *Group
	overhear func(events.Event) // nil: there is none

	mu     sync.Mutex
	subs   map[*outbox]func() bool // the value stops waiting for the subscriber's context
	feeds  map[*Feed]struct{}      // those that get the session's events; nil until there is one
	closed bool
}

// NewStream returns an open stream without subscribers. Its goroutines, one per
// subscriber, belong to the group.
func NewStream(group *Group) *Stream {
	return &Stream{group: group, subs: map[*outbox]func() bool{}}
}

// Subscribe returns a channel that delivers every event published from now on. It is
// closed when ctx ends, or, once the stream is closed, after the last queued event.
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

// Overhear registers f, which is called with every event as it is published, in order. f
// must not block or publish. Overhear must be called before the first event.
func (s *Stream) Overhear(f func(events.Event)) { s.overhear = f }

// Heard reports whether anything would receive an event published now. If not, the caller
// need not build the event. A subscriber that arrives at the same moment may miss it, as
// if it had arrived later.
func (s *Stream) Heard() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.overhear != nil || len(s.subs) > 0
}

// Publish queues the event for every subscriber and returns at once.
func (s *Stream) Publish(ev events.Event) { s.publish(ev, nil) }

// publish is like Publish, for an event of a lock. offer, if not nil, makes a Grant
// available to its caller, and must not block. The function of Overhear is called before
// offer, so that it knows of the Grant before the caller acts on it. The subscribers come
// after offer, so that a reader of the stream finds the Grant in the lock's channel,
// unless it was taken.
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

// Close closes each subscriber's channel after its queued events. A subscriber receives
// those as long as it keeps taking events, but no longer than bound. Close returns at
// once.
func (s *Stream) Close(bound time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for b, forget := range s.subs {
		forget() // the context may outlive the stream
		b.hurry(bound)
		b.finish()
	}
}

// Part detaches the stream from its feeds. A feed without another stream is closed. Part
// is called after Close, once its caller has nothing left to wait for, because that
// caller may itself be the reader of the feed.
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
