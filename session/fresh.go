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
	wait.Wait()
	if seen.stat != nil && len(a.Nodes) == 1 && a.Nodes[0] == first {
		a.Nodes[0] = first // one string: a holder keeps both for long
		a.Stats = []recipes.Stat{{Czxid: seen.stat.Czxid}}
	}
	return a, notMade == nil, err
}
