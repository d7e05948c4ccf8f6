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

// see looks whether the target is still there, and does what is due: the wish has to stand in its node, and the holder is removed when
// its time is over. Each round either ends that, or finds one of the nodes gone, or finds that it was written to meanwhile.
func (t *target) see(c *client) (gone bool, _ error) {
	t.begin()
	for range reaped + len(t.nodes) {
		if len(t.nodes) == 0 {
			return true, nil
		}
		data, stat, err := c.getWatched(t.watcher, t.nodes[0])
		if err == nil && t.born != 0 && stat.Czxid != t.born {
			err = zk.ErrNoNode // a node of a later holder: its library gives the nodes no names of their own
		}
		if err == nil {
			t.born = stat.Czxid
			err = t.deal(c, data, stat.Version)
		}
		if err == nil && c.isOver() { // a look in a past session, with a watch that ended with it
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

// deal removes the holder if its time is over, and otherwise has the wish stand. It writes or deletes by version, so only what was
// read. The permits behind the first need no version: their names do not come again. [zk.ErrNoNode] says that the node is gone.
func (t *target) deal(c *client, data []byte, version int32) error {
	now := time.Now()
	if t.asked() && !now.Before(t.last) {
		c.logger.Warn("removing a holder that was asked for the lock and has not given it back", t.zapNode())
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

// adds reports whether a wish says something that the standing one does not. asked: it was written before. Then it is missing only if
// the data were overwritten, as by a leader that proclaims something. That less of the grace is left is no news.
func (w wish) adds(standing wish, asked bool) bool {
	switch {
	case !standing.stands:
		return true
	case !w.bounded:
		return false // any wish is one to a holder that knows this form
	case !standing.bounded:
		return true
	default:
		return !asked && w.grace < standing.grace
	}
}

// remove deletes the holder's nodes. Several permits all go together, or one by one if some are gone already.
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
		err = c.conn.Delete(t.nodes[0], version) // the others have their turns after it
		if err == nil {
			err = zk.ErrNoNode
		}
	}
	return err
}

// zapNode names the holder in the log.
func (t *target) zapNode() zap.Field { return zap.String("node", t.nodes[0]) }
