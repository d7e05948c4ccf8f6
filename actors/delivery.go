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
			s.stopped(sub)
		case <-impatient:
			return
		case <-ctx.Done():
			return
		}
	}
}

// head drops struck entries and returns the event to be offered next. ev is nil if nothing is left, or if the head is frozen.
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
		// A slow reader may get the Grant when the acquisition is long over. Then no caller asks for the mark, and nothing would ever delete
		// it.
		if _, live := s.seen[grant.ID]; live {
			s.seen[grant.ID] = true
		}
	}
	// Between the send and here a newer event of its kind may have struck the head. It is still the head, but the slot belongs to the
	// newer one.
	if at := slotOf(ev); sub.pending[at] == sub.queue[0] {
		delete(sub.pending, at)
	}
	sub.shift()
	sub.answer()
}

// stopped answers the recalls after the head was not delivered.
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
