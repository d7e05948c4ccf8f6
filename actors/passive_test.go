package actors_test

import (
	"testing"
	"testing/synctest"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// TestAPassiveReaderTakesNoGrant, whether or not it has received the Grant when that is taken back. It receives the Grant in any
// case.
func TestAPassiveReaderTakesNoGrant(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := newStream(t)
		quick, slow := s.SubscribePassively(t.Context()), s.SubscribePassively(t.Context())
		s.Publish(events.Grant{ID: 1})
		expect(t, quick, events.Grant{ID: 1})
		if s.Retract(1) {
			t.Error("when only a passive reader has the Grant: it counts as taken, want it taken back")
		}
		s.Publish(events.Ended{ID: 1})
		expect(t, quick, events.Ended{ID: 1})
		expect(t, slow, events.Grant{ID: 1}, events.Ended{ID: 1})
		if n := s.Remembered(); n != 0 {
			t.Errorf("when the acquisition is over the stream remembers %d, want none", n)
		}
	})
}

// TestAPassiveReaderBesideOthers: whether the others have taken a Grant does not depend on what the passive reader reads.
func TestAPassiveReaderBesideOthers(t *testing.T) {
	for _, taken := range []bool{false, true} {
		eventstest.Bubble(t, func(t *testing.T) {
			s := newStream(t)
			other, passive := s.Subscribe(t.Context()), s.SubscribePassively(t.Context())
			s.Publish(events.Grant{ID: 1})
			expect(t, passive, events.Grant{ID: 1})
			if taken {
				expect(t, other, events.Grant{ID: 1})
			}
			synctest.Wait()
			if got := s.Retract(1); got != taken {
				t.Errorf("when the passive reader has the Grant: taken is %v, want %v as of the other reader", got, taken)
			}
			s.Publish(events.Ended{ID: 1})
			expect(t, other, events.Ended{ID: 1})
			expect(t, passive, events.Ended{ID: 1})
		})
	}
}
