package recipes

import "github.com/zkgrant/zkgrant/events"

// single is the one node of an unfair lock, whichever contender created it.
var single = events.Name{Text: "task", Kind: events.KindUnfair}

func singleSituations() cases {
	taken := Listed{Epoch: 1, Queue: []events.Name{single}}
	mine := Listed{Epoch: 1, Queue: []events.Name{single}, Own: Own{Name: single, Owner: 77, Token: 500}}
	s := cases{
		"nothing yet": {},
		"no session":  {Started{}},
		"creating":    {opened, Started{}},
		"trying":      {opened, Started{Try: true}},
	}
	s.from("looking", "creating", Occupied{1})
	s.from("waiting", "looking", taken)
	s.from("waiting, no connection", "waiting", Suspended{})
	s.from("looking again", "waiting", Suspended{}, Reconnected{})
	s.from("pausing", "waiting", Gone{1, single})
	s.from("looked, no node", "pausing", Paused{1}, Listed{Epoch: 1})
	s.from("too late", "looked, no node", Occupied{1})
	s.from("tried, taken", "trying", Occupied{1})
	s.from("tried, free by now", "tried, taken", Listed{Epoch: 1})
	s.from("recovering", "creating", Unknown{Epoch: 1, Op: OpCreate})
	s.from("creating, withdrawn", "creating", Withdrawn{Why: WhyContext})
	s.from("recovering, withdrawn", "recovering", Withdrawn{Why: WhyContext})
	s.from("claiming", "recovering", mine)
	s.from("listing", "creating", Created{Epoch: 1, Node: single})
	s.from("held", "creating", Created{1, single, true, true, 500})
	s.from("held after waiting", "looked, no node", Created{1, single, true, true, 600})
	s.from("releasing", "held", Withdrawn{Why: WhyReleased})
	s.from("over", "releasing", Deleted{1})
	s.from("lapsed", "held", LeaseRanOut{})
	return s
}
