package recipes

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestTranscripts plays the scripts in testdata. After a change of behaviour, run it with
// -rewrite and read the diff. Commit it only if you understand what caused it.
//
// The test executes each command. Then the servers and the connections do everything that
// is left to do, unless the command says hold. The test prints the machines' inputs,
// their new states, their requests and their reports. The last line shows the state of
// each contender.
//
//	queue clients=3    all request the lock, one after the other. The words are those of a
//	                   spec, see specVariable; a is the first contender. With first=7 the
//	                   numbers of the nodes begin there
//	world clients=2    like queue, but none has requested it. In both, a contender that
//	                   takes another's place requests the lock when a command starts it
//	start a            a requests the lock
//	execute a          a server executes a's oldest request, and no more
//	answer a           the oldest answer reaches a, and no more
//	deliver            nothing but what is left to do
//	paused a           a's pause is over
//	delay-over         the lock-delay has passed
//	release a          a's caller is done (panic: its function panicked; untaken: it did
//	                   not take the grant)
//	withdraw a         a's caller gives up
//	cancel a           a's create, which was withdrawn, was not sent yet
//	cut a              a's connection breaks; reply-lost: after its request was executed
//	reconnect a        the same session has a connection again
//	lapse a            a's lease runs out
//	expire a           a's session ends, and a new one begins (hold: only at the leader;
//	                   silent: none begins)
//	hear a             a learns that its session has ended, and begins a new one
//	remove #0          another process deletes a node
//	asked #0           each session with a connection learns of a revocation request for
//	                   a node (soon, late: its deadline)
//	overdue a          the deadline of a's revocation has passed
//	foreign joins      another library's contender queues up (leaves: it holds, and leaves)
//	guest joins        a contender of ours queues up, with a marker
//	reap               the directory is removed, because it is empty
//	downgrade          with writer, the foreign writer creates its read node
//	catch-up c         the replica of c catches up by one transaction, and no more
//	gone c             the watch of c that has fired is delivered, and no more
//	refuse a           a server refuses a's oldest request
//
// A command that gives no machine an input may stand above the next one. With brief, the
// beginning of a transcript, of one or more commands, prints only where it has led to:
// other transcripts print in full each of the machines' steps that it leaves out.
//
// Scripts in testdata/multi have two directories, p and q. The nodes of one attempt have
// the same number in both: p1 and q1.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		if path == worldsFile {
			return // not a transcript
		}
		datadriven.RunTest(t, path, new(play).run)
	})
}

// violated begins the line of a violation.
const violated = "VIOLATION: "

type play struct {
	env     *environment
	w       world
	clients int
	lines   []string
}

func (p *play) run(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	p.lines = nil
	p.do(t, d)
	for line := range strings.Lines(d.Input) {
		cmd, args, err := datadriven.ParseLine(line)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		p.do(t, &datadriven.TestData{Pos: d.Pos, Cmd: cmd, CmdArgs: args})
	}
	if has(d, "brief") {
		p.lines = slices.DeleteFunc(p.lines, func(line string) bool { return !strings.HasPrefix(line, violated) })
	}
	return strings.Join(append(p.lines, p.standing()), "\n") + "\n"
}

func (p *play) do(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	switch d.Cmd {
	case "world", "queue":
		p.begin(t, d)
	case "deliver":
	default:
		p.command(t, d)
	}
	if !has(d, "hold") && !slices.Contains([]string{"execute", "answer", "catch-up", "gone"}, d.Cmd) {
		p.settle()
	}
}

func has(d *datadriven.TestData, key string) bool {
	return slices.ContainsFunc(d.CmdArgs, func(a datadriven.CmdArg) bool { return a.Key == key && len(a.Vals) == 0 })
}

// begin begins the play. From then on, it records what the machines receive and do.
func (p *play) begin(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	var first int64
	var words []string
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "first":
			d.ScanArgs(t, "first", &first)
		case "hold", "brief":
		default:
			words = append(words, a.String())
		}
	}
	cfg, err := parseSpec(strings.Join(words, " "))
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	cfg.keepOrder, cfg.mixes = true, true
	p.clients = cfg.clients
	p.env, p.w = cfg.begin(after, first)
	p.env.log = func(c int, text string) {
		if !strings.HasSuffix(text, ": Over") { // it ignores everything
			p.lines = append(p.lines, fmt.Sprintf("%c: %s", 'a'+c, text))
		}
	}
	for c := range p.clients {
		if d.Cmd == "world" || p.w.clients[c].role&roleTakes != 0 {
			continue
		}
		p.take(stepStart, uint8(c))
		if !has(d, "hold") {
			p.settle()
		}
	}
}

// take executes one step. The budget is always sufficient.
func (p *play) take(kind stepKind, c uint8) { p.takeStep(step{kind: kind, client: c}) }

func (p *play) takeStep(s step) {
	p.w.left = budget{cut: 9, lapse: 9, expire: 9, kill: 9, remove: 9, withdraw: 9, foreign: 9, refuse: 9, guest: 9, reap: 9, revocation: 9}
	if bad := p.env.Take(&p.w, s); bad != "" {
		p.lines = append(p.lines, violated+string(bad))
	}
}

// settle lets everything happen that needs no decision.
func (p *play) settle() {
	by := []stepKind{stepFollows, stepAnswer, stepFail, stepGone, stepDiscard, stepExecute, stepCatchUp, stepPaused}
	for {
		steps := p.env.Enabled(&p.w, nil)
		steps = slices.DeleteFunc(steps, func(s step) bool {
			return !slices.Contains(by, s.kind) || s.kind == stepPaused && p.w.delay.mark == markMade // until delay-over
		})
		if len(steps) == 0 {
			return
		}
		p.takeStep(slices.MinFunc(steps, func(a, b step) int {
			return slices.Index(by, a.kind) - slices.Index(by, b.kind)
		}))
	}
}

// commands are the commands that take one step. The others are in the method command.
var commands = map[string]stepKind{
	"start": stepStart, "execute": stepExecute, "answer": stepAnswer, "release": stepRelease, "withdraw": stepWithdraw,
	"panic": stepCrash, "untaken": stepUntaken, "cancel": stepCancel, "cut": stepCut, "expire": stepExpire,
	"reconnect": stepReconnect, "lapse": stepLapse, "refuse": stepRefuse, "catch-up": stepCatchUp, "paused": stepPaused,
	"overdue": stepOverdue, "gone": stepGone, "reap": stepReap, "downgrade": stepDowngrade, "delay-over": stepDelayOver,
	"remove": stepRemove, "asked": stepRevoke, "asked soon": stepRevokeSoon, "asked late": stepRevokeLate,
	"foreign joins": stepForeignJoins, "guest joins": stepGuestJoins, "foreign leaves": stepLeaves,
}

func (p *play) command(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	name, whom := d.Cmd, ""
	for i, a := range d.CmdArgs {
		if i == 0 && a.Key != "hold" {
			whom = a.Key
		}
		if _, ok := commands[d.Cmd+" "+a.Key]; ok {
			name += " " + a.Key
		}
	}
	s := step{kind: commands[name]}
	switch {
	case len(whom) == 1:
		s.client = whom[0] - 'a'
	case d.Cmd == "foreign", d.Cmd == "guest":
		s.node = uint8(bits.TrailingZeros8(p.w.outsiders()))
	case whom != "" && p.env.several != nil:
		s.node = 2*(whom[1]-'0') + whom[0] - 'p'
	case whom != "":
		seq, err := strconv.ParseInt(strings.TrimPrefix(whom, "#"), 10, 64)
		if err != nil {
			d.Fatalf(t, "which node? %v", err)
		}
		s.node = uint8(seq - p.env.first)
	}
	switch {
	case d.Cmd == "gone":
		s.node = uint8(bits.TrailingZeros8(p.w.clients[s.client].fired))
	case d.Cmd == "cut" && has(d, "reply-lost"):
		p.take(stepExecute, s.client)
	case d.Cmd == "hear":
		p.hear(s.client, true)
		return
	case s.kind == 0:
		d.Fatalf(t, "no command %s", name)
	}
	p.takeStep(s)
	if d.Cmd == "expire" && !has(d, "hold") {
		p.hear(s.client, !has(d, "silent"))
	}
}

// hear makes the client learn that its session has ended, once the server has closed its
// connection.
func (p *play) hear(c uint8, again bool) {
	if p.w.clients[c].conn == connUp {
		p.w.raise(int(c))
		p.take(stepDropDead, c)
	}
	p.take(stepExpired, c)
	if again {
		p.take(stepOpen, c)
	}
}

// standing describes the state of each contender, and the nodes that exist at the leader.
func (p *play) standing() string {
	var parts []string
	for c := range p.clients {
		cl := &p.w.clients[c]
		m := p.env.machines[cl.machine]
		text := fmt.Sprintf("%c %v", 'a'+c, m.state)
		if own := m.own.Name.Text; own != "" && m.state != Over && p.env.several == nil {
			text += " " + short(own)
		}
		parts = append(parts, text+[...]string{connDown: " (no connection)", connNone: " (no session)"}[cl.conn])
	}
	var nodes []string
	for i := range maxNodes {
		if p.w.past[0]&(1<<i) != 0 {
			nodes = append(nodes, p.nodeText(uint8(i)))
		}
	}
	text := "== " + strings.Join(parts, ", ") + "; nodes [" + strings.Join(nodes, " ") + "]"
	switch f := p.w.dirs[0].floor(); {
	case p.w.dirs[0] == 0 && p.env.several == nil:
		text += ", no directory"
	case f != noNode:
		text += ", floor " + short(p.env.name(f, p.w.forms[f]).Text)
	}
	if r := p.w.records[0]; r != 0 {
		text += ", record of " + short(p.env.name(r-1, p.w.forms[r-1]).Text)
	}
	return text
}

func (p *play) nodeText(id uint8) string {
	if p.env.several != nil {
		return fmt.Sprintf("%c%d", 'p'+id%2, id/2)
	}
	return short(p.env.name(id, p.w.forms[id]).Text)
}
