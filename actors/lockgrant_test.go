package actors_test

import (
	"reflect"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/actors/internal/actorstest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
)

func TestLockFromStartToRelease(t *testing.T) {
	withStream(t, func(t *testing.T, r *actorstest.Rig, stream <-chan events.Event) {
		r.Begin(t, actors.Want{})
		r.GoesOn(t, false)
		r.Queued()
		expect(t, stream, events.Queued{ID: 7, Path: "/locks/a", Ahead: 1})
		r.GoesOn(t, false)
		time.Sleep(3 * time.Second)
		r.Say(recipes.Gone{Epoch: actorstest.Epoch, Node: actorstest.Older.Text}) // the only contender ahead
		r.GoesOn(t, false)
		r.Say(recipes.Claimed{Epoch: actorstest.Epoch, Fresh: true})
		r.GoesOn(t, true)
		if got, want := actorstest.MustTake(t, r.Granted()), actorstest.GrantOf(3*time.Second); !reflect.DeepEqual(got, want) {
			t.Errorf("granted %+v, want %+v", got, want)
		}
		expect(t, stream, actorstest.GrantOf(3*time.Second))
		time.Sleep(5 * time.Second)
		r.GoesOn(t, true)

		r.Withdraw(recipes.WhyReleased)
		if r.Holding() || r.Valid() || actorstest.IsDone(r.Lock) || r.Err() != nil {
			t.Errorf("after Withdraw holding %v, valid %v, done %v, error %v; want none before the node is gone",
				r.Holding(), r.Valid(), actorstest.IsDone(r.Lock), r.Err())
		}
		synctest.Wait()
		r.WantGone(t, 0)
		r.Deleted()
		r.IsOverAndGone(t, nil)
		expect(t, stream, events.Ended{ID: 7, Path: "/locks/a", Held: 5 * time.Second})
		want := []recipes.Effect{
			recipes.Create{Epoch: actorstest.Epoch, Attempt: 1}, recipes.List{Epoch: actorstest.Epoch, Attempt: 1}, recipes.Watch{Epoch: actorstest.Epoch, Node: actorstest.Older.Text},
			recipes.Claim{Epoch: actorstest.Epoch, Node: actorstest.Own.Text}, recipes.Delete{Epoch: actorstest.Epoch, Node: actorstest.Own.Text, Floor: true},
		}
		if got := r.Port.Sent(); !slices.Equal(got, want) {
			t.Errorf("sent %v, want %v", got, want)
		}
	})
}

func TestValidEndsWithTheLease(t *testing.T) {
	withRig(t, func(t *testing.T, r *actorstest.Rig) {
		until := r.Port.Until
		if r.Valid() || !r.Deadline().IsZero() {
			t.Errorf("before the Grant valid %v, until %v; want false, and no deadline", r.Valid(), r.Deadline())
		}
		r.Begin(t, actors.Want{})
		r.Hold()
		if !r.Deadline().Equal(until) {
			t.Errorf("the deadline is %v, want %v", r.Deadline(), until)
		}
		time.Sleep(time.Until(until) - time.Nanosecond)
		if !r.Valid() {
			t.Errorf("Valid is false %v before the deadline, want true", time.Until(until))
		}
		time.Sleep(time.Nanosecond)
		if r.Valid() || !r.Holding() {
			t.Errorf("at the deadline valid %v, holding %v; want false and true", r.Valid(), r.Holding())
		}
		r.Say(recipes.Expired{})
	})
}

// TestStateThenStreamThenChannel looks at all stages whenever one is told of: the earlier ones must have come, and the later ones
// must not.
func TestStateThenStreamThenChannel(t *testing.T) {
	withRig(t, func(t *testing.T, r *actorstest.Rig) {
		r.Stream.Subscribe(t.Context()) // keeps what was published
		told := 0
		r.OnEnd(func(error) {
			told++
			if kept, _ := r.Stream.Backlog(); r.Valid() || r.Holding() || kept != 1 || len(r.Lost()) != 0 {
				t.Error("the functions of OnEnd are told before the state has changed, or after the stream or the channel")
			}
		})
		stream := r.Stream.Subscribe(t.Context())
		r.Holds(t, actors.Want{})
		go func() {
			if _, ok := (<-stream).(events.Grant); !ok || !r.Valid() || !r.Holding() {
				t.Error("the Grant is on the stream before it is valid")
			}
			if _, ok := (<-stream).(events.Lost); !ok || r.Valid() || r.Holding() || told != 1 {
				t.Error("the Lost is on the stream before the state has changed and the functions of OnEnd were told")
			}
		}()
		synctest.Wait()
		r.Say(recipes.LeaseRanOut{})
		actorstest.MustTake(t, r.Lost())
		r.Deleted()
		r.IsOver(t, actorstest.Ends(recipes.WhyLost, true, events.ReasonLeaseRanOut, nil))
	})
}

// TestStreamThenChannel holds the stream up: the channel has to wait for it. A Grant waits for the hooks alone, see
// TestHooksThenChannelThenStream.
func TestStreamThenChannel(t *testing.T) {
	r := actorstest.NewRig(t)
	readily(r.Port, false)
	granted, lost := r.Granted(), r.Lost()
	told := make(chan error, 1)
	r.OnEnd(func(err error) { told <- err })
	waits := func(what string, channel func() int) {
		for range 10_000 { // a while, for what should not happen
			if channel() != 0 {
				t.Fatalf("the %s is in the channel before the stream has heard of it", what)
			}
			runtime.Gosched()
		}
	}
	r.Stream.Hold(func(func(events.Event)) {
		go r.Start(t.Context(), 0, actors.Want{}) // the actor may work in the goroutine that starts it
		soon(t, "claimed", func() bool {
			return slices.Contains(r.Port.Sent(), recipes.Effect(recipes.Claim{Epoch: actorstest.Epoch, Node: actorstest.Own.Text}))
		})
		waits("Grant", func() int { return len(granted) })
	})
	eventstest.Receive(t, r.Granted(), "Grant")
	r.Stream.Hold(func(func(events.Event)) {
		go r.Port.Say(recipes.LeaseRanOut{})
		if err := eventstest.Receive(t, told, "end"); err == nil {
			t.Error("a loss is told as a release")
		}
		waits("Lost", func() int { return len(lost) })
	})
	eventstest.Receive(t, r.Lost(), "Lost")
	eventstest.Receive(t, r.Done(), "end")
	r.Shut()
}

// TestHooksThenChannelThenStream: hooks hear of the Grant before its caller can take it. A reader of the stream finds it in the
// channel, also if it has asked for the channel long before.
func TestHooksThenChannelThenStream(t *testing.T) {
	for _, early := range []bool{false, true} {
		withRig(t, func(t *testing.T, r *actorstest.Rig) {
			var granted <-chan events.Grant
			if early {
				granted = r.Granted()
			}
			r.Stream.Overhear(func(events.Event) {
				if len(granted) != 0 {
					t.Error("the Grant is in the channel before the hooks have heard of it")
				}
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
				_, ok := actorstest.Take(own)
				taken <- ok
			}()
			r.Hold()
			if !<-taken {
				t.Errorf("channel asked for early: %v; it is empty when the Grant was read on the stream, want the Grant", early)
			}
			r.Releases(t)
		})
	}
}

func TestCreatedInAPastEpochIsDiscarded(t *testing.T) {
	withStream(t, func(t *testing.T, r *actorstest.Rig, stream <-chan events.Event) {
		r.Begin(t, actors.Want{})
		r.Say(recipes.Opened{Epoch: actorstest.Epoch - 1, Session: actorstest.Session - 1}, recipes.Expired{})
		r.Hold()
		actorstest.MustTake(t, r.Granted())
		late := events.Name{Text: "lock-0000000001", Kind: events.KindLock, Seq: 1}
		discard := recipes.Discard{Node: late.Text}
		r.Say(recipes.Created{Epoch: actorstest.Epoch - 1, Node: late})
		if got := r.Port.Sent(); got[len(got)-1] != discard {
			t.Errorf("sent %v, want a Discard at the end", got)
		}
		r.GoesOn(t, true)
		r.Releases(t)
		r.WantGone(t, 1)
		r.Say(recipes.Created{Epoch: actorstest.Epoch - 1, Node: late}) // even then
		if got := r.Port.Sent(); got[len(got)-1] != discard || got[len(got)-2] == recipes.Effect(discard) {
			t.Errorf("sent %v, want a Discard after the end", got)
		}
		r.IsOverAndGone(t, nil)
		expect(t, stream, actorstest.GrantOf(0), events.Ended{ID: 7, Path: "/locks/a"})
	})
}

// TestTheRecordStaysIfTheLossWasToldFirst: behind a loss the machine hears what the caller did. If the caller had released before the
// news came, or had not taken the Grant, the record goes with the node. If the caller was told of the loss, the record stays.
func TestTheRecordStaysIfTheLossWasToldFirst(t *testing.T) {
	for _, keep := range []bool{false, true} {
		for _, taken := range []bool{false, true} {
			for _, quicker := range []bool{false, true} {
				withRig(t, func(t *testing.T, r *actorstest.Rig) {
					r.Begin(t, actors.Want{Keep: keep, Detect: true})
					r.Say(actorstest.Opened, actorstest.Created, actorstest.Listed,
						recipes.Claimed{Epoch: actorstest.Epoch, Fresh: true, Recorded: true})
					if taken {
						actorstest.MustTake(t, r.Granted())
					}
					if quicker {
						// The hook runs when the state has flipped and before the actor is told.
						r.OnEnd(func(error) { r.Say(recipes.LeaseRanOut{}) })
					} else {
						r.Say(recipes.LeaseRanOut{})
					}
					if quicker || keep && taken { // else no withdrawal is waited for
						r.Withdraw(recipes.WhyReleased)
						synctest.Wait()
					}
					sent := r.Port.Sent()
					want := recipes.Delete{Epoch: actorstest.Epoch, Node: actorstest.Own.Text, Clean: quicker || !taken}
					if sent[len(sent)-1] != want {
						t.Errorf("keep %v, taken %v, quicker %v: %+v, want %+v", keep, taken, quicker, sent, want)
					}
					r.Deleted()
					r.WantGone(t, 1)
				})
			}
		}
	}
}
