package session

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file is about revocation requests, in the data of the holders' nodes (see node.go):
// first about the holder that receives one, and then about the side that makes it.
//
// The grace starts when this process reads the request, by its own clock, and no clock is
// compared with another one. It starts once. The same request is read again whenever the
// node's watch is armed again. Callers that enter the lock again receive it, too, with no
// more time than the first. A holder that is not revocable, as its node says (see
// [events.MarkRevocable]), only receives the request.

// asking is a revocation request that was read.
type asking struct {
	czxid int64          // of the node that was read
	by    recipes.Moment // the earliest deadline that was read; 0: none
}

// onNodeData takes the data that a read returned when it armed the node's watch, and
// reports a revocation request in them.
func (c *client) onNodeData(node string, data []byte, stat *zk.Stat) {
	w, _ := read(data)
	if !w.stands {
		c.watches.Unnote(node)
		return
	}
	var by recipes.Moment
	if marks, ours := events.MarksOf(node); w.bounded && ours && marks&events.MarkRevocable != 0 {
		by = actors.MomentOf(time.Now().Add(w.grace))
	}
	c.askedBack(node, asking{czxid: stat.Czxid, by: c.wish(node, by)})
}

// wish notes that the lock is requested, and its deadline, from the read that armed the
// watch. If the watch has fired since, another read follows. It returns the earliest
// deadline of this and earlier reads; 0 is none.
func (c *client) wish(node string, by recipes.Moment) recipes.Moment {
	return c.watches.Note(node, func(before recipes.Moment) recipes.Moment {
		if before != 0 && (by == 0 || before < by) {
			return before
		}
		return by
	})
}

// requestIn reports whether a revocation request is known in any of the nodes, and its
// deadline.
func (c *client) requestIn(nodes ...string) (by recipes.Moment, wished bool) {
	for _, node := range nodes {
		asked, stands := c.watches.Noted(node)
		wished = wished || stands
		if stands && asked != 0 && (by == 0 || asked < by) {
			by = asked
		}
	}
	return by, wished
}

// repeatRequest repeats a revocation request for a seat that could not recognize it as
// its own before, and that no later read will repeat. This happens in two ways.
//
// The machine did not know its node:
//
//  1. The reply to a create is lost.
//  2. The lock is requested by a revocation.
//  3. The search for the GUID finds the node and the request.
//  4. The machine receives the request before it knows which node is its own.
//
// Another seat of the session watched the node:
//
//  1. A is granted in one request, and its node is not watched yet.
//  2. The lock is requested by a revocation.
//  3. B, which waits for A, watches the node, and receives the request.
//  4. A finds the node watched, and does not read it.
//
// A seat that receives the request twice ignores the second one.
func (s *Session) repeatRequest(c *client, seat *Seat, own events.Name) {
	if own.Text == "" {
		return
	}
	if by, wished := c.requestIn(seat.nodes(seat.at(own))...); wished {
		s.tell(seat, recipes.AskedBack{Epoch: c.epoch, Node: own, By: by}, nil)
	}
}

// askBack passes the request on to the subscribers of the node; those that own it take it
// as theirs. No request is missed that is in the node when the watch is armed again: the
// data are read whenever the watch is armed, and a change of them fires it. A watch that
// fires for a change of data says nothing about the end of the node.
//
// The one node of a lock may be another one by the time that this is delivered: czxid
// says which one was read.
func (s *Session) askBack(c *client, node string, wish asking) {
	for _, seat := range c.watches.Subscribers(node) {
		if seat.single != nil && seat.token(node) != wish.czxid {
			continue
		}
		s.tell(seat, recipes.AskedBack{Epoch: c.epoch, Node: seat.name(node), By: wish.by}, nil)
	}
}

// deadline is when a lock has to be given back.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

// startDeadline starts the timer of a holder with a deadline. When it fires, the session
// notifies the machine, and the lock is lost. The holder's own clock may show that before,
// and no reader takes its place from the deadline on, see [Session.isOverdue]. The machine
// has named the earliest deadline so far.
func (s *Session) startDeadline(seat *Seat, by recipes.Moment) {
	s.stopDeadline(seat)
	at := actors.TimeOf(by)
	overdue := func() {
		s.tell(seat, recipes.Overdue{By: by}, nil)
	}
	s.deadlines[seat] = deadline{at, time.AfterFunc(time.Until(at), func() { s.loop.Post(overdue) })}
}

// stopDeadline stops the timer of a seat.
func (s *Session) stopDeadline(seat *Seat) {
	if d, ok := s.deadlines[seat]; ok {
		d.timer.Stop()
		delete(s.deadlines, seat)
	}
}

var (
	// ErrNotHeld reports that the lock has no holder.
	ErrNotHeld = errors.New("zkgrant: the lock is not held")
	// ErrNotRevocable reports a holder that is not revocable.
	ErrNotRevocable = errors.New("zkgrant: a holder is not revocable")
)

// Revoke requests the lock at the path from its holders, with a grace, and returns nil
// when all of them are gone. It evicts a holder that is still there five quarters of the
// session timeout after the grace: the holder's timeout or ours, whichever is longer. It
// sends later holders no request.
//
// Revoke waits for a connection, and survives the end of the session, until ctx ends.
// Then it returns the cause; the requests stand, and no node is deleted. The other errors
// are [ErrNotHeld], [ErrNotRevocable] and [ErrKind], after which no request was made,
// [ErrClosed], and a server's refusal.
func (s *Session) Revoke(ctx context.Context, dir string, grace time.Duration) error {
	e := &eviction{session: s, dir: under(s.chroot, dir), grace: within(grace).grace}
	e.seen, e.bounded = ctx.Value(seenKey{}).([]events.Contender)
	targets, err := call(ctx, s, terms{urgent: observing}, e.holders)
	if err != nil {
		return err
	}
	// Each holder has a goroutine, and the first error ends all of them.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var targeting sync.WaitGroup
	for _, t := range targets {
		targeting.Go(func() {
			if err := t.follow(ctx); err != nil {
				cancel(err)
			}
		})
	}
	targeting.Wait()
	return context.Cause(ctx)
}

type askedKey struct{}

// WithAsked returns a context for [Session.Revoke], which calls asked when the request
// stands in the first holder's node.
func WithAsked(ctx context.Context, asked func()) context.Context {
	return context.WithValue(ctx, askedKey{}, sync.OnceFunc(asked))
}

type seenKey struct{}

// WithSeen returns a context for [Session.Revoke], which then sends a request to none but
// these contenders, and evicts none but these. They are as a look at the lock has shown
// them, with paths without the chroot. If none of them holds the lock now, Revoke returns
// [ErrNotHeld].
func WithSeen(ctx context.Context, seen []events.Contender) context.Context {
	return context.WithValue(ctx, seenKey{}, seen)
}

// eviction is one call of Revoke.
type eviction struct {
	session *Session
	dir     string // with the chroot
	grace   time.Duration
	seen    []events.Contender // if bounded: only these are asked
	bounded bool
}

// among reports whether the node may be asked, judging by its name. Other libraries may
// name a later node like an earlier one; then of says whose it is.
func (e *eviction) among(t *target) bool {
	return !e.bounded || slices.ContainsFunc(e.seen, func(c events.Contender) bool {
		return c.Node == e.pathOf(t) || t.ours && AttemptOf(c.Node) == AttemptOf(t.nodes[0])
	})
}

// of reports whether the node that was read may be asked, judging by the session.
func (e *eviction) of(t *target, owner int64) bool {
	return !e.bounded || slices.ContainsFunc(e.seen, func(c events.Contender) bool {
		return c.Node == e.pathOf(t) && c.Session == owner
	})
}

// holders returns the holders, or a [verdict] with the reason why none of them can be
// requested.
func (e *eviction) holders(c *client) (found []*target, _ error) {
	// A write through the quorum comes first, so every holder that was granted the lock
	// before is listed.
	if outcome, err := c.barrier(e.dir); outcome != zkerr.Done {
		return nil, err
	}
	children, stat, err := c.conn.Children(e.dir)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, verdict{ErrNotHeld}
	case err != nil:
		return nil, err
	case Ephemeral(stat):
		return nil, verdict{fmt.Errorf("%w: an unfair lock cannot be revoked", ErrKind)}
	}
	for _, name := range recipes.Holders(namesOf(children, false).queue) {
		found = e.add(found, path.Join(e.dir, name.Text))
	}
	if slices.Contains(children, permitDir) {
		permits, _, err := c.conn.Children(path.Join(e.dir, permitDir))
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return nil, err
		}
		slices.Sort(permits)
		for _, permit := range permits {
			if IsPermit(permit) {
				found = e.add(found, path.Join(e.dir, permitDir, permit))
			}
		}
	}
	found = slices.DeleteFunc(found, func(t *target) bool { return !e.among(t) })
	for _, t := range found {
		if marks, ours := events.MarksOf(t.nodes[0]); ours && marks&events.MarkRevocable == 0 {
			return nil, verdict{fmt.Errorf("%w: %s", ErrNotRevocable, e.pathOf(t))}
		}
	}
	// A name of another library is no proof of a holder: a node old-lock-0000000007 that
	// outlives its session may not be a holder's. Its data would be overwritten, and it
	// would be deleted in the end.
	there := found[:0]
	for _, t := range found {
		if !t.ours {
			exists, stat, err := c.conn.Exists(t.nodes[0])
			switch {
			case err != nil:
				return nil, err
			case !exists, !e.of(t, stat.EphemeralOwner):
				continue
			case !Ephemeral(stat):
				return nil, verdict{fmt.Errorf("%w: %s is not ephemeral, so it does not belong to a holder",
					ErrKind, e.pathOf(t))}
			}
			t.born = stat.Czxid
		}
		there = append(there, t)
	}
	if len(there) == 0 {
		return nil, verdict{ErrNotHeld}
	}
	return there, nil
}

// add notes one more holder, or another permit of a holder.
func (e *eviction) add(found []*target, node string) []*target {
	_, ours := events.MarksOf(node)
	for _, t := range found {
		if ours && AttemptOf(t.nodes[0]) == AttemptOf(node) && path.Dir(t.nodes[0]) == path.Dir(node) {
			t.nodes = append(t.nodes, node)
			return found
		}
	}
	return append(found, &target{watcher: newWatcher(e.session), of: e, nodes: []string{node}, ours: ours})
}

// pathOf returns the target's node as the caller knows it.
func (e *eviction) pathOf(t *target) string { return strings.TrimPrefix(t.nodes[0], e.session.chroot) }

// patience is how long after the grace a holder is evicted. holder is the session timeout
// in its node, or 0; the longer one of that and ours counts. The holder believes in its
// lock no longer than that, even if it receives nothing:
//
//  1. It holds for less than a probe interval, and does not watch its node yet.
//  2. The request is written.
//  3. Its session writes for another lock, which renews its lease.
//  4. Its connection falls silent before the end of the interval in which it would have
//     read the request.
//
// Its lease ends at most one of its timeouts after that. A probe interval is at most a
// part of the timeout (see [Config]).
func (s *Session) patience(holder time.Duration) time.Duration {
	timeout := max(s.Timeout(), holder)
	return timeout + timeout/probeMin
}

// target is a holder with a revocation request: a node, or all the permits of an attempt.
// Its goroutine and its call change it in turn.
type target struct {
	*watcher

	of    *eviction
	nodes []string // what is left of it; the request is in the first
	ours  bool     // it knows our form of the request
	born  int64    // the zxid that created the first node; 0 before that was read

	until time.Time // when the grace is over; zero before the request
	last  time.Time // when it is evicted
}

// follow returns when the target is gone.
func (t *target) follow(ctx context.Context) error {
	defer t.leave()
	var last <-chan time.Time
	for again := true; again; again = t.wait(ctx, last) {
		gone, err := call(ctx, t.session, terms{urgent: observing}, t.see)
		if err != nil && ctx.Err() == nil && !errors.Is(err, ErrClosed) {
			t.session.cfg.Logger.Warn("cannot send a holder the revocation request", t.zapNode(),
				zap.Error(err))
		}
		if err != nil || gone {
			return err
		}
		if last == nil {
			if asked, ok := ctx.Value(askedKey{}).(func()); ok {
				asked()
			}
			last = time.After(time.Until(t.last))
		}
	}
	return context.Cause(ctx)
}

// see checks whether the target is still there, and does what is due: it writes the
// request into its node, and deletes the node when its time is over. Each round completes
// that, or finds one of the nodes gone, or finds that it was written to meanwhile.
func (t *target) see(c *client) (gone bool, _ error) {
	t.begin()
	for range maxTries + len(t.nodes) {
		if len(t.nodes) == 0 {
			return true, nil
		}
		node, err := c.readW(ofData, t.nodes[0], t)
		if err == nil && t.born != 0 && node.stat.Czxid != t.born {
			err = zk.ErrNoNode // a node of a later holder: its library gives the nodes no names of their own
		}
		if err == nil {
			t.born = node.stat.Czxid
			err = t.deal(c, node.data, node.stat.Version)
		}
		switch {
		case errors.Is(err, zk.ErrBadVersion):
		case errors.Is(err, zk.ErrNoNode):
			// The request is in the first of the nodes that are left.
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

// deal evicts the holder if its time is over, and otherwise makes sure that its node has
// the request. It writes and deletes by version, so only what was read. The permits after
// the first need no version: their names are never used again. [zk.ErrNoNode] means that
// the node is gone.
func (t *target) deal(c *client, data []byte, version int32) error {
	now := time.Now()
	if t.asked() && !now.Before(t.last) {
		c.logger.Warn("evicting a holder that has not released the lock after a revocation request",
			t.zapNode())
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

// wish returns the request to write now, with the rest of the grace.
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

// adds reports whether a request says something that the existing one does not. asked: it
// was written before. Then it is missing only if the data were overwritten, such as by a
// leader that publishes new data. A shorter rest of the grace is nothing new.
func (w wish) adds(standing wish, asked bool) bool {
	switch {
	case !standing.stands:
		return true
	case !w.bounded:
		return false // a holder that knows this form accepts any request
	case !standing.bounded:
		return true
	default:
		return !asked && w.grace < standing.grace
	}
}

// remove deletes the holder's nodes. Several permits are deleted together, or one by one
// if some are gone already.
func (t *target) remove(c *client, version int32) error {
	ops := make([]any, len(t.nodes))
	for i, node := range t.nodes {
		ops[i] = &zk.DeleteRequest{Path: node, Version: anyVersion}
	}
	ops[0] = &zk.DeleteRequest{Path: t.nodes[0], Version: version}
	_, _, err := zkerr.ClassifyMulti(c.conn.Multi(ops...))
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

// IsPermit reports whether the name has the form of a permit, ours or Curator's. Any
// other node among the permits has no holder that could release it.
func IsPermit(name string) bool {
	const digits = 10
	return len(name) > digits && strings.HasSuffix(name[:len(name)-digits], permitMarker)
}

// Remove deletes a node, whichever session owns it. A missing node is no error. The path
// is without the chroot. A holder whose node is deleted may keep working beside the next
// holder: only an operator who knows that it does not should call this.
func (s *Session) Remove(ctx context.Context, node string) error {
	node = under(s.chroot, node)
	_, err := call(ctx, s, terms{urgent: joining}, func(c *client) (struct{}, error) {
		err := c.conn.Delete(node, anyVersion)
		if errors.Is(err, zk.ErrNoNode) {
			err = nil
		}
		return struct{}{}, err
	})
	return err
}
