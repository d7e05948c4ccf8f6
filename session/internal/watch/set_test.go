package watch_test

import (
	"slices"
	"testing"

	"github.com/zkgrant/zkgrant/session/internal/watch"
)

const path = "/dir/node"

// TestAPathIsArmedUntilItFires: a path that is armed when the answer comes is not armed again, and a path that may not be armed is not
// taken for armed. Each step asks, or something happens, or an answer comes to the n-th caller that armed.
func TestAPathIsArmedUntilItFires(t *testing.T) {
	type step struct {
		do  string // "ask", "fire", "fail", "reconnect"; "done": the answer comes to the latest caller that armed but has none
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
			l := &watch.Set[string, struct{}]{}
			var arming []uint32 // with the number that each was given
			answer := func(armed bool) {
				last := len(arming) - 1
				l.Answered(path, arming[last], armed)
				arming = arming[:last]
			}
			for i, s := range steps {
				switch s.do {
				case "ask":
					arm, fires := l.Ask(path, "seat")
					if arm != s.arm {
						t.Fatalf("step %d: to be armed is %v, want %v", i, arm, s.arm)
					}
					if arm {
						arming = append(arming, fires)
					}
				case "fire":
					if told := l.Fired(path); len(told) != 1 {
						t.Fatalf("step %d: %d are told", i, len(told))
					}
					if told := l.Fired(path); len(told) != 0 {
						t.Fatalf("step %d: %d are told twice", i, len(told))
					}
				case "reconnect":
					l.Reset()
				default:
					answer(s.do == "done")
				}
			}
		})
	}
}

// TestAPathWithoutSubscribersIsNotRemembered: a path that is not armed and has no subscriber is not remembered.
func TestAPathWithoutSubscribersIsNotRemembered(t *testing.T) {
	l, a, b := &watch.Set[string, struct{}]{}, "first", "second"
	_, fires := l.Ask(path, a)
	l.Ask(path, a)
	l.Answered(path, fires, true)
	l.Answered(path, fires, false)
	l.Ask(path, b)
	l.Drop(path, a)
	l.Drop(path, a)
	if told := l.Fired(path); len(told) != 1 || told[0] != b {
		t.Errorf("%v are told, want only the second", told)
	}
	if !l.Empty() || len(l.Reset()) != 0 {
		t.Error("a path is remembered without a subscriber, want none")
	}
	l.Drop(path, b)
	if _, fires = l.Ask(path, ""); l.Empty() {
		t.Error("nothing is known of a path that is about to be armed, want it remembered")
	}
	l.Answered(path, fires, false)
	if told := l.Fired(path); len(told) != 0 || !l.Empty() {
		t.Errorf("%v are told after a failure, and none remembered: %v; want none", told, l.Empty())
	}
}

// TestOneArmsForAll, and which subscribers are told: of a failure all but the one that armed, of a change none, of an end each once.
func TestOneArmsForAll(t *testing.T) {
	var s watch.Set[string, struct{}]
	all := []string{"first", "second", "third"}
	arm := func(who string, want bool) {
		t.Helper()
		if got, _ := s.Arm(path, who); got != want || !s.Armed() {
			t.Errorf("%q is to arm: %v, and some path is armed: %v; want %v and true", who, got, s.Armed(), want)
		}
	}
	if !s.Add(path, all[0]) || s.Add(path, all[1]) || s.Armed() {
		t.Errorf("of two that add themselves other than the first has nothing armed yet, or a path is armed: %v; want none", s.Armed())
	}
	arm(all[1], true)
	for _, who := range all {
		arm(who, false)
	}
	if !s.Failed(path, all[2]) || s.Armed() || s.Subscribed(path, all[2]) || !slices.Equal(s.Subscribers(path), all[:2]) {
		t.Errorf("after the third has failed %v are left, want %v, and none armed", s.Subscribers(path), all[:2])
	}
	arm("", true)
	if !s.Changed(path) || s.Armed() {
		t.Error("after a change the path is armed or no subscriber wants it to be, want the reverse")
	}
	arm("", true)
	s.Arm("/unwanted", "")
	if wanted := s.Reset(); !slices.Equal(wanted, []string{path}) || s.Armed() {
		t.Errorf("after a reset %v are to be armed again, want %s, and none armed", wanted, path)
	}
	arm("", true)
	if told := s.Fired(path); !slices.Equal(told, all[:2]) {
		t.Errorf("%v are told of the end, want %v", told, all[:2])
	}
	if told := s.Fired(path); len(told) > 0 || !s.Empty() {
		t.Errorf("%v are told again, and none remembered: %v; want none", told, s.Empty())
	}
	if arm(all[0], true); s.Failed(path, all[0]) || !s.Empty() {
		t.Error("a subscriber relies on the one that has failed, want none, and nothing remembered")
	}
	arm(all[0], true)
	if s.Drop(path, all[0]); s.Empty() || s.Changed(path) || !s.Empty() {
		t.Error("without a subscriber: want the path remembered until it fires, and then not armed again")
	}
}

// TestANoteHoldsUntilThePathFires, and is remembered as long as the path.
func TestANoteHoldsUntilThePathFires(t *testing.T) {
	var s watch.Set[string, int]
	note := func(value, before int, holds bool) {
		t.Helper()
		got := -1
		if made := s.Note(path, func(was int) int { got = was; return value }); made != value || got != before {
			t.Errorf("%d is noted behind %d, want %d behind %d", made, got, value, before)
		}
		if stands, ok := s.Noted(path); ok != holds || ok && stands != value {
			t.Errorf("what stands is %d (%v), want %d (%v)", stands, ok, value, holds)
		}
	}
	note(1, 0, false) // the path has no watch
	s.Arm(path, "a")
	note(2, 0, true)
	note(3, 2, true)
	s.Changed(path)
	if _, holds := s.Noted(path); holds {
		t.Error("after a change the note holds, want it not to")
	}
	note(4, 3, false) // it has fired before the reading was answered
	s.Arm(path, "")
	note(5, 4, true)
	s.Unnote(path)
	note(6, 0, true)
	s.Reset()
	if _, holds := s.Noted(path); holds {
		t.Error("after a reset the note holds, want it not to")
	}
	for forget, by := range map[string]func(){
		"fired":   func() { s.Fired(path) },
		"failed":  func() { s.Failed(path, "a") },
		"dropped": func() { s.Changed(path); s.Drop(path, "a") },
	} {
		s.Arm(path, "a")
		s.Note(path, func(int) int { return 7 })
		by()
		s.Arm(path, "a")
		if before := s.Note(path, func(was int) int { return was }); before != 0 {
			t.Errorf("%s: of a path that was forgotten %d is noted, want nothing", forget, before)
		}
	}
}

// TestAPathIsArmedForCertain once a reading on the present connection that armed it was answered, and until it fires.
func TestAPathIsArmedForCertain(t *testing.T) {
	const path = "/a"
	for name, c := range map[string]struct {
		do   func(s *watch.Set[string, struct{}], fires uint32)
		want bool
	}{
		"answered":                        {func(s *watch.Set[string, struct{}], fires uint32) { s.Done(path, fires) }, true},
		"not answered":                    {func(*watch.Set[string, struct{}], uint32) {}, false},
		"answered, and it has fired":      {func(s *watch.Set[string, struct{}], fires uint32) { s.Done(path, fires); s.Changed(path) }, false},
		"fired before it was answered":    {func(s *watch.Set[string, struct{}], fires uint32) { s.Changed(path); s.Done(path, fires) }, false},
		"answered on another connection":  {func(s *watch.Set[string, struct{}], fires uint32) { s.Done(path, fires); s.Resumed() }, false},
		"asked for on another connection": {func(s *watch.Set[string, struct{}], fires uint32) { s.Resumed(); s.Done(path, fires) }, false},
		"fired, and it is armed anew": {func(s *watch.Set[string, struct{}], fires uint32) {
			s.Changed(path)
			s.Arm(path, "b")
			s.Done(path, fires)
		}, false},
		"failed": {func(s *watch.Set[string, struct{}], fires uint32) { s.Failed(path, "a"); s.Done(path, fires) }, false},
	} {
		var s watch.Set[string, struct{}]
		_, fires := s.Arm(path, "a")
		c.do(&s, fires)
		if got := s.Sure(path); got != c.want {
			t.Errorf("%s: armed for certain %v, want %v", name, got, c.want)
		}
	}
}
