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

// TestActorLosesNothing: many goroutines post at once. The handler's data have no mutex,
// on purpose: so the race detector finds runs of the handler that overlap, or that do not
// see the writes of an earlier one.
func TestActorLosesNothing(t *testing.T) {
	const posters, each = 100, 1000
	var (
		group   actors.Group
		next    [posters]int
		handled int
		inside  atomic.Int32
	)
	loop := actors.NewLoop(&group, nil)
	handle := func(poster, number int) {
		if inside.Add(1) != 1 {
			t.Error("two messages were handled at once")
		}
		if next[poster] != number {
			t.Errorf("poster %d: message %d came when %d was next", poster, number, next[poster])
		}
		next[poster] = number + 1
		handled++
		inside.Add(-1)
	}
	var posting sync.WaitGroup
	for p := range posters {
		posting.Go(func() {
			for i := range each {
				give := loop.Post
				if (p+i)%2 == 0 {
					give = loop.Hand
				}
				if !give(func() { handle(p, i) }) {
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
	for _, begin := range []func(l *actors.Loop, handle func()){
		func(l *actors.Loop, handle func()) { l.Post(handle) },
		func(l *actors.Loop, handle func()) { go l.Hand(handle) },
	} {
		eventstest.Bubble(t, func(t *testing.T) {
			var group actors.Group
			var closed atomic.Int32
			hold, handled, accepted := make(chan struct{}), 0, 2
			handle := func() { <-hold; handled++ }
			refused := func() { t.Error("a refused function was run") }
			busy, idle := actors.NewLoop(&group, nil), actors.NewLoop(&group, nil)
			begin(busy, handle)
			synctest.Wait()
			eventstest.Expect(t, busy.Hand(handle) && handled == 0,
				"a busy actor refuses a message, or has handled it in the caller's time")
			for range 3 {
				go func() { group.Close(); closed.Add(1) }()
			}
			synctest.Wait()
			eventstest.Expect(t, closed.Load() == 0,
				"Close returned while a message was being handled, want it to wait")
			eventstest.Expect(t, !idle.Post(refused) && !group.Go(refused), "a closed group starts goroutines")
			if busy.Post(handle) { // the running goroutine may still take it
				accepted++
			}
			close(hold)
			synctest.Wait()
			if closed.Load() != 3 || handled != accepted {
				t.Errorf("%d of 3 calls of Close have returned, %d of %d messages were handled; want all",
					closed.Load(), handled, accepted)
			}
			eventstest.Expect(t, !busy.Post(refused) && !busy.Hand(refused),
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
		for _, give := range []func(*actors.Loop, func()) bool{(*actors.Loop).Post, (*actors.Loop).Hand} {
			var group actors.Group
			var loop *actors.Loop
			var got []int
			var handle func(m int)
			var rest func()
			post := func(all []int) {
				for _, m := range all {
					give(loop, func() { handle(m) })
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
			loop = actors.NewLoop(&group, rest)
			handle = func(m int) {
				got = append(got, m)
				post(c.posts[m])
			}
			for _, m := range c.hands {
				loop.Hand(func() { handle(m) })
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
	loop := actors.NewLoop(&group, nil)
	for n := range int32(100_000) {
		loop.Post(func() { handled.Add(1) })
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
		loop := actors.NewLoop(&group, nil)
		for range posters {
			posting.Go(func() {
				for range 100 {
					if !loop.Post(func() { handled++ }) {
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
		defer func() { _ = recover() }()
		actors.NewLoop(&actors.Group{}, nil).Hand(handler)
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
			handle    func(m int)
			got, want []int
			last      int
		)
		loop := actors.NewLoop(&group, func() {})
		handle = func(m int) {
			got = append(got, m)
			if m%each == 0 && m < last { // the next batch
				for i := range each {
					loop.Post(func() { handle(m + 1 + i) })
				}
			}
		}
		for hour := range hours {
			begin := hour * each * batches * 2
			last = begin + each*batches
			for m := begin; m <= last; m++ {
				want = append(want, m)
			}
			loop.Hand(func() { handle(begin) })
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
			handle  func()
			stop    bool
			handled int
		)
		hold := make(chan struct{})
		loop := actors.NewLoop(&group, func() {})
		handle = func() {
			if handled++; handled > 10 {
				<-hold
			}
			if !stop {
				loop.Post(handle)
			}
		}
		loop.Hand(handle) // returns, or the bubble is deadlocked
		synctest.Wait()
		eventstest.Expect(t, handled == 11, "%d messages were handled, want 11", handled)
		loop.Hand(func() { stop = true })
		close(hold)
		group.Close()
	})
}
