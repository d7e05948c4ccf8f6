package actors_test

import (
	"testing"
	"testing/synctest"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
)

// TestPosition: a waiter's position is that of the latest listing, minus the contenders
// that are known to be gone. Other locks have none.
func TestPosition(t *testing.T) {
	withRig(t, func(t *testing.T, r *Rig) {
		second := nodeOf(6)
		both := listed(nodeOf(3), Older, Own)
		anew := listed(Older, second)
		anew.Own.Name = second
		stands := recipes.Advanced{Epoch: Epoch, Stands: true}
		want := func(when string, ahead int, ok bool) {
			t.Helper()
			if gotAhead, gotOK := r.Position(); gotAhead != ahead || gotOK != ok {
				t.Errorf("%s Position = %d, %t; want %d, %t", when, gotAhead, gotOK, ahead, ok)
			}
		}
		want("not started,", 0, false)
		r.Begin(t, actors.Want{})
		for _, step := range []struct {
			when  string
			news  []recipes.Input
			ahead int // -1: none
		}{
			{"during the first listing", []recipes.Input{Opened, Created}, -1},
			{"behind two", []recipes.Input{both}, 2},
			{"when one of two is gone, perhaps the holder,", []recipes.Input{Ahead}, 2},
			{"when the other one is still there", []recipes.Input{stands}, 1},
			{"during another listing", []recipes.Input{recipes.Suspended{}, recipes.Reconnected{}}, 1},
			{"after another listing that has found two,", []recipes.Input{both}, 2},
			{"queueing up anew", []recipes.Input{Removed}, -1},
			{"queued up anew", []recipes.Input{recipes.Created{Epoch: Epoch, Node: second}, anew}, 1},
			{"during the claim", []recipes.Input{Ahead}, 1},
			{"held,", []recipes.Input{Claimed}, -1},
		} {
			r.Say(step.news...)
			want(step.when, max(step.ahead, 0), step.ahead >= 0)
		}
		r.Withdraw(recipes.WhyReleased)
		want("released,", 0, false)
		r.Deleted()
		want("over,", 0, false)
	})
}

// TestStateThenStreamThenChannel checks all stages of a report at each of them: the
// earlier ones must have happened, and the later ones must not.
func TestStateThenStreamThenChannel(t *testing.T) {
	withRig(t, func(t *testing.T, r *Rig) {
		r.Stream.Subscribe(t.Context()) // never read, so the stream keeps its events
		told, lost := 0, r.Lost()
		r.OnEnd(func(error) {
			told++
			if kept, _ := r.Stream.Backlog(); r.Valid() || r.Holding() || kept != 1 || len(lost) != 0 {
				t.Error("the functions of OnEnd are told before the state has changed, or after the stream or the channel")
			}
		})
		r.Stream.Overhear(func(ev events.Event) {
			if _, ended := ev.(events.Ended); len(lost) != 0 != ended {
				t.Errorf("when the stream has %T the Lost is in the channel: %v", ev, len(lost) != 0)
			}
		})
		stream := r.Stream.Subscribe(t.Context())
		r.Holds(t, actors.Want{})
		go func() {
			_, grant := (<-stream).(events.Grant)
			eventstest.Expect(t, grant && r.Valid() && r.Holding(), "the Grant comes before it is valid")
			if _, ok := (<-stream).(events.Lost); !ok || r.Valid() || r.Holding() || told != 1 {
				t.Error("the Lost is on the stream before the state has changed and the functions of OnEnd were told")
			}
		}()
		synctest.Wait()
		r.Say(recipes.LeaseRanOut{})
		_, ended := next(stream).(events.Ended)
		eventstest.Expect(t, ended, "there is no Ended behind the Lost")
		MustTake(t, lost)
		r.Deleted()
		r.IsOver(t, Ends(recipes.WhyLost, true, events.ReasonLeaseRanOut, nil))
	})
}

// TestHooksThenChannelThenStream: hooks see the Grant before its caller can take it. A
// reader of the stream finds it in the channel, even if it has called Granted long
// before.
func TestHooksThenChannelThenStream(t *testing.T) {
	for _, early := range []bool{false, true} {
		withRig(t, func(t *testing.T, r *Rig) {
			var granted <-chan events.Grant
			if early {
				granted = r.Granted()
			}
			r.Stream.Overhear(func(events.Event) {
				eventstest.Expect(t, len(granted) == 0,
					"the Grant is in the channel before the hooks have heard of it")
			})
			stream := r.Stream.Subscribe(t.Context())
			r.Begin(t, actors.Want{})
			taken := make(chan bool, 1)
			go func() {
				<-stream
				own := granted
				if !early {
					own = r.Granted()
				}
				_, ok := Take(own)
				taken <- ok
			}()
			r.Hold()
			eventstest.Expect(t, <-taken,
				"channel asked for early: %v; it is empty when the Grant was read on the stream, want the Grant", early)
			r.Releases(t)
		})
	}
}

func TestCreatedInAPastEpochIsDiscarded(t *testing.T) {
	withRig(t, func(t *testing.T, r *Rig) {
		stream := r.Stream.Subscribe(t.Context())
		r.Begin(t, actors.Want{})
		r.Say(recipes.Opened{Epoch: Epoch - 1, Session: Session - 1}, recipes.Expired{})
		r.Hold()
		MustTake(t, r.Granted())
		late := recipes.Created{Epoch: Epoch - 1, Node: nodeOf(1)}
		discarded := func(when string) {
			t.Helper()
			before := len(r.Port.Sent())
			r.Say(late)
			got := r.Port.Sent()[before:]
			eventstest.Expect(t, len(got) == 1 && got[0] == recipes.Effect(recipes.Discard{Node: late.Node}),
				"%s: sent %v, want a Discard", when, got)
		}
		discarded("held")
		r.GoesOn(t, true)
		r.Releases(t)
		r.WantGone(t, 1)
		discarded("over")
		r.IsOverAndGone(t, nil)
		expect(t, stream, theGrant, Ended(nil))
	})
}

// TestTheRecordStaysIfTheLossWasToldFirst: after a loss, the machine learns what the
// caller did. If the caller had released before the news came, or had not taken the
// Grant, the record is deleted with the node. If it was notified of the loss, the record
// stays.
func TestTheRecordStaysIfTheLossWasToldFirst(t *testing.T) {
	for n := range 8 {
		keep, taken, quicker := n&1 != 0, n&2 != 0, n&4 != 0
		withRig(t, func(t *testing.T, r *Rig) {
			r.Begin(t, actors.Want{Keep: keep, Detect: true})
			r.Say(Opened, Created, Listed, Recorded)
			if taken {
				MustTake(t, r.Granted())
			}
			if quicker { // the hook runs after the state has changed, before the actor knows
				r.OnEnd(func(error) { r.Say(recipes.LeaseRanOut{}) })
			} else {
				r.Say(recipes.LeaseRanOut{})
			}
			if quicker || keep && taken { // else the machine waits for no withdrawal
				r.Withdraw(recipes.WhyReleased)
				synctest.Wait()
			}
			want := recipes.Delete{Epoch: Epoch, Node: Own, Clean: quicker || !taken}
			eventstest.Equal[recipes.Effect](t, r.Port.Last(), want,
				"keep %v, taken %v, quicker %v", keep, taken, quicker)
			r.Deleted()
			r.WantGone(t, 1)
		})
	}
}
