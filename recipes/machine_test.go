package recipes

import (
	"slices"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/events"
)

func contender(seq int64) events.Name { return named(events.KindLock, seq) }

// The cast of the tables: #5 is ours, #3 is ahead of it, and #4 is between the two.
var (
	ours    = contender(5)
	ahead3  = contender(3)
	ahead4  = contender(4)
	later   = contender(6)
	ownNode = Own{Name: ours, Owner: 77, Token: 500}
	first   = Listed{Epoch: 1, Queue: []events.Name{ours}, Own: ownNode}
	second  = Listed{Epoch: 1, Queue: []events.Name{ours, ahead3}, Own: ownNode}
	third   = Listed{Epoch: 1, Queue: []events.Name{ours, ahead3, ahead4}, Own: ownNode}
	writer  = named(events.KindWrite, 3)
	reading = named(events.KindRead, 2)
	twin    = named(events.KindRead, 5)

	// idle is the node of a cached lock, which may be idle.
	idle, _    = events.ParseName("_c_00000000-0000-8400-8000-000000000000-lock-0000000003")
	behindIdle = Listed{Epoch: 1, Queue: []events.Name{idle, ours}, Own: ownNode}

	// One contender more than is remembered is ahead.
	behindMany = Listed{Epoch: 1, Queue: []events.Name{ahead3, ours, ahead4, contender(0), contender(1), contender(2)}, Own: ownNode}
	opened     = Opened{Epoch: 1, Session: 77}
	reopened   = Opened{Epoch: 2, Session: 78}
)

// cases are machines in some situations. Each is given by the inputs that lead to it.
type cases map[string][]Input

// from adds the situation that results from more inputs.
func (s cases) from(name, base string, more ...Input) {
	s[name] = append(slices.Clip(s[base]), more...)
}

// A row says what a machine does with an input: its new state and its effects.
type row struct {
	when string
	in   Input
	next State
	want string
}

func (s cases) follow(t *testing.T, rule Rule, rows []row) {
	t.Helper()
	for _, c := range rows {
		inputs, ok := s[c.when]
		m, effects := run(NewMachine(rule), append(slices.Clip(inputs), c.in)...)
		if got := texts(effects); !ok || m.state != c.next || got != c.want {
			t.Errorf("%s, then %s:\n got %v; %s\nwant %v; %s", c.when, inputText(c.in), m.state, got, c.next, c.want)
		}
	}
}

func run(m Machine, inputs ...Input) (_ Machine, effects []Effect) {
	for _, in := range inputs {
		m, effects = after(m, in)
	}
	return m, effects
}

// after returns the machine after one input: it calls Step on a copy.
func after(m Machine, in Input) (Machine, []Effect) {
	effects := m.Step(in)
	return m, effects
}

func texts(effects []Effect) string {
	all := make([]string, len(effects))
	for i, e := range effects {
		all[i] = effectText(e)
	}
	return strings.Join(all, ", ")
}

func situations() cases {
	s := cases{
		"nothing yet": {},
		"no session":  {Started{}},
		"idle":        {opened},
		"looking":     {opened, Started{Try: true}},
		"creating":    {opened, Started{}},
	}
	s.from("recovering", "creating", Unknown{Epoch: 1, Op: OpCreate})
	s.from("listing", "creating", Created{Epoch: 1, Node: ours})
	s.from("waiting", "listing", second)
	s.from("waiting behind many", "listing", behindMany)
	s.from("waiting behind two", "listing", third)
	s.from("advancing", "waiting behind two", Gone{1, ahead4})
	s.from("advancing, next gone", "advancing", Gone{1, ahead3})
	s.from("advancing, reconnected", "advancing", Suspended{}, Reconnected{})
	s.from("advancing, own gone", "advancing", Gone{1, ours})
	s.from("walked back", "advancing", Advanced{1, false, true, true})
	s.from("claiming", "listing", first)
	s.from("held", "claiming", Claimed{Epoch: 1, Fresh: true})
	s.from("held after waiting", "advancing", Advanced{1, true, false, true})
	s.from("releasing after waiting", "held after waiting", Withdrawn{Why: WhyReleased})
	s.from("waited for another node", "waiting", Gone{1, ours}, Created{1, later, true, true, 600})
	s.from("alone", "creating", Created{1, ours, true, true, 500})
	s.from("verifying", "held", Suspended{}, Reconnected{})
	s.from("verified", "verifying", Claimed{Epoch: 1, Fresh: true, Held: true}, Suspended{})
	s.from("verified in vain", "verifying", Refused{Epoch: 1, Op: OpClaim, Held: true}, Suspended{})
	s.from("verifying still", "verifying", Claimed{Epoch: 1, Fresh: true}, Refused{Epoch: 1, Op: OpClaim})
	s.from("releasing", "held", Withdrawn{Why: WhyReleased})
	s.from("over", "releasing", Deleted{1})

	s.from("creating, withdrawn", "creating", Withdrawn{Why: WhyContext})
	s.from("recovering, withdrawn", "recovering", Withdrawn{Why: WhyTimeout})
	s.from("listing, own gone", "listing", Gone{1, ours})
	s.from("queued again", "listing, own gone", first, Created{Epoch: 1, Node: later})
	s.from("claiming, own gone", "claiming", Gone{1, ours})
	s.from("waiting, asked back", "waiting", RevocationRequested{1, ours, 0})
	s.from("claiming, asked back", "waiting, asked back", Gone{1, ahead3})
	s.from("held, asked back", "held", RevocationRequested{1, ours, 0})
	s.from("waiting, to be back by 7", "waiting", RevocationRequested{1, ours, 7})
	s.from("claiming, to be back by 7", "waiting, to be back by 7", Gone{1, ahead3})
	s.from("queued again, once to be back by 7", "waiting, to be back by 7", Gone{1, ours}, Created{1, later, true, true, 600})
	s.from("held, to be back by 7", "held", RevocationRequested{1, ours, 7})
	s.from("held after waiting, to be back by 7", "held after waiting", RevocationRequested{1, ours, 7})
	s.from("waiting, no connection", "waiting", Suspended{})
	s.from("held, no connection", "held", Suspended{})
	s.from("releasing, expired", "releasing", Expired{})
	s.from("waiting, expired", "waiting", Expired{})

	s["trying"] = []Input{opened, Started{Try: true}, Listed{Epoch: 1}, Created{Epoch: 1, Node: ours}}
	s["trying, behind an idle node"] = []Input{
		opened, Started{Try: true}, Listed{Epoch: 1, Queue: []events.Name{idle}}, Created{Epoch: 1, Node: ours}, behindIdle,
	}
	s.from("trying, behind an idle node, no connection", "trying, behind an idle node", Suspended{})
	s.from("trying, listing again", "trying, behind an idle node, no connection", Reconnected{})
	s.from("trying, listing without a connection", "trying, behind an idle node, no connection", Unknown{Epoch: 1, Op: OpWatch})
	s.from("trying, listing late", "trying, listing again", Paused{1})
	s.from("trying, busy", "trying, behind an idle node", Paused{1})
	s.from("lapsed", "held", LeaseRanOut{})
	s.from("lapsed, as it was to be back", "held, to be back by 7", Overdue{7})
	s.from("lapsed after waiting", "held after waiting", LeaseRanOut{})
	s["strict, advancing, no connection"] = []Input{opened, Started{Strict: true}, Created{Epoch: 1, Node: ours}, third, Gone{1, ahead4}, Suspended{}}
	s["strict, creating, no connection"] = []Input{Opened{Epoch: 1, Session: 77, Suspended: true}, Started{Strict: true}}
	s["behind a writer"] = []Input{opened, Started{}, Created{Epoch: 1, Node: ours}, Listed{Epoch: 1, Queue: []events.Name{ours, writer}, Own: ownNode}}
	s["strict"] = []Input{opened, Started{Strict: true}, Created{Epoch: 1, Node: ours}, first, Claimed{Epoch: 1, Fresh: true}}
	s["strict, claiming, no connection"] = []Input{opened, Started{Strict: true}, Created{Epoch: 1, Node: ours}, first, Suspended{}}
	s.from("lapsed, own gone", "held", Gone{1, ours})
	s.from("lapsed, then own gone", "lapsed", Gone{1, ours})
	s.from("lapsed, expired", "lapsed", Expired{})
	s.from("lapsed, no connection", "lapsed", Suspended{})
	return s
}

// TestMachineTransitions has the steps that no transcript in testdata shows.
func TestMachineTransitions(t *testing.T) {
	stranger := ownNode
	stranger.Owner = 76
	twin := events.Name{Text: "twin-lock-0000000005", Kind: events.KindLock, Seq: 5}
	situations().follow(t, Mutex{}, []row{
		{"nothing yet", Started{}, Idle, ""},
		{"nothing yet", opened, Idle, ""},
		{"nothing yet", Withdrawn{Why: WhyContext}, Over, `END "context ended"`},
		{"no session", Withdrawn{Why: WhyReleased}, Over, `END "released"`},

		{"looking", Unknown{Epoch: 1, Op: OpList}, Looking, "list"},
		{"looking", Refused{Epoch: 1, Op: OpList}, Over, `END "refused"`},
		{"looking", Expired{}, Idle, ""},

		{"creating", Created{2, ours, true, true, 500}, Creating, "discard #5"},
		{"strict, creating, no connection", Created{1, ours, true, true, 500}, Claiming, "claim #5"},
		{"creating", Canceled{1}, Creating, ""},
		{"creating, withdrawn", Canceled{2}, Creating, ""},
		{"recovering", Canceled{1}, Recovering, ""},
		{"creating, withdrawn", Refused{Epoch: 1, Op: OpCreate}, Over, `END "context ended"`},
		{"creating, withdrawn", Expired{}, Over, `END "context ended"`},
		{"creating, withdrawn", Suspended{}, Creating, `END "context ended"`},
		{"creating, withdrawn", LeaseRanOut{}, Creating, `END "context ended"`},

		{"recovering", Listed{Epoch: 1}, Creating, "create attempt 2"},
		{"recovering", Listed{Epoch: 1, Own: stranger}, Creating, "create attempt 2, discard #5"},
		{"recovering", Withdrawn{Why: WhyContext}, Recovering, ""},
		{"recovering, withdrawn", Listed{Epoch: 1}, Over, `END "waited too long"`},
		{"recovering, withdrawn", Listed{Epoch: 1, Own: stranger}, Over, `END "waited too long", discard #5`},

		{"listing", Listed{Epoch: 1, Queue: []events.Name{ahead3, ours, ahead4}, Own: ownNode}, Waiting, "QUEUED behind 2, watch #4"},
		{"listing", Listed{Epoch: 1, Queue: []events.Name{ahead3}}, Creating, "create attempt 2, REQUEUED"},
		{"listing", Listed{Epoch: 1, Queue: []events.Name{ours, twin}, Own: ownNode}, Releasing, "delete #5"},
		{"listing", Withdrawn{Why: WhyContext}, Releasing, "delete #5"},
		{"listing", Gone{1, ours}, Listing, ""},
		{"listing, own gone", first, Creating, "create attempt 2, REQUEUED"},
		{"queued again", Listed{Epoch: 1, Queue: []events.Name{later}, Own: Own{Name: later, Owner: 77}}, Claiming, "claim #6"},
		{"listing, own gone", Withdrawn{Why: WhyContext}, Over, `END "context ended"`},

		{"waiting", Gone{2, ahead3}, Waiting, ""},
		{"waiting behind two", Gone{1, ahead3}, Waiting, ""},
		{"waiting behind two", Advanced{1, true, true, true}, Waiting, ""},
		{"waiting behind many", Gone{1, ahead4}, Advancing, "advance #5 past #4 to #3"},
		{"waiting", Gone{1, ahead4}, Waiting, ""},
		{"waiting", Gone{1, ours}, Creating, "create attempt 2, REQUEUED"},
		{"waiting", Refused{Epoch: 1, Op: OpWatch, Node: ahead4}, Waiting, ""},
		{"waiting", Withdrawn{Why: WhyTimeout}, Releasing, "delete #5"},
		{"waiting, no connection", Withdrawn{Why: WhyContext}, Releasing, `delete #5, END "context ended"`},
		{"waiting, expired", reopened, Creating, "create attempt 2"},

		{"trying, behind an idle node", Paused{1}, Releasing, "delete #5"},
		{"trying, behind an idle node, no connection", Paused{1}, Releasing, `delete #5, END "busy"`},
		{"trying, busy", Suspended{}, Releasing, `END "busy"`},
		{"trying, busy", Withdrawn{Why: WhyNoSession}, Releasing, `END "busy"`},
		{"trying, busy", Withdrawn{Why: WhyReleased}, Releasing, ""},
		{"trying, listing again", Paused{1}, Listing, ""},
		{"trying, listing without a connection", Paused{1}, Releasing, `delete #5, END "busy"`},
		{"trying, listing late", behindIdle, Releasing, "delete #5"},
		{"trying, listing late", Suspended{}, Releasing, `delete #5, END "busy"`},
		{"trying, listing again", Suspended{}, Listing, ""},
		{"trying, listing late", first, Claiming, "claim #5"},

		{"advancing", Advanced{1, true, true, true}, Held, "GRANT #5 token 500"},
		{"advancing", Advanced{2, true, false, true}, Advancing, ""},
		{"advancing", Unknown{Epoch: 1, Op: OpWatch}, Advancing, ""},
		{"advancing", Refused{Epoch: 1, Op: OpAdvance, Missing: true}, Creating, "create attempt 2, REQUEUED"},
		{"advancing", Refused{Epoch: 1, Op: OpAdvance}, Releasing, "delete #5"},
		{"advancing", Gone{1, ahead4}, Advancing, ""},
		{"advancing", Reconnected{}, Advancing, ""},
		{"advancing", Expired{}, Idle, "REQUEUED"},
		{"advancing, next gone", Advanced{1, true, true, true}, Held, "GRANT #5 token 500"},
		{"advancing, reconnected", Advanced{1, false, true, true}, Listing, "list"},
		{"advancing, reconnected", Advanced{1, true, true, true}, Held, "GRANT #5 token 500"},
		{"advancing, own gone", Advanced{1, true, false, true}, Creating, "create attempt 2, REQUEUED"},
		{"advancing, own gone", Withdrawn{Why: WhyContext}, Over, `END "context ended"`},
		{"strict, advancing, no connection", Advanced{1, true, false, true}, Claiming, "claim #5"},

		{"claiming", Refused{Epoch: 1, Op: OpClaim}, Releasing, "delete #5"},
		{"claiming", Expired{}, Idle, "REQUEUED"},
		{"claiming, own gone", Claimed{Epoch: 1, Fresh: true}, Creating, "create attempt 2, REQUEUED"},

		{"held", RevocationRequested{2, ours, 0}, Held, ""},
		{"held, asked back", RevocationRequested{1, ours, 7}, Held, "ASKED BACK by 7"},
		{"held, to be back by 7", RevocationRequested{1, ours, 8}, Held, ""},
		{"held, to be back by 7", RevocationRequested{1, ours, 0}, Held, ""},
		{"held, to be back by 7", RevocationRequested{1, ahead3, 6}, Held, ""},
		{"held, to be back by 7", RevocationRequested{2, ours, 6}, Held, ""},
		{"held, to be back by 7", Overdue{8}, Lapsed, `LOST "revoked"`},
		{"held, to be back by 7", Overdue{6}, Held, ""},
		{"held, to be back by 7", Gone{1, ours}, Lapsed, `LOST "node removed"`},
		{"held after waiting, to be back by 7", Overdue{7}, Lapsed, `LOST "revoked"`},
		{"held", Overdue{7}, Held, ""},
		{"held, asked back", Overdue{7}, Held, ""},
		{"waiting, to be back by 7", Overdue{7}, Waiting, ""},
		{"claiming, to be back by 7", Overdue{7}, Claiming, ""},
		{"queued again, once to be back by 7", Overdue{7}, Held, ""},
		{"lapsed, as it was to be back", Overdue{7}, Lapsed, ""},
		{"lapsed, as it was to be back", RevocationRequested{1, ours, 6}, Lapsed, ""},
		{"over", Overdue{7}, Over, ""},
		{"held after waiting", Gone{1, ahead4}, Held, ""},
		{"releasing after waiting", Unknown{Epoch: 1, Op: OpDelete}, Releasing, "delete #5 with a floor"},
		{"strict, claiming, no connection", Claimed{Epoch: 1, Fresh: true}, Claiming, "claim #5"},
		{"held", Expired{}, Lapsed, `LOST "session expired"`},
		{"held", Gone{1, ahead3}, Held, ""},
		{"verifying", Claimed{Epoch: 1, Fresh: false, Held: true}, Held, ""},
		{"verifying", Unknown{Epoch: 1, Op: OpClaim, Held: true}, Held, "claim #5"},
		{"verifying", Unknown{Epoch: 1, Op: OpClaim}, Held, ""}, // the answer to another claim, not the machine's
		{"verifying", Refused{Epoch: 1, Op: OpClaim, Held: true}, Held, ""},
		{"verifying", Refused{Epoch: 1, Op: OpClaim, Missing: true}, Lapsed, `LOST "node removed"`},
		{"verifying", Reconnected{}, Held, ""},
		{"verifying still", Unknown{Epoch: 1, Op: OpClaim, Held: true}, Held, "claim #5"},

		{"lapsed", Withdrawn{Why: WhyReleased}, Releasing, `delete #5, END "lost"`},
		{"lapsed, no connection", Withdrawn{Why: WhyReleased, Ran: true}, Releasing, `delete #5, END "lost"`},
		{"lapsed", LeaseRanOut{}, Lapsed, ""},
		{"lapsed", Gone{1, ours}, Lapsed, ""},
		{"lapsed, own gone", Withdrawn{Why: WhyReleased}, Over, `END "lost"`},
		{"lapsed, then own gone", Withdrawn{Why: WhyReleased}, Over, `END "lost"`},
		{"lapsed, expired", Withdrawn{Why: WhyReleased}, Over, `END "lost"`},

		{"releasing", Refused{Epoch: 1, Op: OpDelete}, Over, `END "refused"`},
		{"releasing", Expired{}, Over, `END "released"`},
		{"over", Created{Epoch: 1, Node: ours}, Over, "discard #5"},
	})
}
