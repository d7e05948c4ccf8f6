package events_test

import (
	"testing"

	"github.com/zkgrant/zkgrant/events"
)

// A type that the stream never sends would be a needless case in every switch over all events.
func TestWhatTheStreamNeverSendsIsNoEvent(t *testing.T) {
	for _, value := range []any{events.Leader{}, events.Contender{}} {
		if _, is := value.(events.Event); is {
			t.Errorf("%T is an Event, want it to be none", value)
		}
	}
}
