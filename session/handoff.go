package session

import (
	"errors"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/recipes"
)

// This file makes a handoff cost as much in a long queue as in a short one: its request
// reads a directory's data.

// advance asks the parts of an advance, see [recipes.Handoff].
func (c *client) advance(t *Seat, e recipes.Advance, past int64, warm bool) (in recipes.Input, err error) {
	a := recipes.Handoff{}.Knows(c.dirs.isFree(t.dir, e.Past.Text, e.Next.Text))
	if warm {
		a = a.Claims()
	}
	claims, floor := a.Wants(recipes.PartClaim), a.Wants(recipes.PartFloor)
	claim := func() {
		in, err = c.carryOut(t, recipes.Errand{Op: recipes.OpAdvance, Epoch: e.Epoch, Nodes: []string{t.at(e.Node)}})
	}
	var wait sync.WaitGroup
	var unread error // without a floor the next contender's node or a listing shows it
	switch {
	case claims && floor:
		wait.Go(claim)
	case claims:
		claim()
	}
	if floor {
		var says recipes.DirectoryData
		says, unread = c.readDirectory(t.dir)
		a = a.Read(says, past)
	}
	wait.Wait()
	if !claims && !floor {
		t.news.Store(true) // no answer says how far the servers are
	}
	if claims {
		a = a.Claimed(in)
	}
	if a.Wants(recipes.PartNext) {
		next := t.at(e.Next)
		node, err := c.follow(ofNode, next, t)
		switch {
		case err == nil:
			t.sawPred(next, node.stat.Czxid)
		case !errors.Is(err, zk.ErrNoNode):
			return unanswered(e.Epoch, recipes.OpAdvance, err)
		}
		a = a.Looked(err == nil)
	}
	if advanced, is := a.Answer(e.Epoch); is {
		return advanced, unread
	}
	return in, err
}

// advances returns the answer to an advance of a warm session that knows what the floor
// says, or nil.
func (c *client) advances(t *Seat, e recipes.Advance) recipes.Input {
	a := recipes.Handoff{}.Knows(c.dirs.isFree(t.dir, e.Past.Text, e.Next.Text)).Claims()
	if a.Wants(recipes.PartFloor) {
		return nil
	}
	advanced, _ := a.Answer(e.Epoch)
	return advanced
}

// readDirectory reads the directory's data.
func (c *client) readDirectory(dir string) (recipes.DirectoryData, error) {
	data, stat, err := c.conn.Get(dir)
	if err != nil {
		return recipes.DirectoryData{}, err
	}
	c.dirs.saw(dir, stat)
	return c.dirs.read(dir, data, stat), nil
}
