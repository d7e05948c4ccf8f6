package actors_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
)

type deed uint8

const (
	answers deed = iota + 1
	answersUnknown
	refuses
	suspends
	reconnects
	leaseRunsOut
	expires
	opens
	removesNode
	withdraws
	cancels
	waitsTooLong
	takesGrant
	takesLost
	readsStream
	lastDeed = readsStream
)

type step struct {
	do     deed
	settle bool
}

// TestPromiseOfOneAcquisition plays random sequences of deeds and checks what one
// acquisition promises: at most one Grant, then at most one Lost, then Done; no Lost for
// a Grant that was not taken; no Grant after Withdraw; not held when done; and, on the
// stream, the same Grant and Lost, then one Ended. In a feed, the reader takes the Grant,
// and the channels deliver nothing.
func TestPromiseOfOneAcquisition(t *testing.T) {
	const batches = 30 // each with as many scripts as rapid tries in a check
	one := rapid.Custom(func(rt *rapid.T) step {
		return step{deed(rapid.IntRange(1, int(lastDeed)).Draw(rt, "deed")), rapid.Bool().Draw(rt, "settle")}
	})
	stories := map[string]int{}
	for range batches {
		rapid.Check(t, func(rt *rapid.T) {
			fed := rapid.Bool().Draw(rt, "fed")
			keep := !fed && rapid.Bool().Draw(rt, "keep")
			// Three answers lead to the Grant. By chance alone, few scripts would get
			// there.
			script := slices.Repeat([]step{{answers, true}}, rapid.IntRange(0, 3).Draw(rt, "progress"))
			script = append(script, rapid.SliceOfN(one, 1, 40).Draw(rt, "script")...)
			var s *stage
			eventstest.Bubble(t, func(t *testing.T) { s = play(t, keep, fed, script) })
			if len(s.broken) > 0 {
				rt.Fatal(strings.Join(s.broken, "\n"))
			}
			stories[strings.Join(s.said, " ")]++
		})
	}
	t.Logf("%v", stories)
	if len(stories) != 3 {
		t.Errorf("the scripts led to %v, want every one of 3 ends", stories)
	}
}

// stage is a lock, its port and everything that its caller has seen.
type stage struct {
	*Rig
	stream <-chan events.Event
	feed   *actors.Feed // nil: the stream is the house's
	left   bool         // the caller has withdrawn
	cancel context.CancelCauseFunc

	epoch   recipes.Epoch // 0: no session
	last    recipes.Epoch
	up      bool
	pending []recipes.Effect // not answered yet

	told           bool // OnEnd has called its function
	grants, losses int  // from the channels, or from the feed
	said           []string
	broken         []string
}

func (s *stage) breaks(format string, args ...any) {
	s.broken = append(s.broken, fmt.Sprintf(format, args...))
}

// play plays the script, and then ends the acquisition. It runs in a bubble.
func play(t *testing.T, keep, fed bool, script []step) *stage {
	t.Helper()
	s := &stage{Rig: NewRig(t)}
	requests := make(chan recipes.Effect, 1000)
	s.Port.Answer = func(e recipes.Effect) { requests <- e }
	s.OnEnd(func(error) { s.told = true })
	if fed {
		s.feed = actors.NewFeed()
		s.Join(s.feed)
		s.stream = s.feed.Events()
	} else {
		s.stream = s.Rig.Stream.Subscribe(t.Context())
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	s.cancel = cancel
	s.Start(ctx, time.Minute, actors.Want{Keep: keep})
	synctest.Wait()
	s.open()
	rest := func() {
		synctest.Wait()
		for e, ok := Take(requests); ok; e, ok = Take(requests) {
			s.pending = append(s.pending, e)
		}
	}
	rest()
	for _, step := range script {
		s.do(step.do)
		if step.settle {
			rest()
		}
		s.check()
	}
	s.finish(rest)
	if fed {
		if s.feed.Close(); !isClosed(s.stream) {
			s.breaks("the channel of the feed is open when it is closed and has no lock")
		}
	}
	s.cancel(nil)
	s.Shut()
	return s
}

func (s *stage) open() {
	if opened, _, _ := s.Port.Counts(); s.epoch != 0 || opened == 0 {
		return
	}
	s.last++
	s.epoch, s.up = s.last, true
	s.Port.Other.Store(uint32(s.epoch))
	s.Port.Say(recipes.Opened{Epoch: s.epoch, Session: Session})
}

func (s *stage) do(d deed) {
	switch d {
	case answers, answersUnknown, refuses:
		s.answer(d)
	case opens:
		s.open()
	case suspends:
		if s.up {
			s.up = false
			s.Port.Say(recipes.Suspended{})
		}
	case reconnects:
		if s.epoch != 0 && !s.up {
			s.up = true
			s.Port.Say(recipes.Reconnected{})
		}
	case leaseRunsOut:
		s.news(recipes.LeaseRanOut{})
	case removesNode:
		s.news(recipes.Gone{Epoch: s.epoch, Node: Own})
	case expires:
		s.news(recipes.Expired{})
		s.epoch, s.up = 0, false
	case withdraws:
		s.Withdraw(recipes.WhyReleased)
		s.left = true
		s.isFree("after Withdraw")
	case cancels:
		s.cancel(ErrCause)
	case waitsTooLong:
		time.Sleep(time.Minute)
	case takesGrant:
		for s.feed != nil && s.grants == 0 && s.read() {
		}
		if _, ok := Take(s.Granted()); ok {
			s.grants++
		}
	case takesLost:
		if _, ok := Take(s.Lost()); ok {
			if s.grants == 0 {
				s.breaks("a Lost for a Grant that was not taken")
			}
			s.losses++
		}
	case readsStream:
		s.read()
	}
}

// news sends the actor an input if there is a session.
func (s *stage) news(in recipes.Input) {
	if s.epoch != 0 {
		s.Port.Say(in)
	}
}

func (s *stage) isFree(when string) {
	if _, ok := Take(s.Granted()); ok || s.Holding() || s.Valid() {
		s.breaks("%s a Grant can be read: %v, held %v, valid %v", when, ok, s.Holding(), s.Valid())
	}
}

// answer answers the oldest request. A request of a past epoch is answered as unknown, or
// not at all.
func (s *stage) answer(d deed) {
	if len(s.pending) == 0 {
		return
	}
	e := s.pending[0]
	s.pending = s.pending[1:]
	op, of, _ := recipes.Requested(e)
	in := answerTo(e)
	switch {
	case in == nil:
		return
	case d == answersUnknown || d == answers && of != s.epoch && op != recipes.OpCreate:
		in = recipes.Unknown{Epoch: of, Op: op}
	case d == refuses:
		in = recipes.Refused{Epoch: of, Op: op}
	}
	if claim, is := e.(recipes.Claim); is {
		in = claim.Marks(in)
	}
	s.Port.Say(in)
}

func (s *stage) read() bool {
	synctest.Wait()
	ev, ok := Take(s.stream)
	if !ok {
		return false
	}
	switch ev.(type) {
	case events.Grant:
		s.said = append(s.said, "grant")
		if s.feed != nil {
			if s.grants++; s.left {
				s.breaks("a Grant was read after Withdraw")
			}
		}
		return true
	case events.Lost:
		s.said = append(s.said, "lost")
		if s.feed != nil {
			s.losses++
		}
	case events.Ended:
		s.said = append(s.said, "ended")
	default:
		return true
	}
	if s.Holding() || s.Valid() {
		s.breaks("held when %T was read", ev)
	}
	return true
}

func (s *stage) check() {
	if IsDone(s.Lock) {
		s.isFree("done")
	} else if err := s.Err(); err != nil && !IsDone(s.Lock) {
		s.breaks("Err is %v before Done", err)
	}
}

// finish ends the acquisition for good and checks the whole story.
func (s *stage) finish(rest func()) {
	rest()
	if s.Holding() { // then the Grant was taken, or can be taken
		s.do(takesGrant)
		if s.grants == 0 {
			s.breaks("held, and a reader of the channel cannot know")
		}
	}
	// Once the acquisition is over, only a caller that got the Grant reports that it has
	// finished.
	if !s.told || s.grants > 0 {
		s.do(withdraws)
		rest()
	}
	s.do(expires)
	rest()
	for len(s.pending) > 0 {
		s.answer(answersUnknown)
		rest()
	}
	for s.read() {
	}
	if !IsDone(s.Lock) {
		s.breaks("not done at the end")
		return
	}
	s.check()
	if _, ok := Take(s.Lost()); ok {
		s.losses++
	}
	s.tally()
	if opened, closed, _ := s.Port.Counts(); s.gone.Load() != 1 || closed != opened {
		s.breaks("Gone was called %d times, the port opened %d times and closed %d times", s.gone.Load(), opened, closed)
	}
}

func (s *stage) tally() {
	story := strings.Join(s.said, " ")
	if !slices.Contains([]string{"ended", "grant lost ended", "grant ended"}, story) {
		s.breaks("the stream said %q", story)
	}
	if s.grants > 1 || s.losses > 1 {
		s.breaks("%d Grants and %d losses were read", s.grants, s.losses)
	}
	if s.grants == 1 && story == "ended" {
		s.breaks("a Grant was read that is not on the stream")
	}
	if (s.losses == 1) != (story == "grant lost ended") {
		s.breaks("%d losses were read, and the stream said %q", s.losses, story)
	}
	err, _ := s.Err().(EndError) //nolint:errorlint // made by Explain
	if s.Err() == nil && (story != "grant ended" || s.grants == 0) {
		s.breaks("Err is nil, %d Grants were taken, and the stream said %q", s.grants, story)
	}
	if story == "grant lost ended" && err.Why != recipes.WhyLost {
		s.breaks("Err is %v after a loss", s.Err())
	}
	if (err.Why == recipes.WhyContext || err.Why == recipes.WhyTimeout) && s.grants > 0 {
		s.breaks("Err is %v, and a Grant was taken", s.Err())
	}
}
