package actors_test

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
)

// readily makes the port open a session and answer every request by itself: from within
// the request, or from a separate goroutine.
func readily(p *FakePort, apart bool) {
	say := p.Say
	if apart {
		say = func(in ...recipes.Input) { go p.Say(in...) }
	}
	p.OnOpen = func() { p.Say(Opened) }
	p.Answer = func(e recipes.Effect) {
		if in := answerTo(e); in != nil {
			say(in)
		}
	}
}

// history counts one acquisition's events on the stream.
type history struct{ grant, lost, ended int }

// race plays many acquisitions, with and without a subscriber to the stream. When a round
// returns, its acquisition must be over.
func race(t *testing.T, round func(n int, r *Rig, last func() history)) {
	t.Helper()
	rounds := eventstest.Amount(1500, 4000)
	for _, subscribed := range []bool{false, true} {
		r := NewRig(t)
		histories := make(chan history, 1)
		ctx, cancel := context.WithCancel(t.Context())
		var reading sync.WaitGroup
		if subscribed {
			stream := r.Stream.Subscribe(ctx)
			reading.Go(func() {
				var h history
				for ev := range stream {
					switch ev := ev.(type) {
					case events.Grant:
						h.grant++
						if h != (history{grant: 1}) {
							t.Errorf("with a Grant the stream has %+v, want it first", h)
						}
						continue
					case events.Lost:
						h.lost++
						if r.Valid() || r.Holding() {
							t.Errorf("%+v came while the lock was held, want it behind that", ev)
						}
						continue
					case events.Ended:
						h.ended++
					}
					histories <- h
					h = history{}
				}
			})
		}
		for n := range rounds {
			r.Renew() // late answers go to the old port
			readily(r.Port, n%2 == 0)
			before := r.gone.Load()
			round(n, r, func() history {
				if !subscribed {
					return history{}
				}
				return eventstest.Receive(t, histories, "last event")
			})
			if !IsDone(r.Lock) || r.Holding() || r.Valid() {
				t.Fatalf("at the end of round %d done is %v, held %v, valid %v; want only done", n, IsDone(r.Lock), r.Holding(), r.Valid())
			}
			soon(t, "nothing left", func() bool { return r.gone.Load() == before+1 })
			if opened, closed, open := r.Port.Counts(); opened != closed || open {
				t.Fatalf("in round %d the port was opened %d times and closed %d times, want as often", n, opened, closed)
			}
			if t.Failed() {
				t.Fatalf("round %d of %d failed, see above; the rest is left out", n, rounds)
			}
		}
		r.Shut()
		reading.Wait()
		cancel()
	}
}

// handicap keeps a race close on any machine. The side that has won begins later the next
// time, and the more often it has won in a row, the later.
type handicap struct {
	outcomes [2]int // how often each side has won
	lead     int    // how often the first side yields before it begins; the second one, if it is negative
	row      int    // how often the same side has won in a row
	last     int
}

// begin lets other goroutines run before the side begins.
func (h *handicap) begin(side, n int) {
	for range max(h.lead*(1-2*side), 0) + n%23 {
		runtime.Gosched()
	}
}

// won notes the winner. Neither side may be running.
func (h *handicap) won(second bool) {
	side := 0
	if second {
		side = 1
	}
	if h.outcomes[side]++; side != h.last {
		h.row, h.last = 0, side
	}
	h.row++
	h.lead += (1 + h.row/8) * (1 - 2*side)
}

// check fails the test unless each side has won.
func (h *handicap) check(t *testing.T, first, second string) {
	t.Helper()
	t.Logf("%d %s, %d %s", h.outcomes[0], first, h.outcomes[1], second)
	if slices.Contains(h.outcomes[:], 0) {
		t.Errorf("the outcomes came %v times, want each of them: there was no race", h.outcomes)
	}
}

// TestWithdrawRacesWithTaking: the caller's goroutines take the Grant and withdraw at the
// same moment.
func TestWithdrawRacesWithTaking(t *testing.T) {
	var odds handicap
	race(t, func(n int, r *Rig, last func() history) {
		var (
			returned, stop atomic.Bool
			took           atomic.Int32
			reading        sync.WaitGroup
		)
		for range 2 {
			reading.Go(func() {
				for !stop.Load() {
					late := returned.Load()
					if _, ok := Take(r.Granted()); ok {
						took.Add(1)
						if late {
							t.Error("a Grant was read after Withdraw had returned")
						}
					}
					runtime.Gosched()
				}
			})
		}
		var leaving sync.WaitGroup
		leaving.Go(func() {
			odds.begin(0, n)
			r.Withdraw(recipes.WhyReleased)
			returned.Store(true)
		})
		odds.begin(1, 0)
		r.Start(t.Context(), 0, actors.Want{})
		leaving.Wait()
		r.IsNotHeld(t, "after Withdraw")
		eventstest.Receive(t, r.Done(), "end")
		stop.Store(true)
		reading.Wait()
		h := last()
		checkReleased(t, r, int(took.Load()), h)
		odds.won(r.Err() == nil)
	})
	odds.check(t, "withdrawn", "released")
}

// TestABoundRacesWithTheReaderOfAFeed: the context ends while the reader receives the
// Grant. Either the reader has it, and the lock stays held, or the feed has only the end.
// The same is true of a caller that withdraws, and no Grant comes after that.
func TestABoundRacesWithTheReaderOfAFeed(t *testing.T) {
	var odds handicap
	r := NewRig(t)
	feed := actors.NewFeed()
	for n := range 8000 {
		r.Renew()
		readily(r.Port, false)
		r.Join(feed)
		ctx, cancel := context.WithCancelCause(t.Context())
		withdraws := n%3 == 0
		var leaving sync.WaitGroup
		var left atomic.Bool
		leaving.Go(func() {
			soon(t, "granted", r.Holding)
			odds.begin(0, n)
			if withdraws {
				r.Withdraw(recipes.WhyReleased)
			} else {
				bound := r.ContextEnded()
				cancel(ErrCause)
				bound()
			}
			left.Store(true)
		})
		r.Start(ctx, 0, actors.Want{})
		odds.begin(1, n/23)
		late := left.Load()
		first := eventstest.Receive(t, feed.Events(), "event")
		leaving.Wait()
		_, granted := first.(events.Grant)
		odds.won(granted)
		if granted {
			if late && withdraws { // the end of a context is reported to the lock, which acts on it later
				t.Fatalf("round %d: a Grant was read after Withdraw had returned", n)
			}
			if !withdraws && !r.Holding() {
				t.Fatalf("round %d: the reader has the Grant, and the lock ended with %v", n, r.Ending())
			}
			r.Withdraw(recipes.WhyReleased)
			first = eventstest.Receive(t, feed.Events(), "end")
		}
		if _, ended := first.(events.Ended); !ended || !IsDone(r.Lock) || r.Holding() {
			t.Fatalf("round %d: the feed has %#v at last, held: %v; want the end", n, first, r.Holding())
		}
		cancel(nil)
	}
	feed.Close()
	if _, open := <-feed.Events(); open {
		t.Error("the feed has an event when all locks have ended")
	}
	r.Shut()
	odds.check(t, "taken back", "taken")
}

// checkReleased checks the end of an acquisition that only Withdraw has ended.
func checkReleased(t *testing.T, r *Rig, took int, h history) {
	t.Helper()
	none(t, r.Granted(), "after Done")
	none(t, r.Lost(), "without a loss")
	if took > 1 || h.lost != 0 || h != (history{}) && h.ended != 1 {
		t.Errorf("%d Grants were taken, the stream has %+v; want one at most, and one end", took, h)
	}
	want := released
	if took > 0 {
		want = nil
	}
	if err := r.Err(); err != want { //nolint:errorlint // identity is meant
		t.Errorf("%d Grants were taken, the stream has %+v, and Err is %v; want %v", took, h, err, want)
	}
	if took > 0 && h.ended > 0 && h.grant == 0 {
		t.Error("the Grant was taken, and is not on the stream")
	}
}

// TestLossRacesWithTaking: the lease runs out while the Grant is being taken. The caller
// gets both the Grant and the loss, or neither.
func TestLossRacesWithTaking(t *testing.T) {
	var odds handicap
	race(t, func(n int, r *Rig, last func() history) {
		r.Start(t.Context(), 0, actors.Want{Keep: n%3 == 0})
		soon(t, "granted", r.Holding)
		var taking sync.WaitGroup
		took := 0
		taking.Go(func() {
			odds.begin(1, n)
			if _, ok := Take(r.Granted()); ok {
				took++
			}
		})
		odds.begin(0, n/23)
		r.Port.Say(recipes.LeaseRanOut{})
		taking.Wait()
		if n%3 == 0 {
			r.Withdraw(recipes.WhyReleased)
		}
		eventstest.Receive(t, r.Done(), "end")
		_, lost := Take(r.Lost())
		h := last()
		err := r.Err()
		if n%3 == 0 && !lost { // Withdraw may have been quicker than the loss
			if e, ok := err.(EndError); err == nil || ok && e.Why == recipes.WhyReleased { //nolint:errorlint // identity is meant
				checkReleased(t, r, took, h)
				return
			}
		}
		if want := Ends(recipes.WhyLost, lost, events.ReasonLeaseRanOut, nil); err != want { //nolint:errorlint // identity is meant
			t.Errorf("Err is %v, want %v", err, want)
		}
		if lost != (took > 0) {
			t.Errorf("a Grant was taken %d times, lost: %v; want a Lost for a Grant", took, lost)
		}
		want := history{grant: 1, ended: 1}
		if lost {
			want.lost = 1
		}
		if h != (history{}) && h != want {
			t.Errorf("the stream has %+v, lost: %v; want the Grant, its loss if it was taken, and its end", h, lost)
		}
		none(t, r.Granted(), "after the loss")
		odds.won(lost)
	})
	odds.check(t, "taken back", "lost")
}
