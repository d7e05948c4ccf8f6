package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// script plays a text. Each step is a second, a contender, and its new state or a fault.
func script(p *picture, text string) {
	states := map[string]state{"waits": waits, "holds": holds, "lost": lost, "away": away, "still": still}
	for _, step := range strings.Split(text, ", ") {
		var at int
		var who, what string
		if _, err := fmt.Sscan(step, &at, &who, &what); err != nil {
			panic(err)
		}
		when := time.Duration(at) * time.Second
		if state, ok := states[what]; ok {
			p.tell(told{side: "one", who: who, state: state}, when)
		} else {
			p.mark(who, what, when)
		}
	}
}

func TestThePictureCountsHolders(t *testing.T) {
	for _, test := range []struct {
		name, script string
		overlaps     string // the seconds at which each begins and ends
		behind       int
		margins      string
	}{
		{"one after the other", "1 a holds, 5 a away, 5 b holds", "", 0, ""},
		{"together", "1 a holds, 5 b holds, 8 a lost, 9 b lost", "5-8", 0, ""},
		{"still together", "1 a holds, 5 b holds", "5-", 0, ""},
		{"three are one time", "1 a holds, 2 b holds, 3 c holds, 4 a away, 6 b away", "2-6", 0, ""},
		{"told in time", "1 a holds, 2 b waits, 5 a lost, 8 b holds", "", 0, "a 5-8"},
		{"told while another one holds", "1 a holds, 2 b holds, 3 a lost, 4 b away, 5 c holds", "2-3", 0, ""},
		{"one that stands still does nothing", "1 a holds, 2 a still, 6 b holds, 9 a lost", "", 0, ""},
		{"one that wakes up", "1 a holds, 2 a still, 6 b holds, 9 a holds, 10 a lost", "9-10", 0, ""},
		{"to wake is no grant", "1 a holds, 2 a lost, 3 b still, 4 b holds", "", 0, ""},
		{"an ended session", "1 a holds, 2 a expire, 2 b holds, 3 a lost", "2-3", 1, ""},
		{"a waiter's ended session", "1 a holds, 2 c expire, 2 b holds, 3 a lost", "2-3", 0, ""},
		{
			"the ended session of one that holds again",
			"1 a holds, 2 b waits, 2 b expire, 2 b away, 2 b holds, 3 a lost", "2-3", 0, "",
		},
		{
			"an ended session of one that stands still",
			"1 a holds, 2 a still, 2 a expire, 2 b holds, 3 a holds, 4 a lost", "3-4", 1, "",
		},
		{"long after the end of a session", "1 a holds, 2 a expire, 4 b holds, 5 a lost", "4-5", 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPicture([]string{"one", "other"}, []string{"a", "b", "c"})
			script(p, test.script)
			one, other := p.Sides[0], p.Sides[1]
			var overlaps, margins string
			var together time.Duration
			for _, o := range one.Overlaps {
				if overlaps += fmt.Sprint(o.From.Seconds(), "-"); !o.Open {
					overlaps += fmt.Sprint(o.To.Seconds())
					together += o.To - o.From
				}
			}
			for _, m := range one.Margins {
				margins += fmt.Sprintf("%s %v-%v", m.Who, m.Lost.Seconds(), m.Granted.Seconds())
			}
			eventstest.Equal(t, overlaps, test.overlaps, "two holders")
			eventstest.Equal(t, one.Behind, test.behind, "two holders behind a back")
			eventstest.Equal(t, margins, test.margins, "margins")
			eventstest.Expect(t, one.Times == len(one.Overlaps) && one.Together == together,
				"counted %d times, %v; want %v, %v", one.Times, one.Together, one.Overlaps, together)
			if last := len(one.Margins) - 1; last >= 0 {
				want := one.Margins[last]
				p.forget(time.Hour)
				if len(one.Margins) > 0 || one.Last == nil || *one.Last != want {
					t.Errorf("after an hour the margins are %v and the last one is %v, want none and %v", one.Margins, one.Last, want)
				}
			}
			eventstest.Equal(t, other.Times, 0, "two holders on the other side")
			eventstest.Equal(t, len(other.lane("a").Bars), 1, "bars on the other side")
		})
	}
}

func TestThePictureKnowsWhatEndedTwoHolders(t *testing.T) {
	p := newPicture([]string{"one"}, []string{"a", "b"})
	script(p, "1 a holds, 2 a cut, 3 b holds, 5 a heal, 6 a lost, 7 a holds, 8 a lost")
	if s := p.Sides[0]; s.Times != 2 || s.Healed != 1 || !s.Overlaps[0].Healed || s.Overlaps[1].Healed {
		t.Errorf("two holders %d times, %d of them until it was healed: %+v; want 2 and the first one", s.Times, s.Healed, s.Overlaps)
	}
	eventstest.Equal(t, p.Faults, 2, "faults")
	p.tell(told{side: "one", who: "b", needless: true}, 9)
	if s := p.Sides[0]; s.Needless != 1 || s.lane("b").last().State != holds {
		t.Errorf("a lock that was given up needlessly: %d times, and b %s; want 1, and no other news of b", s.Needless, s.lane("b").last().State)
	}
}

func TestThePictureHasTheOwnersOfAShard(t *testing.T) {
	p := newPicture(nil, []string{"a", "b"})
	at := func(s int) time.Duration { return time.Duration(s) * time.Second }
	p.own("a", 0, holds, at(1))
	p.own("a", 0, still, at(2))
	p.own("b", 0, holds, at(3)) // next to a paused owner
	p.own("a", 0, away, at(4))
	p.own("b", 1, holds, at(4))
	p.mark("b", doKill, at(5))
	want := []owner{
		{span: span{From: at(1), To: at(2)}, Who: "a"}, {span: span{From: at(2), To: at(4)}, Who: "a", Still: true},
		{span: span{From: at(3), To: at(5)}, Who: "b"},
	}
	eventstest.Equal(t, p.Shards[0].Owners, want, "owners")
	eventstest.Equal(t, p.Twice, 0, "how often there were two")
	if got := p.Shards[1].Owners; len(got) != 1 || got[0].Open {
		t.Errorf("a shard whose owner was killed: %+v, want the end of its time", got)
	}
	p.own("a", 1, holds, at(6))
	p.own("b", 1, holds, at(7))
	eventstest.Equal(t, p.Twice, 1, "how often two owners at once are counted")
	if p.forget(at(100)); len(p.Shards[0].Owners) != 0 || len(p.Shards[1].Owners) != 2 {
		t.Errorf("after a while %+v are kept, want those of today", p.Shards)
	}
}

func TestALaneIsCutIntoBars(t *testing.T) {
	p := newPicture([]string{"one"}, []string{"a"})
	for i, told := range []told{
		{state: waits, note: "2 ahead"}, {state: waits, note: "1 ahead"}, {state: holds}, {state: holds, alone: true}, {state: lost, alone: true},
	} {
		told.side, told.who = "one", "a"
		p.tell(told, time.Duration(i+1))
	}
	want := []bar{
		{span: span{0, 1, false}, State: away},
		{span: span{1, 3, false}, State: waits, Note: "1 ahead"},
		{span: span{3, 4, false}, State: holds},
		{span: span{4, 5, false}, State: holds, Alone: true},
		{span: span{5, 0, true}, State: lost, Alone: true},
	}
	eventstest.Equal(t, p.Sides[0].Lanes[0].Bars, want, "bars")
	p.forget(5)
	eventstest.Equal(t, p.Sides[0].Lanes[0].Bars, want[3:], "bars that had not ended at 5")
	p.forget(100)
	eventstest.Equal(t, p.Sides[0].Lanes[0].Bars, want[4:], "bars that had not ended at 100: the open one")
}

func TestThePictureKnowsWhatIsBroken(t *testing.T) {
	p := newPicture(nil, []string{"a", "b"})
	for _, m := range []mark{{1, "a", doCut}, {2, "b", doCut}, {3, "b", doPause}, {4, "a", doHeal}, {5, "", doStrike}} {
		p.mark(m.Who, m.What, m.At)
	}
	eventstest.Equal(t, fmt.Sprint(p.Cut, p.Still, p.Struck), "[b] [b] true", "cut off, stand still, struck")
	p.mark("b", doWake, 6)
	p.mark("", doneStrike, 7)
	eventstest.Equal(t, fmt.Sprint(p.Still, p.Struck, len(p.Marks)), "[] false 7", "still, struck, marks")
	for _, m := range []string{doCut, doPause, doKill, doCareful} {
		p.mark("a", m, 8)
	}
	eventstest.Equal(t, fmt.Sprint(p.Cut, p.Still, p.Dead, p.Careful, p.Faults), "[b] [] [a] true 10",
		"a was killed: cut off, still, dead, careful, faults")
	p.mark("a", doStart, 9)
	eventstest.Expect(t, len(p.Dead) == 0, "a was started again, and is %v", p.Dead)
	p.Marks = p.Marks[:7]
	p.forget(5)
	eventstest.Expect(t, len(p.Marks) == 3, "marks since 5: %v, want 3", p.Marks)
}

func TestThePlaceInTheQueueIsThatOfTheNumber(t *testing.T) {
	for _, test := range []struct {
		names  []string
		prefix string
		want   int
	}{
		{nil, "a-", -1},
		{[]string{"b-0000000001"}, "a-", -1},
		{[]string{"b-0000000002", "a-0000000001"}, "a-", 0},
		{[]string{"z-0000000003", "a-0000000010", "b-0000000009"}, "a-", 2},
		{[]string{"odd", "a-0000000010"}, "a-", 0},
	} {
		eventstest.Equal(t, place(test.names, test.prefix), test.want,
			"the place of %s in %v", test.prefix, test.names)
	}
}
