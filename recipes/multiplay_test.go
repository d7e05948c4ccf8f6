package recipes

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/zkgrant/zkgrant/events"
)

// multiPlay plays the transcripts in testdata/multi, in the world of the explorer of multi-locks: two directories, p and q. As in
// TestTranscripts, everything happens that is left to happen behind each command, unless it says hold. The nodes of one
// attempt bear one number in both.
//
//	multi a=(p,q) b=(q,p) c=(p)   all ask, one after the other: for a multi-lock, or with one directory for a mutex in it
//	                              (try=(a) keep=(b)); with hold nobody has asked yet
//	start a                       a asks
//	release a                     a's caller is done
//	withdraw a                    a's caller gives up
//	cut a                         a's connection breaks; reply-lost: after its request was executed
//	reconnect a                   the same session has a connection again
//	expire a                      a's session ends, and a new one begins
//	remove p1                     somebody deletes a node
//	execute a                     a server executes a's oldest request, and no more
//	deliver                       nothing; whatever is left is done
type multiPlay struct {
	env   *multiEnv
	w     multiWorld
	lines []string
}

func (p *multiPlay) run(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	p.lines = nil
	switch d.Cmd {
	case "multi":
		p.begin(d)
	case "deliver":
	default:
		p.command(t, d)
	}
	if !has(d, "hold") && d.Cmd != "execute" {
		p.settle()
	}
	return strings.Join(append(p.lines, p.standing()), "\n") + "\n"
}

func (p *multiPlay) begin(d *datadriven.TestData) {
	var roles []multiRole
	flags := map[string]uint8{}
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "try", "keep":
			for _, v := range a.Vals {
				flags[v] = map[string]uint8{"try": flagTry, "keep": flagKeep}[a.Key]
			}
		case "hold":
		default:
			r := multiRole{plain: len(a.Vals) == 1}
			for _, v := range a.Vals {
				r.dirs, r.kinds = append(r.dirs, v[0]-'p'), append(r.kinds, events.KindLock)
			}
			roles = append(roles, r)
		}
	}
	for i := range roles {
		roles[i].flags = flags[string(rune('a'+i))]
	}
	p.env = newMultiEnv(Machine.Step, config{places: roles})
	p.w = p.env.open(budget{})
	p.env.log = func(c int, text string) {
		if !strings.HasSuffix(text, ": Over") {
			p.lines = append(p.lines, fmt.Sprintf("%c: %s", 'a'+c, text))
		}
	}
	for c := range roles {
		if !has(d, "hold") {
			p.take(step{kind: stepStart, client: uint8(c)})
			p.settle()
		}
	}
}

// take carries out one step, for which the budget is always sufficient.
func (p *multiPlay) take(s step) {
	p.w.left = budget{cut: 9, lapse: 9, expire: 9, kill: 9, remove: 9, withdraw: 9}
	if bad := p.env.Take(&p.w, s); bad != "" {
		p.lines = append(p.lines, "VIOLATION: "+string(bad))
	}
}

// settle lets everything happen that needs no decision.
func (p *multiPlay) settle() {
	by := []stepKind{stepAnswer, stepFail, stepGone, stepDiscard, stepExecute, stepCatchUp}
	for {
		steps := p.env.Enabled(&p.w, nil)
		steps = slices.DeleteFunc(steps, func(s step) bool { return !slices.Contains(by, s.kind) })
		if len(steps) == 0 {
			return
		}
		p.take(slices.MinFunc(steps, func(a, b step) int { return slices.Index(by, a.kind) - slices.Index(by, b.kind) }))
	}
}

func (p *multiPlay) command(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	whom := d.CmdArgs[0].Key
	c := whom[0] - 'a'
	one := map[string]stepKind{
		"start": stepStart, "release": stepRelease, "withdraw": stepWithdraw, "reconnect": stepReconnect, "execute": stepExecute,
	}
	if kind, ok := one[d.Cmd]; ok {
		p.take(step{kind: kind, client: c})
		return
	}
	switch d.Cmd {
	case "cut":
		if has(d, "reply-lost") {
			p.take(step{kind: stepExecute, client: c})
		}
		p.take(step{kind: stepCut, client: c})
	case "expire":
		p.take(step{kind: stepExpire, client: c})
		if p.w.clients[c].conn == connUp {
			p.w.raise(int(c))
			p.take(step{kind: stepDropDead, client: c})
		}
		p.take(step{kind: stepExpired, client: c})
		p.take(step{kind: stepOpen, client: c})
	case "remove":
		p.take(step{kind: stepRemove, node: 2*(whom[1]-'0') + whom[0] - 'p'})
	default:
		d.Fatalf(t, "no command %s", d.Cmd)
	}
}

// standing says where everybody stands, and which nodes exist at the leader.
func (p *multiPlay) standing() string {
	var parts, nodes []string
	for c := range p.env.roles {
		text := fmt.Sprintf("%c %v", 'a'+c, p.env.known[p.w.clients[c].machine].state)
		if p.w.clients[c].conn == connDown {
			text += " (no connection)"
		}
		parts = append(parts, text)
	}
	for m := p.w.past[0]; m != 0; m &= m - 1 {
		id := bits.TrailingZeros16(m)
		nodes = append(nodes, fmt.Sprintf("%c%d", 'p'+id%2, id/2))
	}
	return "== " + strings.Join(parts, ", ") + "; nodes [" + strings.Join(nodes, " ") + "]"
}
