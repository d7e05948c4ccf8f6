package session

import (
	"errors"
	"path"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/recipes"
)

// This file is what makes a handoff cost as much in a long queue as in a short one: the request that reads a directory's data.

// advance asks two things in one flight, in any order: whether the directory's floor
// names the node that is gone, and whether the own one stands. Only if the floor does
// not name it, which is so if it left before it held the lock or is not one of ours,
// it goes on to the next one and watches that.
//
// A floor that names the node was written in the transaction that removed it, by
// its owner, who held the lock. Whenever it is read, nobody older was left from
// that transaction on, and nobody between that node and the own one ever was; so
// the order in which the questions are answered does not matter.
//
// It need not be read if the owner was a seat of this session: that it held the lock
// is known here. That the next one did is as good, once its node is gone as well.
func (c *client) advance(t *Seat, e recipes.Advance, past int64) (recipes.Input, error) {
	var in recipes.Input
	var err, unread error
	claim := func() {
		in, err = c.carryOut(errand{Errand: recipes.Errand{Op: recipes.OpAdvance, Epoch: e.Epoch}, seat: t, own: t.at(e.Node)})
	}
	free := c.dirs.isFree(t.dir, e.Past, e.Next)
	if free {
		claim()
	} else {
		var wait sync.WaitGroup
		wait.Go(claim)
		var says recipes.DirectoryData
		says, unread = c.readDirectory(t.dir) // without a floor the next one or a listing tells
		wait.Wait()
		free = says.Names(past)
	}
	_, claimed := in.(recipes.Claimed)
	switch {
	case !claimed:
		return in, err
	case free:
		return recipes.Advanced{Epoch: e.Epoch, Floor: true}, nil
	}
	next := path.Join(t.dir, e.Next)
	stat, err := c.readWatched(next, t)
	switch {
	case err == nil:
		t.sawPred(next, stat.Czxid)
		return recipes.Advanced{Epoch: e.Epoch, Stands: true}, unread
	case errors.Is(err, zk.ErrNoNode):
		return recipes.Advanced{Epoch: e.Epoch}, unread
	default:
		return unanswered(e.Epoch, recipes.OpAdvance, err)
	}
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
