package recipes

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// permitPlay plays the transcripts in testdata/semaphore, in a small world of its own: one server, which executes one request at a
// time, and a directory of ours. As in TestTranscripts, whatever is left to happen happens behind each command, unless it says
// hold.
//
//	semaphore a=2 b=3 size=4   all ask for so many permits of a new semaphore, one after the other
//	start c=2                  one more asks (opinion=5: its opinion on the size; adopt=(c) try=(c))
//	execute a                  the server executes a's oldest request, and no more
//	answer a                   the oldest answer or event reaches a, and no more
//	deliver                    nothing but what is left to do
//	release a                  a's caller is done, or gives up waiting
//	cut a                      a's connection breaks; reply-lost: after its request was executed
//	reconnect a                the same session has a connection again
//	expire a                   a's session ends, and a new one begins
//	remove lock-1              another process deletes a node
//	foreign-permit             another process takes a permit
//	resize 5                   another process changes the size
type permitPlay struct {
	clients       []*permitClient
	nodes         []permitNode // in the order in which they were made
	places, taken int          // numbers given out
	size, version int32
	floor         string
	lines         []string
}

type permitNode struct {
	name    string
	owner   *permitClient // nil: another process
	attempt Attempt
}

type permitClient struct {
	name     byte
	m        Machine
	up       bool
	session  int64
	attempt  Attempt
	requests []Effect
	answers  []Input // and events
	watched  map[string]bool
	looks    bool
}

func (p *permitPlay) run(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	p.lines = nil
	switch d.Cmd {
	case "semaphore":
		*p = permitPlay{}
		fallthrough
	case "start":
		p.start(t, d)
	case "deliver":
	default:
		p.command(t, d)
	}
	if !has(d, "hold") && d.Cmd != "execute" && d.Cmd != "answer" {
		for p.settle() {
		}
	}
	return strings.Join(append(p.lines, p.standing()), "\n") + "\n"
}

func (p *permitPlay) start(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	numbers := map[string]int32{} // of permits, and of others
	var names []string
	who := map[string][]string{}
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "adopt", "try":
			who[a.Key] = a.Vals
			continue
		case "hold":
			continue
		case "size", "opinion":
		default:
			names = append(names, a.Key)
		}
		n, err := strconv.Atoi(a.Vals[0])
		if err != nil {
			d.Fatalf(t, "%s: %v", a.Key, err)
		}
		numbers[a.Key] = int32(n)
	}
	if size, ok := numbers["size"]; ok {
		p.size = size
	}
	opinion, ok := numbers["opinion"]
	if !ok {
		opinion = p.size
	}
	for _, name := range names {
		rule := Semaphore{Size: opinion, Permits: numbers[name], Adopt: slices.Contains(who["adopt"], name)}
		c := &permitClient{name: name[0], m: NewMachine(rule), up: true, watched: map[string]bool{}}
		p.clients = append(p.clients, c)
		p.session(c, 1)
		p.feed(c, Started{Try: slices.Contains(who["try"], name)})
		for !has(d, "hold") && p.settle() {
		}
	}
}

func (p *permitPlay) session(c *permitClient, epoch Epoch) {
	c.session, c.up = int64(c.name)<<8+int64(epoch), true
	p.feed(c, Opened{Epoch: epoch, Session: c.session})
}

func (p *permitPlay) command(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	arg := ""
	if len(d.CmdArgs) > 0 {
		arg = d.CmdArgs[0].Key
	}
	i := slices.IndexFunc(p.clients, func(c *permitClient) bool { return string(c.name) == arg })
	var c *permitClient
	if i >= 0 {
		c = p.clients[i]
	}
	switch d.Cmd {
	case "execute":
		p.execute(c)
	case "answer":
		p.answer(c)
	case "release":
		p.feed(c, Withdrawn{Why: WhyReleased})
	case "cut":
		p.cut(c, has(d, "reply-lost"))
	case "reconnect":
		c.up = true
		p.feed(c, Reconnected{})
	case "expire":
		c.requests, c.answers, c.looks, c.watched = nil, nil, false, map[string]bool{}
		p.removeAll(func(n permitNode) bool { return n.owner == c })
		epoch := c.m.Epoch()
		p.feed(c, Expired{})
		p.session(c, epoch+1)
	case "remove":
		p.removeAll(func(n permitNode) bool { return strings.TrimPrefix(n.name, "leases/") == arg || short(n.name) == arg })
	case "foreign-permit":
		p.permit(nil, 0)
		p.changed()
	case "resize":
		n, err := strconv.Atoi(arg)
		if err != nil {
			d.Fatalf(t, "resize: %v", err)
		}
		p.size = int32(n)
		p.version++
		p.changed()
	default:
		d.Fatalf(t, "no command %s", d.Cmd)
	}
}

// settle does one thing that is left to do, and tells whether there was one.
func (p *permitPlay) settle() bool {
	for _, c := range p.clients {
		if c.up && len(c.answers) > 0 {
			p.answer(c)
			return true
		}
	}
	for _, c := range p.clients {
		if c.up && len(c.requests) > 0 {
			p.execute(c)
			return true
		}
	}
	return false
}

func (p *permitPlay) answer(c *permitClient) {
	in := c.answers[0]
	c.answers = c.answers[1:]
	p.feed(c, in)
}

// feed has a machine take a step, and notes what it asks for.
func (p *permitPlay) feed(c *permitClient, in Input) {
	from := c.m.State()
	next, effects := c.m.Step(in)
	c.m = next
	text := fmt.Sprintf("%c: %s: %v", c.name, inputText(in), from)
	if from != next.State() {
		text += fmt.Sprintf(" -> %v", next.State())
	}
	for i, e := range effects {
		text += [...]string{"; ", ", "}[min(i, 1)] + effectText(e)
		switch e := e.(type) {
		case Grant, Lose, Queue, Requeue, Finish:
		case Discard:
			p.discard(c, e.Node)
		default:
			c.requests = append(c.requests, e)
		}
	}
	if _, ok := in.(Opened); ok && len(effects) == 0 || from == Over {
		return
	}
	p.lines = append(p.lines, text)
	if next.State() == Lapsed && from != Lapsed { // its side says at once that no function runs
		p.feed(c, Withdrawn{Why: WhyLost})
	}
}

// cut breaks the connection: requests under way are not answered, and later ones wait.
func (p *permitPlay) cut(c *permitClient, executed bool) {
	if executed {
		p.execute(c)
	}
	answers, requests := c.answers, c.requests
	c.answers, c.requests, c.up, c.looks = nil, nil, false, false
	p.feed(c, Suspended{})
	for _, in := range answers {
		if op := opOfAnswer(in); op != 0 {
			p.feed(c, Unknown{c.m.Epoch(), op})
		} else {
			c.answers = append(c.answers, in) // watches are restored
		}
	}
	for _, e := range requests {
		if op := opOfEffect(e); op != 0 {
			p.feed(c, Unknown{c.m.Epoch(), op})
		}
	}
}

func opOfAnswer(in Input) Op {
	switch in.(type) {
	case Created:
		return OpCreate
	case Listed:
		return OpList
	case Claimed:
		return OpClaim
	case Advanced:
		return OpAdvance
	case Surveyed:
		return OpSurvey
	case Entered:
		return OpEnter
	case Deleted:
		return OpDelete
	default:
		return 0
	}
}

func opOfEffect(e Effect) Op {
	switch e.(type) {
	case Create:
		return OpCreate
	case List:
		return OpList
	case Watch:
		return OpWatch
	case Claim:
		return OpClaim
	case Advance:
		return OpAdvance
	case Survey:
		return OpSurvey
	case Enter:
		return OpEnter
	case Delete:
		return OpDelete
	default:
		return 0
	}
}

// standing says where each contender stands, and which nodes there are.
func (p *permitPlay) standing() string {
	var who, nodes []string
	for _, c := range p.clients {
		text := fmt.Sprintf("%c %v", c.name, c.m.State())
		if !c.up {
			text += " (no connection)"
		}
		who = append(who, text)
	}
	for _, n := range p.nodes {
		nodes = append(nodes, short(n.name))
	}
	return fmt.Sprintf("== %s; nodes [%s] of %d", strings.Join(who, ", "), strings.Join(nodes, " "), p.size)
}
