package session

import (
	"cmp"
	"errors"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/recipes"
)

// The requests, each made with the client's blocking calls. They run in goroutines of
// their own and return the answer for the machine; nil is no answer.

// list finds the own node by its GUID among the names that were listed. It reads and
// watches the node: its Stat has the owner and the token.
func (c *client) list(t *Seat, e recipes.List, id guid, found *names) (recipes.Input, error) {
	listed := recipes.Listed{Epoch: e.Epoch, Queue: found.queue}
	name, ok := found.own(t.kind, id)
	if !ok {
		return listed, nil
	}
	listed.Own.Name = name
	own := below(t.dir, name.Text)
	listed.Own.Name.Text = path.Base(own) // one string: a holder keeps both for long
	t.nameOwn(c, e.Epoch, []string{own}, 0)
	node, err := c.follow(ofNode, own, t)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		listed.Own = recipes.Own{}
	case err != nil:
		return unanswered(e.Epoch, recipes.OpList, err)
	default:
		listed.Own.Owner, listed.Own.Token = node.stat.EphemeralOwner, cmp.Or(t.lent, node.stat.Czxid)
		t.nameOwn(c, e.Epoch, []string{own}, listed.Own.Token)
	}
	return listed, nil
}

// childrenOf reads a lock's directory and learns about it. A directory that does not
// exist counts as an empty one.
func (c *client) childrenOf(dir string) ([]string, error) {
	children, stat, err := c.conn.Children(dir)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		c.dirs.forget(dir)
		return nil, nil
	case err != nil:
		return nil, err
	case c.dirs.saw(dir, stat):
		if data, stat, err := c.conn.Get(dir); err == nil { // if this fails the next listing learns it
			c.dirs.read(dir, data, stat)
		}
	}
	return children, nil
}

// watch arms a watch. If the watch is armed already, it looks whether the node is still
// there.
func (c *client) watch(t *Seat, e recipes.Watch) (recipes.Input, error) {
	node := t.at(e.Node)
	seen, err := c.follow(ofNode, node, t)
	if err == nil {
		t.sawPred(node, seen.stat.Czxid)
		return nil, nil
	}
	if errors.Is(err, zk.ErrNoNode) {
		return recipes.Gone{Epoch: e.Epoch, Node: e.Node}, nil // the node that was to be watched, in the same epoch
	}
	in, err := unanswered(e.Epoch, recipes.OpWatch, t.blame(node, err))
	if refused, ok := in.(recipes.Refused); ok {
		refused.Node = e.Node
		in = refused
	}
	return in, err
}
