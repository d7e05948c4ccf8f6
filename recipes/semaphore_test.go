package recipes

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/zkgrant/zkgrant/events"
)

// permitsOf wants three permits of four.
var permitsOf = Semaphore{Size: 4, Permits: 3}

var (
	permitOwn  = Own{Name: events.Name{Text: "leases/a-0000000007"}, Owner: 77}
	ownPermits = []string{"leases/a-0000000007", "leases/a-0000000008", "leases/a-0000000009"}
	gotIn      = Entered{Epoch: 1, Permits: ownPermits, InUse: 4, Fresh: true}
	room       = Surveyed{Epoch: 1, Size: 4, Version: 2, InUse: 1}
	noRoom     = Surveyed{Epoch: 1, Size: 4, Version: 2, InUse: 2}

	// crowded is gotIn beside a contender that was not the first in the queue.
	crowded = Entered{Epoch: 1, Permits: ownPermits, InUse: 5, Fresh: true}
)

// semaphoreSituations are machines in every state, as in situations.
func semaphoreSituations() map[string][]Input {
	s := map[string][]Input{
		"nothing yet": {},
		"looking":     {opened, Started{Try: true}},
		"creating":    {opened, Started{}},
	}
	from := func(name, base string, more ...Input) {
		s[name] = append(append([]Input(nil), s[base]...), more...)
	}
	from("looking, no waiter", "looking", Listed{Epoch: 1})
	from("recovering", "creating", Unknown{1, OpCreate})
	from("surveying", "creating", Created{1, ours, true, true, 500})
	from("listing", "creating", Created{Epoch: 1, Node: ours})
	from("surveying, listed", "listing", first)
	from("waiting", "listing", second)
	from("waiting behind two", "listing", third)
	from("advancing", "waiting behind two", Gone{1, ahead4.Text})
	from("surveying after waiting", "waiting", Gone{1, ahead3.Text})
	from("surveying, own gone", "surveying", Gone{1, ours.Text})
	from("watching", "surveying", noRoom)
	from("watching, changed", "watching", Changed{1})
	from("surveying, no connection", "surveying", Suspended{})
	from("surveying, reconnected", "surveying, no connection", Reconnected{})
	from("surveying, first before the news", "waiting", Suspended{}, Gone{1, ahead3.Text}, Reconnected{})
	from("full", "watching", noRoom)
	from("full, no connection", "full", Suspended{})
	from("entering", "surveying", room)
	from("entering after waiting", "surveying after waiting", room)
	from("entering, withdrawn", "entering", Withdrawn{Why: WhyReleased})
	from("entering, unknown", "entering", Unknown{1, OpEnter})
	from("entering, unknown, withdrawn", "entering, unknown", Withdrawn{Why: WhyContext})
	from("entering, expired", "entering", Expired{})
	from("trying, surveying", "looking, no waiter", room, Created{1, ours, true, true, 500})
	from("trying, entering", "trying, surveying", room)
	from("found among the permits", "entering, unknown", Listed{Epoch: 1, Own: permitOwn, Entered: true})
	from("held", "entering", gotIn)
	from("entered too late", "entering", Entered{Epoch: 1, Permits: ownPermits})
	from("entered too late, own gone", "entered too late", Gone{1, ownPermits[0]})
	from("releasing", "held", Withdrawn{Why: WhyReleased})
	from("releasing the rest", "held", Gone{1, ownPermits[0]})
	from("over", "releasing", Deleted{1})
	from("lapsed", "held", LeaseRanOut{})
	from("lapsed, one gone", "held", Gone{1, ownPermits[0]})
	from("lapsed, expired", "lapsed", Expired{})
	s["strict, entering, no connection"] = []Input{opened, Started{Strict: true}, Created{1, ours, true, true, 500}, room, Suspended{}}
	return s
}

// everySemaphoreInput has the inputs of any lock, and its own.
func everySemaphoreInput() []Input {
	all := everyInput()
	for epoch := range Epoch(3) {
		for _, size := range []int32{2, 4, 5} {
			for taken := range int32(3) {
				all = append(all, Surveyed{Epoch: epoch, Size: size, InUse: taken})
			}
		}
		all = append(all, Adopted{}, Changed{epoch}, Gone{epoch, ownPermits[0]}, Gone{epoch, ownPermits[1]},
			Entered{Epoch: epoch, Permits: ownPermits, Fresh: true}, Entered{Epoch: epoch, Permits: ownPermits}, Entered{Epoch: epoch},
			Listed{Epoch: epoch, Own: permitOwn, Entered: true}, Refused{Epoch: epoch, Op: OpEnter, Stale: true},
			Refused{Epoch: epoch, Op: OpEnter}, Unknown{epoch, OpEnter})
		found := first
		found.Epoch, found.Size = epoch, 9
		all = append(all, found)
	}
	return all
}

// TestAnyInputToASemaphore is TestAnyInputInAnyState for machines that want permits. No machine is granted without permits, no node
// that may exist is forgotten, and every awaited answer was asked for.
func TestAnyInputToASemaphore(t *testing.T) {
	anyInput(t, permitsOf, semaphoreSituations(), everySemaphoreInput(), 2, func(in Input, m, next Machine, effects []Effect) (wrong string) {
		for _, e := range effects {
			ok := true
			switch e := e.(type) {
			case Grant:
				ok = next.permits.entered && (e.Token != 0 || m.own.Token == 0)
			case Enter:
				ok = m.state == Surveying && e.Permits == 3 && e.Node == m.own.Name.Text
			case Discard:
			default:
				ok = m.state != Over && !past(in, m.epoch)
			}
			if !ok {
				return "unexpected: " + effectText(e)
			}
		}
		return awaitsWhatItAskedFor(m, next, effects)
	})
}

// awaited are the requests whose answers the states wait for.
var awaited = map[State]Effect{
	Surveying: Survey{}, Entering: Enter{}, Claiming: Claim{}, Creating: Create{}, Recovering: List{}, Listing: List{},
	Advancing: Advance{}, Releasing: Delete{}, Looking: List{},
}

// awaitsWhatItAskedFor checks that a machine that comes to a state in which it awaits an answer has asked for it.
func awaitsWhatItAskedFor(before, next Machine, effects []Effect) (wrong string) {
	want := awaited[next.state]
	if next.state == before.state || want == nil {
		return ""
	}
	if !slices.ContainsFunc(effects, func(e Effect) bool { return reflect.TypeOf(e) == reflect.TypeOf(want) }) {
		return fmt.Sprintf("came to %v with %v, want a %T", next.state, effects, want)
	}
	return ""
}

// TestSemaphoreSteps has the steps that differ from a mutex's.
func TestSemaphoreSteps(t *testing.T) {
	const own = "lock-0000000005"
	situations := semaphoreSituations()
	for _, c := range []struct {
		from  string
		in    Input
		state State
		want  string
	}{
		{"looking", Listed{Epoch: 1}, Looking, "[survey]"},
		{"looking, no waiter", room, Creating, "[create attempt 1]"},
		{"looking, no waiter", noRoom, Over, `[END "busy"]`},
		{"looking, no waiter", Surveyed{Epoch: 1, Size: 5}, Over, `[END "size mismatch"]`},
		{"looking, no waiter", Unknown{1, OpSurvey}, Looking, "[survey]"},
		{"surveying", room, Entering, "[enter #5 for 3 at version 2]"},
		{"surveying", noRoom, Surveying, "[survey #5 and watch]"},
		{"surveying", Changed{1}, Surveying, "[]"},
		{"surveying", Surveyed{Epoch: 1, Size: 5}, Releasing, "[delete #5]"},
		{"surveying", Refused{Epoch: 1, Op: OpSurvey, Missing: true}, Creating, "[create attempt 2 REQUEUED]"},
		{"surveying, own gone", room, Creating, "[create attempt 2 REQUEUED]"},
		// A replica that is behind the news of being first is not believed.
		{"surveying", Unknown{1, OpSurvey}, Listing, "[list]"},
		{"surveying, no connection", room, Listing, "[list]"}, // the next connection may have answered, before it is announced
		{"surveying, reconnected", room, Listing, "[list]"},
		{"surveying, reconnected", noRoom, Listing, "[list]"},
		{"surveying, first before the news", room, Listing, "[list]"}, // the news is of a connection that is gone again
		{"watching", noRoom, Full, "[QUEUED behind 0]"},
		{"watching", room, Entering, "[enter #5 for 3 at version 2]"},
		{"watching, changed", noRoom, Surveying, "[survey #5]"}, // the answer may be older than the change
		{"full", Changed{1}, Surveying, "[survey #5]"},
		{"full", Changed{2}, Full, "[]"},
		{"full, no connection", Reconnected{}, Surveying, "[survey #5 and watch]"},
		{"full", Gone{1, own}, Creating, "[create attempt 2 REQUEUED]"},
		{"full", Withdrawn{Why: WhyReleased}, Releasing, "[delete #5]"},
		{"watching", Surveyed{Epoch: 1, Size: 2}, Releasing, "[delete #5]"}, // shrunk below what it wants
		{"entering after waiting", Refused{Epoch: 1, Op: OpEnter, Stale: true}, Surveying, "[survey #5]"},
		{"surveying after waiting", room, Entering, "[enter #5 for 3 at version 2 with a floor]"},
		{"surveying after waiting", Withdrawn{Why: WhyReleased}, Releasing, "[delete #5 with a floor]"},
		{"entering", crowded, Creating, "[discard leases/a-0000000007 create attempt 2 REQUEUED]"},
		{"entering, withdrawn", crowded, Releasing, "[delete leases/a-0000000007]"},
		{"trying, entering", crowded, Releasing, "[delete leases/a-0000000007]"},
		{"entering, unknown", Listed{Epoch: 1, Own: permitOwn, Entered: true, InUse: 5}, Creating, "[discard leases/a-0000000007 create attempt 2 REQUEUED]"},
		{"entering, unknown, withdrawn", Listed{Epoch: 1, Own: permitOwn, Entered: true, InUse: 5}, Releasing, "[delete leases/a-0000000007]"},
		{"entering", Gone{1, own}, Entering, "[]"}, // perhaps by its own transaction
		{"entering", gotIn, Held, "[GRANT leases/a-0000000007 token 500]"},
		{"entering", Refused{Epoch: 1, Op: OpEnter, Missing: true}, Creating, "[create attempt 2 REQUEUED]"},
		{"entering", Unknown{1, OpEnter}, Recovering, "[barrier, list]"},
		{"entering, withdrawn", gotIn, Releasing, "[delete leases/a-0000000007]"},
		{"entering, withdrawn", Refused{Epoch: 1, Op: OpEnter, Stale: true}, Releasing, "[delete #5]"},
		{"entering, withdrawn", Refused{Epoch: 1, Op: OpEnter, Missing: true}, Over, `[END "released"]`},
		{"entering, expired", reopened, Creating, "[create attempt 2]"},
		{"entering, expired", gotIn, Idle, "[discard leases/a-0000000007 discard leases/a-0000000008 discard leases/a-0000000009]"},
		{"trying, surveying", noRoom, Releasing, "[delete #5]"},
		{"entering, unknown", first, Surveying, "[survey #5]"},
		{"entering, unknown", Listed{Epoch: 1, Own: permitOwn, Entered: true}, Claiming, "[claim leases/a-0000000007]"},
		{"entering, unknown", Listed{Epoch: 1}, Creating, "[create attempt 2 REQUEUED]"},
		{"entering, unknown, withdrawn", Listed{Epoch: 1, Own: permitOwn, Entered: true}, Releasing, "[delete leases/a-0000000007]"},
		{"found among the permits", Claimed{Epoch: 1, Fresh: true}, Held, "[GRANT leases/a-0000000007 token 500]"},
		{"found among the permits", Refused{Epoch: 1, Op: OpClaim, Missing: true}, Creating,
			"[discard leases/a-0000000007 create attempt 2 REQUEUED]"},
		{"entered too late", Claimed{Epoch: 1, Fresh: true}, Held, "[GRANT leases/a-0000000007 token 500]"},
		{"entered too late, own gone", Withdrawn{Why: WhyReleased}, Releasing, "[delete leases/a-0000000007]"},
		{"held", Gone{1, ownPermits[0]}, Lapsed, `[LOST "node removed"]`},
		{"held", Expired{}, Lapsed, `[LOST "session expired"]`},
		{"lapsed, one gone", Withdrawn{Why: WhyReleased, Ran: true}, Releasing, "[delete leases/a-0000000007]"},
		{"lapsed, expired", Withdrawn{Why: WhyReleased}, Over, `[END "lost"]`},
	} {
		m := NewMachine(permitsOf)
		for _, in := range situations[c.from] {
			m, _ = m.Step(in)
		}
		next, effects := m.Step(c.in)
		var texts []string
		for _, e := range effects {
			texts = append(texts, effectText(e))
		}
		if got := fmt.Sprint(texts); got != c.want || next.State() != c.state {
			t.Errorf("%s, %s: %v, %s; want %v, %s", c.from, inputText(c.in), next.State(), got, c.state, c.want)
		}
	}
}

// TestAnotherSizeCountsAtTheFirstLook: another size counts at the first look, and from then on the size is followed.
func TestAnotherSizeCountsAtTheFirstLook(t *testing.T) {
	for _, adopt := range []bool{false, true} {
		m := NewMachine(Semaphore{Size: 4, Permits: 3, Adopt: adopt})
		for _, in := range []Input{opened, Started{}, Created{Epoch: 1, Node: ours}} {
			m, _ = m.Step(in)
		}
		third := third
		third.Size = 5
		after, _ := m.Step(third) // a listing tells the size at once, before its turn
		if adopt != (after.State() == Waiting) || after.Size() != 5 {
			t.Errorf("adopt %v, after it has listed another size: %v, size %d; want it to wait: %[1]v, size 5", adopt, after.State(), after.Size())
		}
		if adopt {
			continue
		}
		third.Size = 4
		m, _ = m.Step(third)
		m, _ = m.Step(Gone{1, ahead4.Text})
		m, _ = m.Step(Advanced{1, true, false, false})
		m, _ = m.Step(Surveyed{Epoch: 1, Size: 5, InUse: 2})
		if m.State() != Entering || m.Size() != 5 {
			t.Errorf("resized while it waited: %v, %d", m.State(), m.Size())
		}
	}
}
