package session

import (
	"errors"
	"fmt"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about an upgradable reader who asks to write; why it is safe stands at recipes.Upgrade. While it
// holds, with its node U, another seat makes a node X at the end of the queue, in one transaction with a check of U:
// without U, X would be any writer, whom nothing distinguishes from those ahead of it but that he does not wait for
// them.
//
// From the moment in which X is asked for, U belongs to the seats of both, as a node does that is entered again, and
// goes with the last of them, in whatever order they are released:
//
//   - The upgradable reader is released while X is asked for, waits or is held. Its delete takes only its own seat out. X has U from
//     then on, and removes both when it is given up, in one transaction.
//   - X is given up, granted or not. Its delete removes X, and takes its own seat out.
//   - The upgradable reader is released, and the create of X is in the mailbox behind that. It does not hold any more, and the create
//     is refused.
//   - X's node is gone, and it queues up anew. It still has U, whatever became of the upgradable reader meanwhile.
//   - U is gone. Both are told, for X has it watched, and is of no use without it: every claim checks both.
//   - X ends without a delete, because it has no node any more and gets no other. Its seat leaves the session, and takes U with it if it
//     is the last.
//
// All of it is decided in the session's drain, like what share.go says.

// raised is the layout of X: a queue in which its own node is worth nothing without another one.
type raised struct {
	queued
	under *Seat  // the upgradable reader's
	node  string // U
	of    int64  // its number

	both []string // X, as soon as it is known, and U; the seat's mu guards it
	last bool     // U goes with X; the drain decides it before the delete is made
}

var _ layout = (*raised)(nil)

// newRaised returns the layout above an upgradable reader. If that has ended, no node is made.
func newRaised(under *Seat) *raised {
	under.mu.Lock()
	defer under.mu.Unlock()
	l := &raised{under: under, node: under.own}
	if name, ok := events.ParseName(path.Base(under.own)); ok {
		l.of = name.Seq
	}
	return l
}

func (l *raised) create(c *client, t *Seat, epoch recipes.Epoch, id string) (recipes.Input, error) {
	res, err := c.conn.Multi(&zk.CheckVersionRequest{Path: l.node, Version: anyVersion}, t.createRequest(id))
	outcome, err := ClassifyMulti(res, err)
	switch {
	case outcome == Done && len(res) > 1:
		created, err := named(epoch, res[1].String)
		if err != nil {
			return recipes.Unknown{Epoch: epoch, Op: recipes.OpCreate}, err
		}
		return created, nil
	case errors.Is(err, zk.ErrNoNode):
		return recipes.Refused{Epoch: epoch, Op: recipes.OpCreate, Missing: true}, fmt.Errorf("%w: %w", ErrGuard, err)
	default:
		return classified(epoch, recipes.OpCreate, outcome, err)
	}
}

// list has both nodes watched, and finds the token.
func (l *raised) list(c *client, t *Seat, e recipes.List, id string, found []*names) (recipes.Input, error) {
	in, err := c.list(t, e, id, found[0])
	listed, ok := in.(recipes.Listed)
	if !ok || listed.Own == (recipes.Own{}) {
		return in, err
	}
	own := t.at(listed.Own.Name.Text)
	l.name(t, e.Epoch, own)
	switch _, err := c.observe(l.node, t); {
	case errors.Is(err, zk.ErrNoNode):
		listed.Parted = true // X is no upgrade without it; but if nobody knew X before, it is to go
		return listed, nil
	case err != nil:
		return unanswered(e.Epoch, recipes.OpList, err)
	}
	if listed.Own.Token, err = l.token(c, t, listed); err != nil {
		return unanswered(e.Epoch, recipes.OpList, err)
	}
	t.nameOwn(e.Epoch, own, listed.Own.Token)
	return listed, nil
}

// token returns a zxid that is greater than those of all who were granted before, and smaller than those of all who wait:
// the last one before the creation of the first writer between U and X. Readers who were ever let in beside U are older than
// a writer who stands there now, for those behind him wait for him. If he goes meanwhile, it is the next one's: readers behind him
// find X, and give way.
func (l *raised) token(c *client, t *Seat, listed recipes.Listed) (int64, error) {
	for _, writer := range (recipes.Upgrade{Of: l.of}).Between(listed.Queue, listed.Own.Name) {
		exists, stat, err := c.conn.Exists(path.Join(t.dir, writer.Text))
		if err != nil {
			return 0, err
		}
		if exists {
			return stat.Czxid - 1, nil
		}
	}
	return listed.Own.Token, nil
}

// name notes which nodes are the own ones.
func (l *raised) name(t *Seat, epoch recipes.Epoch, own string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.left && epoch == t.epoch {
		l.both = []string{own, l.node}
	}
}

func (l *raised) remove(c *client, t *Seat, e recipes.Delete) (recipes.Input, error) {
	if l.last {
		return c.giveBack(e, []string{t.at(e.Node), l.node})
	}
	return c.remove(t, e)
}

func (l *raised) ownLeases() []string { return l.both }

func (l *raised) anew() { l.both = nil } // the last attempt's

func (l *raised) leave(c *client, t *Seat) {
	l.both = nil
	c.watches.forget(l.node, t)
}

func (l *raised) joins() bool { return false } // two nodes may go

// isAbove tells whether the node is one without which the seat's is worth nothing.
func (t *Seat) isAbove(node string) bool { return t.raised != nil && t.raised.node == node }

// Upgrades tells whether the seat is that of an upgrade.
func (t *Seat) Upgrades() bool { return t != nil && t.raised != nil }

// mayRaise tells whether a create of X may be made: while the upgradable reader holds, or if U is X's already. From then on it is.
func (s *Session) mayRaise(r *asked) bool {
	x, under := r.seat, r.seat.raised.under
	if s.shares[x] != nil {
		return true
	}
	if node, holds := s.holds(under); !holds || node != x.raised.node {
		return false
	}
	sh := s.shares[under]
	if sh == nil {
		sh = &share{seats: []*Seat{under}}
		s.shares[under] = sh
	}
	sh.seats = append(sh.seats, x)
	s.shares[x] = sh
	return true
}

// partRaised looks at a delete of X: whether U goes with it.
func (s *Session) partRaised(r *asked) {
	sh := s.shares[r.seat]
	r.seat.raised.last = sh != nil && len(sh.seats) == 1
	if !r.seat.raised.last {
		s.quit(r.seat)
	}
}

// leaveRaised removes U if X, whose seat leaves, was the last one to have it and has not removed it.
func (s *Session) leaveRaised(x *Seat) {
	if x.raised == nil || x.raised.last {
		return
	}
	if sh := s.shares[x]; sh != nil && len(sh.seats) == 1 {
		s.onRequest(&removal{x.raised.node})
	}
}
