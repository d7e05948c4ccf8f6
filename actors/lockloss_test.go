package actors_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/actors/internal/actorstest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
)

// TestALossIsToldIfTheGrantWasTaken loses the lock in every way, with and without a function that runs under it. The Grant is
// taken, or only seen by a subscriber, or neither.
func TestALossIsToldIfTheGrantWasTaken(t *testing.T) {
	ways := []struct {
		reason events.Reason
		news   recipes.Input
		gone   bool // no node is left to be deleted
	}{
		{events.ReasonLeaseRanOut, recipes.LeaseRanOut{}, false},
		{events.ReasonNodeRemoved, recipes.Gone{Epoch: actorstest.Epoch, Node: actorstest.Own.Text}, true},
		{events.ReasonSessionExpired, recipes.Expired{}, true},
	}
	for _, way := range ways {
		for _, grant := range []string{"taken", "seen", "neither"} {
			for _, keep := range []bool{false, true} {
				name := way.reason.String() + ", " + grant
				if keep {
					name += ", kept"
				}
				t.Run(name, func(t *testing.T) {
					withRig(t, func(t *testing.T, r *actorstest.Rig) {
						lose(t, r, way.reason, way.news, way.gone, grant, keep)
					})
				})
			}
		}
	}
}

func lose(t *testing.T, r *actorstest.Rig, reason events.Reason, news recipes.Input, gone bool, grant string, keep bool) {
	t.Helper()
	stream := r.Stream.Subscribe(t.Context())
	var told []error
	r.OnEnd(func(err error) { told = append(told, err) })
	r.Begin(t, actors.Want{Keep: keep})
	r.Hold()
	switch grant {
	case "taken":
		actorstest.MustTake(t, r.Granted())
	case "seen":
		expect(t, stream, actorstest.GrantOf(0))
	}
	time.Sleep(time.Minute)
	r.Say(news)

	r.IsNotHeld(t, "after the loss")
	err := actorstest.Ends(recipes.WhyLost, true, reason, nil)
	if len(told) != 1 || told[0] != err { //nolint:errorlint // identity is meant
		t.Errorf("the functions of OnEnd were told %v, want %v once", told, err)
	}
	r.HasNoGrant(t, "after the loss")
	lost := events.Lost{ID: 7, Path: "/locks/a", Token: actorstest.Token, Reason: reason, Err: err, Held: time.Minute}
	if grant != "taken" {
		err = actorstest.Ends(recipes.WhyLost, false, reason, nil)
	}
	ended := events.Ended{ID: 7, Path: "/locks/a", Err: err}
	switch grant {
	case "taken":
		expect(t, stream, actorstest.GrantOf(0), lost)
	case "seen":
		expect(t, stream, ended)
	case "neither":
		expect(t, stream, actorstest.GrantOf(0), ended)
	}
	if grant == "taken" {
		if got := actorstest.MustTake(t, r.Lost()); got != lost {
			t.Errorf("lost %+v, want %+v", got, lost)
		}
	}
	// Only a function that was given the Grant can still run.
	if keep && grant == "taken" {
		if actorstest.IsDone(r.Lock) {
			t.Fatalf("it is over with %v while a function runs under the lock, want it open", r.Err())
		}
		for _, e := range r.Port.Sent() {
			if _, ok := e.(recipes.Delete); ok {
				t.Fatal("the node is given up while a function runs under the lock")
			}
		}
		time.Sleep(time.Hour)
		r.Withdraw(recipes.WhyReleased)
		synctest.Wait()
	}
	if !gone {
		r.WantGone(t, 0)
		r.Deleted()
	}
	r.IsOver(t, err)
	r.Withdraw(recipes.WhyReleased)
	r.IsOverAndGone(t, err)
	expect(t, stream)
	if len(told) != 1 {
		t.Errorf("in the end OnEnd was told %d times, want once", len(told))
	}
}

// TestLossBehindAWithdrawal: the caller has released, and the machine hears of a loss before it hears of the release.
func TestLossBehindAWithdrawal(t *testing.T) {
	for _, taken := range []bool{false, true} {
		for _, keep := range []bool{false, true} {
			withStream(t, func(t *testing.T, r *actorstest.Rig, stream <-chan events.Event) {
				r.Begin(t, actors.Want{Keep: keep})
				r.Hold()
				want := actorstest.Ends(recipes.WhyReleased, false, 0, nil)
				if taken {
					actorstest.MustTake(t, r.Granted())
					want = nil
				}
				// The hook runs when the state has flipped and before the actor is told.
				r.OnEnd(func(error) { r.Say(recipes.Expired{}) })
				r.Withdraw(recipes.WhyReleased)
				r.IsOverAndGone(t, want)
				expect(t, stream, actorstest.GrantOf(0), events.Ended{ID: 7, Path: "/locks/a", Err: want})
			})
		}
	}
}

// TestGrantBehindAWithdrawal: the claim is answered when the caller has withdrawn.
func TestGrantBehindAWithdrawal(t *testing.T) {
	withStream(t, func(t *testing.T, r *actorstest.Rig, stream <-chan events.Event) {
		r.Begin(t, actors.Want{})
		r.Say(actorstest.Opened, actorstest.Created, actorstest.Listed)
		r.OnEnd(func(error) { r.Say(recipes.Claimed{Epoch: actorstest.Epoch, Fresh: true}) })
		r.Withdraw(recipes.WhyReleased)
		r.IsNotHeld(t, "after Withdraw")
		synctest.Wait()
		r.Deleted()
		want := actorstest.Ends(recipes.WhyReleased, false, 0, nil)
		r.IsOverAndGone(t, want)
		expect(t, stream, events.Ended{ID: 7, Path: "/locks/a", Err: want})
	})
}

// TestNewsBehindAWithdrawal: the machine queues up for a caller that has withdrawn.
func TestNewsBehindAWithdrawal(t *testing.T) {
	withStream(t, func(t *testing.T, r *actorstest.Rig, stream <-chan events.Event) {
		r.Begin(t, actors.Want{})
		r.OnEnd(func(error) { r.Queued() })
		r.Withdraw(recipes.WhyReleased)
		expect(t, stream)
		r.Deleted()
		want := actorstest.Ends(recipes.WhyReleased, false, 0, nil)
		r.IsOver(t, want)
		expect(t, stream, events.Ended{ID: 7, Path: "/locks/a", Err: want})
	})
}

// TestRefusedRelease: the server keeps the node, and the caller hears of it.
func TestRefusedRelease(t *testing.T) {
	withRig(t, func(t *testing.T, r *actorstest.Rig) {
		r.Holds(t, actors.Want{})
		r.Withdraw(recipes.WhyReleased)
		synctest.Wait()
		r.Refuse(recipes.OpDelete, actorstest.ErrNoAuth)
		r.IsOverAndGone(t, actorstest.Ends(recipes.WhyRefused, true, 0, actorstest.ErrNoAuth))
	})
}

func TestEndsOfTheMachinesOwn(t *testing.T) {
	beyond := events.Name{Text: "lock-2147483647", Kind: events.KindLock, Seq: 1<<31 - 1}
	for why, inputs := range map[recipes.Why][]recipes.Input{
		recipes.WhyBusy: {recipes.Listed{Epoch: actorstest.Epoch, Queue: []events.Name{actorstest.Older}}},
		recipes.WhySequenceEnd: {recipes.Listed{Epoch: actorstest.Epoch}, recipes.Created{Epoch: actorstest.Epoch, Node: beyond},
			recipes.Deleted{Epoch: actorstest.Epoch}},
	} {
		t.Run(why.String(), func(t *testing.T) {
			withStream(t, func(t *testing.T, r *actorstest.Rig, stream <-chan events.Event) {
				done := r.Done()
				r.OnEnd(func(error) {
					select {
					case <-done:
						t.Error("Done is closed before the state has changed")
					default:
					}
				})
				r.Begin(t, actors.Want{Try: true})
				r.Say(actorstest.Opened)
				r.Say(inputs...)
				want := actorstest.Ends(why, false, 0, nil)
				r.IsOverAndGone(t, want)
				expect(t, stream, events.Ended{ID: 7, Path: "/locks/a", Err: want})
			})
		})
	}
}

func TestOnEndTellsOnce(t *testing.T) {
	withRig(t, func(t *testing.T, r *actorstest.Rig) {
		var told []string
		note := func(who string) func(error) {
			return func(err error) {
				if err != nil {
					t.Errorf("%s was told %v, want a release", who, err)
				}
				if r.Holding() || r.Valid() { // which must not deadlock either
					t.Errorf("%s was told while the lock was held", who)
				}
				told = append(told, who)
			}
		}
		r.OnEnd(note("before"))
		r.OnEnd(note("cancelled"))() // the call of cancel
		r.Holds(t, actors.Want{})
		if len(told) != 0 {
			t.Errorf("%v were told while the lock was held, want none", told)
		}
		r.Withdraw(recipes.WhyReleased)
		if len(told) != 1 || told[0] != "before" {
			t.Errorf("%v were told when Withdraw returned, want the one from before", told)
		}
		cancel := r.OnEnd(note("late"))
		if len(told) != 2 {
			t.Error("OnEnd does not tell at once what has happened already")
		}
		cancel()
		r.Deleted()
		r.IsOver(t, nil)
		r.OnEnd(note("after Done"))
		if len(told) != 3 {
			t.Errorf("in the end %v were told, want all three", told)
		}
	})
}

// TestTheDeadlineIsKept: the caller is told of the deadline, and of a sooner one. At that moment the lock is lost, and then the
// node is given up.
func TestTheDeadlineIsKept(t *testing.T) {
	withStream(t, func(t *testing.T, r *actorstest.Rig, stream <-chan events.Event) {
		r.Holds(t, actors.Want{})
		expect(t, stream, actorstest.GrantOf(0))
		r.Port.Answer = func(e recipes.Effect) { // as the session does, whose timer stops when a sooner deadline comes
			if e, ok := e.(recipes.Revoke); ok && e.By == actors.MomentOf(time.Now().Add(time.Minute)) {
				time.AfterFunc(time.Minute, func() { r.Port.Say(recipes.Overdue(e)) })
			}
		}
		began := time.Now()
		for _, c := range []struct {
			by   time.Duration // 0: no time is said
			told bool
		}{{0, true}, {time.Hour, true}, {2 * time.Hour, false}, {time.Minute, true}, {0, false}} {
			var by recipes.Moment
			want := events.Revoked{ID: 7, Path: "/locks/a"}
			if c.by > 0 {
				want.Deadline = began.Add(c.by)
				by = actors.MomentOf(want.Deadline)
			}
			r.Say(recipes.AskedBack{Epoch: actorstest.Epoch, Node: actorstest.Own.Text, By: by})
			if !c.told {
				synctest.Wait()
				if got, ok := actorstest.Take(stream); ok {
					t.Errorf("asked back by %v, the caller is told %+v; want nothing: it knows of a sooner time", c.by, got)
				}
				continue
			}
			if got, ok := actorstest.MustTake(t, stream).(events.Revoked); !ok || got.ID != want.ID || got.Path != want.Path || !got.Deadline.Equal(want.Deadline) {
				t.Errorf("by %v: told %+v, want %+v", c.by, got, want)
			}
		}
		time.Sleep(time.Minute - time.Nanosecond)
		if !r.Valid() {
			t.Error("Valid is false a nanosecond before the deadline, want true")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if lost := actorstest.MustTake(t, r.Lost()); lost.Reason != events.ReasonRevoked || lost.Held != time.Minute || r.Valid() {
			t.Errorf("lost %+v, want it revoked after a minute", lost)
		}
		if sent := r.Port.Sent(); sent[len(sent)-1] != (recipes.Delete{Epoch: actorstest.Epoch, Node: actorstest.Own.Text}) {
			t.Errorf("the requests are %v, want the Delete at the end", sent)
		}
		r.Deleted()
	})
}

// TestDeadlineIsTheSoonerOfLeaseAndGrace: the lock can be believed held until its lease runs out, or until the grace ends. The
// drain is busy when that moment comes, so it has not noted the loss.
func TestDeadlineIsTheSoonerOfLeaseAndGrace(t *testing.T) {
	const lease = time.Hour // of the rig
	for name, c := range map[string]struct{ grace, want time.Duration }{
		"the grace is shorter": {time.Second, time.Second},
		"the lease is shorter": {2 * lease, lease},
	} {
		t.Run(name, func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				r := actorstest.NewRig(t)
				r.Holds(t, actors.Want{})
				start := time.Now()
				r.Say(recipes.AskedBack{Epoch: actorstest.Epoch, Node: actorstest.Own.Text, By: actors.MomentOf(start.Add(c.grace))})
				if got := r.Deadline().Sub(start); got != c.want {
					t.Errorf("asked to give the lock back in %v, with a lease of %v: Deadline is in %v, want %v", c.grace, lease, got, c.want)
				}
				goOn := make(chan struct{})
				r.Port.Answer = func(recipes.Effect) { <-goOn }
				go r.Port.Say(recipes.Suspended{}, recipes.Reconnected{}) // the machine asks whether the node is there
				time.Sleep(c.want - 1)
				if !r.Valid() {
					t.Errorf("not valid 1 ns before %v, want valid", c.want)
				}
				time.Sleep(time.Nanosecond)
				if r.Valid() {
					t.Errorf("valid at %v, which was the deadline, want not valid", c.want)
				}
				close(goOn)
				r.Withdraw(recipes.WhyReleased)
				r.Deleted()
			})
		})
	}
}
