package actors_test

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// inbox handles messages with its own loop.
type inbox[M any] struct {
	loop   *actors.Loop
	handle func(M)
}

func newInbox[M any](group *actors.Group, handle func(M), rest func()) *inbox[M] {
	return &inbox[M]{actors.NewLoop(group, rest), handle}
}

func (i *inbox[M]) Post(m M) bool { return i.loop.Post(func() { i.handle(m) }) }
func (i *inbox[M]) Hand(m M) bool { return i.loop.Hand(func() { i.handle(m) }) }

// TestActorLosesNothing: many goroutines post at once. The handler's data have no mutex,
// on purpose: so the race detector finds runs of the handler that overlap, or that do not
// see the writes of an earlier one.
func TestActorLosesNothing(t *testing.T) {
	const posters, each = 100, 1000
	type message struct{ poster, number int }
	var (
		group   actors.Group
		next    [posters]int
		handled int
		inside  atomic.Int32
	)
	actor := newInbox(&group, func(m message) {
		if inside.Add(1) != 1 {
			t.Error("two messages were handled at once")
		}
		if next[m.poster] != m.number {
			t.Errorf("poster %d: message %d came when %d was next", m.poster, m.number, next[m.poster])
		}
		next[m.poster] = m.number + 1
		handled++
		inside.Add(-1)
	}, nil)
	var posting sync.WaitGroup
	for p := range posters {
		posting.Go(func() {
			for i := range each {
				give := actor.Post
				if (p+i)%2 == 0 {
					give = actor.Hand
				}
				if !give(message{p, i}) {
					t.Error("a message was refused by an open group")
				}
			}
		})
	}
	posting.Wait()
	group.Close()
	eventstest.Expect(t, handled == posters*each, "%d messages were handled, want %d", handled, posters*each)
}

// TestGroupCloseWaitsAndRefuses: Close waits for messages in progress, even in the
// goroutine of a caller, which the group did not start. It may be called again.
func TestGroupCloseWaitsAndRefuses(t *testing.T) {
	for _, begin := range []func(a *inbox[int]){
		func(a *inbox[int]) { a.Post(1) },
		func(a *inbox[int]) { go a.Hand(1) },
	} {
		eventstest.Bubble(t, func(t *testing.T) {
			var group actors.Group
			var closed atomic.Int32
			hold, handled, accepted := make(chan struct{}), 0, 2
			busy := newInbox(&group, func(int) { <-hold; handled++ }, nil)
			idle := newInbox(&group, func(int) { t.Error("a refused message was handled") }, nil)
			begin(busy)
			synctest.Wait()
			eventstest.Expect(t, busy.Hand(2) && handled == 0,
				"a busy actor refuses a message, or has handled it in the caller's time")
			for range 3 {
				go func() { group.Close(); closed.Add(1) }()
			}
			synctest.Wait()
			eventstest.Expect(t, closed.Load() == 0,
				"Close returned while a message was being handled, want it to wait")
			eventstest.Expect(t, !idle.Post(1) && !group.Go(func() { t.Error("a refused function was run") }),
				"a closed group starts goroutines")
			if busy.Post(3) { // the running goroutine may still take it
				accepted++
			}
			close(hold)
			synctest.Wait()
			if closed.Load() != 3 || handled != accepted {
				t.Errorf("%d of 3 calls of Close have returned, %d of %d messages were handled; want all",
					closed.Load(), handled, accepted)
			}
			eventstest.Expect(t, !busy.Post(4) && !busy.Hand(4),
				"an idle actor of a closed group takes a message")
			group.Close()
			new(actors.Group).Close() // a group without goroutines
		})
	}
}

// TestWhatIsPostedInside: messages that are posted inside the loop come after the
// existing ones, in order. A rest follows each batch, not each message. The messages are
// handled even if the group was closed in the meantime. If there are few, Hand returns
// after they are handled.
func TestWhatIsPostedInside(t *testing.T) {
	const rested = -1
	for name, c := range map[string]struct {
		posts map[int][]int // by the handler of a message
		rests [][]int       // what each rest posts; nil: there is none
		hands []int
		want  []int
	}{
		"by handlers": {posts: map[int][]int{1: {2, 11, 21}, 2: {12, 22}}, hands: []int{1},
			want: []int{1, 2, 11, 21, 12, 22}},
		"batches": {posts: map[int][]int{1: {2, 3}, 4: {5}, 5: {6}, 6: {7}, 7: {8}}, rests: [][]int{{}}, hands: []int{1, 4},
			want: []int{1, 2, 3, rested, 4, 5, 6, 7, rested, 8, rested}},
		"by a rest": {rests: [][]int{{1}, {2}}, hands: []int{0}, want: []int{0, rested, 1, rested, 2, rested}},
	} {
		for _, give := range []func(*inbox[int], int) bool{(*inbox[int]).Post, (*inbox[int]).Hand} {
			var group actors.Group
			var actor *inbox[int]
			var got []int
			var rest func()
			post := func(all []int) {
				for _, m := range all {
					give(actor, m)
				}
			}
			if rests := c.rests; rests != nil {
				rest = func() {
					got = append(got, rested)
					if len(rests) > 0 {
						post(rests[0])
						rests = rests[1:]
					}
				}
			}
			actor = newInbox(&group, func(m int) {
				got = append(got, m)
				post(c.posts[m])
			}, rest)
			for _, m := range c.hands {
				actor.Hand(m)
			}
			if rest == nil && !slices.Equal(got, c.want) {
				t.Errorf("%s: handled %v when Hand has returned, want %v", name, got, c.want)
			}
			group.Close()
			eventstest.Expect(t, slices.Equal(got, c.want), "%s: handled %v, want %v", name, got, c.want)
		}
	}
}

// TestPostRacesWithTheEndOfADrain posts each message as soon as the previous one was
// handled: at that moment, the drain is about to return.
func TestPostRacesWithTheEndOfADrain(t *testing.T) {
	var group actors.Group
	var handled atomic.Int32
	actor := newInbox(&group, func(int) { handled.Add(1) }, nil)
	for n := range int32(100_000) {
		actor.Post(0)
		soon(t, "handled", func() bool { return handled.Load() == n+1 })
	}
	group.Close()
}

func TestPostRacesWithClose(t *testing.T) {
	const rounds, posters = 2000, 4
	for range rounds {
		var (
			group    actors.Group
			handled  int
			accepted atomic.Int32
			posting  sync.WaitGroup
		)
		actor := newInbox(&group, func(int) { handled++ }, nil)
		for range posters {
			posting.Go(func() {
				for i := range 100 {
					if !actor.Post(i) {
						return
					}
					accepted.Add(1)
				}
			})
		}
		runtime.Gosched()
		group.Close()
		// The group is closed and its last goroutine has ended. So no drain can have
		// begun since, and handled no longer changes.
		posting.Wait()
		if int(accepted.Load()) != handled {
			t.Fatalf("%d messages were accepted and %d handled, want as many", accepted.Load(), handled)
		}
	}
}

// TestAHandlerThatDoesNotReturnEndsTheProgram in any goroutine. A caller that recovered
// would leave an actor that nothing drains.
func TestAHandlerThatDoesNotReturnEndsTheProgram(t *testing.T) {
	const how = "ZKGRANT_BROKEN_HANDLER"
	handlers := map[string]func(){"panics": func() { panic("on purpose") }, "exits": runtime.Goexit}
	if handler := handlers[os.Getenv(how)]; handler != nil {
		var group actors.Group
		actor := newInbox(&group, func(int) { handler() }, nil)
		defer func() { _ = recover() }()
		actor.Hand(1)
		return
	}
	for name := range handlers {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^"+strings.Split(t.Name(), "/")[0]+"$")
			cmd.Env = append(os.Environ(), how+"="+name)
			said, err := cmd.CombinedOutput()
			eventstest.Expect(t, err != nil, "a handler that %s ended the program without a failure", name)
			eventstest.Contains(t, string(said), "a function of the loop has not returned", "if it %s", name)
		})
	}
}

// TestKeptRoomIsUsedOnce: with room kept from an earlier hour, every message is handled,
// in order, both by the caller of Hand and by the goroutine that takes over.
func TestKeptRoomIsUsedOnce(t *testing.T) {
	const hours, each, batches = 3, 3, 8
	eventstest.Bubble(t, func(t *testing.T) {
		var (
			group     actors.Group
			actor     *inbox[int]
			got, want []int
			last      int
		)
		actor = newInbox(&group, func(m int) {
			got = append(got, m)
			if m%each == 0 && m < last { // the next batch
				for i := range each {
					actor.Post(m + 1 + i)
				}
			}
		}, func() {})
		for hour := range hours {
			begin := hour * each * batches * 2
			last = begin + each*batches
			for m := begin; m <= last; m++ {
				want = append(want, m)
			}
			actor.Hand(begin)
			synctest.Wait()
			if !slices.Equal(got, want) {
				t.Fatalf("hour %d: handled %v, want %v", hour, got, want)
			}
		}
		group.Close()
	})
}

// TestHandDoesNotKeepTheCaller for the messages of other posters.
func TestHandDoesNotKeepTheCaller(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		var (
			group   actors.Group
			actor   *inbox[bool]
			stop    bool
			handled int
		)
		hold := make(chan struct{})
		actor = newInbox(&group, func(last bool) {
			if handled++; handled > 10 {
				<-hold
			}
			if stop = stop || last; !stop {
				actor.Post(false)
			}
		}, func() {})
		actor.Hand(false) // returns, or the bubble is deadlocked
		synctest.Wait()
		eventstest.Expect(t, handled == 11, "%d messages were handled, want 11", handled)
		actor.Hand(true)
		close(hold)
		group.Close()
	})
}
