package actors_test

import (
	"testing"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// TestOverhearing: the function has each event before Publish returns, also those that a slow subscriber does not get.
func TestOverhearing(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := newStream(t)
		var heard []events.Event
		s.Overhear(func(ev events.Event) { heard = append(heard, ev) })
		s.Subscribe(t.Context()) // and does not read
		all := []events.Event{
			events.Connected{Session: 1}, events.Queued{ID: 1, Ahead: 2}, events.Queued{ID: 1, Ahead: 1}, events.Grant{ID: 1}, events.Ended{ID: 1},
		}
		for i, ev := range all {
			s.Publish(ev)
			if len(heard) != i+1 {
				t.Fatalf("when %d events are published %d were overheard, want each", i+1, len(heard))
			}
		}
	})
}

// TestPublishingCostsNothing without a listener.
func TestPublishingCostsNothing(t *testing.T) {
	s := actors.NewStream(&actors.Group{})
	var ev events.Event = events.Queued{ID: 1}
	if n := testing.AllocsPerRun(1000, func() { s.Publish(ev) }); n > 0 {
		t.Errorf("an event that nobody hears takes %v allocations, want none", n)
	}
}
