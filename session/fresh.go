package session

import "github.com/zkgrant/zkgrant/recipes"

// This file makes a lock's directory and the first node in it in one round trip. Two
// requests leave one after the other, and a server takes them in that order.
//
// If the directory exists already, the node stands in it, and its contender lists as
// usual. If nodes above are missing, both find nothing.

// isFresh reports whether the directory of a create may be a new one. The servers must be
// known to have container nodes: others close the connection.
func (c *client) isFresh(t *Seat, x recipes.Errand) bool {
	attempt, _ := t.attempted()
	return x.Layout == recipes.LayoutQueue && attempt == 1 && x.Dir != "/" &&
		t.permits == nil && !t.kind.Kazoo() && c.containers.has() && c.dirs.book(x.Dir).New()
}

// createFresh makes the directory and the node. It also returns whether it has made the
// directory. Then the Stat of the answer is the node's: the zxid of a reply to a create is
// the zxid that has created the node.
//
// The request for the node leaves on the connection of the first one, or is refused as if
// there were no directory, see [wire.Link.Await]. The client keeps what it is given when a
// connection ends, and sends it on the next one. By then the seat may have been withdrawn,
// and its caller, who does not wait for the node during an outage, may have acquired the
// lock again.
func (c *client) createFresh(t *Seat, x recipes.Errand, p recipes.Plan) (a recipes.Answer, made bool, err error) {
	dir := c.link.Await(x.Dir, nil)
	node := c.link.Await(x.Nodes[0], dir)
	defer c.link.Forget(dir, node)
	var failure error
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		failure = c.makeDirectory(x.Dir, recipes.Marker(), t.acl, false)
	}()
	select {
	case <-dir.Sent:
	case <-answered: // it was not sent, or taken for the request of another seat
	}
	if a.Result = recipes.ResultUnknown; !t.isWithdrawn(x.Epoch) { // it may have waited long
		a, err = c.perform(t, p)
	}
	<-answered
	if failure != nil {
		return a, false, err
	}
	c.dirs.made(x.Dir, dir.Zxid())
	if a.Result == recipes.ResultDone {
		a.Stats = []recipes.Stat{{Czxid: node.Zxid()}}
	}
	return a, true, err
}
