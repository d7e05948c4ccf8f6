package coordtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// These are checked in every scene:
//   - The tokens of holders that exclude each other grow. A holder that reentered a lock
//     has the token and the deadline of the holder whose place it shares. It also has
//     its node, unless it reads in a writer's place.
//   - The nodes of a Grant exist, belong to the session, and have the caller's data. Its
//     ID is unique.
//   - A Grant is delivered once. A waiter has none.
//   - A failed Try creates nothing.
//   - A loss is delivered once on each channel. The acquisition ends with its error, and
//     the lock's context has ended.
//   - Once every caller has released, each one ends, and no node is left.

// placed reports whether each waiter has its nodes. The double is idle by then.
func (s *scene) placed() bool {
	if s.srv != nil {
		return true
	}
	s.look()
	tree := s.on.tree()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.callers {
		nodes := 0
		for _, line := range tree {
			if strings.HasSuffix(line, " "+c.data) {
				nodes++
			}
		}
		if !c.over && !c.granted && !c.placeless && nodes < len(c.paths) {
			return false
		}
	}
	return true
}

// created counts the requests that may have created a node.
func (s *scene) created() int {
	if s.srv == nil {
		return 0
	}
	return s.srv.Requests(zktest.OpCreate) + s.srv.Requests(zktest.OpMulti)
}

// checkTries checks that callers whose Try failed have created nothing.
func (s *scene) checkTries(line string, callers []*caller, created int) {
	tries := slices.DeleteFunc(slices.Clone(callers), func(c *caller) bool { return !c.try })
	vain := !slices.ContainsFunc(tries, func(c *caller) bool {
		return c.a == nil || !IsClosed(c.a.Done()) || !errors.Is(c.a.Err(), coordinator.ErrNotAcquired)
	})
	s.want(len(tries) == 0 || !vain || created <= 0,
		"after %q: a try in vain has made %d requests that create", line, created)
}

// checkCallers checks each caller, and the Grants since the last call, once nothing is
// under way.
func (s *scene) checkCallers() {
	s.mu.Lock()
	var now []*caller
	for _, c := range s.callers {
		if c.a == nil {
			continue
		}
		if c.granted && !c.checked {
			c.checked = true
			now = append(now, c)
		}
		done, err, node := IsClosed(c.a.Done()), c.a.Err(), c.a.Grant().Node
		waits := !done && !c.granted && !c.untaken && !c.a.Valid()
		s.want(!waits || node == "" || s.srv == nil, "%s waits, and its Grant has the node %s", c.name, node)
		s.want(!done || !errors.Is(err, coordinator.ErrKind) || strings.Contains(err.Error(), c.paths[0]),
			"%s ended with %v, which does not name %s", c.name, err, c.paths[0])
	}
	s.mu.Unlock()
	slices.SortStableFunc(now, func(a, b *caller) int { return int(a.a.Grant().Token - b.a.Grant().Token) })
	for _, c := range now {
		s.checkGrant(c)
	}
}

// checkGrant checks the Grant of a caller that was just granted the lock.
func (s *scene) checkGrant(c *caller) {
	grant, id := c.a.Grant(), s.sessions[c.session].SessionID()
	s.want(grant.Path == c.paths[0] && (grant.Session == id || grant.Session == 0 || id == 0),
		"%s is granted %+v, want the path %s", c.name, grant, c.paths[0])
	key := fmt.Sprint(c.session, " ", grant.ID)
	s.want(grant.ID == c.a.ID() && s.grants[key] == "",
		"%s is granted %+v, want the ID %d of its own; %q has had it", c.name, grant, c.a.ID(), s.grants[key])
	s.grants[key] = c.name
	c.lock = c.a.Context(context.Background())
	if c.a.Valid() && c.in == nil {
		s.checkNodes(c, grant)
	}
	if b := grant.Abandoned; b != nil && s.brief {
		s.want(slices.ContainsFunc(s.callers, func(other *caller) bool {
			return other.data == string(b.Data) && other.a.Grant().Node == b.Node && other.a.Grant().Token == b.Token
		}), "%s is told of a crash of %+v, and no such caller was granted the lock", c.name, b)
	}
	for i, path := range c.paths {
		if c.in != nil && slices.Contains(c.in.paths, path) {
			s.checkInner(c, grant, c.shared(i) == c.in.shared(0))
			continue
		}
		least := s.highest[path]
		if c.shared(i) {
			least = s.alone[path]
		} else {
			s.alone[path] = max(s.alone[path], grant.Token)
		}
		s.want(grant.Token > least,
			"%s is granted at %s with the token %d, want one above %d", c.name, path, grant.Token, least)
		s.highest[path] = max(s.highest[path], grant.Token)
	}
}

// checkInner checks the Grant of a caller in another caller's place: with the same node,
// or with its own.
func (s *scene) checkInner(c *caller, grant events.Grant, same bool) {
	outer := c.in.a.Grant()
	s.want(grant.Token == outer.Token && (grant.Node == outer.Node) == same,
		"%s in the place of %s is granted %+v, want the token of %+v; and the same node: %v", c.name, c.in.name, grant, outer, same)
	before := c.in.a.Deadline() // on a real server it may move meanwhile
	deadline := c.a.Deadline()
	after := c.in.a.Deadline()
	s.want(!c.a.Valid() || !c.in.a.Valid() || !deadline.Before(before) && !deadline.After(after),
		"%s in the place of %s has the deadline %v, want one from %v to %v", c.name, c.in.name, deadline, before, after)
}

// checkNodes checks that the nodes of a Grant exist and have the caller's data.
func (s *scene) checkNodes(c *caller, grant events.Grant) {
	nodes := []events.Member{{Path: grant.Path, Node: grant.Node}}
	if len(grant.Members) > 0 {
		c.a.Grant().Members[0].Node = "another caller's" // each call returns its own slice
		nodes = c.a.Grant().Members
		s.want(nodes[0].Node == grant.Node, "%s is granted %+v: the first member is %+v", c.name, grant, nodes[0])
	}
	tree, token := s.on.tree(), grant.Token
	if c.permits {
		token = 0 // the token is that of the place in the queue, which is gone
	}
	for i, m := range nodes {
		if len(nodes) != len(c.paths) || m.Path != c.paths[i] || !slices.Contains(tree, m.Node+" "+c.data) {
			s.Errorf("%s is granted %+v at %q; there are %q", c.name, nodes, c.paths, tree)
		} else if err := s.on.made(m.Node, grant.Session, token); err != nil {
			s.Errorf("%s is granted %+v: %v", c.name, grant, err)
		}
	}
}

// checkLeader checks a leader that an observer received.
func (s *scene) checkLeader(o *observer, l events.Leader) {
	for _, c := range s.callers {
		grant := c.a.Grant()
		s.want(grant.Node != l.Node || grant.Token == l.Token,
			"%s hears of %+v, which was granted %+v", o.name, l, grant)
	}
	s.want(l.Token > o.last.Token || l.Token == o.last.Token && l.Node == o.last.Node,
		"%s hears of %+v after %+v", o.name, l, o.last)
}

// checkLoss checks the end of a caller that lost its lock.
func (s *scene) checkLoss(c *caller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.lost > 0 {
		err := c.a.Err()
		s.want(errorName(err) == errorName(c.why), "%s has lost its lock: %v; it ended with %v", c.name, c.why, err)
		s.want(c.lock.Err() != nil, "%s has lost its lock: %v; its context has not ended", c.name, c.why)
	}
}

// checkEnd checks that every released caller ends, and leaves nothing.
func (s *scene) checkEnd() {
	for _, c := range s.callers {
		told := func() bool { // the stream has another reader than the channels
			return c.finish != nil || !s.streams[c.session] || c.lost == c.stream
		}
		s.on.settle(func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return c.over && told()
		})
		s.mu.Lock()
		s.want(c.over, "at the end %s does not end", c.name)
		s.want(c.lost < 2 && told(),
			"the loss of %s was told %d times on its channel and %d times on the stream", c.name, c.lost, c.stream)
		s.mu.Unlock()
	}
	var left []string
	s.on.settle(func() bool { left = s.on.tree(); return len(left) == 0 })
	s.want(len(left) == 0, "at the end these are left: %q", left)
}
