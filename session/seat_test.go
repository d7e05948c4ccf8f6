package session

import (
	"testing"

	"github.com/zkgrant/zkgrant/recipes"
)

// The listing of a past epoch may be answered when that of the next one has found another node.
func TestALateListingDoesNotTakeTheInterestAway(t *testing.T) {
	c := &client{watches: newWatches()}
	s := &Seat{content: &content{layout: queued{}}}
	s.nameOwn(recipes.Epoch(2), "/dir/new", 0)
	if before := s.nameOwn(recipes.Epoch(1), "/dir/old", 0); before != "" {
		t.Errorf("a past epoch's node took the place of %q, want of none", before)
	}
	s.note(c, "/dir/new")
	s.note(c, "/dir/old")
	if got := c.watches.gone("/dir/new"); len(got) != 1 || got[0] != s {
		t.Errorf("%v are interested in the new node, want the seat", got)
	}
	if got := c.watches.gone("/dir/old"); len(got) != 0 {
		t.Errorf("%v are interested in the past node, want nobody", got)
	}
}

// Requests may overtake each other: of two, the one made later counts.
func TestTheLaterWatchCounts(t *testing.T) {
	c := &client{watches: newWatches()}
	s := &Seat{content: &content{layout: queued{}}}
	first := s.follow("/dir/a")
	second := s.follow("/dir/b")
	if first != "" || second != "/dir/a" {
		t.Errorf("the watches took the place of %q and %q, want none and /dir/a", first, second)
	}
	s.drop(c, second)
	s.note(c, "/dir/b")
	s.drop(c, first)
	s.note(c, "/dir/a")
	if got := c.watches.gone("/dir/a"); len(got) != 0 {
		t.Errorf("%v are interested in the first path, want nobody", got)
	}
	if got := c.watches.gone("/dir/b"); len(got) != 1 {
		t.Errorf("%v are interested in the second path, want the seat", got)
	}
}

// TestNewsReachWhoIsThere has seats leave from the middle, the end and the front, some of
// them twice, and one that was never there.
func TestNewsReachWhoIsThere(t *testing.T) {
	const all = 8
	s := &Session{client: &client{}}
	heard := map[*Seat]int{}
	var seats []*Seat
	for range all {
		seat := &Seat{session: s}
		seat.post = func(recipes.Input, error) { heard[seat]++ }
		seats = append(seats, seat)
		s.onEntered(seat)
	}
	here := map[*Seat]bool{}
	for _, seat := range seats {
		here[seat] = true
	}
	for round, leaving := range []int{3, 7, 0, 3, 6, 1} {
		s.unseat(seats[leaving])
		s.unseat(&Seat{session: s})
		delete(here, seats[leaving])
		clear(heard)
		s.broadcast(recipes.Suspended{})
		for i, seat := range seats {
			if (heard[seat] == 1) != here[seat] || heard[seat] > 1 {
				t.Errorf("round %d: seat %d, there: %v, heard the news %d times; want once if it is there", round, i, here[seat], heard[seat])
			}
		}
	}
	for _, seat := range seats {
		s.unseat(seat)
	}
	if len(s.seats) != 0 {
		t.Errorf("%d seats are left, want none", len(s.seats))
	}
	s.unseat(seats[0])
}

const lookedAt = "/permits/leases"

// TestAPathIsArmedUntilItFires: what is armed when the answer comes is not armed again, and nothing is taken for
// armed that may not be. Each step asks, or something happens, or an answer comes to the n-th who armed.
func TestAPathIsArmedUntilItFires(t *testing.T) {
	type step struct {
		do  string // "ask", "fire", "fail", "reconnect"; "done": the answer comes to the latest who armed but has none
		arm bool   // of ask
	}
	for name, steps := range map[string][]step{
		"armed once":               {{"ask", true}, {"done", false}, {"ask", false}, {"ask", false}},
		"both before the answer":   {{"ask", true}, {"ask", true}, {"done", false}, {"ask", false}},
		"it fires":                 {{"ask", true}, {"done", false}, {"fire", false}, {"ask", true}},
		"the event comes first":    {{"ask", true}, {"fire", false}, {"done", false}, {"ask", true}},
		"it fails":                 {{"ask", true}, {"fail", false}, {"ask", true}},
		"one of two fails":         {{"ask", true}, {"ask", true}, {"fail", false}, {"done", false}, {"ask", false}},
		"a reconnect":              {{"ask", true}, {"done", false}, {"reconnect", false}, {"ask", true}},
		"a reconnect while it is":  {{"ask", true}, {"reconnect", false}, {"done", false}, {"ask", true}},
		"the second armed behind":  {{"ask", true}, {"done", false}, {"fire", false}, {"ask", true}, {"done", false}, {"ask", false}},
		"the first answered later": {{"ask", true}, {"fire", false}, {"ask", true}, {"done", false}, {"done", false}, {"ask", false}},
	} {
		t.Run(name, func(t *testing.T) {
			l, seat := newLookouts(), &Seat{}
			var arming []int // with the number that each was given
			answer := func(armed bool) {
				last := len(arming) - 1
				l.answered(lookedAt, arming[last], armed)
				arming = arming[:last]
			}
			for i, s := range steps {
				switch s.do {
				case "ask":
					arm, fires := l.ask(lookedAt, seat)
					if arm != s.arm {
						t.Fatalf("step %d: to be armed is %v, want %v", i, arm, s.arm)
					}
					if arm {
						arming = append(arming, fires)
					}
				case "fire":
					if told := l.fired(lookedAt); len(told) != 1 {
						t.Fatalf("step %d: %d are told", i, len(told))
					}
					if told := l.fired(lookedAt); len(told) != 0 {
						t.Fatalf("step %d: %d are told twice", i, len(told))
					}
				case "reconnect":
					l.distrust()
				default:
					answer(s.do == "done")
				}
			}
		})
	}
}

// TestNobodyLooksOut: nothing is remembered of a path that is not armed and that nobody looks at.
func TestNobodyLooksOut(t *testing.T) {
	l, a, b := newLookouts(), &Seat{}, &Seat{}
	_, fires := l.ask(lookedAt, a)
	l.ask(lookedAt, a)
	l.answered(lookedAt, fires, true)
	l.answered(lookedAt, fires, false)
	l.ask(lookedAt, b)
	l.forget(lookedAt, a)
	l.forget(lookedAt, a)
	if told := l.fired(lookedAt); len(told) != 1 || told[0] != b {
		t.Errorf("%v are told, want only the second", told)
	}
	if l.any() || len(l.all()) != 0 {
		t.Errorf("%v are armed when nobody looks, want none", l.paths)
	}
	l.forget(lookedAt, b)
	if _, fires = l.ask(lookedAt, nil); !l.any() {
		t.Error("nothing is known of a path that is about to be armed, want it remembered")
	}
	l.answered(lookedAt, fires, false)
	if told := l.fired(lookedAt); len(told) != 0 || l.any() {
		t.Errorf("%v are told and %v armed after a failure, want none", told, l.paths)
	}
}
