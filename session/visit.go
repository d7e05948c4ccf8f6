package session

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file is the requests of those who want a lock back: one looks who holds it, and the others see to one holder each.

var _, _ request = (*listing)(nil), (*visit)(nil)

// listing looks who holds a lock.
type listing struct {
	slot

	of *revocation
}

func (l *listing) meantFor() recipes.Epoch { return 0 }

func (l *listing) refuse() { l.of.end(ErrClosed) }

func (l *listing) do(c *client) (func(*Session), error) {
	if l.of.over.Load() {
		return func(*Session) {}, nil
	}
	holders, verdict, err := l.of.list(c)
	outcome, err := zkerr.Classify(err)
	return func(s *Session) {
		switch {
		case l.of.over.Load():
		case outcome == zkerr.Unknown, zkerr.Unsettled(err):
			s.again(c, l)
		case err != nil:
			l.of.end(err)
		case verdict != nil:
			l.of.end(verdict)
		default:
			l.of.found(holders)
		}
	}, err
}

// list returns those who hold, if all of them may be asked, and otherwise why not. It comes behind a write through the quorum, so
// whoever was granted the lock before is seen.
func (r *revocation) list(c *client) (holders []*holder, verdict, err error) {
	if outcome, err := c.barrier(r.dir); outcome != zkerr.Done {
		return nil, nil, err
	}
	children, stat, err := c.conn.Children(r.dir)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, ErrNotHeld, nil
	case err != nil:
		return nil, nil, err
	case Ephemeral(stat):
		return nil, fmt.Errorf("%w: whoever has an unfair lock cannot be asked for it", ErrKind), nil
	}
	var queue []events.Name
	for _, child := range children {
		if name, ok := events.ParseName(child); ok {
			queue = append(queue, name)
		}
	}
	for _, name := range recipes.Holders(queue) {
		holders = r.with(holders, path.Join(r.dir, name.Text))
	}
	if slices.Contains(children, leaseDir) {
		leases, _, err := c.conn.Children(path.Join(r.dir, leaseDir))
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return nil, nil, err
		}
		slices.Sort(leases)
		for _, lease := range leases {
			if IsLease(lease) {
				holders = r.with(holders, path.Join(r.dir, leaseDir, lease))
			}
		}
	}
	for _, h := range holders {
		if marks, ours := events.MarksOf(h.nodes[0]); ours && marks&events.MarkRevocable == 0 {
			return nil, fmt.Errorf("%w: %s", ErrNotRevocable, strings.TrimPrefix(h.nodes[0], r.session.chroot)), nil
		}
	}
	holders, verdict, err = r.theirs(c, holders)
	if len(holders) == 0 && verdict == nil && err == nil {
		verdict = ErrNotHeld
	}
	return holders, verdict, err
}

// theirs leaves out the holders of other libraries that are gone already. Their names are no proof: of a block-0000000007 that stays
// when its session ends, and is no library's holder, the data would be overwritten, and it would be deleted at last.
func (r *revocation) theirs(c *client, all []*holder) (holders []*holder, verdict, err error) {
	for _, h := range all {
		if !h.ours {
			exists, stat, err := c.conn.Exists(h.nodes[0])
			switch {
			case err != nil:
				return nil, nil, err
			case !exists:
				continue
			case !Ephemeral(stat):
				return nil, fmt.Errorf("%w: %s is no session's, and so no holder's", ErrKind, strings.TrimPrefix(h.nodes[0], r.session.chroot)), nil
			}
			h.born = stat.Czxid
		}
		holders = append(holders, h)
	}
	return holders, nil, nil
}

// with returns the holders with one more, or with another lease of one of them.
func (r *revocation) with(holders []*holder, node string) []*holder {
	_, ours := events.MarksOf(node)
	for _, h := range holders {
		if ours && AttemptOf(h.nodes[0]) == AttemptOf(node) && path.Dir(h.nodes[0]) == path.Dir(node) {
			h.nodes = append(h.nodes, node)
			return holders
		}
	}
	return append(holders, &holder{of: r, nodes: []string{node}, ours: ours})
}

// IsLease tells whether the name is one that a permit has, ours or Curator's. What else stands among the leases is nobody's
// who could give it back.
func IsLease(name string) bool {
	const digits = 10
	return len(name) > digits && strings.HasSuffix(name[:len(name)-digits], leaseMarker)
}

// visit looks after one holder: it is seen to that the wish stands in his node, that his end is told, and that he is removed when he
// has had his time.
type visit struct {
	slot

	holder *holder
	made   bool // parked or under way; the drain's
	begun  atomic.Bool
}

func (v *visit) meantFor() recipes.Epoch { return 0 }

func (v *visit) refuse() { v.holder.of.end(ErrClosed) }

func (v *visit) do(c *client) (func(*Session), error) {
	v.begun.Store(true)
	var err error
	if !v.holder.of.over.Load() { // else nobody waits
		err = v.holder.see(c)
	}
	outcome, err := zkerr.Classify(err)
	return func(s *Session) { v.settle(s, c, outcome, err) }, err
}

func (v *visit) settle(s *Session, c *client, outcome zkerr.Outcome, err error) {
	h := v.holder
	r := h.of
	switch {
	case r.over.Load():
		h.visit = nil
		h.unwatch(c)
		return
	case len(h.nodes) > 0 && (outcome == zkerr.Unknown || zkerr.Unsettled(err) || c != s.client || c.over):
		v.begun.Store(false)
		s.again(c, v) // also if it was answered in a past session, whose watches went with it
		return
	}
	r.visits--
	if outcome == zkerr.Refused && len(h.nodes) > 0 {
		c.logger.Warn("cannot ask a holder for the lock", h.zapNode(), zap.Error(err))
		h.visit = nil
		r.end(err)
		return
	}
	h.visited(s)
	r.next()
}

// see looks whether the holder is still there, and does what is to be done then. Each turn either ends that, or one of his nodes is
// gone, or somebody else has written to it meanwhile.
func (h *holder) see(c *client) error {
	for range reaped + len(h.nodes) {
		node := h.nodes[0]
		arm, fires := c.looks.ask(node, h)
		var (
			data []byte
			stat *zk.Stat
			err  error
		)
		if arm {
			data, stat, _, err = c.conn.GetW(node)
			c.looks.answered(node, fires, err == nil)
		} else {
			data, stat, err = c.conn.Get(node)
		}
		if err == nil && h.born != 0 && stat.Czxid != h.born {
			err = zk.ErrNoNode // a node of a later holder, whose library gives them no names of their own
		}
		if err == nil {
			h.born = stat.Czxid
			err = h.deal(c, data, stat.Version)
		}
		switch {
		case errors.Is(err, zk.ErrBadVersion):
			continue
		case !errors.Is(err, zk.ErrNoNode):
			return err
		}
		c.looks.forget(node, h)
		h.nodes, h.born = h.nodes[1:], 0
		if len(h.nodes) == 0 {
			return nil
		}
	}
	return fmt.Errorf("%s is written to as often as it is read", h.nodes[0])
}

// deal removes the holder if he has had his time, and otherwise sees to it that the wish stands. What is written or deleted is what was
// read, for it goes with the version; a client of a semaphore's has names of his own. [zk.ErrNoNode] says that the node is gone.
func (h *holder) deal(c *client, data []byte, version int32) error {
	now := time.Now()
	if h.asked() && !now.Before(h.last) {
		c.logger.Warn("removing a holder who was asked to give the lock back, and has not", h.zapNode())
		return h.remove(c, version)
	}
	standing, rest := read(data)
	if want := h.wish(now); want.adds(standing, h.asked()) {
		if _, err := c.conn.Set(h.nodes[0], want.data(rest), version); err != nil {
			return err
		}
	}
	if !h.asked() {
		now = time.Now()
		h.until = now.Add(h.of.grace)
		h.last = h.until.Add(h.of.session.patience(timeoutIn(h.nodes[0], rest)))
	}
	return nil
}

func (h *holder) asked() bool { return !h.last.IsZero() }

// wish returns what the holder is to be told now: what is left of the grace.
func (h *holder) wish(now time.Time) wish {
	switch {
	case !h.ours:
		return wish{stands: true}
	case !h.asked():
		return within(h.of.grace)
	default:
		return within(h.until.Sub(now))
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

// remove takes the holder's nodes away. Of several leases all go together, or one by one if some are gone already.
func (h *holder) remove(c *client, version int32) error {
	ops := make([]any, len(h.nodes))
	for i, node := range h.nodes {
		ops[i] = &zk.DeleteRequest{Path: node, Version: anyVersion}
	}
	ops[0] = &zk.DeleteRequest{Path: h.nodes[0], Version: version}
	_, err := zkerr.ClassifyMulti(c.conn.Multi(ops...))
	if err == nil {
		h.nodes = h.nodes[:1]
		return zk.ErrNoNode
	}
	if errors.Is(err, zk.ErrNoNode) && len(h.nodes) > 1 {
		err = c.conn.Delete(h.nodes[0], version) // the others have their turns behind it
		if err == nil {
			err = zk.ErrNoNode
		}
	}
	return err
}
