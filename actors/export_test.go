package actors

import "github.com/zkgrant/zkgrant/events"

// Backlog returns how many events the stream keeps for the subscriber that is furthest
// behind, and how many entries they take.
func (s *Stream) Backlog() (kept, entries int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for b := range s.subs {
		b.mu.Lock()
		n := 0
		for _, e := range b.queue {
			if e.event != nil {
				n++
			}
		}
		kept, entries = max(kept, n), max(entries, len(b.queue))
		b.mu.Unlock()
	}
	return kept, entries
}

// Kept returns how many entries the stream keeps for all subscribers. The stream must be
// locked, as it is while it publishes.
func (s *Stream) Kept() (entries int) {
	for b := range s.subs {
		entries += len(b.queue)
	}
	return entries
}

// Hold runs f while the stream is stopped. Meanwhile, only the function passed to f can
// publish, and the stream does not notice what subscribers receive.
func (s *Stream) Hold(f func(publish func(events.Event))) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for b := range s.subs {
		b.mu.Lock()
	}
	f(func(ev events.Event) {
		for b := range s.subs {
			b.add(ev, nil)
		}
	})
	for b := range s.subs {
		b.mu.Unlock()
	}
}

// ContextEnded returns the function that runs, perhaps late, when the context that bounds
// the lock's wait ends.
func (l *Lock) ContextEnded() func() {
	w := &l.cfg.waits
	w.mu.Lock()
	defer w.mu.Unlock()
	one := l.wait
	return func() { w.ended(one) }
}

// PublishGrant publishes a Grant as its lock does.
func (s *Stream) PublishGrant(grant events.Grant, offer func()) { s.publish(grant, offer) }
