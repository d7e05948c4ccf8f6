package actors

import (
	"maps"
	"slices"
	"sync"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// Feed delivers the events of some locks, of one or several streams, and the events of
// their sessions, to one reader. It replaces the locks' own channels: a Grant that the
// reader receives is taken, and one that it has not received can be withdrawn.
type Feed struct {
	group Group // of the goroutine that delivers
	box   *outbox

	mu      sync.Mutex
	locks   map[*Lock]struct{}   // that have not ended
	streams map[*Stream]struct{} // whose session events the feed has
	closed  bool                 // no lock joins any more
}

// NewFeed returns an open feed without locks.
func NewFeed() *Feed {
	f := &Feed{locks: map[*Lock]struct{}{}, streams: map[*Stream]struct{}{}}
	f.box = newOutbox(&f.group)
	return f
}

// Events delivers the events, in order. It always returns the same channel, which is
// closed after the last Ended once the feed is closed.
func (f *Feed) Events() <-chan events.Event { return f.box.out }

// Join makes the feed deliver the events of the lock, from before its start to its end.
// If the feed is closed, Join returns false; Fail must follow, and the feed does not
// deliver the end.
func (l *Lock) Join(f *Feed) bool {
	l.mu.Lock()
	l.feed = f
	l.mu.Unlock()
	s := l.cfg.Stream
	s.mu.Lock() // Close of the stream comes before or after
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

// Close releases all locks, and returns at once. The reader still receives what is queued
// and the ends of the locks, as long as it takes an event every 100 ms.
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

// lose is called when a stream is closed. All its locks have ended.
func (f *Feed) lose(s *Stream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.streams, s)
	if len(f.streams) == 0 {
		f.close()
	}
}

// end delivers the end of a lock. The lock's mutex is held, so it comes after what
// happened before.
func (f *Feed) end(l *Lock, ended events.Ended) {
	f.mu.Lock()
	if _, in := f.locks[l]; !in {
		f.mu.Unlock()
		return // it was refused
	}
	delete(f.locks, l)
	f.box.push(ended, nil)
	if f.closed && len(f.locks) == 0 {
		f.box.finish()
	}
	f.mu.Unlock()
	f.rest()
}

// rest leaves the streams if the feed is closed and has no locks.
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
