package session

import (
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// rearming arms a watch again, for the subscribers that the node has by then. If it has none, nothing is asked. Of those for one node one
// waits at a time: it reads what the others would read.
type rearming struct {
	slot

	epoch recipes.Epoch
	node  string
}

func (r *rearming) admit(s *Session) {
	if r.waitsAlone(s.client) {
		s.pending.add(r)
	}
}

// waitsAlone has the request wait, and reports false if another one for the node waits already.
func (r *rearming) waitsAlone(c *client) bool {
	if other := c.rearms[r.node]; other != nil && other != r {
		return false
	}
	c.rearms[r.node] = r
	return true
}

// begins says that another one may wait: this one may read what was there before.
func (r *rearming) begins(s *Session) {
	if c := s.client; c != nil && c.rearms[r.node] == r {
		delete(c.rearms, r.node)
	}
}

func (r *rearming) meantFor() recipes.Epoch { return r.epoch }

func (r *rearming) urgency() urgency { return handing }

func (r *rearming) refuse() {} // the watches of an epoch end with it

func (r *rearming) do(c *client) (func(*Session), error) {
	if !c.watches.Wanted(r.node) {
		return func(*Session) {}, nil
	}
	in := c.rearm(r.node)
	return func(s *Session) {
		switch in.(type) {
		case recipes.Gone:
			s.tellGone(c, r.node, false)
		case recipes.Unknown:
			if r.waitsAlone(c) {
				s.again(c, r)
			}
		case recipes.Refused:
			s.tellUnwatched(c, r.node)
		default: // it is armed
		}
	}, nil
}

// rearm watches a node for its subscribers, after its watch has gone because the data changed or because arming it failed. The answer
// is Gone, Unknown or Refused, or nil if there is nothing left to do.
func (c *client) rearm(node string) recipes.Input {
	_, err := c.readWatched(node, nil)
	outcome, err := zkerr.Classify(err)
	switch {
	case outcome == zkerr.Done:
		return nil
	case errors.Is(err, zk.ErrNoNode):
		return recipes.Gone{}
	case !outcome.Settled():
		return recipes.Unknown{}
	default:
		return recipes.Refused{}
	}
}

// tellGone tells the subscribers that the node is gone, by an event or by a reading.
func (s *Session) tellGone(c *client, path string, event bool) {
	for _, seat := range s.singleGone(c, path, c.watches.Fired(path), event) {
		seat.passed = true
		s.tell(seat, recipes.Gone{Epoch: c.epoch, Node: seat.name(path)}, nil)
	}
}

// tellUnwatched has the subscribers look again, and hear from the server itself why the node cannot be watched.
func (s *Session) tellUnwatched(c *client, path string) {
	for _, seat := range c.watches.Fired(path) {
		s.tell(seat, recipes.Unknown{Epoch: c.epoch, Op: recipes.OpWatch}, nil)
	}
}

// rearmAll is for a server that did not restore the watches.
func (s *Session) rearmAll(c *client) {
	for _, path := range c.watches.Reset() {
		c.rewatch(path)
	}
	for _, path := range c.looks.Reset() {
		s.tellChanged(c, path, false)
	}
}
