package session

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// target is a holder that is asked: a node, or all the permits of an attempt. Its goroutine and its call change it in turn.
type target struct {
	*watcher

	of    *eviction
	nodes []string // what is left of it; the wish stands in the first
	ours  bool     // it knows our form of the wish
	born  int64    // the zxid that created the first node; 0 before that was read

	until time.Time // when the grace is over; zero before it was asked
	last  time.Time // when it is removed
}

// see looks whether the target is still there, and does what is to be done then: the wish is to stand in its node, and it
// is removed when it has had its time. Each turn either ends that, or one of the nodes is
// gone, or somebody else has written to it meanwhile.
func (t *target) see(c *client) (gone bool, _ error) {
	t.begin()
	for range reaped + len(t.nodes) {
		if len(t.nodes) == 0 {
			return true, nil
		}
		data, stat, err := c.getLookingOut(t.watcher, t.nodes[0])
		if err == nil && t.born != 0 && stat.Czxid != t.born {
			err = zk.ErrNoNode // a node of a later holder, whose library gives them no names of their own
		}
		if err == nil {
			t.born = stat.Czxid
			err = t.deal(c, data, stat.Version)
		}
		if err == nil && c.retired.Load() { // a look in a past session, with a watch that went with it
			err = zk.ErrConnectionClosed
		}
		switch {
		case errors.Is(err, zk.ErrBadVersion):
		case errors.Is(err, zk.ErrNoNode):
			t.nodes, t.born = t.nodes[1:], 0
		default:
			return false, err
		}
	}
	if len(t.nodes) == 0 {
		return true, nil
	}
	return false, fmt.Errorf("%s is written to as often as it is read", t.nodes[0])
}

// deal removes the holder if it has had its time, and otherwise sees to it that the wish stands. What is written or deleted is what was
// read, for it goes with the version; a client of a semaphore has names of its own. [zk.ErrNoNode] says that the node is gone.
func (t *target) deal(c *client, data []byte, version int32) error {
	now := time.Now()
	if t.asked() && !now.Before(t.last) {
		c.logger.Warn("removing a holder who was asked to give the lock back, and has not", t.zapNode())
		return t.remove(c, version)
	}
	standing, rest := read(data)
	if want := t.wish(now); want.adds(standing, t.asked()) {
		if _, err := c.conn.Set(t.nodes[0], want.data(rest), version); err != nil {
			return err
		}
	}
	if !t.asked() {
		now = time.Now()
		t.until = now.Add(t.of.grace)
		t.last = t.until.Add(t.session.patience(timeoutIn(t.nodes[0], rest)))
	}
	return nil
}

func (t *target) asked() bool { return !t.last.IsZero() }

// wish returns what the holder is to be told now: what is left of the grace.
func (t *target) wish(now time.Time) wish {
	switch {
	case !t.ours:
		return wish{stands: true}
	case !t.asked():
		return within(t.of.grace)
	default:
		return within(t.until.Sub(now))
	}
}

// adds tells whether a wish says what one that stands does not. asked: it was there before. Then it is missing only if somebody has
// overwritten it, as a leader does who proclaims something: what is left of the time grows less, and that is no news.
func (w wish) adds(standing wish, asked bool) bool {
	switch {
	case !standing.stands:
		return true
	case !w.bounded:
		return false // whatever stands is a wish to whoever knows this form
	case !standing.bounded:
		return true
	default:
		return !asked && w.grace < standing.grace
	}
}

// remove takes the holder's nodes away. Of several permits all go together, or one by one if some are gone already.
func (t *target) remove(c *client, version int32) error {
	ops := make([]any, len(t.nodes))
	for i, node := range t.nodes {
		ops[i] = &zk.DeleteRequest{Path: node, Version: anyVersion}
	}
	ops[0] = &zk.DeleteRequest{Path: t.nodes[0], Version: version}
	_, err := zkerr.ClassifyMulti(c.conn.Multi(ops...))
	if err == nil {
		t.nodes = t.nodes[:1]
		return zk.ErrNoNode
	}
	if errors.Is(err, zk.ErrNoNode) && len(t.nodes) > 1 {
		err = c.conn.Delete(t.nodes[0], version) // the others have their turns behind it
		if err == nil {
			err = zk.ErrNoNode
		}
	}
	return err
}

// zapNode says in the log whose lock it is.
func (t *target) zapNode() zap.Field { return zap.String("node", t.nodes[0]) }
