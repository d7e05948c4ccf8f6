package session

import (
	"sync"

	"github.com/zkgrant/zkgrant/recipes"
)

// This file makes a lock's directory and the first node in it in one round trip. Three
// requests leave one after the other, and a server takes them in that order: for the
// directory, for the node, and for the node's Stat, with a watch. The first node of a
// directory has number 0, so its path is known before it is made.
//
// If the directory exists already, the node stands in it, and its contender lists as
// usual. If nodes above are missing, all three find nothing.

// isFresh reports whether the directory of a create may be a new one. The servers must be
// known to have container nodes: others close the connection.
func (c *client) isFresh(t *Seat, x recipes.Errand, p recipes.Plan) bool {
	attempt, _ := t.attempted()
	return x.Op == recipes.OpCreate && x.Layout == recipes.LayoutQueue && len(p) == 1 && attempt == 1 && x.Dir != "/" &&
		t.permits == nil && !t.kind.Kazoo() && c.containers.has() && c.dirs.book(x.Dir).New()
}

// createFresh makes the directory and the node. It also returns whether it has made the
// directory.
func (c *client) createFresh(t *Seat, x recipes.Errand, p recipes.Plan) (a recipes.Answer, made bool, err error) {
	dir, forgetDir := c.link.Sends(x.Dir)
	defer forgetDir()
	node, forgetNode := c.link.Sends(x.Nodes[0])
	defer forgetNode()
	var wait sync.WaitGroup
	var notMade error
	var seen snapshot
	first := x.First()
	answered, performed := make(chan struct{}), make(chan struct{})
	wait.Go(func() {
		defer close(answered)
		notMade = c.dirs.make(x.Dir, func() error { return c.makeDirectory(x.Dir, recipes.Marker(), t.acl, false) })
	})
	wait.Go(func() {
		select {
		case <-node:
			t.nameOwn(c, x.Epoch, []string{first}, 0) // or another one, when it lists
			seen, _ = c.follow(ofNode, first, t)
		case <-performed: // it was not sent
		}
	})
	select {
	case <-dir:
	case <-answered: // it was not sent
	}
	a, err = c.perform(t, p)
	select {
	case <-node: // and so is the look, however late its goroutine runs
	default:
		close(performed)
	}
	if a.Result == recipes.ResultDone {
		in := x.Means(p, a).In
		t.session.loop.Post(func() { t.session.stands(t, x.Epoch, in) })
	}
	wait.Wait()
	if seen.stat != nil && len(a.Nodes) == 1 && a.Nodes[0] == first {
		a.Nodes[0] = first // one string: a holder keeps both for long
		a.Stats = []recipes.Stat{{Czxid: seen.stat.Czxid}}
	}
	return a, notMade == nil, err
}

// standing is a create whose node stands, while others of the three requests are not
// answered. A seat that is withdrawn does not wait for them: if an answer is lost, the
// node would stay until the connection is given up.
type standing struct {
	epoch recipes.Epoch
	in    recipes.Input // what the machine receives if it is withdrawn
	told  bool          // and has received
}

// stands notes that the node of a create at a fresh path stands.
func (s *Session) stands(t *Seat, epoch recipes.Epoch, in recipes.Input) {
	s.standing[t] = &standing{epoch: epoch, in: in}
	if t.unwanted == epoch {
		s.withdraw(t, epoch)
	}
}

// withdraw answers the create of a seat that is withdrawn, now or when its node stands.
func (s *Session) withdraw(t *Seat, epoch recipes.Epoch) {
	t.unwanted = epoch
	if x := s.standing[t]; x != nil && x.epoch == epoch && !x.told {
		x.told = true
		t.answer(x.in, nil)
	}
}

// hasTold reports whether a create was answered before all of its answers came.
func (s *Session) hasTold(r *seatRequest) bool {
	x := s.standing[r.seat]
	if x == nil || r.op != recipes.OpCreate || x.epoch != r.epoch {
		return false
	}
	delete(s.standing, r.seat)
	return x.told
}
