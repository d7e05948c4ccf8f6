package actors_test

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

func newStream(t *testing.T) *actors.Stream {
	t.Helper()
	group := &actors.Group{}
	s := actors.NewStream(group)
	t.Cleanup(func() {
		s.Close(10 * time.Second)
		group.Close()
	})
	return s
}

func publish(s *actors.Stream, all ...events.Event) {
	for _, ev := range all {
		s.Publish(ev)
	}
}

// next returns the event that the channel offers now, or nil if it offers none or is
// closed.
func next(c <-chan events.Event) events.Event {
	synctest.Wait()
	ev, _ := Take(c)
	return ev
}

// expect reads exactly these events.
func expect(t *testing.T, c <-chan events.Event, want ...events.Event) {
	t.Helper()
	for i, w := range want {
		if got := next(c); !reflect.DeepEqual(got, w) {
			t.Fatalf("event %d is %#v, want %#v", i, got, w)
		}
	}
	if got := next(c); got != nil {
		t.Fatalf("%#v came after the last event, want nothing", got)
	}
}

func isClosed(c <-chan events.Event) bool {
	synctest.Wait()
	ev, closed := Take(c)
	return closed && ev == nil
}

// TestStreamCoalescesForASlowReader. The function of Overhear is called with each event
// before Publish returns.
func TestStreamCoalescesForASlowReader(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := newStream(t)
		heard := 0
		s.Overhear(func(events.Event) { heard++ })
		c := s.Subscribe(t.Context())
		for i, ev := range []events.Event{
			events.Ended{ID: 9}, // is being offered; later events wait
			events.Queued{ID: 1, Ahead: 5}, events.Connected{Session: 1}, events.Queued{ID: 2, Ahead: 7}, events.Suspended{},
			events.Resumed{}, events.Queued{ID: 1, Ahead: 4}, events.SessionExpired{Session: 1}, events.Requeued{ID: 1},
			events.Connected{Session: 2}, events.Queued{ID: 1, Ahead: 3}, events.Requeued{ID: 1}, events.Grant{ID: 1},
			events.Suspended{Deadline: time.Unix(1, 0)}, events.Resumed{}, events.SessionExpired{Session: 2}, events.Lost{ID: 1},
			events.Requeued{ID: 2}, events.Connected{Session: 3}, events.Revoked{ID: 3}, events.Revoked{ID: 3},
			events.Queued{ID: 3}, events.Ended{ID: 3}, events.Queued{ID: 2, Ahead: 6},
			events.Grant{ID: 4}, events.Revoked{ID: 4}, events.Revoked{ID: 4, Deadline: time.Unix(1, 0)},
		} {
			s.Publish(ev)
			if heard != i+1 {
				t.Fatalf("when %d events are published %d were overheard, want each", i+1, heard)
			}
			synctest.Wait()
		}
		expect(t, c, events.Ended{ID: 9},
			events.Grant{ID: 1}, // outdates any Queued and Requeued
			events.Suspended{Deadline: time.Unix(1, 0)}, events.Resumed{}, events.SessionExpired{Session: 2}, events.Lost{ID: 1},
			events.Requeued{ID: 2}, events.Connected{Session: 3},
			events.Ended{ID: 3}, // the end outdates any Queued and any Revoked
			events.Queued{ID: 2, Ahead: 6},
			events.Grant{ID: 4}, events.Revoked{ID: 4, Deadline: time.Unix(1, 0)})
	})
}

// TestStreamReplacesWhatIsBeingOffered: a newer event arrives while an older one of the
// same kind is being sent, or was received without the stream having noticed yet.
func TestStreamReplacesWhatIsBeingOffered(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := newStream(t)
		c := s.Subscribe(t.Context())
		for i := range 1000 {
			s.Publish(events.Queued{ID: 1, Ahead: i})
			synctest.Wait()
		}
		expect(t, c, events.Queued{ID: 1, Ahead: 999})
		s.Publish(events.Queued{ID: 1, Ahead: 3})
		synctest.Wait() // until it is being sent
		s.Hold(func(publish func(events.Event)) {
			eventstest.Equal(t, <-c, events.Event(events.Queued{ID: 1, Ahead: 3}), "the event being offered")
			publish(events.Queued{ID: 1, Ahead: 2})
		})
		synctest.Wait()
		s.Publish(events.Queued{ID: 1, Ahead: 1})
		kept, _ := s.Backlog()
		eventstest.Expect(t, kept == 1, "%d events of one kind are kept, want the newest", kept)
		expect(t, c, events.Queued{ID: 1, Ahead: 1})
	})
}

func TestStreamDropsNothingThatMatters(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := newStream(t)
		const n = 1000
		c := s.Subscribe(t.Context())
		var want []events.Event
		for id := uint64(1); id <= n; id++ {
			end := []events.Event{events.Lost{ID: id}, events.Ended{ID: id}}[id%2:]
			publish(s, events.Queued{ID: id, Ahead: 1}, events.Requeued{ID: id}, events.Grant{ID: id})
			publish(s, end...)
			want = append(append(want, events.Grant{ID: id}), end...)
		}
		expect(t, c, want...)
	})
}

// TestStreamBoundsItsMemory counts the events that are kept for a reader that does not
// read.
func TestStreamBoundsItsMemory(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := newStream(t)
		const live, rounds = 100, 500
		s.Subscribe(t.Context())
		check := func(bound int) {
			t.Helper()
			kept, entries := s.Backlog()
			if kept > bound || entries > 2*bound {
				t.Fatalf("%d events in %d entries are kept, want at most %d and twice as many", kept, entries, bound)
			}
		}
		for round := range rounds {
			session := int64(round)
			publish(s, events.Connected{Session: session}, events.Suspended{}, events.Resumed{},
				events.SessionExpired{Session: session})
			for id := uint64(1); id <= live; id++ {
				publish(s, events.Queued{ID: id, Ahead: round}, events.Requeued{ID: id})
			}
			check(2*live + 4)
		}
		for id := uint64(1); id <= live; id++ {
			s.Publish(events.Grant{ID: id})
		}
		for range rounds {
			publish(s, events.Suspended{}, events.Resumed{})
		}
		check(2*live + 4)
		for id := uint64(1); id <= live; id++ {
			s.Publish(events.Revoked{ID: id})
		}
		check(3*live + 4)
		for id := uint64(1); id <= live; id++ {
			publish(s, events.Lost{ID: id}, events.Ended{ID: id})
		}
		check(3*live + 4)
	})
}

func TestSubscriptionEndsWithItsContext(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := newStream(t)
		ctx, cancel := context.WithCancel(t.Context())
		idle, busy, other := s.Subscribe(ctx), s.Subscribe(ctx), s.Subscribe(t.Context())
		publish(s, events.Ended{ID: 1}, events.Ended{ID: 2})
		expect(t, idle, events.Ended{ID: 1}, events.Ended{ID: 2})
		cancel()
		eventstest.Expect(t, isClosed(idle) && isClosed(busy),
			"a channel is open after its context has ended")
		eventstest.Expect(t, isClosed(s.Subscribe(ctx)), "a subscription with an ended context is open")
		expect(t, other, events.Ended{ID: 1}, events.Ended{ID: 2})
	})
}

func TestStreamCloseDeliversWhatIsLeft(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		var group actors.Group
		s := actors.NewStream(&group)
		slow, deaf, idle := s.Subscribe(t.Context()), s.Subscribe(t.Context()), s.Subscribe(t.Context())
		const n = 20
		for id := uint64(1); id <= n; id++ {
			s.Publish(events.Ended{ID: id})
		}
		for id := uint64(1); id <= n; id++ {
			<-idle
		}
		time.Sleep(time.Hour) // the age of a stream does not matter
		began := time.Now()
		s.Close(10 * time.Second)
		s.Close(10 * time.Second)
		waited := time.Since(began)
		eventstest.Expect(t, waited == 0, "two calls of Close took %v, want no wait for readers", waited)
		eventstest.Expect(t, isClosed(idle) && isClosed(s.Subscribe(t.Context())),
			"a channel with nothing left is open after Close")
		for id := uint64(1); id <= n; id++ {
			time.Sleep(50 * time.Millisecond)
			if ev := <-slow; ev != (events.Ended{ID: id}) {
				t.Fatalf("got %#v after Close, want the end of %d", ev, id)
			}
		}
		eventstest.Expect(t, isClosed(slow), "the channel is open after the last event")
		group.Close()
		waited = time.Since(began)
		eventstest.Expect(t, waited <= n*50*time.Millisecond+100*time.Millisecond,
			"a reader that does not read held Close up for %v, want little longer than the slow one", waited)
		eventstest.Expect(t, isClosed(deaf), "the channel of a reader that does not read is open")
	})
}

// TestAGrantIsOfferedBetweenHooksAndSubscribers: a hook sees the Grant before the caller
// can act on it, and a reader of the stream finds the Grant in the lock's channel.
func TestAGrantIsOfferedBetweenHooksAndSubscribers(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := newStream(t)
		var overheard, offered int
		s.Overhear(func(events.Event) { overheard++ })
		c := s.Subscribe(t.Context())
		s.PublishGrant(events.Grant{ID: 1}, func() {
			offered++
			if kept := s.Kept(); overheard != 1 || kept != 0 {
				t.Errorf("at the offer %d hooks were called and %d subscribers have the event, want one and none", overheard, kept)
			}
		})
		expect(t, c, events.Grant{ID: 1})
		eventstest.Expect(t, offered == 1, "the Grant was offered %d times, want once", offered)
	})
}

func TestPublishingCostsNothing(t *testing.T) {
	s := actors.NewStream(&actors.Group{})
	var ev events.Event = events.Queued{ID: 1}
	n := testing.AllocsPerRun(1000, func() { s.Publish(ev) })
	eventstest.Expect(t, n == 0, "an event that nobody hears takes %v allocations, want none", n)
}
