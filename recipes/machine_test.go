package recipes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/events"
)

func contender(seq int64) events.Name {
	return events.Name{Text: fmt.Sprintf("lock-%010d", seq), Kind: events.KindLock, Seq: seq}
}

// The cast of the tables: #5 is ours and #3 stands ahead; #4 came between.
var (
	ours    = contender(5)
	ahead3  = contender(3)
	ahead4  = contender(4)
	later   = contender(6)
	ownNode = Own{Name: ours, Owner: 77, Token: 500}
	first   = Listed{Epoch: 1, Queue: []events.Name{ours}, Own: ownNode}
	second  = Listed{Epoch: 1, Queue: []events.Name{ours, ahead3}, Own: ownNode}
	third   = Listed{Epoch: 1, Queue: []events.Name{ours, ahead3, ahead4}, Own: ownNode}
	writer  = events.Name{Text: "__WRIT__0000000003", Kind: events.KindWrite, Seq: 3}
	reading = events.Name{Text: "__READ__0000000002", Kind: events.KindRead, Seq: 2}
	twin    = events.Name{Text: "__READ__0000000005", Kind: events.KindRead, Seq: 5}

	// One contender more than is remembered stands ahead; the rest of the queue is foreign.
	behindMany = Listed{Epoch: 1, Queue: []events.Name{ahead3, ours, ahead4, contender(0), contender(1), contender(2)}, Own: ownNode}
	opened     = Opened{Epoch: 1, Session: 77}
	reopened   = Opened{Epoch: 2, Session: 78}
)

// situations are machines in every state, each with the inputs that led there.
func situations() map[string][]Input {
	s := map[string][]Input{
		"nothing yet": {},
		"no session":  {Started{}},
		"idle":        {opened},
		"looking":     {opened, Started{Try: true}},
		"creating":    {opened, Started{}},
	}
	from := func(name, base string, more ...Input) {
		s[name] = append(append([]Input(nil), s[base]...), more...)
	}
	from("recovering", "creating", Unknown{1, OpCreate})
	from("listing", "creating", Created{Epoch: 1, Node: ours})
	from("waiting", "listing", second)
	from("waiting behind many", "listing", behindMany)
	from("waiting behind two", "listing", third)
	from("advancing", "waiting behind two", Gone{1, ahead4.Text})
	from("advancing, next gone", "advancing", Gone{1, ahead3.Text})
	from("advancing, reconnected", "advancing", Suspended{}, Reconnected{})
	from("advancing, own gone", "advancing", Gone{1, ours.Text})
	from("walked back", "advancing", Advanced{1, false, true, true})
	from("claiming", "listing", first)
	from("held", "claiming", Claimed{Epoch: 1, Fresh: true})
	from("held after waiting", "advancing", Advanced{1, true, false, true})
	from("releasing after waiting", "held after waiting", Withdrawn{Why: WhyReleased})
	from("waited for another node", "waiting", Gone{1, ours.Text}, Created{1, later, true, true, 600})
	from("alone", "creating", Created{1, ours, true, true, 500})
	from("verifying", "held", Suspended{}, Reconnected{})
	from("verified", "verifying", Claimed{Epoch: 1, Fresh: true}, Suspended{})
	from("verified in vain", "verifying", Refused{Epoch: 1, Op: OpClaim}, Suspended{})
	from("releasing", "held", Withdrawn{Why: WhyReleased})
	from("over", "releasing", Deleted{1})

	from("creating, withdrawn", "creating", Withdrawn{Why: WhyContext})
	from("recovering, withdrawn", "recovering", Withdrawn{Why: WhyTimeout})
	from("listing, own gone", "listing", Gone{1, ours.Text})
	from("queued again", "listing, own gone", first, Created{Epoch: 1, Node: later})
	from("claiming, own gone", "claiming", Gone{1, ours.Text})
	from("waiting, asked back", "waiting", AskedBack{1, ours.Text, 0})
	from("claiming, asked back", "waiting, asked back", Gone{1, ahead3.Text})
	from("held, asked back", "held", AskedBack{1, ours.Text, 0})
	from("waiting, to be back by 7", "waiting", AskedBack{1, ours.Text, 7})
	from("claiming, to be back by 7", "waiting, to be back by 7", Gone{1, ahead3.Text})
	from("queued again, once to be back by 7", "waiting, to be back by 7", Gone{1, ours.Text}, Created{1, later, true, true, 600})
	from("held, to be back by 7", "held", AskedBack{1, ours.Text, 7})
	from("held after waiting, to be back by 7", "held after waiting", AskedBack{1, ours.Text, 7})
	from("waiting, no connection", "waiting", Suspended{})
	from("held, no connection", "held", Suspended{})
	from("releasing, expired", "releasing", Expired{})
	from("waiting, expired", "waiting", Expired{})

	s["trying"] = []Input{opened, Started{Try: true}, Listed{Epoch: 1}, Created{Epoch: 1, Node: ours}}
	from("lapsed", "held", LeaseRanOut{})
	from("lapsed, as it was to be back", "held, to be back by 7", Overdue{7})
	from("lapsed after waiting", "held after waiting", LeaseRanOut{})
	s["strict, advancing, no connection"] = []Input{opened, Started{Strict: true}, Created{Epoch: 1, Node: ours}, third, Gone{1, ahead4.Text}, Suspended{}}
	s["strict, creating, no connection"] = []Input{opened, Started{Strict: true}, Suspended{}}
	s["behind a writer"] = []Input{opened, Started{}, Created{Epoch: 1, Node: ours}, Listed{Epoch: 1, Queue: []events.Name{ours, writer}, Own: ownNode}}
	s["strict"] = []Input{opened, Started{Strict: true}, Created{Epoch: 1, Node: ours}, first, Claimed{Epoch: 1, Fresh: true}}
	s["strict, claiming, no connection"] = []Input{opened, Started{Strict: true}, Created{Epoch: 1, Node: ours}, first, Suspended{}}
	from("lapsed, own gone", "held", Gone{1, ours.Text})
	from("lapsed, then own gone", "lapsed", Gone{1, ours.Text})
	from("lapsed, expired", "lapsed", Expired{})
	from("lapsed, no connection", "lapsed", Suspended{})
	return s
}

func machineAfter(inputs []Input) Machine {
	m := NewMachine(Mutex{})
	for _, in := range inputs {
		m, _ = m.Step(in)
	}
	return m
}

func TestMachineTransitions(t *testing.T) {
	stranger := ownNode
	stranger.Owner = 76
	twin := events.Name{Text: "twin-lock-0000000005", Kind: events.KindLock, Seq: 5}
	for _, c := range []struct {
		when string
		in   Input
		next State
		want string // the effects
	}{
		{"nothing yet", Started{}, Idle, ""},
		{"nothing yet", opened, Idle, ""},
		{"nothing yet", Withdrawn{Why: WhyContext}, Over, `END "context ended"`},
		{"no session", opened, Creating, "create attempt 1"},
		{"no session", Withdrawn{Why: WhyReleased}, Over, `END "released"`},
		{"idle", Started{}, Creating, "create attempt 1"},
		{"idle", Started{Try: true}, Looking, "list"},

		{"looking", Listed{Epoch: 1}, Creating, "create attempt 1"},
		{"looking", Listed{Epoch: 1, Queue: []events.Name{ahead3}}, Over, `END "busy"`},
		{"looking", Unknown{1, OpList}, Looking, "list"},
		{"looking", Refused{Epoch: 1, Op: OpList}, Over, `END "refused"`},
		{"looking", Withdrawn{Why: WhyContext}, Over, `END "context ended"`},
		{"looking", Expired{}, Idle, ""},

		{"creating", Created{Epoch: 1, Node: ours}, Listing, "list"},
		{"creating", Created{1, ours, true, true, 500}, Held, "GRANT #5 token 500"},
		{"creating", Created{1, ours, true, false, 500}, Claiming, "claim #5"},
		{"creating", Created{1, ours, false, true, 500}, Listing, "list"},
		{"creating", Created{2, ours, true, true, 500}, Creating, "discard #5"},
		{"creating", Created{1, contender(events.SeqEnd), true, true, 500}, Releasing, "delete #2146435072"},
		{"creating", Created{Epoch: 1, Node: contender(events.SeqEnd)}, Releasing, "delete #2146435072"},
		{"strict, creating, no connection", Created{1, ours, true, true, 500}, Claiming, "claim #5"},
		{"creating", Unknown{1, OpCreate}, Recovering, "barrier, list"},
		{"creating", Refused{Epoch: 1, Op: OpCreate}, Over, `END "refused"`},
		{"creating", Withdrawn{Why: WhyContext}, Creating, "cancel the create"},
		{"creating", Canceled{1}, Creating, ""},
		{"creating, withdrawn", Canceled{1}, Over, `END "context ended"`},
		{"creating, withdrawn", Canceled{2}, Creating, ""},
		{"recovering", Canceled{1}, Recovering, ""},
		{"creating", Suspended{}, Creating, ""},
		{"creating", Expired{}, Idle, ""},
		{"creating, withdrawn", Created{Epoch: 1, Node: ours}, Releasing, "delete #5"},
		{"creating, withdrawn", Created{1, ours, true, true, 500}, Releasing, "delete #5"},
		{"creating, withdrawn", Unknown{1, OpCreate}, Recovering, "barrier, list"},
		{"creating, withdrawn", Refused{Epoch: 1, Op: OpCreate}, Over, `END "context ended"`},
		{"creating, withdrawn", Expired{}, Over, `END "context ended"`},
		{"creating, withdrawn", Suspended{}, Creating, `END "context ended"`},
		{"creating, withdrawn", LeaseRanOut{}, Creating, `END "context ended"`},

		{"recovering", first, Claiming, "claim #5"},
		{"recovering", second, Waiting, "QUEUED behind 1, watch #3"},
		{"recovering", Listed{Epoch: 1}, Creating, "create attempt 2"},
		{"recovering", Listed{Epoch: 1, Own: stranger}, Creating, "create attempt 2, discard #5"},
		{"recovering", Unknown{1, OpList}, Recovering, "barrier, list"},
		{"recovering", Withdrawn{Why: WhyContext}, Recovering, ""},
		{"recovering", Expired{}, Idle, ""},
		{"recovering, withdrawn", first, Releasing, "delete #5"},
		{"recovering, withdrawn", Listed{Epoch: 1}, Over, `END "waited too long"`},
		{"recovering, withdrawn", Listed{Epoch: 1, Own: stranger}, Over, `END "waited too long", discard #5`},

		{"listing", first, Claiming, "claim #5"},
		{"listing", second, Waiting, "QUEUED behind 1, watch #3"},
		{"listing", Listed{Epoch: 1, Queue: []events.Name{ahead3, ours, ahead4}, Own: ownNode}, Waiting, "QUEUED behind 2, watch #4"},
		{"listing", Listed{Epoch: 1, Queue: []events.Name{ahead3}}, Creating, "create attempt 2, REQUEUED"},
		{"listing", Listed{Epoch: 1, Queue: []events.Name{ours, twin}, Own: ownNode}, Releasing, "delete #5"},
		{"listing", Unknown{1, OpList}, Listing, "list"},
		{"listing", Refused{Epoch: 1, Op: OpList}, Releasing, "delete #5"},
		{"listing", Withdrawn{Why: WhyContext}, Releasing, "delete #5"},
		{"listing", Reconnected{}, Listing, ""},
		{"listing", Gone{1, ours.Text}, Listing, ""},
		{"listing, own gone", first, Creating, "create attempt 2, REQUEUED"},
		{"queued again", Listed{Epoch: 1, Queue: []events.Name{later}, Own: Own{Name: later, Owner: 77}}, Claiming, "claim #6"},
		{"listing, own gone", Withdrawn{Why: WhyContext}, Over, `END "context ended"`},
		{"trying", second, Releasing, "delete #5"},
		{"trying", first, Claiming, "claim #5"},

		{"waiting", Gone{1, ahead3.Text}, Claiming, "claim #5"},
		{"waiting", Gone{2, ahead3.Text}, Waiting, ""},
		{"waiting behind two", Gone{1, ahead4.Text}, Advancing, "advance #5 past #4 to #3"},
		{"waiting behind two", Gone{1, ahead3.Text}, Waiting, ""},
		{"waiting behind two", Advanced{1, true, true, true}, Waiting, ""},
		{"waiting behind many", Gone{1, ahead4.Text}, Advancing, "advance #5 past #4 to #3"},
		{"behind a writer", Gone{1, writer.Text}, Listing, "list"},
		{"waiting", Gone{1, ahead4.Text}, Waiting, ""},
		{"waiting", Gone{1, ours.Text}, Creating, "create attempt 2, REQUEUED"},
		{"waiting", Refused{Epoch: 1, Op: OpWatch, Node: ahead3.Text}, Releasing, "delete #5"},
		{"waiting", Refused{Epoch: 1, Op: OpWatch, Node: ahead4.Text}, Waiting, ""},
		{"waiting", Withdrawn{Why: WhyTimeout}, Releasing, "delete #5"},
		{"waiting", LeaseRanOut{}, Waiting, ""},
		{"waiting", Suspended{}, Waiting, ""},
		{"waiting", Expired{}, Idle, "REQUEUED"},
		{"waiting, no connection", Reconnected{}, Listing, "list"},
		{"waiting, no connection", Withdrawn{Why: WhyContext}, Releasing, `delete #5, END "context ended"`},
		{"waiting, expired", reopened, Creating, "create attempt 2"},

		{"advancing", Advanced{1, true, false, true}, Held, "GRANT #5 token 500"},
		{"advancing", Advanced{1, true, true, true}, Held, "GRANT #5 token 500"},
		{"advancing", Advanced{1, true, false, false}, Claiming, "claim #5"},
		{"advancing", Advanced{1, false, true, false}, Waiting, ""},
		{"advancing", Advanced{1, false, false, true}, Listing, "list"},
		{"advancing", Advanced{2, true, false, true}, Advancing, ""},
		{"advancing", Unknown{1, OpAdvance}, Listing, "list"},
		{"advancing", Unknown{1, OpWatch}, Advancing, ""},
		{"advancing", Refused{Epoch: 1, Op: OpAdvance, Missing: true}, Creating, "create attempt 2, REQUEUED"},
		{"advancing", Refused{Epoch: 1, Op: OpAdvance}, Releasing, "delete #5"},
		{"advancing", Gone{1, ahead4.Text}, Advancing, ""},
		{"advancing", Reconnected{}, Advancing, ""},
		{"advancing", LeaseRanOut{}, Advancing, ""},
		{"advancing", Withdrawn{Why: WhyContext}, Releasing, "delete #5"},
		{"advancing", Expired{}, Idle, "REQUEUED"},
		{"advancing, next gone", Advanced{1, false, true, true}, Listing, "list"},
		{"advancing, next gone", Advanced{1, true, true, true}, Held, "GRANT #5 token 500"},
		{"advancing, reconnected", Advanced{1, false, true, true}, Listing, "list"},
		{"advancing, reconnected", Advanced{1, true, true, true}, Held, "GRANT #5 token 500"},
		{"advancing, reconnected", Unknown{1, OpAdvance}, Listing, "list"},
		{"advancing, own gone", Advanced{1, true, false, true}, Creating, "create attempt 2, REQUEUED"},
		{"advancing, own gone", Withdrawn{Why: WhyContext}, Over, `END "context ended"`},
		{"strict, advancing, no connection", Advanced{1, true, false, true}, Claiming, "claim #5"},
		{"walked back", Gone{1, ahead3.Text}, Claiming, "claim #5"},
		{"walked back", Reconnected{}, Listing, "list"},
		{"walked back", Withdrawn{Why: WhyContext}, Releasing, "delete #5"},

		{"claiming", Claimed{Epoch: 1, Fresh: true}, Held, "GRANT #5 token 500"},
		{"claiming", Claimed{Epoch: 1, Fresh: false}, Claiming, "claim #5"},
		{"claiming", Unknown{1, OpClaim}, Claiming, "claim #5"},
		{"claiming", Refused{Epoch: 1, Op: OpClaim, Missing: true}, Creating, "create attempt 2, REQUEUED"},
		{"claiming", Refused{Epoch: 1, Op: OpClaim}, Releasing, "delete #5"},
		{"claiming", Withdrawn{Why: WhyContext}, Releasing, "delete #5"},
		{"claiming", Expired{}, Idle, "REQUEUED"},
		{"claiming, own gone", Claimed{Epoch: 1, Fresh: true}, Creating, "create attempt 2, REQUEUED"},

		{"held", Withdrawn{Why: WhyReleased}, Releasing, "delete #5"},
		{"held", AskedBack{1, ours.Text, 0}, Held, "ASKED BACK"},
		{"held", AskedBack{1, ahead3.Text, 0}, Held, ""},
		{"held", AskedBack{2, ours.Text, 0}, Held, ""},
		{"held, asked back", AskedBack{1, ours.Text, 0}, Held, ""},
		{"held, asked back", Withdrawn{Why: WhyReleased}, Releasing, "delete #5"},
		{"waiting", AskedBack{1, ours.Text, 0}, Waiting, ""},
		{"waiting", AskedBack{1, ahead3.Text, 0}, Waiting, ""},
		{"claiming, asked back", Claimed{Epoch: 1, Fresh: true}, Held, "GRANT #5 token 500, ASKED BACK"},
		{"releasing", AskedBack{1, ours.Text, 0}, Releasing, ""},
		{"held", AskedBack{1, ours.Text, 7}, Held, "ASKED BACK by 7"},
		{"held, asked back", AskedBack{1, ours.Text, 7}, Held, "ASKED BACK by 7"},
		{"held, to be back by 7", AskedBack{1, ours.Text, 7}, Held, ""},
		{"held, to be back by 7", AskedBack{1, ours.Text, 8}, Held, ""},
		{"held, to be back by 7", AskedBack{1, ours.Text, 0}, Held, ""},
		{"held, to be back by 7", AskedBack{1, ours.Text, 6}, Held, "ASKED BACK by 6"},
		{"held, to be back by 7", AskedBack{1, ahead3.Text, 6}, Held, ""},
		{"held, to be back by 7", AskedBack{2, ours.Text, 6}, Held, ""},
		{"held, to be back by 7", Overdue{7}, Lapsed, `LOST "revoked"`},
		{"held, to be back by 7", Overdue{8}, Lapsed, `LOST "revoked"`},
		{"held, to be back by 7", Overdue{6}, Held, ""},
		{"held, to be back by 7", Gone{1, ours.Text}, Lapsed, `LOST "node removed"`},
		{"held, to be back by 7", Withdrawn{Why: WhyReleased}, Releasing, "delete #5"},
		{"held after waiting, to be back by 7", Overdue{7}, Lapsed, `LOST "revoked"`},
		{"held", Overdue{7}, Held, ""},
		{"held, asked back", Overdue{7}, Held, ""},
		{"waiting, to be back by 7", Overdue{7}, Waiting, ""},
		{"claiming, to be back by 7", Overdue{7}, Claiming, ""},
		{"claiming, to be back by 7", Claimed{Epoch: 1, Fresh: true}, Held, "GRANT #5 token 500, ASKED BACK by 7"},
		{"queued again, once to be back by 7", Overdue{7}, Held, ""},
		{"lapsed, as it was to be back", Overdue{7}, Lapsed, ""},
		{"lapsed, as it was to be back", AskedBack{1, ours.Text, 6}, Lapsed, ""},
		{"lapsed, as it was to be back", Withdrawn{Why: WhyLost}, Releasing, `delete #5, END "lost"`},
		{"lapsed, as it was to be back", Withdrawn{Why: WhyReleased, Ran: true}, Releasing, "delete #5"},
		{"releasing", Overdue{7}, Releasing, ""},
		{"over", Overdue{7}, Over, ""},
		{"alone", Withdrawn{Why: WhyReleased}, Releasing, "delete #5"},
		{"alone", Suspended{}, Held, ""},
		{"held after waiting", Withdrawn{Why: WhyReleased}, Releasing, "delete #5 with a floor"},
		{"held after waiting", LeaseRanOut{}, Lapsed, `LOST "lease ran out"`},
		{"held after waiting", Gone{1, ahead4.Text}, Held, ""},
		{"lapsed after waiting", Withdrawn{Why: WhyLost}, Releasing, `delete #5 with a floor, END "lost"`},
		{"releasing after waiting", Unknown{1, OpDelete}, Releasing, "delete #5 with a floor"},
		{"waited for another node", Withdrawn{Why: WhyReleased}, Releasing, "delete #6"},
		{"held", Suspended{}, Held, ""},
		{"strict", Suspended{}, Lapsed, `LOST "connection suspended"`},
		{"strict", LeaseRanOut{}, Lapsed, `LOST "lease ran out"`},
		{"strict, claiming, no connection", Claimed{Epoch: 1, Fresh: true}, Claiming, "claim #5"},
		{"held", LeaseRanOut{}, Lapsed, `LOST "lease ran out"`},
		{"held", Expired{}, Lapsed, `LOST "session expired"`},
		{"held", Gone{1, ours.Text}, Lapsed, `LOST "node removed"`},
		{"held", Gone{1, ahead3.Text}, Held, ""},
		{"held, no connection", Reconnected{}, Held, "claim #5"},
		{"held, no connection", Withdrawn{Why: WhyReleased}, Releasing, `delete #5, END "released"`},
		{"verifying", Claimed{Epoch: 1, Fresh: false}, Held, ""},
		{"verifying", Unknown{1, OpClaim}, Held, "claim #5"},
		{"verifying", Refused{Epoch: 1, Op: OpClaim}, Held, ""},
		{"verifying", Refused{Epoch: 1, Op: OpClaim, Missing: true}, Lapsed, `LOST "node removed"`},
		{"verifying", Reconnected{}, Held, ""},
		{"verified", Reconnected{}, Held, "claim #5"},
		{"verified in vain", Reconnected{}, Held, "claim #5"},

		{"lapsed", Withdrawn{Why: WhyReleased}, Releasing, `delete #5, END "lost"`},
		{"lapsed", Withdrawn{Why: WhyReleased, Ran: true}, Releasing, "delete #5"},
		{"lapsed, no connection", Withdrawn{Why: WhyReleased, Ran: true}, Releasing, `delete #5, END "lost"`},
		{"lapsed", LeaseRanOut{}, Lapsed, ""},
		{"lapsed", Suspended{}, Lapsed, ""},
		{"lapsed", Gone{1, ours.Text}, Lapsed, ""},
		{"lapsed, own gone", Withdrawn{Why: WhyReleased}, Over, `END "lost"`},
		{"lapsed, then own gone", Withdrawn{Why: WhyReleased}, Over, `END "lost"`},
		{"lapsed, expired", Withdrawn{Why: WhyReleased}, Over, `END "lost"`},
		{"lapsed, expired", reopened, Lapsed, ""},

		{"releasing", Deleted{1}, Over, `END "released"`},
		{"releasing", Unknown{1, OpDelete}, Releasing, "delete #5"},
		{"releasing", Refused{Epoch: 1, Op: OpDelete}, Over, `END "refused"`},
		{"releasing", Withdrawn{Why: WhyContext}, Releasing, ""},
		{"releasing", Suspended{}, Releasing, `END "released"`},
		{"releasing", LeaseRanOut{}, Releasing, `END "released"`},
		{"releasing", Expired{}, Over, `END "released"`},
		{"over", Created{Epoch: 1, Node: ours}, Over, "discard #5"},
	} {
		before := machineAfter(situations()[c.when])
		m, effects := before.Step(c.in)
		var got []string
		for _, e := range effects {
			got = append(got, effectText(e))
		}
		if text := strings.Join(got, ", "); m.State() != c.next || text != c.want {
			t.Errorf("%s, then %s:\n got %v; %s\nwant %v; %s", c.when, inputText(c.in), m.State(), text, c.next, c.want)
		}
	}
}

func TestStatesOpsAndReasonsHaveNames(t *testing.T) {
	names := map[string]bool{}
	for s := Idle; s <= Over; s++ {
		names[s.String()] = true
	}
	for o := OpCreate; o <= OpEnter; o++ {
		names["op "+o.String()] = true
	}
	for w := WhyReleased; w <= WhyMixed; w++ {
		names["why "+w.String()] = true
	}
	if want := int(Over) + 1 + int(OpEnter) + int(WhyMixed); len(names) != want || names[""] {
		t.Errorf("%d names for %d values", len(names), want)
	}
	if Op(0).String() != "no request" || Why(0).String() != "none" || Why(99).String() != "none" {
		t.Error("a value that is none has the name of one")
	}
}
