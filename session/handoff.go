package session

import (
	"errors"
	"fmt"
	"path"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file is what makes a lock cost one round trip, and a handoff as much in a
// long queue as in a short one: the requests that write a directory's data, and the
// one that reads it.

// createMarked makes the node and sets the directory's marker in one transaction.
// The directory's Stat in the answer was taken behind the create: a directory with
// one child holds our node and no other, and the zxid of its change is that of our
// node's creation. It reports done if there is nothing more to try: the node was
// made, or nobody can tell, or a server refused it for a reason that a plain create
// would meet as well.
func (c *client) createMarked(
	t *Seat, epoch recipes.Epoch, id string, czxid int64,
) (done bool, _ recipes.Input, _ error) {
	res, err := c.conn.Multi(t.createRequest(c, id), t.markRequest())
	failed := zkerr.FailedOp(res)
	outcome, err := zkerr.ClassifyMulti(res, err)
	switch {
	case outcome == zkerr.Done:
		in, err := c.joined(t, epoch, res, czxid)
		return true, in, err
	case errors.Is(err, zk.ErrNoNode):
		c.dirs.forget(t.dir)
		return false, nil, nil
	case outcome == zkerr.Refused && failed > 0:
		c.dirs.shut(t.dir)
		return false, nil, nil
	}
	in, err := classified(epoch, recipes.OpCreate, outcome, err)
	return true, in, err
}

// createRequest asks for the seat's node.
func (t *Seat) createRequest(c *client, id string) *zk.CreateRequest {
	return &zk.CreateRequest{Path: t.prefix(id), Data: t.dataIn(c), Acl: t.acl, Flags: zk.FlagEphemeral | zk.FlagSequence}
}

// markRequest asks for the directory's marker.
func (t *Seat) markRequest() *zk.SetDataRequest {
	return &zk.SetDataRequest{Path: t.dir, Data: recipes.Marker(), Version: anyVersion}
}

// joined reads the answers to a create and the marker behind it.
func (c *client) joined(t *Seat, epoch recipes.Epoch, res []zk.MultiResponse, czxid int64) (recipes.Input, error) {
	unnamed := recipes.Unknown{Epoch: epoch, Op: recipes.OpCreate} // it was made, and who knows what it is called
	if len(res) < 2 || res[1].Stat == nil {
		return unnamed, nil
	}
	made, stat := res[0].String, res[1].Stat
	created, err := named(epoch, made)
	if err != nil {
		return unnamed, err
	}
	c.dirs.saw(t.dir, stat)
	if stat.NumChildren == 1 && stat.Czxid == czxid {
		created.Alone, created.Token = true, stat.Mzxid
		t.drop(c, t.nameOwn(epoch, made, created.Token))
	}
	return created, nil
}

// removeWithFloor deletes the own node and leaves word that nobody older is left.
// It reports false if a plain delete has to be tried.
func (c *client) removeWithFloor(t *Seat, e recipes.Delete, node string) (done bool, _ recipes.Input, _ error) {
	czxid, token := c.dirs.book(t.dir).Writable(), t.token(node)
	if czxid == 0 || token == 0 || !t.brief() {
		return false, nil, nil
	}
	res, err := c.conn.Multi(
		&zk.DeleteRequest{Path: node, Version: anyVersion},
		&zk.SetDataRequest{Path: t.dir, Data: recipes.FloorData(token), Version: anyVersion})
	failed := zkerr.FailedOp(res)
	outcome, err := zkerr.ClassifyMulti(res, err)
	switch {
	case outcome == zkerr.Done:
		if len(res) > 1 && res[1].Stat != nil {
			c.leftFloor(t, res[1].Stat)
		}
		return true, recipes.Deleted{Epoch: e.Epoch}, nil
	case failed == 0 && errors.Is(err, zk.ErrNoNode):
		return true, recipes.Deleted{Epoch: e.Epoch}, nil
	case outcome == zkerr.Refused && failed > 0:
		c.dirs.shut(t.dir)
		return false, nil, nil
	}
	in, err := classified(e.Epoch, recipes.OpDelete, outcome, err)
	return true, in, err
}

// leftFloor takes the directory's Stat behind the floor.
func (c *client) leftFloor(t *Seat, stat *zk.Stat) {
	before := *stat
	before.NumChildren++ // our own node, which went in the same transaction
	c.dirs.saw(t.dir, &before)
}

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
	claim := func() (zkerr.Outcome, error) {
		return zkerr.ClassifyMulti(c.conn.Multi(&zk.CheckVersionRequest{Path: path.Join(t.dir, e.Node), Version: anyVersion}))
	}
	var outcome zkerr.Outcome
	var err, unread error
	free := c.dirs.isFree(t.dir, e.Past, e.Next)
	if free {
		outcome, err = claim()
	} else {
		var wait sync.WaitGroup
		wait.Go(func() { outcome, err = claim() })
		var says recipes.DirectoryData
		says, unread = c.readDirectory(t.dir) // without a floor the next one or a listing tells
		wait.Wait()
		free = says.Names(past)
	}
	switch {
	case outcome != zkerr.Done:
		return classified(e.Epoch, recipes.OpAdvance, outcome, err)
	case free:
		return recipes.Advanced{Epoch: e.Epoch, Floor: true}, nil
	}
	next := path.Join(t.dir, e.Next)
	stat, err := c.observe(next, t)
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

// named reads the name that a server gave to a node.
func named(epoch recipes.Epoch, made string) (recipes.Created, error) {
	name, ok := events.ParseName(path.Base(made))
	if !ok {
		return recipes.Created{}, fmt.Errorf("zkgrant: a server made %q", made)
	}
	return recipes.Created{Epoch: epoch, Node: name}, nil
}
