package recipes

import (
	"testing"

	"github.com/zkgrant/zkgrant/events"
)

var permitsOf = Semaphore{Size: 4, Permits: 3}

var (
	permitOwn  = Own{Name: events.Name{Text: "leases/a-0000000007"}, Owner: 77}
	ownPermits = []string{"leases/a-0000000007", "leases/a-0000000008", "leases/a-0000000009"}
	gotIn      = Entered{Epoch: 1, Permits: ownPermits, InUse: 4, Fresh: true}
	room       = Surveyed{Epoch: 1, Size: 4, Version: 2, InUse: 1}
	noRoom     = Surveyed{Epoch: 1, Size: 4, Version: 2, InUse: 2}

	// atOnce was taken without a place in the queue, and spare must be given back.
	atOnce = Entered{Epoch: 1, Permits: ownPermits, Size: 4, Token: 7, Fresh: true}
	spare  = Entered{Epoch: 1, Permits: ownPermits, Size: 4, Token: 7, Fresh: true, Spare: true}

	// crowded is gotIn beside a contender that was not the first in the queue.
	crowded = Entered{Epoch: 1, Permits: ownPermits, InUse: 5, Fresh: true}
)

func semaphoreSituations() cases {
	s := cases{
		"nothing yet": {},
		"looking":     {opened, Started{Try: true}},
		"creating":    {opened, Started{}},
	}
	s.from("looking, no waiter", "looking", Listed{Epoch: 1})
	s.from("looking, full", "looking, no waiter", noRoom)
	s.from("creating, withdrawn", "creating", Withdrawn{Why: WhyReleased})
	s.from("recovering", "creating", Unknown{Epoch: 1, Op: OpCreate})
	s.from("giving back", "creating", spare)
	s.from("giving back, unknown", "giving back", Unknown{Epoch: 1, Op: OpCreate})
	s.from("giving back, withdrawn", "giving back", Withdrawn{Why: WhyReleased})
	s.from("recovering, withdrawn", "recovering", Withdrawn{Why: WhyReleased})
	s.from("surveying", "creating", Created{1, ours, true, true, 500})
	s.from("listing", "creating", Created{Epoch: 1, Node: ours})
	s.from("surveying, listed", "listing", first)
	s.from("waiting", "listing", second)
	s.from("waiting behind two", "listing", third)
	s.from("advancing", "waiting behind two", Gone{1, ahead4})
	s.from("surveying after waiting", "waiting", Gone{1, ahead3})
	s.from("surveying, settled", "listing", sized(4), Gone{1, ahead4}, Advanced{1, true, false, false})
	s.from("surveying, own gone", "surveying", Gone{1, ours})
	s.from("watching", "surveying", noRoom)
	s.from("watching, changed", "watching", Changed{1})
	s.from("surveying, no connection", "surveying", Suspended{})
	s.from("surveying, reconnected", "surveying, no connection", Reconnected{})
	s.from("surveying, first before the news", "waiting", Suspended{}, Gone{1, ahead3}, Reconnected{})
	s.from("full", "watching", noRoom)
	s.from("full, no connection", "full", Suspended{})
	s.from("entering", "surveying", room)
	s.from("entering after waiting", "surveying after waiting", room)
	s.from("entering, withdrawn", "entering", Withdrawn{Why: WhyReleased})
	s.from("entering, unknown", "entering", Unknown{Epoch: 1, Op: OpEnter})
	s.from("entering, unknown, withdrawn", "entering, unknown", Withdrawn{Why: WhyContext})
	s.from("entering, expired", "entering", Expired{})
	s.from("trying, surveying", "looking, no waiter", room, Created{1, ours, true, true, 500})
	s.from("trying, full", "trying, surveying", noRoom)
	s.from("trying, entering", "trying, surveying", room)
	s.from("trying, crowded", "trying, entering", crowded)
	s.from("crowded", "entering", crowded)
	s.from("found among the permits", "entering, unknown", Listed{Epoch: 1, Own: permitOwn, Entered: true})
	s.from("held", "entering", gotIn)
	s.from("entered too late", "entering", Entered{Epoch: 1, Permits: ownPermits})
	s.from("entered too late, own gone", "entered too late", Gone{1, permitOwn.Name})
	s.from("releasing", "held", Withdrawn{Why: WhyReleased})
	s.from("releasing the rest", "held", Gone{1, permitOwn.Name})
	s.from("over", "releasing", Deleted{1})
	s.from("lapsed", "held", LeaseRanOut{})
	s.from("lapsed, one gone", "held", Gone{1, permitOwn.Name})
	s.from("lapsed, expired", "lapsed", Expired{})
	s["strict, entering, no connection"] = []Input{opened, Started{Strict: true}, Created{1, ours, true, true, 500}, room, Suspended{}}
	return s
}

// TestSemaphoreSteps has the steps that differ from a mutex's.
func TestSemaphoreSteps(t *testing.T) {
	semaphoreSituations().follow(t, permitsOf, []row{
		{"looking", Listed{Epoch: 1}, Looking, "survey"},
		{"looking, no waiter", room, Creating, "create attempt 1"},
		{"looking, no waiter", noRoom, Looking, "survey"}, // some permits may be about to be given back
		{"looking, full", noRoom, Over, `END "busy"`},
		{"looking, full", room, Creating, "create attempt 1"},
		{"creating", atOnce, Held, "GRANT leases/a-0000000007 token 7"},
		{"creating", Entered{Epoch: 1, Permits: ownPermits, Size: 4, Token: 7}, Claiming, "claim leases/a-0000000007"},
		{"creating", spare, Creating, "create attempt 1 for leases/a-0000000007"},
		{"creating", Entered{Epoch: 1, Permits: ownPermits, Size: 5, Token: 7, Fresh: true}, Releasing, "delete leases/a-0000000007"},
		{"creating", Entered{Epoch: 1}, Creating, ""},
		{"creating, withdrawn", atOnce, Releasing, "delete leases/a-0000000007"},
		{"giving back", Created{Epoch: 1, Node: ours}, Listing, "list"},
		{"giving back", Unknown{Epoch: 1, Op: OpCreate}, Recovering, "barrier, list"},
		{"giving back, unknown", Listed{Epoch: 1, Own: permitOwn, Entered: true}, Creating, "create attempt 1 for leases/a-0000000007"},
		{"giving back, unknown", Listed{Epoch: 1}, Creating, "create attempt 2"},
		{"entering, unknown", Refused{Epoch: 1, Op: OpList}, Releasing, "delete #5"},
		{"giving back", Refused{Epoch: 1, Op: OpCreate}, Releasing, "delete leases/a-0000000007"},
		{"giving back, withdrawn", Canceled{1}, Releasing, "delete leases/a-0000000007"},
		{"giving back, withdrawn", Created{Epoch: 1, Node: ours}, Releasing, "delete #5"},
		{"creating, withdrawn", spare, Releasing, "delete leases/a-0000000007"},
		{"recovering", Listed{Epoch: 1, Own: permitOwn, Entered: true}, Creating, "create attempt 1 for leases/a-0000000007"},
		{"recovering, withdrawn", Listed{Epoch: 1, Own: permitOwn, Entered: true}, Releasing, "delete leases/a-0000000007"},
		{"looking, no waiter", Surveyed{Epoch: 1, Size: 5}, Over, `END "size mismatch"`},
		{"looking, no waiter", Unknown{Epoch: 1, Op: OpSurvey}, Looking, "survey"},
		{"listing", second, Waiting, "QUEUED behind 1, watch #3"}, // and no session is kept warm for it
		{"surveying", room, Entering, "enter #5 for 3 at version 2"},
		{"surveying", noRoom, Surveying, "survey #5 and watch"},
		{"surveying", Changed{1}, Surveying, ""},
		{"surveying", Surveyed{Epoch: 1, Size: 5}, Releasing, "delete #5"},
		{"surveying", Refused{Epoch: 1, Op: OpSurvey, Missing: true}, Creating, "create attempt 2, REQUEUED"},
		{"surveying, own gone", room, Creating, "create attempt 2, REQUEUED"},
		// A replica that may be older than the news of being first is not trusted.
		{"surveying", Unknown{Epoch: 1, Op: OpSurvey}, Listing, "list"},
		{"surveying, no connection", room, Listing, "list"}, // the next connection may have answered, before it is announced
		{"surveying, reconnected", room, Listing, "list"},
		{"surveying, reconnected", noRoom, Listing, "list"},
		{"surveying, first before the news", room, Listing, "list"}, // the news is from a connection that has ended since
		{"watching", noRoom, Full, "QUEUED behind 0"},
		{"watching", room, Entering, "enter #5 for 3 at version 2"},
		{"watching, changed", noRoom, Surveying, "survey #5"}, // the answer may be older than the change
		{"full", Changed{1}, Surveying, "survey #5"},
		{"full", Changed{2}, Full, ""},
		{"full, no connection", Reconnected{}, Surveying, "survey #5 and watch"},
		{"full", Gone{1, ours}, Creating, "create attempt 2, REQUEUED"},
		{"full", Withdrawn{Why: WhyReleased}, Releasing, "delete #5"},
		{"watching", Surveyed{Epoch: 1, Size: 2}, Releasing, "delete #5"}, // smaller than what it needs
		{"entering after waiting", Refused{Epoch: 1, Op: OpEnter, Stale: true}, Surveying, "survey #5"},
		{"surveying after waiting", room, Entering, "enter #5 for 3 at version 2 with a floor"},
		{"surveying after waiting", Withdrawn{Why: WhyReleased}, Releasing, "delete #5 with a floor"},
		{"entering", crowded, Recovering, "barrier, list"},
		{"entering, withdrawn", crowded, Releasing, "delete leases/a-0000000007"},
		{"trying, crowded", Listed{Epoch: 1, Own: permitOwn, Entered: true, InUse: 5}, Releasing, "delete leases/a-0000000007"},
		{"trying, crowded", Listed{Epoch: 1, Own: permitOwn, Entered: true, InUse: 4}, Claiming, "claim leases/a-0000000007"},
		{"entering, unknown", Listed{Epoch: 1, Own: permitOwn, Entered: true, InUse: 5}, Recovering, "barrier, list"},
		{"crowded", Listed{Epoch: 1, Own: permitOwn, Entered: true, InUse: 5}, Creating, "discard leases/a-0000000007, create attempt 2, REQUEUED"},
		{"entering, unknown, withdrawn", Listed{Epoch: 1, Own: permitOwn, Entered: true, InUse: 5}, Releasing, "delete leases/a-0000000007"},
		{"entering", Gone{1, ours}, Entering, ""}, // perhaps by its own transaction
		{"entering", gotIn, Held, "GRANT leases/a-0000000007 token 500"},
		{"entering", Refused{Epoch: 1, Op: OpEnter, Missing: true}, Creating, "create attempt 2, REQUEUED"},
		{"entering", Unknown{Epoch: 1, Op: OpEnter}, Recovering, "barrier, list"},
		{"entering, withdrawn", gotIn, Releasing, "delete leases/a-0000000007"},
		{"entering, withdrawn", Refused{Epoch: 1, Op: OpEnter, Stale: true}, Releasing, "delete #5"},
		{"entering, withdrawn", Refused{Epoch: 1, Op: OpEnter, Missing: true}, Over, `END "released"`},
		{"entering, expired", reopened, Creating, "create attempt 2"},
		{"entering, expired", gotIn, Idle, "discard leases/a-0000000007, discard leases/a-0000000008, discard leases/a-0000000009"},
		{"trying, surveying", noRoom, Surveying, "survey #5"},
		{"trying, full", noRoom, Releasing, "delete #5"},
		{"entering, unknown", first, Surveying, "survey #5"},
		{"entering, unknown", Listed{Epoch: 1, Own: permitOwn, Entered: true}, Claiming, "claim leases/a-0000000007"},
		{"entering, unknown", Listed{Epoch: 1}, Creating, "create attempt 2, REQUEUED"},
		{"entering, unknown, withdrawn", Listed{Epoch: 1, Own: permitOwn, Entered: true}, Releasing, "delete leases/a-0000000007"},
		{"found among the permits", Claimed{Epoch: 1, Fresh: true}, Held, "GRANT leases/a-0000000007 token 500"},
		{"found among the permits", Refused{Epoch: 1, Op: OpClaim, Missing: true}, Creating,
			"discard leases/a-0000000007, create attempt 2, REQUEUED"},
		{"entered too late", Claimed{Epoch: 1, Fresh: true}, Held, "GRANT leases/a-0000000007 token 500"},
		{"entered too late, own gone", Withdrawn{Why: WhyReleased}, Releasing, "delete leases/a-0000000007"},
		{"held", Gone{1, permitOwn.Name}, Lapsed, `LOST "node removed"`},
		{"held", Expired{}, Lapsed, `LOST "session expired"`},
		{"lapsed, one gone", Withdrawn{Why: WhyReleased, Ran: true}, Releasing, "delete leases/a-0000000007"},
		{"lapsed, expired", Withdrawn{Why: WhyReleased}, Over, `END "lost"`},
		// Another size is an error at the first look. Later changes are accepted.
		{"listing", sized(5), Releasing, "delete #5"},
		{"surveying, settled", Surveyed{Epoch: 1, Size: 5, InUse: 2}, Entering, "enter #5 for 3 at version 0 with a floor"},
	})
	adopts := Semaphore{Size: 4, Permits: 3, Adopt: true}
	semaphoreSituations().follow(t, adopts, []row{{"listing", sized(5), Waiting, "QUEUED behind 2, watch #4"}})
}

func sized(size int32) Listed {
	l := third
	l.Size = size
	return l
}
