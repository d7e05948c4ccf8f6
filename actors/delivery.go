package actors

import (
	"context"
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// This file is the delivery to one subscriber, in a goroutine of its own.

// run delivers to one subscriber until its time is over.
func (s *Stream) run(ctx context.Context, sub *subscriber) {
	defer close(sub.out)
	defer s.leave(sub)
	patience := time.NewTimer(lastWords)
	defer patience.Stop()
	for {
		ev, left, closed := s.head(sub)
		if closed && !left {
			return
		}
		var out chan<- events.Event // nil, and its case off, while there is nothing to offer
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
			s.stopped(sub)
		case <-impatient:
			return
		case <-ctx.Done():
			return
		}
	}
}

// head drops what was struck and returns what is to be offered next: nil while
// nothing is left, or while the head is frozen.
func (s *Stream) head(sub *subscriber) (ev events.Event, left, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(sub.queue) > 0 && sub.queue[0].event == nil {
		sub.shift()
	}
	if len(sub.queue) == 0 {
		return nil, false, s.closed
	}
	if head := sub.queue[0]; !head.frozen {
		ev = head.event
	}
	return ev, true, s.closed
}

func (s *Stream) delivered(sub *subscriber, ev events.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if grant, ok := ev.(events.Grant); ok && !sub.passive {
		// A slow reader gets it when the acquisition is long over; then nobody
		// will ask, nor ever forget it again.
		if _, live := s.seen[grant.ID]; live {
			s.seen[grant.ID] = true
		}
	}
	// Between the send and here a newer event of its kind may have struck the
	// head; it still is the head, but the slot is the newer one's.
	if at := slotOf(ev); sub.pending[at] == sub.queue[0] {
		delete(sub.pending, at)
	}
	sub.shift()
	sub.answer()
}

// stopped answers the recalls of a head that was not delivered.
func (s *Stream) stopped(sub *subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub.answer()
}

func (sub *subscriber) answer() {
	for _, answer := range sub.recalls {
		close(answer)
	}
	sub.recalls = nil
}

func (s *Stream) leave(sub *subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subs, sub)
	sub.answer()
}
