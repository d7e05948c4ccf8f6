// Package watch records what a client watches on the servers, and for which subscribers.
package watch

import (
	"slices"
	"sync"
)

// Set is what one client watches, by path: the subscribers of a path, and what the read
// that armed its watch has found. It is safe for concurrent use. The zero value is empty.
//
// A request subscribes before the call that arms the watch, because the event can
// overtake the reply:
//
//  1. The request subscribes.
//  2. The server answers, and then the node is deleted.
//  3. Reply and event arrive in one segment.
//  4. The client runs the callback with the event before the goroutine that made the call
//     is scheduled.
//  5. The event finds the subscriber.
//
// The client keeps a channel for each call that armed a watch until the watch fires, and
// cannot drop it. So an armed path is not armed again, and is remembered until it fires
// even if it has no subscribers left.
//
// The client also keeps the watches of a lost connection, and requests them again on the
// next one. [Set.Suspended] and [Set.Restored] are for a set whose paths must certainly
// be armed. Between the two, a path is armed once more.
//
// For [Set.Ask], a path is armed only once the answer has arrived; until then, every
// caller arms it. A plain read next to a watch that is about to be armed could miss a
// change:
//
//  1. A is about to arm.
//  2. B relies on that, and only reads.
//  3. The node changes.
//  4. A's request is executed, reads the new state, and arms the watch.
//  5. B does not learn of the change.
type Set[S comparable, V any] struct {
	mu          sync.Mutex
	paths       map[string]entry[S]
	notes       map[string]note[V] // of some of the paths; nil until there is one
	connections uint32             // counts calls of Resumed and Suspended
	doubted     bool               // see Suspended
}

// Ticket records when Ask was called for a path: the answer counts only if nothing has
// happened since.
type Ticket struct{ fires, connections uint32 }

// entry is one path. It is small, because there is one for each lock that is held for
// long.
type entry[S comparable] struct {
	subscribers []S    // without duplicates; few, usually one
	fires       uint32 // counts fires while answers are awaited
	pending     uint16 // awaited answers
	armed       bool   // at the server
	sure        bool   // at the server, certainly, on the current connection
}

// note is a value noted for a path.
type note[V any] struct {
	value V
	holds bool // nothing has happened to the path since
}

// Add subscribes, and reports whether the path is unarmed, so that the caller must arm
// it.
func (s *Set[S, V]) Add(path string, who S) (unarmed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.with(path, who)
	s.keep(path, p)
	return !p.armed
}

// Sure reports whether a path is certainly armed: a read that armed it was answered on
// the current connection.
func (s *Set[S, V]) Sure(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paths[path].sure
}

// Resumed notes a new connection, on which no path is certainly armed.
func (s *Set[S, V]) Resumed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resume()
}

// Suspended notes that the connection is lost. Until Restored, a path counts as armed
// only if that is certain. The client requests its watches again on the next connection,
// but a read may be executed before that request:
//
//  1. A read of the path is executed on the next connection.
//  2. The node changes.
//  3. The client's request is executed. It has a zxid, and the server does not report a
//     change of children from before that zxid.
func (s *Set[S, V]) Suspended() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resume()
	s.doubted = true
}

// Restored notes that, for each watch that the client had, the server has it again or has
// reported a change. So no later read misses a change.
func (s *Set[S, V]) Restored() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubted = false
}

// resume is called with mu held.
func (s *Set[S, V]) resume() {
	s.connections++
	for path, p := range s.paths {
		p.sure = false
		s.paths[path] = p
	}
}

// Ask subscribes, unless who is the zero value, and reports whether the caller must arm
// the watch and then call Answered with the ticket.
func (s *Set[S, V]) Ask(path string, who S) (arm bool, t Ticket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.with(path, who)
	if arm = !p.armed || s.doubted && !p.sure; arm {
		p.pending++
	}
	s.keep(path, p)
	return arm, Ticket{p.fires, s.connections}
}

// Answered notes whether the watch of an Ask was armed. If the path has fired since the
// Ask, that was the watch's event, and the answer is ignored.
func (s *Set[S, V]) Answered(path string, t Ticket, armed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.paths[path]
	p.pending--
	if armed && p.fires == t.fires {
		p.armed, p.sure = true, p.sure || s.connections == t.connections
	}
	s.keep(path, p)
}

// Changed notes that the watch has fired, but that its subscribers need it armed again.
// It reports whether there are any.
func (s *Set[S, V]) Changed(path string) (wanted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.paths[path]
	s.disarm(path, p)
	return len(p.subscribers) > 0
}

// Fired notes that the watch has fired. It removes the subscribers, and returns them to
// be notified.
func (s *Set[S, V]) Fired(path string) []S {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.paths[path]
	notified := p.subscribers
	p.subscribers = nil
	s.disarm(path, p)
	return notified
}

// Reset notes that no watch is armed any more. It returns the paths that have
// subscribers.
func (s *Set[S, V]) Reset() (wanted []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, p := range s.paths {
		s.disarm(path, p)
		if len(p.subscribers) > 0 {
			wanted = append(wanted, path)
		}
	}
	return wanted
}

// Drop ends the subscription, if there is one.
func (s *Set[S, V]) Drop(path string, who S) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.paths[path]
	if i := slices.Index(p.subscribers, who); i >= 0 {
		p.subscribers = slices.Delete(p.subscribers, i, i+1)
	}
	s.keep(path, p)
}

// Subscribed reports whether the subscriber has subscribed to a path.
func (s *Set[S, V]) Subscribed(path string, who S) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.paths[path].subscribers, who)
}

// Subscribers returns the subscribers of a path.
func (s *Set[S, V]) Subscribers(path string) []S {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.paths[path].subscribers)
}

// Note keeps what the read that armed a path has found. update computes it from the
// previously noted value, and Note returns it. If the path has fired since and is
// forgotten, nothing is kept. If it has fired but is remembered, the value does not hold.
func (s *Set[S, V]) Note(path string, update func(before V) V) V {
	s.mu.Lock()
	defer s.mu.Unlock()
	value := update(s.notes[path].value)
	if p, ok := s.paths[path]; ok {
		if s.notes == nil {
			s.notes = map[string]note[V]{}
		}
		s.notes[path] = note[V]{value, p.armed}
	}
	return value
}

// Noted returns the value noted for a path, and whether it holds: while the watch is
// armed, the data are unchanged, and are not read again.
func (s *Set[S, V]) Noted(path string) (value V, holds bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.notes[path]
	return n.value, n.holds
}

// Unnote drops the value noted for a path.
func (s *Set[S, V]) Unnote(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.notes, path)
}

// Armed reports whether a path is armed, or is about to be.
func (s *Set[S, V]) Armed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.paths {
		if p.armed || p.pending > 0 {
			return true
		}
	}
	return false
}

// Empty reports whether no path is remembered: none is armed or about to be, and none has
// subscribers.
func (s *Set[S, V]) Empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.paths) == 0
}

// with is called with mu held.
func (s *Set[S, V]) with(path string, who S) entry[S] {
	var nobody S
	p := s.paths[path]
	if who != nobody && !slices.Contains(p.subscribers, who) {
		p.subscribers = append(p.subscribers, who)
	}
	return p
}

// disarm is called with mu held.
func (s *Set[S, V]) disarm(path string, p entry[S]) {
	p.armed, p.sure = false, false
	p.fires++
	if n, ok := s.notes[path]; ok {
		n.holds = false
		s.notes[path] = n
	}
	s.keep(path, p)
}

// keep is called with mu held.
func (s *Set[S, V]) keep(path string, p entry[S]) {
	switch {
	case !p.armed && p.pending == 0 && len(p.subscribers) == 0:
		delete(s.paths, path)
		delete(s.notes, path)
		return
	case s.paths == nil:
		s.paths = map[string]entry[S]{}
	}
	s.paths[path] = p
}
