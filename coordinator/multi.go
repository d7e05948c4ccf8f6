package coordinator

import (
	"context"
	"fmt"
	"path"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
)

// Multi returns a handle for several locks that are had together: mutexes, and sides of read/write locks, mixed as need be. Each of
// them keeps out whom it would keep out alone, and waits for whom it would wait for alone.
//
// Whoever asks queues up at all paths in one transaction, so of two who ask for some of the same locks, in whatever order they
// name them, the same one comes first everywhere, and they do not wait for each other. There is one Grant, when
// all are held and not before, with one Token, which is a fencing token for each path but those where it only reads, and the Members in the order given here. If one of the nodes is
// lost all are, which is one Lost; the others are given up then. If one is lost while it waits, it gives up its places at the
// other paths, too, and queues up anew, which is Requeued. Release gives all back in one transaction.
//
// Where nobody else is it costs one round trip, however many locks there are, and one to release. A waiter stands in all
// queues meanwhile, and keeps out those who come later, at the paths that are free, too: that is what all or nothing costs.
// So whoever takes the same locks one by one, in whatever order, as Curator's InterProcessMultiLock does, may come to
// wait for a multi-lock, and that for him: 1. he holds a; 2. the multi-lock queues up behind him at a, and is the
// first at b; 3. he asks for b. All who want several of them should ask for them together, or bound their wait.
//
// Path, and what is said of one path in errors and events, is that of the first lock. [Acquisition.Guard] checks the first
// lock's node, [Acquisition.Txn] all of them. [WithData] stores the data in each node, and [WithACL] counts for each
// handle. With the context of a lock one cannot ask for a multi-lock with the same path, nor the other way round: that is
// [ErrDeadlock]. No multi-lock is entered again, and no writer in it becomes a reader.
//
// Bad input is told by the acquisition, before anything is sent: [ErrMembers] if there are no locks, or one is nil or another
// coordinator's; [ErrDuplicate] if a path is in it twice; [ErrKind] for an unfair lock, another multi-lock, and a lock
// that is [Reentrant], [DetectCrash] or [AsKazoo]; [ErrPath]; [ErrTooLarge] if all of it does not fit into one request of 1 MiB. What
// is wrong with one of the locks, or refused by the servers at its path, is a [*MemberError], which names it.
func (c *Coordinator) Multi(locks ...*Lock) *Lock {
	m := &members{locks: append([]*Lock(nil), locks...)}
	l := &Lock{c: c, rule: m}
	if len(locks) > 0 && locks[0] != nil {
		l.path = locks[0].path // also if something is wrong with them: the event of its end names it
	}
	if m.err = m.check(c); m.err != nil {
		return l
	}
	kinds := make([]events.Kind, len(locks))
	for i, member := range locks {
		kinds[i] = member.rule.Kind()
	}
	m.Multi = recipes.MultiOf(kinds...)
	l.family = locks[0].family
	return l
}

// members is what a multi-lock consists of. In its handle it has the place of the rule, so that the handles of other locks
// need no room for it.
type members struct {
	recipes.Multi
	locks []*Lock
	err   error // what is wrong with them
}

// multi returns the members of a multi-lock, or nil.
func (l *Lock) multi() *members {
	m, _ := l.rule.(*members)
	return m
}

// marks returns what its nodes bear: it can be asked for if each of its members can.
func (m *members) marks() events.Marks {
	for _, member := range m.locks {
		if !member.cfg.revocable {
			return 0
		}
	}
	return events.MarkRevocable
}

// machineRule is the rule by which its machine goes.
func (l *Lock) machineRule() recipes.Rule {
	if m := l.multi(); m != nil {
		return m.Multi
	}
	return l.rule
}

// at returns the lock, or the member of a multi-lock, that is at the path, or nil.
func (l *Lock) at(path string) *Lock {
	m := l.multi()
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

// check finds what is wrong with the members.
func (m *members) check(c *Coordinator) error {
	if len(m.locks) == 0 {
		return fmt.Errorf("%w: there are none", ErrMembers)
	}
	for i, l := range m.locks {
		switch {
		case l == nil:
			return fmt.Errorf("%w: lock %d is nil", ErrMembers, i)
		case l.multi() != nil:
			return fmt.Errorf("%w: lock %d of a multi-lock is one itself", errInvalidKind, i)
		case l.c != c:
			return fmt.Errorf("%w: lock %d is another coordinator's", ErrMembers, i)
		case l.checkForm() != nil:
			return l.checkForm()
		case l.family == familyUnfair:
			return l.failed(fmt.Errorf("%w: an unfair lock cannot be part of a multi-lock", errInvalidKind))
		case l.cfg.reentrant, l.cfg.kazoo, l.cfg.detect:
			return l.failed(fmt.Errorf("%w: a lock that is reentrant, tells of crashes, or has kazoo's names, cannot be part of a multi-lock", errInvalidKind))
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

// places says where all of them queue up.
func (m *members) places() []session.Place {
	places := make([]session.Place, len(m.locks))
	for i, l := range m.locks {
		places[i] = session.Place{Dir: l.path, Kind: l.rule.Kind(), ACL: l.cfg.acl}
	}
	return places
}

// standing fails if the context holds one of them already.
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

// queue is what [Lock.Queue] says of a multi-lock.
func (m *members) queue(ctx context.Context) (all []events.Contender, _ error) {
	if m.err != nil {
		return nil, m.err
	}
	for _, l := range m.locks {
		queue, err := l.Queue(ctx)
		if err != nil {
			return nil, l.failed(err)
		}
		all = append(all, queue...)
	}
	return all, nil
}

// nodesOf returns the nodes that a Grant rests on.
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
