package session

import (
	"errors"
	"path"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about the permits of a semaphore that are there already: giving them back, and finding them.

// giveBack deletes the permits together, so that the server has one transaction. If one of them is gone already the transaction fails as a
// whole, and they are deleted one by one.
func (c *client) giveBack(t *Seat, e recipes.Delete, permits []string) (recipes.Input, error) {
	return c.carryOut(errand{
		Errand: recipes.Errand{Op: recipes.OpDelete, Epoch: e.Epoch, Layout: recipes.LayoutSeveral}, seat: t, own: permits[0], nodes: permits,
	})
}

// list looks through the queue, and through the permits if these may be there.
func (p *permits) list(c *client, t *Seat, e recipes.List, id guid, found []*names) (recipes.Input, error) {
	var wait sync.WaitGroup
	var size int32
	var unsized error
	if e.Size {
		wait.Go(func() { size, _, unsized = c.size(t) })
	}
	in, err := c.list(t, e, id, found[0])
	wait.Wait()
	listed, ok := in.(recipes.Listed)
	switch {
	case !ok:
		return in, err
	case errors.Is(unsized, ErrSizeNode):
		return recipes.Refused{Epoch: e.Epoch, Op: recipes.OpList}, unsized
	case unsized != nil:
		return unanswered(e.Epoch, recipes.OpList, unsized)
	}
	listed.Size = size
	if e.LooksForPermits(listed) {
		return c.findPermits(t, listed, id)
	}
	return listed, nil
}

// findPermits looks for permits with the GUID, and has them watched.
func (c *client) findPermits(t *Seat, listed recipes.Listed, id guid) (recipes.Input, error) {
	children, _, err := c.conn.Children(t.permits.dir)
	if errors.Is(err, zk.ErrNoNode) {
		return listed, nil
	}
	if err != nil {
		return unanswered(listed.Epoch, recipes.OpList, err)
	}
	var permits []string
	mine := head(0, id)
	for _, child := range children {
		if id != (guid{}) && strings.HasPrefix(child, mine) {
			permits = append(permits, path.Join(t.permits.dir, child))
		}
	}
	if len(permits) == 0 {
		return listed, nil
	}
	t.namePermits(c, listed.Epoch, permits)
	owner := int64(0)
	for _, permit := range permits {
		node, err := c.follow(ofNode, permit, t)
		switch {
		case errors.Is(err, zk.ErrNoNode): // the claim will find out
		case err != nil:
			return unanswered(listed.Epoch, recipes.OpList, err)
		default:
			owner = node.stat.EphemeralOwner
		}
	}
	if owner == 0 {
		return recipes.Listed{Epoch: listed.Epoch, Queue: listed.Queue}, nil // all of them are gone by now
	}
	return listed.WithPermits(t.permits.nameOf(permits[0]), owner, int32(len(children))), nil
}

// survey asks in one flight how many permits there are, how many are taken, and with Watch, whether the own node is still there.
func (c *client) survey(t *Seat, e recipes.Survey) (recipes.Input, error) {
	var found recipes.Findings
	var wait sync.WaitGroup
	var unsized, uncounted, unplaced error
	wait.Go(func() { found.Size, found.Version, unsized = c.size(t) })
	wait.Go(func() { found.InUse, uncounted = c.inUse(t, e.Watch) })
	if e.Looks() {
		_, unplaced = c.follow(ofNode, t.at(e.Node), t)
	}
	wait.Wait()
	found.Gone = errors.Is(unplaced, zk.ErrNoNode)
	switch {
	case found.Gone:
		return e.Means(found), unplaced
	case errors.Is(unsized, ErrSizeNode):
		return e.Means(found), unsized
	}
	for _, err := range [...]error{unsized, uncounted, unplaced} {
		if err != nil {
			return notOwn(unanswered(e.Epoch, recipes.OpSurvey, err))
		}
	}
	return e.Means(found), nil
}

// enter trades the own node for the permits.
func (c *client) enter(t *Seat, e recipes.Enter, id guid) (recipes.Input, error) {
	own := t.at(e.Node)
	c.dirs.leaves(t.dir, e.Node, e.Floor) // before any seat can hear that it is gone
	return c.carryOut(errand{
		Errand: recipes.Errand{Op: recipes.OpEnter, Epoch: e.Epoch, Floor: e.Floor}, seat: t, own: own, name: e.Node,
		permit: path.Join(t.permits.dir, permitHead(id, t.token(own))), permits: e.Permits, version: e.Version,
	})
}

func (p *permits) remove(c *client, t *Seat, e recipes.Delete) (recipes.Input, error) {
	if permits := t.nodes(t.at(e.Node)); len(permits) > 1 {
		return c.giveBack(t, e, permits)
	}
	return c.remove(t, e)
}
