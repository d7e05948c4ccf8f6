package watch_test

import (
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/internal/watch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const path = "/dir/node"

// TestAPathIsArmedUntilItFires: a path that is armed when the answer arrives is not armed
// again, and a path that could not be armed does not count as armed. ASK asks and must
// arm; ask asks and need not. done and fail answer the latest caller that armed and has
// no answer yet, and first answers the earliest one. A connection is lost, and on the
// next one, everything is restored or not. A path is certainly armed once a read that
// armed it on the current connection was answered, until it fires.
func TestAPathIsArmedUntilItFires(t *testing.T) {
	for name, steps := range map[string]string{
		"armed once":               "ASK done ask ask",
		"both before the answer":   "ASK ASK done ask",
		"the event comes first":    "ASK fire done ASK",
		"one of two fails":         "ASK ASK fail done ask",
		"a reconnect":              "ASK done reconnect ASK",
		"a reconnect while it is":  "ASK reconnect done ASK",
		"the second armed behind":  "ASK done fire ASK done ask",
		"the first answered later": "ASK fire ASK done done ask",

		"not restored":                 "ASK done lose ASK done ask lose ASK",
		"restored after the next":      "ASK done lose ASK restore done ask",
		"answered on the next":         "ASK lose done ASK done ask",
		"answered, and restored":       "ASK lose done restore ask",
		"it fires as it is restored":   "ASK done lose fire restore ASK",
		"it fires before it is":        "ASK done lose ASK done fire ASK",
		"restored on one, not another": "ASK done lose restore ask lose ASK",

		"asked":                      "ASK unsure",
		"answered":                   "ASK done sure",
		"changed":                    "ASK done change unsure",
		"changed before the answer":  "ASK change done unsure",
		"resumed":                    "ASK done resume unsure",
		"asked for on another":       "ASK resume done unsure",
		"armed, and not for certain": "ASK resume done ask unsure",
		"of an earlier reading":      "ASK change ASK first unsure",
		"failed":                     "ASK fail unsure",
		"failed, and asked again":    "ASK fail ASK unsure",
	} {
		t.Run(name, func(t *testing.T) {
			l := &watch.Set[string, struct{}]{}
			var arming []watch.Ticket
			for i, step := range strings.Fields(steps) {
				switch step {
				case "ASK", "ask":
					arm, ticket := l.Ask(path, "seat")
					if arm != (step == "ASK") {
						t.Fatalf("step %d: to be armed is %v, want %v", i, arm, !arm)
					}
					if arm {
						arming = append(arming, ticket)
					}
				case "fire":
					if first, again := l.Fired(path), l.Fired(path); len(first) != 1 || len(again) != 0 {
						t.Fatalf("step %d: %v are told, and then %v; want one, once", i, first, again)
					}
				case "reconnect":
					l.Reset()
				case "lose":
					l.Suspended()
				case "restore":
					l.Restored()
				case "resume":
					l.Resumed()
				case "change":
					l.Changed(path)
				case "sure", "unsure":
					eventstest.Equal(t, l.Sure(path), step == "sure", "step %d: armed for certain", i)
				case "first":
					l.Answered(path, arming[0], true)
				default:
					last := len(arming) - 1
					l.Answered(path, arming[last], step == "done")
					arming = arming[:last]
				}
			}
		})
	}
}

// TestOneArmsForAll: one caller arms for all that ask after its answer. Subscribers are
// not notified of a change, and once of an end. A path that is not armed and has no
// subscriber is forgotten.
func TestOneArmsForAll(t *testing.T) {
	var s watch.Set[string, struct{}]
	all := []string{"first", "second", "third"}
	ask := func(who string, want bool) (ticket watch.Ticket) {
		t.Helper()
		arm, ticket := s.Ask(path, who)
		eventstest.Expect(t, arm == want && s.Armed(),
			"%q is to arm: %v, and some path is armed: %v; want %v and true", who, arm, s.Armed(), want)
		return ticket
	}
	arm := func(who string) { s.Answered(path, ask(who, true), true) }
	fires := func(want ...string) {
		t.Helper()
		if told := s.Fired(path); !slices.Equal(told, want) || !s.Empty() || len(s.Reset()) > 0 {
			t.Errorf("%v are told of the end, and none remembered: %v; want %v, and none", told, s.Empty(), want)
		}
	}
	eventstest.Expect(t, s.Add(path, all[0]) && s.Add(path, all[1]) && !s.Armed(),
		"two have added themselves, and a path is armed: %v; want none", s.Armed())
	arm(all[1])
	for _, who := range all {
		ask(who, false)
	}
	eventstest.Expect(t, !s.Add(path, all[0]), "a path that is armed is to be armed, want it left alone")
	if s.Drop(path, all[2]); !slices.Equal(s.Subscribers(path), all[:2]) {
		t.Errorf("after the third has gone %v are left, want %v", s.Subscribers(path), all[:2])
	}
	eventstest.Expect(t, s.Changed(path) && !s.Armed(),
		"after a change the path is armed or no subscriber wants it to be, want the reverse")
	arm("")
	_, unwanted := s.Ask("/unwanted", "")
	s.Answered("/unwanted", unwanted, true)
	if wanted := s.Reset(); !slices.Equal(wanted, []string{path}) || s.Armed() {
		t.Errorf("after a reset %v are to be armed again, want %s, and none armed", wanted, path)
	}
	arm("")
	fires(all[:2]...)
	fires()
	arm(all[0])
	if s.Drop(path, all[0]); s.Empty() || s.Changed(path) || !s.Empty() {
		t.Error("without a subscriber: want the path remembered until it fires, and then not armed again")
	}
	s.Answered(path, ask("", true), false) // until then, it is remembered
	fires()
	ticket := ask(all[0], true) // asks, drops and is answered twice
	s.Ask(path, all[0])
	s.Answered(path, ticket, true)
	s.Answered(path, ticket, false)
	s.Ask(path, all[1])
	s.Drop(path, all[0])
	s.Drop(path, all[0])
	fires(all[1])
	s.Drop(path, all[1])
	fires()
}

// TestANoteHoldsUntilThePathFires: it is remembered as long as the path.
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
	arm := func(who string) {
		if arm, ticket := s.Ask(path, who); arm {
			s.Answered(path, ticket, true)
		}
	}
	note(1, 0, false) // the path has no watch
	arm("a")
	note(2, 0, true)
	note(3, 2, true)
	s.Changed(path)
	_, holds := s.Noted(path)
	eventstest.Expect(t, !holds, "after a change the note holds, want it not to")
	note(4, 3, false) // it has fired before the read was answered
	arm("")
	note(5, 4, true)
	s.Unnote(path)
	note(6, 0, true)
	s.Reset()
	_, holds = s.Noted(path)
	eventstest.Expect(t, !holds, "after a reset the note holds, want it not to")
	for forget, by := range map[string]func(){
		"fired":   func() { s.Fired(path) },
		"dropped": func() { s.Changed(path); s.Drop(path, "a") },
	} {
		arm("a")
		s.Note(path, func(int) int { return 7 })
		by()
		arm("a")
		before := s.Note(path, func(was int) int { return was })
		eventstest.Equal(t, before, 0, "%s: what is noted of a path that was forgotten", forget)
	}
}
