package actors_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// TestHandIsInTheCallersTime if the actor is idle, and with what the message brings.
func TestHandIsInTheCallersTime(t *testing.T) {
	var (
		group actors.Group
		actor *actors.Actor[int]
		got   []int
	)
	actor = actors.NewActor(&group, func(m int) {
		got = append(got, m)
		if m < 3 {
			actor.Hand(m + 1) // it is not idle: this is handled behind what it is at
			got = append(got, -m)
		}
	})
	if !actor.Hand(1) {
		t.Error("Post to an actor of an open group = false, want true")
	}
	if want := []int{1, -1, 2, -2, 3}; !slices.Equal(got, want) {
		t.Errorf("handled %v when it had returned, want %v", got, want)
	}
	group.Close()
	if actor.Hand(1) || len(got) != 5 {
		t.Errorf("an actor of a closed group handled %d messages, or took the last; want 5, and false", len(got))
	}
}

// TestCloseWaitsForAHand, which is no goroutine of the group's own making.
func TestCloseWaitsForAHand(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		var group actors.Group
		hold := make(chan struct{})
		var handled, later bool
		actor := actors.NewActor(&group, func(last bool) {
			<-hold
			handled, later = true, last
		})
		go actor.Hand(false)
		synctest.Wait()
		if !actor.Hand(true) || handled {
			t.Error("a busy actor handled a message in the time of whoever handed it over")
		}
		closed := make(chan struct{})
		go func() {
			group.Close()
			close(closed)
		}()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("closed while a message was being handled")
		default:
		}
		close(hold)
		<-closed
		if !later {
			t.Error("what was handed over to a busy actor was not handled")
		}
	})
}

// TestARestFollowsEachBatch runs behind the messages that came together, and not once for each.
func TestARestFollowsEachBatch(t *testing.T) {
	var (
		group actors.Group
		actor *actors.Actor[int]
		got   []int
	)
	const rested = -1
	actor = actors.NewRestingActor(&group, func(m int) {
		got = append(got, m)
		switch m {
		case 1:
			actor.Post(2)
			actor.Post(3)
		case 4:
			actor.Post(5)
		case 5:
			actor.Post(6) // a third batch: the rest comes first
		}
	}, func() { got = append(got, rested) })
	actor.Hand(1)
	actor.Hand(4)
	if want := []int{1, 2, 3, rested, 4, 5, rested, 6, rested}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	group.Close()
}

// TestRestMayPost: what it posts is handled, and followed by another rest.
func TestRestMayPost(t *testing.T) {
	var (
		group actors.Group
		actor *actors.Actor[int]
		got   []int
	)
	actor = actors.NewRestingActor(&group, func(m int) { got = append(got, m) }, func() {
		if len(got) < 3 {
			actor.Post(len(got))
		}
	})
	actor.Post(0)
	group.Close()
	if want := []int{0, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("handled %v, want %v", got, want)
	}
}

// TestHandDoesNotKeepTheCaller for whatever others want.
func TestHandDoesNotKeepTheCaller(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		var (
			group   actors.Group
			actor   *actors.Actor[bool]
			stop    bool
			handled int
		)
		hold := make(chan struct{})
		actor = actors.NewRestingActor(&group, func(last bool) {
			if handled++; handled > 10 {
				<-hold
			}
			if stop = stop || last; !stop {
				actor.Post(false)
			}
		}, func() {})
		actor.Hand(false) // returns, or the bubble is deadlocked
		synctest.Wait()
		if handled != 11 {
			t.Errorf("%d messages were handled, want 11", handled)
		}
		actor.Hand(true)
		close(hold)
		group.Close()
	})
}
