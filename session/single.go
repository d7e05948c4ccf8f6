package session

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file is about a lock that is one node, at its own path: the session that creates the node has the lock. All of its nodes have the
// same name, one after the other, and the machine does not deal with that. So a question about a seat's own node is answered for the node
// that the seat made, identified by the zxid that created it:
//
//   - Gone is told of the own node only when that node is gone. The event of a watch is news of the node that was there when it came, and
//     comes before any answer that knows of a later node. A reading that found nothing may be older than the node. So after such a reading
//     the session looks again ([verifying]).
//   - A claim checks that there is a node, and then that it is the seat's.
//   - A delete is sent only by the owner (see [owners]). It is not simply sent again: the owner looks first, behind a write through
//     the quorum. It also does so if it has been without a connection and nothing has told since that its node is still there.
//   - A node of a past session is gone with it, and is never removed by name.
//
// A delete that is simply sent again could remove another contender's node:
//
//  1. A's delete is executed, and its reply is lost.
//  2. B makes its node.
//  3. A deletes that node.
//
// Limitation: A deletes B's node if A's node is removed by hand, and B makes its own, before A has its node watched or in the moment in
// which A's delete is under way.

// Holder returns the holder that the seat has seen at its last look, if the lock is one node and had a holder. Paths are without the
// chroot.
func (t *Seat) Holder() (events.Contender, bool) {
	if t.single == nil {
		return events.Contender{}, false
	}
	if h := t.single.holder.Load(); h != nil {
		return *h, true
	}
	return events.Contender{}, false
}

// createSingle makes the node, unless another contender has it.
func (c *client) createSingle(t *Seat, epoch recipes.Epoch) (recipes.Input, error) {
	if !c.owners.enter(t) {
		return recipes.Occupied{Epoch: epoch}, nil
	}
	return c.carryOut(errand{
		Errand: recipes.Errand{Op: recipes.OpCreate, Epoch: epoch, Layout: recipes.LayoutNode}, seat: t, own: t.single.node,
	})
}

// heard notes what an answer says about the owner of the node, before any machine is told the answer.
func (c *client) heard(t *Seat, in recipes.Input, err error) (recipes.Input, error) {
	c.owners.heard(t, in)
	return in, err
}

// look reads the node, and tells its owner.
func (c *client) look(t *Seat, e recipes.List) (recipes.Input, error) {
	t.follow(t.single.node)
	if e.Barrier {
		if in, err := c.barrierOf(t, e.Epoch); in != nil {
			return in, err
		}
	}
	node := t.single.node
	data, stat, err := c.read(t, !t.single.glance || e.Attempt != 0)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		c.missing(t)
		return recipes.Listed{Epoch: e.Epoch}, nil
	case err != nil:
		return unanswered(e.Epoch, recipes.OpList, err)
	case !Ephemeral(stat):
		c.owners.leave(t)
		return recipes.Refused{Epoch: e.Epoch, Op: recipes.OpList}, fmt.Errorf("%w: there is a node %s that is no lock", ErrKind, node)
	}
	listed := recipes.Listed{Epoch: e.Epoch, Queue: []events.Name{t.single.as()}}
	if stat.EphemeralOwner == c.link.Session() && c.owners.owns(t, stat.Czxid) {
		t.drop(c, t.nameOwn(e.Epoch, node, stat.Czxid))
		listed.Own = recipes.Own{Name: t.single.as(), Owner: stat.EphemeralOwner, Token: stat.Czxid}
		return listed, nil
	}
	t.single.holder.Store(&events.Contender{
		Node: strings.TrimPrefix(node, t.session.chroot), Session: stat.EphemeralOwner, Since: time.UnixMilli(stat.Ctime), Token: stat.Czxid,
		Data: slices.Clone(UserData(node, data)), Kind: events.KindUnfair, Holding: true,
	})
	return listed, nil
}

// missing is called when a seat has found no node. Then the seat has none itself. If another seat of the session believes that it has the
// node, that seat has to hear of it.
func (c *client) missing(t *Seat) {
	t.single.holder.Store(nil)
	if other := c.owners.of(t.single.node); other != nil && other != t {
		c.verify(other)
	}
}

// read reads the node, with a watch on it if it is wanted.
func (c *client) read(t *Seat, watch bool) (data []byte, stat *zk.Stat, err error) {
	node := t.single.node
	if !watch {
		if data, stat, err = c.conn.Get(node); err == nil {
			c.found(node, t, stat)
		}
		return data, stat, err
	}
	s, err := c.follow(ofData, node, t)
	if errors.Is(err, zk.ErrNoNode) {
		c.watches.Drop(node, t) // the event of this node means nothing to the seat that makes the next
	}
	return s.data, s.stat, err
}

// removeSingle deletes the node if it is the seat's.
func (c *client) removeSingle(t *Seat, e recipes.Delete) (recipes.Input, error) {
	if !c.owners.is(t) {
		return recipes.Deleted{Epoch: e.Epoch}, nil
	}
	doubts := t.single.deleteUnknown.Load() || t.single.uncertain.Load()
	in, err := c.carryOut(errand{
		Errand: recipes.Errand{Op: recipes.OpDelete, Epoch: e.Epoch, Layout: recipes.LayoutNode, Doubts: doubts}, seat: t, own: t.single.node,
	})
	if _, unknown := in.(recipes.Unknown); unknown {
		t.single.deleteUnknown.Store(true)
	}
	return in, err
}

// lookAt looks whether the one node is the seat's. It returns an answer if there is one now.
func (c *client) lookAt(x *errand) (recipes.Meaning, recipes.Input, error) {
	there, stat, err := c.conn.Exists(x.own)
	if outcome, err := zkerr.Classify(err); outcome != zkerr.Done {
		in, err := classified(x.Epoch, x.Op, outcome, err)
		return recipes.Meaning{}, in, err
	}
	own := there && stat.Czxid == x.seat.token(x.own)
	if x.Op == recipes.OpDelete {
		own = there && stat.EphemeralOwner == c.link.Session()
	}
	m := x.Looked(own)
	if m.Then != recipes.ThenTell {
		return m, nil, nil
	}
	in, err := c.tell(x, m.In, recipes.Answer{}, zk.ErrNoNode)
	return m, in, err
}

// Ephemeral reports whether a session owns the node. Containers and nodes with a time to live have an owner value that is no session.
func Ephemeral(stat *zk.Stat) bool {
	const withTime = 0xff // the highest byte of the owner
	owner := stat.EphemeralOwner
	return owner != 0 && owner != math.MinInt64 && uint64(owner)>>56 != withTime
}

func (l *single) create(c *client, t *Seat, epoch recipes.Epoch, _ guid) (recipes.Input, error) {
	in, err := c.createSingle(t, epoch)
	return c.heard(t, in, err)
}

func (l *single) list(c *client, t *Seat, e recipes.List, _ guid, _ []*names) (recipes.Input, error) {
	in, err := c.look(t, e)
	return c.heard(t, in, err)
}

func (l *single) form() recipes.Layout { return recipes.LayoutNode }

func (l *single) reads(*Seat) []string { return nil }

// watch has nothing to do if the watch of the look before is still armed.
func (l *single) watch(c *client, t *Seat, e recipes.Watch) (recipes.Input, error) {
	if c.watches.Subscribed(l.node, t) {
		return nil, nil
	}
	return c.watch(t, e)
}

func (l *single) claim(c *client, t *Seat, e recipes.Claim) (recipes.Input, error) {
	in, err := c.carryOut(errand{
		Errand: recipes.Errand{Op: recipes.OpClaim, Epoch: e.Epoch, Layout: recipes.LayoutNode}, seat: t, own: t.single.node,
	})
	return c.heard(t, in, err)
}

func (l *single) remove(c *client, t *Seat, e recipes.Delete) (recipes.Input, error) {
	in, err := c.removeSingle(t, e)
	return c.heard(t, in, err)
}

func (l *single) removable() bool { return false } // it went with its session, and this one may be another

func (l *single) leave(c *client, t *Seat) { c.owners.leave(t) }

func (l *single) told(there bool) { l.known = there }

func (l *single) lost(c *client, t *Seat) { c.owners.leave(t) }

func (l *single) cover(s *Session, c *client, t *Seat, node string) {
	t.want(c, node)
	s.take(&verifying{epoch: c.epoch, seat: t})
}
