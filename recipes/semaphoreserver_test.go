package recipes

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zkgrant/zkgrant/events"
)

// This file is the server of a permitPlay.

// execute executes the client's oldest request, and puts the answer behind the events that it causes.
func (p *permitPlay) execute(c *permitClient) {
	e := c.requests[0]
	c.requests = c.requests[1:]
	if in := p.answerTo(c, e); in != nil {
		c.answers = append(c.answers, in)
	}
}

func (p *permitPlay) answerTo(c *permitClient, e Effect) Input {
	switch e := e.(type) {
	case Create:
		c.attempt = e.Attempt
		name := contender(int64(p.places))
		p.places++
		p.nodes = append(p.nodes, permitNode{name.Text, c, e.Attempt})
		alone := len(p.queue()) == 1
		return Created{Epoch: e.Epoch, Node: name, Alone: alone, Token: tokenOf(name.Text), Fresh: alone}
	case List:
		return p.list(c, e)
	case Watch:
		if !p.exists(e.Node) {
			return Gone{Epoch: e.Epoch, Node: e.Node}
		}
		c.watched[e.Node] = true
		return nil
	case Claim:
		return p.claim(c, e)
	case Advance:
		return p.advance(c, e)
	case Survey:
		f := Findings{Size: p.size, Version: p.version, InUse: int32(len(p.nodes) - len(p.queue())), Gone: e.Looks() && !p.exists(e.Node)}
		c.looks = c.looks || e.Watch && !f.Gone
		c.watched[e.Node] = c.watched[e.Node] || e.Looks() && !f.Gone
		return e.Means(f)
	case Enter:
		return p.enter(c, e)
	case Delete:
		if e.Floor {
			p.floor = e.Node
		}
		p.discard(c, e.Node)
		return Deleted{e.Epoch}
	default:
		return nil
	}
}

func (p *permitPlay) list(c *permitClient, e List) Input {
	l := Listed{Epoch: e.Epoch, Queue: p.queue()}
	if e.Size {
		l.Size = p.size
	}
	for _, n := range p.nodes {
		permit := strings.HasPrefix(n.name, "leases/")
		if n.owner != c || n.attempt != e.Attempt || permit && !e.Barrier || l.Own != (Own{}) {
			continue
		}
		l.Own, l.Entered = Own{Name: events.Name{Text: n.name}, Owner: c.session}, permit
		if !permit {
			l.Own.Name, _ = events.ParseName(n.name)
			l.Own.Token = tokenOf(n.name)
		}
		c.watched[n.name] = true
	}
	return l
}

// claim checks the own node, or all the permits.
func (p *permitPlay) claim(c *permitClient, e Claim) Input {
	want := 1
	if strings.HasPrefix(e.Node, "leases/") {
		want = int(c.m.rule.(Semaphore).Permits)
	}
	switch in := e.Incomplete(len(p.own(c, e.Node)), want); {
	case in != nil:
		return in
	case !p.exists(e.Node):
		return Refused{Epoch: e.Epoch, Op: OpClaim, Missing: true}
	default:
		return Claimed{Epoch: e.Epoch, Fresh: true}
	}
}

func (p *permitPlay) advance(c *permitClient, e Advance) Input {
	switch {
	case !p.exists(e.Node):
		return Refused{Epoch: e.Epoch, Op: OpAdvance, Missing: true}
	case p.floor == e.Past:
		return Advanced{Epoch: e.Epoch, Floor: true, Fresh: true}
	case p.exists(e.Next):
		c.watched[e.Next] = true
		return Advanced{Epoch: e.Epoch, Stands: true, Fresh: true}
	default:
		return Advanced{Epoch: e.Epoch, Fresh: true}
	}
}

func (p *permitPlay) enter(c *permitClient, e Enter) Input {
	switch {
	case e.Version != p.version:
		return Refused{Epoch: e.Epoch, Op: OpEnter, Stale: true}
	case !p.exists(e.Node):
		return Refused{Epoch: e.Epoch, Op: OpEnter, Missing: true}
	}
	if e.Floor {
		p.floor = e.Node
	}
	entered := Entered{Epoch: e.Epoch, Fresh: true}
	for range e.Permits {
		entered.Permits = append(entered.Permits, p.permit(c, c.attempt))
	}
	p.changed()
	p.removeAll(func(n permitNode) bool { return n.name == e.Node })
	for _, n := range p.nodes {
		if strings.HasPrefix(n.name, "leases/") {
			entered.InUse++
		}
	}
	return entered
}

// permit makes a permit.
func (p *permitPlay) permit(c *permitClient, attempt Attempt) string {
	name := fmt.Sprintf("leases/%d", p.taken)
	p.taken++
	p.nodes = append(p.nodes, permitNode{name, c, attempt})
	if c != nil {
		c.watched[name] = true
	}
	return name
}

// own returns the client's nodes of the same kind and attempt.
func (p *permitPlay) own(c *permitClient, node string) (names []string) {
	for _, n := range p.nodes {
		if n.owner == c && n.attempt == c.attempt && strings.HasPrefix(n.name, "leases/") == strings.HasPrefix(node, "leases/") {
			names = append(names, n.name)
		}
	}
	return names
}

// discard removes the own place in the queue, or all the permits.
func (p *permitPlay) discard(c *permitClient, node string) {
	own := p.own(c, node)
	for _, name := range own {
		delete(c.watched, name)
	}
	p.removeAll(func(n permitNode) bool { return n.owner == c && slices.Contains(own, n.name) })
}

// removeAll removes nodes, and tells the clients that watch them or the permits.
func (p *permitPlay) removeAll(which func(permitNode) bool) {
	permits := len(p.nodes) - len(p.queue())
	var gone []permitNode
	p.nodes = slices.DeleteFunc(p.nodes, func(n permitNode) bool {
		if which(n) {
			gone = append(gone, n)
			return true
		}
		return false
	})
	for _, n := range gone {
		for _, c := range p.clients {
			if c.watched[n.name] {
				delete(c.watched, n.name)
				name := n.name
				if n.owner == c && c.m.permits.entered { // the machine knows the first of them
					name = c.m.own.Name.Text
				}
				c.answers = append(c.answers, Gone{c.m.Epoch(), name})
			}
		}
	}
	if len(p.nodes)-len(p.queue()) != permits {
		p.changed()
	}
}

// changed tells the clients that watch the permits and the size.
func (p *permitPlay) changed() {
	for _, c := range p.clients {
		if c.looks {
			c.looks = false
			c.answers = append(c.answers, Changed{c.m.Epoch()})
		}
	}
}

func (p *permitPlay) queue() (names []events.Name) {
	for _, n := range p.nodes {
		if name, ok := events.ParseName(n.name); ok {
			names = append(names, name)
		}
	}
	return names
}

func (p *permitPlay) exists(name string) bool {
	return slices.ContainsFunc(p.nodes, func(n permitNode) bool { return n.name == name })
}

// tokenOf is the zxid that created a place.
func tokenOf(name string) int64 {
	n, _ := events.ParseName(name)
	return 100 + n.Seq
}
