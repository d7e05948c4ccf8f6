package actors_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
)

// TestALossIsToldIfTheGrantWasTaken loses the lock in every way, with and without a
// function that runs under it. The Grant was taken, or only seen by a subscriber, or
// neither.
func TestALossIsToldIfTheGrantWasTaken(t *testing.T) {
	for reason, news := range losses {
		for _, grant := range []string{"taken", "seen", "neither"} {
			for _, keep := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v, %s, kept: %v", reason, grant, keep), func(t *testing.T) {
					withRig(t, func(t *testing.T, r *Rig) { lose(t, r, reason, news, grant, keep) })
				})
			}
		}
	}
}

// losses are the ways to lose a lock. Only after the end of the lease is there still a
// node to delete.
var losses = map[events.Reason]recipes.Input{
	events.ReasonLeaseRanOut:    recipes.LeaseRanOut{},
	events.ReasonNodeRemoved:    Removed,
	events.ReasonSessionExpired: recipes.Expired{},
}

func lose(t *testing.T, r *Rig, reason events.Reason, news recipes.Input, grant string, keep bool) {
	t.Helper()
	stream := r.Stream.Subscribe(t.Context())
	var told []error
	r.OnEnd(func(err error) { told = append(told, err) })
	r.Begin(t, actors.Want{Keep: keep})
	r.Hold()
	taken, want := grant == "taken", []events.Event{theGrant}
	switch grant {
	case "taken":
		MustTake(t, r.Granted())
	case "seen":
		expect(t, stream, want...)
		want = nil
	}
	time.Sleep(time.Minute)
	r.Say(news)

	r.IsNotHeld(t, "after the loss")
	none(t, r.Granted(), "after the loss")
	err := Ends(recipes.WhyLost, true, reason, nil)
	if len(told) != 1 || told[0] != err { //nolint:errorlint // identity is meant
		t.Errorf("the functions of OnEnd were told %v, want %v once", told, err)
	}
	if taken {
		lost := events.Lost{ID: 7, Path: "/locks/a", Token: Token, Reason: reason, Err: err, Held: time.Minute}
		want = append(want, lost)
		if !keep {
			want = append(want, events.Ended{ID: 7, Path: "/locks/a", Err: err, Held: time.Minute})
		}
		expect(t, stream, want...)
		eventstest.Equal(t, MustTake(t, r.Lost()), lost, "the loss")
	} else {
		err = Ends(recipes.WhyLost, false, reason, nil)
		expect(t, stream, append(want, Ended(err))...)
	}
	if keep && taken { // only a function that was given the Grant can still run
		eventstest.Expect(t, !IsDone(r.Lock),
			"it is over with %v while a function runs under the lock, want it open", r.Err())
		eventstest.Equal(t, len(sent[recipes.Delete](r.Port)), 0, "requests to delete the node of a function")
		time.Sleep(time.Hour)
		r.Withdraw(recipes.WhyReleased)
		synctest.Wait()
	}
	if reason == events.ReasonLeaseRanOut {
		r.WantGone(t, 0)
		r.Deleted()
	}
	r.IsOver(t, err)
	r.Withdraw(recipes.WhyReleased)
	r.IsOverAndGone(t, err)
	if keep && taken {
		expect(t, stream, events.Ended{ID: 7, Path: "/locks/a", Err: err, Held: time.Minute})
	}
	expect(t, stream)
	eventstest.Expect(t, len(told) == 1, "in the end OnEnd was told %d times, want once", len(told))
}

// TestNewsAfterAWithdrawal: the caller has released when the machine learns of a loss,
// gets the answer to its claim, or queues up. The machine learns of the release only
// after that: the news comes from a function of OnEnd, which runs when the state has
// changed.
func TestNewsAfterAWithdrawal(t *testing.T) {
	lost := func(r *Rig) { r.Say(recipes.Expired{}) }
	take := func(r *Rig) { r.Hold(); <-r.Granted() }
	claims := func(r *Rig) { r.Say(Opened, Created, Listed) }
	grant := []events.Event{theGrant}
	type row struct {
		keep         bool
		before, news func(r *Rig)
		want         error
		said         []events.Event // before the end
	}
	withEach(t, map[string]row{
		"loss, taken":               {false, take, lost, nil, grant},
		"loss, taken, kept":         {true, take, lost, nil, grant},
		"loss, Grant untaken":       {false, (*Rig).Hold, lost, released, grant},
		"loss, kept, Grant untaken": {true, (*Rig).Hold, lost, released, grant},
		"Grant":                     {false, claims, func(r *Rig) { r.Say(Claimed) }, released, nil},
		"queued":                    {false, func(*Rig) {}, (*Rig).Queued, released, nil},
	}, func(t *testing.T, r *Rig, c row) {
		stream := r.Stream.Subscribe(t.Context())
		r.Begin(t, actors.Want{Keep: c.keep})
		c.before(r)
		r.OnEnd(func(error) { c.news(r) })
		r.Withdraw(recipes.WhyReleased)
		r.IsNotHeld(t, "after Withdraw")
		synctest.Wait()
		if !IsDone(r.Lock) {
			r.Deleted()
		}
		r.IsOverAndGone(t, c.want)
		expect(t, stream, append(c.said, Ended(c.want))...)
	})
}

func TestEndsOfTheMachinesOwn(t *testing.T) {
	type row struct {
		why    recipes.Why
		inputs []recipes.Input
	}
	withEach(t, map[string]row{
		"busy": {recipes.WhyBusy, []recipes.Input{recipes.Listed{Epoch: Epoch, Queue: []events.Name{Older}}}},
		"the end of the numbers": {recipes.WhySequenceEnd, []recipes.Input{
			recipes.Listed{Epoch: Epoch}, recipes.Created{Epoch: Epoch, Node: beyond}, recipes.Deleted{Epoch: Epoch},
		}},
	}, func(t *testing.T, r *Rig, c row) {
		stream, done := r.Stream.Subscribe(t.Context()), r.Done()
		r.OnEnd(func(error) {
			_, closed := Take(done)
			eventstest.Expect(t, !closed, "Done is closed before the state has changed")
		})
		r.Begin(t, actors.Want{Try: true})
		r.Say(Opened)
		r.Say(c.inputs...)
		want := Ends(c.why, false, 0, nil)
		r.IsOverAndGone(t, want)
		expect(t, stream, Ended(want))
	})
}

func TestOnEndTellsOnce(t *testing.T) {
	withRig(t, func(t *testing.T, r *Rig) {
		var told []string
		note := func(who string) func(error) {
			return func(err error) {
				if err != nil || r.Holding() || r.Valid() { // these calls must not deadlock
					t.Errorf("%s was told %v, while the lock was held: %v; want a release, when it is not", who, err, r.Holding())
				}
				told = append(told, who)
			}
		}
		want := func(when string, all ...string) {
			t.Helper()
			eventstest.Expect(t, slices.Equal(told, all), "%s %v were told, want %v", when, told, all)
		}
		r.OnEnd(note("before"))
		r.OnEnd(note("cancelled"))() // this calls cancel
		r.Holds(t, actors.Want{})
		want("while the lock was held")
		r.Withdraw(recipes.WhyReleased)
		want("when Withdraw returned", "before")
		cancel := r.OnEnd(note("late"))
		want("at once", "before", "late")
		cancel()
		r.Deleted()
		r.IsOver(t, nil)
		r.OnEnd(note("after Done"))
		want("in the end", "before", "late", "after Done")
	})
}

// TestDeadlineIsTheSoonerOfLeaseAndGrace: a caller may believe that it holds the lock
// until the lease runs out or the grace ends. The loop is busy at that moment, so it has
// not noticed the loss.
func TestDeadlineIsTheSoonerOfLeaseAndGrace(t *testing.T) {
	const lease = time.Hour // of the rig
	for grace, want := range map[time.Duration]time.Duration{0: lease, time.Second: time.Second, 2 * lease: lease} {
		withRig(t, func(t *testing.T, r *Rig) {
			eventstest.Expect(t, !r.Valid() && r.Deadline().IsZero(),
				"before the Grant valid %v, until %v; want false, and no deadline", r.Valid(), r.Deadline())
			r.Holds(t, actors.Want{})
			start := time.Now()
			if grace > 0 {
				r.Say(recipes.RevocationRequested{Epoch: Epoch, Node: Own, By: actors.MomentOf(start.Add(grace))})
			}
			if got := r.Deadline().Sub(start); got != want {
				t.Errorf("to be given back in %v, with a lease of %v: Deadline is in %v, want %v", grace, lease, got, want)
			}
			goOn := make(chan struct{})
			r.Port.Answer = func(recipes.Effect) { <-goOn }
			go r.Port.Say(recipes.Suspended{}, recipes.Reconnected{}) // the machine verifies that its node exists
			time.Sleep(want - 1)
			eventstest.Expect(t, r.Valid(), "not valid 1 ns before %v, want valid", want)
			time.Sleep(time.Nanosecond)
			eventstest.Expect(t, !r.Valid() && r.Holding(),
				"at the deadline, %v, valid %v and holding %v; want false, and true", want, r.Valid(), r.Holding())
			close(goOn)
			r.Withdraw(recipes.WhyReleased)
			r.Deleted()
		})
	}
}
