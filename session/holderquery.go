package session

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file finds the holders of a lock that is asked back.

// holderQuery finds the holders of a lock.
type holderQuery struct {
	*eviction
	c     *client
	found []*target
}

// holders returns the holders. A [verdict] says why they cannot be asked, all of them. The query comes behind a write through the quorum,
// so it sees every holder that was granted the lock before.
func (e *eviction) holders(c *client) ([]*target, error) {
	if outcome, err := c.barrier(e.dir); outcome != zkerr.Done {
		return nil, err
	}
	q := &holderQuery{eviction: e, c: c}
	if err := q.list(); err != nil {
		return nil, err
	}
	for _, t := range q.found {
		if marks, ours := events.MarksOf(t.nodes[0]); ours && marks&events.MarkRevocable == 0 {
			return nil, verdict{fmt.Errorf("%w: %s", ErrNotRevocable, q.pathOf(t))}
		}
	}
	if err := q.checkTheirs(); err != nil {
		return nil, err
	}
	if len(q.found) == 0 {
		return nil, verdict{ErrNotHeld}
	}
	return q.found, nil
}

// list finds the holders by their names.
func (q *holderQuery) list() error {
	children, stat, err := q.c.conn.Children(q.dir)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return verdict{ErrNotHeld}
	case err != nil:
		return err
	case Ephemeral(stat):
		return verdict{fmt.Errorf("%w: an unfair lock cannot be revoked", ErrKind)}
	}
	var queue []events.Name
	for _, child := range children {
		if name, ok := events.ParseName(child); ok {
			queue = append(queue, name)
		}
	}
	for _, name := range recipes.Holders(queue) {
		q.add(path.Join(q.dir, name.Text))
	}
	if !slices.Contains(children, permitDir) {
		return nil
	}
	permits, _, err := q.c.conn.Children(path.Join(q.dir, permitDir))
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	slices.Sort(permits)
	for _, permit := range permits {
		if IsPermit(permit) {
			q.add(path.Join(q.dir, permitDir, permit))
		}
	}
	return nil
}

// add notes one more holder, or another permit of a holder.
func (q *holderQuery) add(node string) {
	_, ours := events.MarksOf(node)
	for _, t := range q.found {
		if ours && AttemptOf(t.nodes[0]) == AttemptOf(node) && path.Dir(t.nodes[0]) == path.Dir(node) {
			t.nodes = append(t.nodes, node)
			return
		}
	}
	q.found = append(q.found, &target{watcher: newWatcher(q.session), of: q.eviction, nodes: []string{node}, ours: ours})
}

// checkTheirs leaves out the holders of other libraries that are gone already. A name is no proof: a node block-0000000007 that outlives
// its session may be no holder's. Its data would be overwritten, and it would be deleted at last.
func (q *holderQuery) checkTheirs() error {
	all := q.found
	q.found = nil
	for _, t := range all {
		if !t.ours {
			exists, stat, err := q.c.conn.Exists(t.nodes[0])
			switch {
			case err != nil:
				return err
			case !exists:
				continue
			case !Ephemeral(stat):
				return verdict{fmt.Errorf("%w: %s is not ephemeral, so it is no holder's node", ErrKind, q.pathOf(t))}
			}
			t.born = stat.Czxid
		}
		q.found = append(q.found, t)
	}
	return nil
}

// pathOf returns the target's node as the caller knows it.
func (q *holderQuery) pathOf(t *target) string {
	return strings.TrimPrefix(t.nodes[0], q.session.chroot)
}

// IsPermit reports whether the name has the form of a permit's, ours or Curator's. Any other node among the permits has no holder that
// could give it back.
func IsPermit(name string) bool {
	const digits = 10
	return len(name) > digits && strings.HasSuffix(name[:len(name)-digits], permitMarker)
}
