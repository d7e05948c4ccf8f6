package actors

import (
	"maps"
	"slices"
	"sync"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// Feed delivers the events of selected locks and of their sessions, from one or more
// streams, to one reader. It replaces the locks' own channels: receiving a Grant takes
// it, and a Grant that was not received yet can be withdrawn.
type Feed struct {
	group Group // of the goroutine that delivers
	box   *outbox

	mu      sync.Mutex
	locks   map[*Lock]struct{}   // those that have not ended
	streams map[*Stream]struct{} // whose session events the feed has
	closed  bool                 // no further lock may join
}

// NewFeed returns an open feed that has no locks yet.
func NewFeed() *Feed {
	f := &Feed{locks: map[*Lock]struct{}{}, streams: map[*Stream]struct{}{}}
	f.box = newOutbox(&f.group)
	return f
}

// Events returns the channel that delivers the events, in order. It is always the same
// channel. After Close, it is closed following the last Ended.
func (f *Feed) Events() <-chan events.Event { return f.box.out }

// Join adds the lock to the feed. It is called before the lock starts; the feed then
// delivers all of the lock's events, up to its end. If the feed is closed, Join returns
// false. The caller must then call Fail, and the feed does not report the end.
func (l *Lock) Join(f *Feed) bool {
	l.mu.Lock()
	l.feed = f
	l.mu.Unlock()
	s := l.cfg.Stream
	s.mu.Lock() // so that the stream is not closed in between
	defer s.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.locks[l] = struct{}{}
	if !s.closed {
		if s.feeds == nil {
			s.feeds = map[*Feed]struct{}{}
		}
		s.feeds[f], f.streams[s] = struct{}{}, struct{}{}
	}
	if len(f.streams) == 0 {
		f.close()
	}
	return true
}

// Close releases all locks and returns at once. The reader still receives the queued
// events and the end of each lock, provided that it takes an event at least every 100 ms.
func (f *Feed) Close() {
	f.mu.Lock()
	f.close()
	locks := slices.Collect(maps.Keys(f.locks))
	f.mu.Unlock()
	for _, l := range locks {
		l.Withdraw(recipes.WhyReleased)
	}
	f.rest()
}

// close is called with mu held.
func (f *Feed) close() {
	f.closed = true
	f.box.hurry(-1)
	if len(f.locks) == 0 {
		f.box.finish()
	}
}

// lose removes a stream that is closed. All of the stream's locks have ended.
func (f *Feed) lose(s *Stream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.streams, s)
	if len(f.streams) == 0 {
		f.close()
	}
}

// end queues the Ended of a lock. The lock's mutex is held, so that it follows the lock's
// earlier events.
func (f *Feed) end(l *Lock, ended events.Ended) {
	f.mu.Lock()
	if _, in := f.locks[l]; !in {
		f.mu.Unlock()
		return // Join refused it
	}
	delete(f.locks, l)
	f.box.push(ended, nil)
	if f.closed && len(f.locks) == 0 {
		f.box.finish()
	}
	f.mu.Unlock()
	f.rest()
}

// rest unregisters a closed feed from its streams once it has no locks.
func (f *Feed) rest() {
	f.mu.Lock()
	var streams map[*Stream]struct{}
	if f.closed && len(f.locks) == 0 {
		streams, f.streams = f.streams, nil
	}
	f.mu.Unlock()
	for s := range streams {
		s.remove(f)
	}
}
