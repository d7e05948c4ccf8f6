package recipes

import (
	"testing"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// somebody is a crashed holder; a machine does not care which contender it was.
var somebody = events.Abandoned{Node: "somebody's"}

// crashSituations are machines of a lock that reports crashes, in the states in which
// that makes a difference.
func crashSituations() cases {
	s := cases{}
	s.from("creating", "", opened, Started{Detect: true})
	s.from("claiming", "creating", Created{1, ours, true, true, 500})
	s.from("claiming, first listed", "creating", Created{Epoch: 1, Node: ours}, first)
	s.from("claiming behind a floor", "creating", Created{Epoch: 1, Node: ours}, third, Gone{1, ahead4}, Advanced{1, true, false, true})
	s.from("claiming, withdrawn", "claiming", Withdrawn{Why: WhyContext})
	s.from("claiming, own gone", "claiming", Gone{1, ours})
	s.from("claiming, no connection", "claiming", Suspended{})
	s.from("held", "claiming", Claimed{Epoch: 1, Fresh: true, Recorded: true})
	s.from("held behind a crash", "claiming", Claimed{Epoch: 1, Fresh: true, Recorded: true, Abandoned: &somebody})
	s.from("lost", "held", LeaseRanOut{})
	s.from("lost behind a crash", "held behind a crash", LeaseRanOut{})
	s.from("creating, withdrawn", "creating", Withdrawn{Why: WhyContext})
	s.from("verifying", "held", Suspended{}, Reconnected{})
	s.from("releasing", "held", Withdrawn{Why: WhyReleased, Taken: true})
	s.from("releasing uncleanly", "held", Withdrawn{Why: WhyClosed, Taken: true})
	s.from("held, of another node", "claiming", Claimed{Epoch: 1, Fresh: false, Recorded: true}, Expired{}, reopened,
		Created{2, later, true, true, 600}, Claimed{Epoch: 2, Fresh: true, Recorded: true, Abandoned: &somebody})
	s.from("strict, claiming, no connection", "", opened, Started{Detect: true, Strict: true}, Created{1, ours, true, true, 500}, Suspended{})
	return s
}

// TestCrashTransitions has the steps that no transcript in testdata shows.
func TestCrashTransitions(t *testing.T) {
	crashSituations().follow(t, Mutex{}, []row{
		{"creating, withdrawn", Created{1, ours, true, true, 500}, Releasing, "delete #5"},
		{"claiming", Claimed{Epoch: 1, Fresh: false, Recorded: true, Abandoned: &somebody}, Claiming, "claim #5 with a record"},
		{"claiming", Claimed{Epoch: 2, Fresh: true, Recorded: true}, Claiming, ""},
		{"claiming", Refused{Epoch: 1, Op: OpClaim}, Releasing, "delete #5"},
		{"claiming", Refused{Epoch: 1, Op: OpClaim, Missing: true}, Creating, "create attempt 2, REQUEUED"},
		{"claiming, own gone", Withdrawn{Why: WhyContext}, Over, `END "context ended"`},
		{"claiming, own gone", Claimed{Epoch: 1, Fresh: true, Recorded: true}, Creating, "create attempt 2, REQUEUED"},
		{"claiming, no connection", Withdrawn{Why: WhyContext}, Claiming, `END "context ended"`},
		{"claiming, withdrawn", Claimed{Epoch: 1, Fresh: false, Recorded: true}, Releasing, "delete #5 and the record"},
		{"claiming, withdrawn", Claimed{Epoch: 1, Fresh: true, Recorded: true, Abandoned: &somebody}, Releasing, "delete #5"},
		{"claiming, withdrawn", Refused{Epoch: 1, Op: OpClaim}, Releasing, "delete #5"},
		{"claiming, withdrawn", Refused{Epoch: 1, Op: OpClaim, Missing: true}, Over, `END "context ended"`},
		{"claiming, withdrawn", Expired{}, Over, `END "context ended"`},
		{"claiming, withdrawn", LeaseRanOut{}, Claiming, `END "context ended"`},
		{"strict, claiming, no connection", Claimed{Epoch: 1, Fresh: true, Recorded: true}, Claiming, "claim #5 with a record"},
		{"held", Withdrawn{Why: WhyClosed, Taken: false}, Releasing, "delete #5 and the record"},
		{"held", Withdrawn{Why: WhyContext}, Releasing, "delete #5 and the record"},
		{"held", Withdrawn{Why: WhyClosed, Taken: true}, Releasing, "delete #5"},
		{"lost", Withdrawn{Why: WhyReleased, Taken: true}, Releasing, `delete #5 and the record, END "lost"`}, // the caller was quicker
		{"lost", Withdrawn{Why: WhyLost, Taken: false}, Releasing, `delete #5 and the record, END "lost"`},
		{"lost behind a crash", Withdrawn{Why: WhyLost, Taken: false}, Releasing, `delete #5, END "lost"`},
		{"lost", Gone{1, ours}, Lapsed, ""},
		{"held", Gone{1, ours}, Lapsed, `LOST "node removed"`},
		{"held", Suspended{}, Held, ""},
		{"verifying", Unknown{Epoch: 1, Op: OpClaim, Held: true}, Held, "claim #5"},
		{"releasing uncleanly", Unknown{Epoch: 1, Op: OpDelete}, Releasing, "delete #5"},
		{"releasing uncleanly", Withdrawn{Why: WhyReleased, Taken: true}, Releasing, ""},
		{"held, of another node", Withdrawn{Why: WhyContext}, Releasing, "delete #6"}, // and not the crashed holder's record
	})
}

// TestReadersMakeNoRecord, and remove none. A reader that gives up while it claims need
// not wait for the answer.
func TestReadersMakeNoRecord(t *testing.T) {
	crashSituations().follow(t, Read{}, []row{
		{"creating", Created{1, ours, true, true, 500}, Claiming, "claim #5 and read the record"},
		{"claiming", Claimed{Epoch: 1, Fresh: true, Recorded: true, Abandoned: &somebody}, Held, "GRANT #5 token 500 behind a crash"},
		{"claiming", Withdrawn{Why: WhyContext}, Releasing, "delete #5"},
		{"held behind a crash", Withdrawn{Why: WhyReleased, Taken: true}, Releasing, "delete #5"},
	})
}

// TestAClaimWithinALockDelayProvesNothing: the contender does not become a holder.
func TestAClaimWithinALockDelayProvesNothing(t *testing.T) {
	_, proves := Prove(Delayed{Epoch: 1, For: 1}, true, true)
	eventstest.Expect(t, !proves, "an answer within a lock-delay proves a holder, want no proof")
}
