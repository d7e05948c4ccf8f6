package actors_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
)

// TestLoss loses the lock in every way, with the Grant read, seen by a subscriber
// only, or neither; and for a function that runs under the lock, or not.
func TestLoss(t *testing.T) {
	ways := []struct {
		reason events.Reason
		news   recipes.Input
		gone   bool // no node is left to be deleted
	}{
		{events.ReasonLeaseRanOut, recipes.LeaseRanOut{}, false},
		{events.ReasonNodeRemoved, recipes.Gone{Epoch: epoch, Node: own.Text}, true},
		{events.ReasonSessionExpired, recipes.Expired{}, true},
	}
	for _, way := range ways {
		for _, grant := range []string{"read", "seen", "neither"} {
			for _, keep := range []bool{false, true} {
				name := way.reason.String() + ", " + grant
				if keep {
					name += ", kept"
				}
				t.Run(name, func(t *testing.T) {
					eventstest.Bubble(t, func(t *testing.T) {
						r := newRig(t)
						lose(t, r, way.reason, way.news, way.gone, grant, keep)
					})
				})
			}
		}
	}
}

func lose(t *testing.T, r *rig, reason events.Reason, news recipes.Input, gone bool, grant string, keep bool) {
	t.Helper()
	stream := r.stream.Subscribe(t.Context())
	var told []error
	r.OnEnd(func(err error) { told = append(told, err) })
	r.start(t, recipes.Started{Keep: keep})
	r.hold()
	switch grant {
	case "read":
		mustTake(t, r.Granted())
	case "seen":
		expect(t, stream, grantOf(0))
	}
	time.Sleep(time.Minute)
	r.say(news)

	if r.Holding() || r.Valid() {
		t.Error("it is held after the loss")
	}
	err := ends(recipes.WhyLost, true, reason, nil)
	if len(told) != 1 || told[0] != err { //nolint:errorlint // the very error is meant
		t.Errorf("those who asked were told %v", told)
	}
	if _, ok := take(r.Granted()); ok {
		t.Error("the Grant can be read after the loss")
	}
	lost := events.Lost{ID: 7, Path: "/locks/a", Token: token, Reason: reason, Err: err, Held: time.Minute}
	switch grant {
	case "read":
		expect(t, stream, grantOf(0), lost)
	case "seen":
		expect(t, stream, lost)
	case "neither":
		err = ends(recipes.WhyLost, false, reason, nil)
		if keep && !gone {
			expect(t, stream) // it is given up like a lock that was released
			r.deleted()
			gone = true
		}
		expect(t, stream, events.Ended{ID: 7, Path: "/locks/a", Err: err})
	}
	if grant != "neither" {
		if got := mustTake(t, r.Lost()); got != lost {
			t.Errorf("lost %+v, want %+v", got, lost)
		}
	}
	// Only a function that was given the Grant can still run.
	if keep && grant == "read" {
		if isDone(r.Lock) {
			t.Fatal("it is over while a function runs under the lock")
		}
		for _, e := range r.port.sent() {
			if _, ok := e.(recipes.Delete); ok {
				t.Fatal("the node is given up while a function runs under the lock")
			}
		}
		time.Sleep(time.Hour)
		r.Withdraw(recipes.WhyReleased)
		synctest.Wait()
	}
	if !gone {
		r.isLeft(t, 0)
		r.deleted()
	}
	r.isOver(t, err)
	r.Withdraw(recipes.WhyReleased)
	r.isOver(t, err)
	r.isLeft(t, 1)
	expect(t, stream)
	if len(told) != 1 {
		t.Errorf("the end was told %d times", len(told))
	}
}

// TestLossBehindAWithdrawal has the machine lose what the caller has released,
// but of which the machine has not heard yet.
func TestLossBehindAWithdrawal(t *testing.T) {
	for _, taken := range []bool{false, true} {
		for _, keep := range []bool{false, true} {
			eventstest.Bubble(t, func(t *testing.T) {
				r := newRig(t)
				stream := r.stream.Subscribe(t.Context())
				r.start(t, recipes.Started{Keep: keep})
				r.hold()
				want := ends(recipes.WhyReleased, false, 0, nil)
				if taken {
					mustTake(t, r.Granted())
					want = nil
				}
				// The hook runs when the state has flipped and before the actor is told.
				r.OnEnd(func(error) { r.say(recipes.Expired{}) })
				r.Withdraw(recipes.WhyReleased)
				r.isOver(t, want)
				r.isLeft(t, 1)
				if taken {
					expect(t, stream, grantOf(0), events.Ended{ID: 7, Path: "/locks/a"})
				} else {
					expect(t, stream, events.Ended{ID: 7, Path: "/locks/a", Err: want})
				}
			})
		}
	}
}

// TestGrantBehindAWithdrawal has the claim answered when the caller has withdrawn.
func TestGrantBehindAWithdrawal(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		r := newRig(t)
		stream := r.stream.Subscribe(t.Context())
		r.start(t, recipes.Started{})
		r.say(recipes.Opened{Epoch: epoch, Session: session}, recipes.Created{Epoch: epoch, Node: own},
			recipes.Listed{Epoch: epoch, Queue: []events.Name{own}, Own: recipes.Own{Name: own, Owner: session, Token: token}})
		r.OnEnd(func(error) { r.say(recipes.Claimed{Epoch: epoch, Fresh: true}) })
		r.Withdraw(recipes.WhyReleased)
		if r.Holding() || r.Valid() {
			t.Error("it is held after Withdraw")
		}
		synctest.Wait()
		r.deleted()
		want := ends(recipes.WhyReleased, false, 0, nil)
		r.isOver(t, want)
		r.isLeft(t, 1)
		expect(t, stream, events.Ended{ID: 7, Path: "/locks/a", Err: want})
	})
}

// TestNewsBehindAWithdrawal has the machine queue up for a caller who has left.
func TestNewsBehindAWithdrawal(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		r := newRig(t)
		stream := r.stream.Subscribe(t.Context())
		r.start(t, recipes.Started{})
		r.OnEnd(func(error) { r.queued() })
		r.Withdraw(recipes.WhyReleased)
		expect(t, stream)
		r.deleted()
		want := ends(recipes.WhyReleased, false, 0, nil)
		r.isOver(t, want)
		expect(t, stream, events.Ended{ID: 7, Path: "/locks/a", Err: want})
	})
}

func TestRefusalIsExplained(t *testing.T) {
	for op, before := range map[recipes.Op][]recipes.Input{
		recipes.OpCreate: {},
		recipes.OpList:   {recipes.Created{Epoch: epoch, Node: own}},
		recipes.OpClaim: {recipes.Created{Epoch: epoch, Node: own},
			recipes.Listed{Epoch: epoch, Queue: []events.Name{own}, Own: recipes.Own{Name: own, Owner: session, Token: token}}},
	} {
		t.Run(op.String(), func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				r := newRig(t)
				stream := r.stream.Subscribe(t.Context())
				r.start(t, recipes.Started{})
				r.say(recipes.Opened{Epoch: epoch, Session: session})
				r.say(before...)
				r.refuse(op, errNoAuth)
				if op != recipes.OpCreate {
					r.deleted()
				}
				want := ends(recipes.WhyRefused, false, 0, errNoAuth)
				r.isOver(t, want)
				r.isLeft(t, 1)
				expect(t, stream, events.Ended{ID: 7, Path: "/locks/a", Err: want})
			})
		})
	}
}

// TestRefusedRelease has the server keep the node: the caller hears of it.
func TestRefusedRelease(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.start(t, recipes.Started{})
		r.hold()
		mustTake(t, r.Granted())
		r.Withdraw(recipes.WhyReleased)
		synctest.Wait()
		r.refuse(recipes.OpDelete, errNoAuth)
		r.isOver(t, ends(recipes.WhyRefused, true, 0, errNoAuth))
		r.isLeft(t, 1)
	})
}

func TestEndsOfTheMachinesOwn(t *testing.T) {
	beyond := events.Name{Text: "lock-2147483647", Kind: events.KindLock, Seq: 1<<31 - 1}
	for why, inputs := range map[recipes.Why][]recipes.Input{
		recipes.WhyBusy: {recipes.Listed{Epoch: epoch, Queue: []events.Name{older}}},
		recipes.WhySequenceEnd: {recipes.Listed{Epoch: epoch}, recipes.Created{Epoch: epoch, Node: beyond},
			recipes.Deleted{Epoch: epoch}},
	} {
		t.Run(why.String(), func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				r := newRig(t)
				stream := r.stream.Subscribe(t.Context())
				done := r.Done()
				r.OnEnd(func(error) {
					select {
					case <-done:
						t.Error("Done is closed before the state has changed")
					default:
					}
				})
				r.start(t, recipes.Started{Try: true})
				r.say(recipes.Opened{Epoch: epoch, Session: session})
				r.say(inputs...)
				want := ends(why, false, 0, nil)
				r.isOver(t, want)
				r.isLeft(t, 1)
				expect(t, stream, events.Ended{ID: 7, Path: "/locks/a", Err: want})
			})
		})
	}
}

func TestOnEnd(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		r := newRig(t)
		var told []string
		note := func(who string) func(error) {
			return func(err error) {
				if err != nil {
					t.Errorf("%s was told %v", who, err)
				}
				if r.Holding() || r.Valid() { // which must not deadlock either
					t.Errorf("%s was told while the lock was held", who)
				}
				told = append(told, who)
			}
		}
		r.OnEnd(note("before"))
		r.OnEnd(note("cancelled"))() // the call of cancel
		r.start(t, recipes.Started{})
		r.hold()
		mustTake(t, r.Granted())
		if len(told) != 0 {
			t.Errorf("%v were told while the lock was held", told)
		}
		r.Withdraw(recipes.WhyReleased)
		if len(told) != 1 || told[0] != "before" {
			t.Errorf("%v were told when Withdraw returned", told)
		}
		cancel := r.OnEnd(note("late"))
		if len(told) != 2 {
			t.Error("OnEnd does not tell at once what has happened already")
		}
		cancel()
		r.deleted()
		r.isOver(t, nil)
		r.OnEnd(note("after Done"))
		if len(told) != 3 {
			t.Errorf("told: %v", told)
		}
	})
}
