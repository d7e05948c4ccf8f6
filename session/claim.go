package session

import (
	"errors"
	"math"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file is about requests that prove that a node still exists: the advance of a
// waiter, and the claims of holders. An advance reads the directory's data instead of
// listing it, so a handoff costs the same in a long queue as in a short one.

// advance sends the requests of an advance; see [recipes.Handoff].
func (c *client) advance(t *Seat, e recipes.Advance, past int64, warm bool) (in recipes.Input, err error) {
	a := recipes.Handoff{}.Knows(c.dirs.isFree(t.dir, e.Past.Text, e.Next.Text))
	if warm {
		a = a.Claims()
	}
	claims, floor := a.Wants(recipes.PartClaim), a.Wants(recipes.PartFloor)
	claim := func() {
		in, err = c.carryOut(t,
			&recipes.Errand{Op: recipes.OpAdvance, Epoch: e.Epoch, Nodes: []string{t.at(e.Node)}})
	}
	var wait sync.WaitGroup
	var unread error // without a floor, the next contender's node or a listing decides
	switch {
	case claims && floor:
		// Send both together, so that a handoff takes one round trip.
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
		t.news.Store(true) // no answer shows how current the servers are
	}
	if claims {
		a = a.Claimed(in)
	}
	if a.Wants(recipes.PartNext) {
		next := t.at(e.Next)
		// The read also arms the watch: if the node exists, its end comes next.
		node, err := c.follow(ofNode, next, t)
		switch {
		case err == nil:
			// The floor is compared with this zxid once the node is gone.
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

// readDirectory reads the directory's data.
func (c *client) readDirectory(dir string) (recipes.DirectoryData, error) {
	data, stat, err := c.conn.Get(dir)
	if err != nil {
		return recipes.DirectoryData{}, err
	}
	c.dirs.saw(dir, stat)
	return c.dirs.read(dir, data, stat), nil
}

// The rest of the file is about many holders that check whether they still hold, as all
// do after a reconnect. Their claims share transactions: a write for each of them would
// keep a server busy, and delay the probes of all its sessions, for longer than a lease
// lasts.

// jointClaim is a transaction with the claims of several holders; see
// [recipes.JointVerdict].
type jointClaim struct{ joint }

var _ joiner = (*jointClaim)(nil)

// add adds the claim of a holder whose seat knows all of its nodes.
func (j *jointClaim) add(r *seatRequest) bool {
	nodes, incomplete := r.seat.claimed(r.epoch, r.node)
	return incomplete == nil && j.addNodes(r, nodes, math.MaxInt)
}

func (j *jointClaim) admit(s *Session) { s.pending.add(j) }

func (j *jointClaim) urgency() urgency { return proving }

func (j *jointClaim) do(c *client) (func(*Session), error) {
	var checks []any
	var whose []int // index of the claim, for each check
	for i, r := range j.of {
		for _, node := range r.nodes {
			checks, whose = append(checks, &zk.CheckVersionRequest{Path: node, Version: anyVersion}),
				append(whose, i)
		}
	}
	outcome, failed, err := zkerr.ClassifyMulti(c.conn.Multi(checks...))
	switch {
	case outcome == zkerr.Done:
		return func(s *Session) { j.split(s, c, -1, nil) }, nil
	case outcome == zkerr.Refused && 0 <= failed && failed < len(whose):
		// failed is the index of a check, and a claim of several nodes has several
		// checks.
		return func(s *Session) { j.split(s, c, whose[failed], err) }, err
	}
	in, cause := classified(j.epoch, recipes.OpClaim, outcome, err)
	return func(s *Session) {
		if _, unknown := in.(recipes.Unknown); unknown { // again together, not each by itself
			s.again(c, j)
			return
		}
		for _, r := range j.of {
			r.settle(s, c, in, cause)
		}
	}, err
}

// split answers the claims of a transaction. bad is the claim at which it failed, or -1.
// Claims that the answer does not settle are sent again, in two halves, so that even if
// many nodes are gone, all are found within a few round trips.
func (j *jointClaim) split(s *Session, c *client, bad int, err error) {
	var rest []joined
	for i, r := range j.of {
		switch recipes.JointVerdict(i, bad) {
		case recipes.VerdictProven:
			r.settle(s, c, recipes.Claimed{Epoch: r.epoch}, nil) // settle judges the lease
		case recipes.VerdictGone:
			in, cause := classified(r.epoch, recipes.OpClaim, zkerr.Refused, err)
			r.settle(s, c, in, cause)
		case recipes.VerdictAgain:
			rest = append(rest, r)
		}
	}
	for _, half := range [...][]joined{rest[:len(rest)/2], rest[len(rest)/2:]} {
		if len(half) == 0 {
			continue
		}
		s.take(&jointClaim{joint{slot: slot{epoch: j.epoch}, of: half}})
	}
}
