package actors_test

import (
	"context"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// TestRetractTakesBackAnUnreadGrant, whether the Grant is being offered or waits behind another event. A Revoked goes with it: a
// caller that has not heard of its Grant is not asked for the lock.
func TestRetractTakesBackAnUnreadGrant(t *testing.T) {
	for name, c := range map[string]struct{ published, left []events.Event }{
		"before it is offered": {
			[]events.Event{events.Ended{ID: 1}, events.Grant{ID: 2}, events.Grant{ID: 3}},
			[]events.Event{events.Ended{ID: 1}, events.Grant{ID: 3}},
		},
		"while it is offered": {[]events.Event{events.Grant{ID: 2}, events.Ended{ID: 1}}, []events.Event{events.Ended{ID: 1}}},
		"with a wish": {
			[]events.Event{events.Grant{ID: 2}, events.Revoked{ID: 2}, events.Grant{ID: 3}, events.Revoked{ID: 3}},
			[]events.Event{events.Grant{ID: 3}, events.Revoked{ID: 3}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				s := newStream(t)
				reader := s.Subscribe(t.Context())
				for _, ev := range c.published {
					s.Publish(ev)
				}
				synctest.Wait()
				if s.Retract(2) {
					t.Error("Retract reports an unread Grant as taken, want it taken back")
				}
				expect(t, reader, c.left...)
				if s.Retract(2) {
					t.Error("Retract reports a Grant as taken that was taken back, want it gone")
				}
			})
		})
	}
}

func TestRetractAfterTheGrantWasTaken(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := newStream(t)
		ctx, cancel := context.WithCancel(t.Context())
		c := s.Subscribe(ctx)
		s.Publish(events.Grant{ID: 2})
		expect(t, c, events.Grant{ID: 2})
		for range 2 {
			if !s.Retract(2) {
				t.Error("a Grant that was read was not taken")
			}
		}
		cancel()
		synctest.Wait()
		if !s.Retract(2) {
			t.Error("a Grant counts as taken only as long as its reader is there")
		}
		s.Publish(events.Ended{ID: 2})
		if s.Retract(2) || s.Remembered() != 0 {
			t.Error("the stream remembers an acquisition that is over")
		}
	})
}

// TestRetractOfAGrantThatOneHasTaken has several subscribers at different points of the queue. Subscribers that do not have the Grant yet
// get it in its place.
func TestRetractOfAGrantThatOneHasTaken(t *testing.T) {
	for range 50 { // the subscribers are visited in random order
		eventstest.Bubble(t, func(t *testing.T) {
			s := newStream(t)
			want := []events.Event{events.Ended{ID: 1}, events.Grant{ID: 2}, events.Ended{ID: 3}, events.Lost{ID: 2}}
			early, middle, late := s.Subscribe(t.Context()), s.Subscribe(t.Context()), s.Subscribe(t.Context())
			for _, ev := range want[:3] {
				s.Publish(ev)
			}
			expect(t, early, want[:3]...)
			if got := next(middle); !reflect.DeepEqual(got, want[0]) {
				t.Errorf("the first event that the second subscriber reads is %+v, want %+v", got, want[0])
			}
			synctest.Wait() // middle is being offered the Grant, late is not
			if !s.Retract(2) {
				t.Error("a Grant that one of three has read was not taken")
			}
			s.Publish(want[3])
			expect(t, early, want[3])
			expect(t, middle, want[1:]...)
			expect(t, late, want...)
		})
	}
}

// TestRetractFromASubscriberThatLeaves ends the reader's context and takes the Grant back at the same moment.
func TestRetractFromASubscriberThatLeaves(t *testing.T) {
	for range 1000 {
		eventstest.Bubble(t, func(t *testing.T) {
			s := newStream(t)
			ctx, cancel := context.WithCancel(t.Context())
			s.Subscribe(ctx)
			s.Publish(events.Grant{ID: 1})
			synctest.Wait()
			go cancel()
			if s.Retract(1) {
				t.Error("a Grant that nobody read was taken")
			}
		})
	}
}

// TestRetractRacesWithReaders takes each Grant back while one or two readers may be receiving it, beside events of other
// acquisitions. Retract's answer has to fit all readers: all of them have the Grant, or none has it.
func TestRetractRacesWithReaders(t *testing.T) {
	rounds := uint64(eventstest.Amount(3000, 10_000))
	for _, readers := range []int{1, 2} {
		var (
			group   actors.Group
			reading sync.WaitGroup
		)
		s := actors.NewStream(&group)
		got := make([]chan bool, readers) // one answer a round
		for r := range got {
			got[r] = make(chan bool, 1)
			c := s.Subscribe(t.Context())
			reading.Go(func() {
				seen := map[uint64]bool{}
				for ev := range c {
					switch ev := ev.(type) {
					case events.Grant:
						seen[ev.ID] = true
					case events.Ended:
						if ev.ID%2 == 0 {
							got[r] <- seen[ev.ID]
						}
					}
				}
			})
		}
		var outcomes [2]int
		for round := range rounds {
			id := 2 * round
			s.Publish(events.Grant{ID: id})
			go s.Publish(events.Grant{ID: id + 1})
			for range round % 8 {
				runtime.Gosched()
			}
			taken := s.Retract(id)
			s.Publish(events.Ended{ID: id})
			s.Publish(events.Ended{ID: id + 1})
			for r := range got {
				if has := eventstest.Receive(t, got[r], "end of a round"); has != taken {
					t.Fatalf("in round %d Retract says taken %v, and reader %d of %d has it: %v; want the same", round, taken, r, readers, has)
				}
			}
			if taken {
				outcomes[1]++
			} else {
				outcomes[0]++
			}
		}
		s.Close(10 * time.Second)
		reading.Wait()
		group.Close()
		t.Logf("%d readers: %d taken back, %d taken", readers, outcomes[0], outcomes[1])
		if outcomes[0] == 0 || outcomes[1] == 0 {
			t.Errorf("%d readers: %v: there was no race", readers, outcomes)
		}
	}
}
