package coordinator

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
)

// Multi returns a handle that takes several mutexes and sides of read/write locks
// together, all or none, with one Grant and one Lost. Invalid members end the acquisition
// with [ErrMembers], [ErrDuplicate], [ErrKind], [ErrPath] or [ErrTooLarge]; a
// [*MemberError] may name the lock at fault. See docs/kinds.md.
func (c *Coordinator) Multi(locks ...*Lock) *Lock {
	m := &members{locks: append([]*Lock(nil), locks...)}
	l := &Lock{c: c, kind: kindMutex, rule: recipes.Multi(""), members: m}
	if len(locks) > 0 && locks[0] != nil {
		// Even if a member is invalid, because the Ended event names the path.
		l.path, l.above = locks[0].path, locks[0].above
	}
	if l.err = m.check(c); l.err != nil {
		return l
	}
	kinds := make([]events.Kind, len(locks))
	for i, member := range locks {
		kinds[i] = member.rule.Kind()
		if member.unfit != nil && l.unfit == nil {
			l.unfit = member.failed(member.unfit)
		}
	}
	l.rule = recipes.MultiOf(kinds...)
	l.kind, l.nodes, l.size = locks[0].kind, len(locks), c.session.SizeOfMembers(m.places())
	if !slices.ContainsFunc(locks, func(member *Lock) bool { return !member.cfg.revocable }) {
		l.marks = events.MarkRevocable // it can be revoked if every member can
		l.size += l.nodes * session.TimeoutSize
	}
	return l
}

// members are the locks of a multi-lock.
type members struct{ locks []*Lock }

// at returns the lock or the member of a multi-lock at the path, or nil.
func (l *Lock) at(path string) *Lock {
	m := l.members
	if m == nil && l.path == path {
		return l
	}
	if m != nil {
		for _, member := range m.locks {
			if member != nil && member.path == path {
				return member
			}
		}
	}
	return nil
}

// check returns why the members are invalid, or nil.
func (m *members) check(c *Coordinator) error {
	if len(m.locks) == 0 {
		return fmt.Errorf("%w: the list is empty", ErrMembers)
	}
	for i, l := range m.locks {
		switch {
		case l == nil:
			return fmt.Errorf("%w: lock %d is nil", ErrMembers, i)
		case l.members != nil:
			return fmt.Errorf("%w: lock %d is itself a multi-lock", errInvalidKind, i)
		case l.c != c:
			return fmt.Errorf("%w: lock %d is from another coordinator", ErrMembers, i)
		case l.checkOptions() != nil:
			return l.failed(l.checkOptions())
		case l.kind.can&canJoin == 0:
			return l.failed(fmt.Errorf("%w: %s cannot be part of a multi-lock", errInvalidKind, l.kind.name))
		case l.cfg.reentrant, l.cfg.kazoo, l.cfg.detect, l.cfg.cached != nil:
			return l.failed(fmt.Errorf("%w: a lock with Reentrant, Cached, DetectCrash or AsKazoo cannot be part of a multi-lock", errInvalidKind))
		}
	}
	return m.checkPaths(c)
}

func (m *members) checkPaths(c *Coordinator) error {
	var bad error
	seen := make(map[string]int, len(m.locks))
	for i, l := range m.locks {
		if err := c.checkPath(l.path); err != nil && bad == nil {
			bad = l.failed(err)
		}
		clean := path.Clean(l.path)
		other, twice := seen[clean]
		switch {
		case twice && bad != nil:
			return fmt.Errorf("%w: locks %d and %d: %w", ErrDuplicate, other, i, bad)
		case twice:
			return fmt.Errorf("%w: locks %d and %d are both at %s", ErrDuplicate, other, i, l.path)
		}
		seen[clean] = i
	}
	return bad
}

// places returns where the members queue.
func (m *members) places() []session.Place {
	places := make([]session.Place, len(m.locks))
	for i, l := range m.locks {
		places[i] = session.Place{Dir: l.path, Kind: l.rule.Kind(), ACL: l.cfg.acl}
	}
	return places
}

// standing fails if the context holds one of the members already.
func (m *members) standing(ctx context.Context) error {
	for _, l := range m.locks {
		_, writer, err := l.standing(ctx)
		if err == nil && writer != nil {
			err = fmt.Errorf("%w: %s", ErrDeadlock, l.path)
		}
		if err != nil {
			return l.failed(err)
		}
	}
	return nil
}

// nodesOf returns the nodes of a Grant.
func nodesOf(grant events.Grant) []string {
	if grant.Members == nil {
		return []string{grant.Node}
	}
	nodes := make([]string, len(grant.Members))
	for i, member := range grant.Members {
		nodes[i] = member.Node
	}
	return nodes
}
