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

// This file is about revocation requests, which are data in the holders' nodes (see
// node.go): first the side of the holder that receives one, then the side that makes it.
//
// The grace starts when this process reads the request, and is measured by its own clock,
// so no clocks are compared. Time while the computer is suspended counts. The grace
// starts only once, although the same request is read again whenever the node's watch is
// armed again. Callers that re-enter the lock receive it, too, with no more time than the
// first. A holder whose node is not marked as revocable (see [events.MarkRevocable])
// receives the request without a deadline.

// onNodeData handles the data returned by the read that armed the node's watch, and
// reports a revocation request in them.
func (c *client) onNodeData(node string, data []byte, stat *zk.Stat) {
	w, _ := read(data)
	if !w.stands {
		c.watches.Unnote(node)
		return
	}
	var by recipes.Moment
	if w.bounded && events.HasMark(node, events.MarkRevocable) {
		by = actors.MomentOf(c.clock.now().Add(w.grace))
	}
	c.passRevocation(node, stat.Czxid, c.noteRevocation(node, by))
}

// noteRevocation notes a revocation request and its deadline, from the read that armed
// the watch. If the watch has fired since, another read follows. It returns the earliest
// deadline of this and earlier reads, or 0.
func (c *client) noteRevocation(node string, by recipes.Moment) recipes.Moment {
	return c.watches.Note(node, func(before recipes.Moment) recipes.Moment {
		if before != 0 && (by == 0 || before < by) {
			return before
		}
		return by
	})
}

// requestIn reports whether any of the nodes is known to have a revocation request, and
// the earliest deadline.
func (c *client) requestIn(nodes ...string) (by recipes.Moment, requested bool) {
	for _, node := range nodes {
		asked, stands := c.watches.Noted(node)
		requested = requested || stands
		if stands && asked != 0 && (by == 0 || asked < by) {
			by = asked
		}
	}
	return by, requested
}

// repeatRequest repeats a revocation request for a seat that could not recognize it as
// its own, and for which no later read will repeat it. There are two such cases.
//
// The machine did not know its node yet:
//
//  1. The reply to a create is lost.
//  2. The lock is requested by a revocation.
//  3. The search for the GUID finds the node and the request.
//  4. The machine receives the request before it knows which node is its own.
//
// Another seat of the session watches the node:
//
//  1. A is granted the lock in one request, and its node is not watched yet.
//  2. The lock is requested by a revocation.
//  3. B, which waits for A, watches the node, and receives the request.
//  4. A finds the node watched, and does not read it.
//
// A seat that receives the request twice ignores the second one.
func (s *Session) repeatRequest(c *client, seat *Seat, own events.Name) {
	if own.Text == "" {
		return
	}
	if by, requested := c.requestIn(seat.nodes(seat.at(own))...); requested {
		s.tell(seat, recipes.RevocationRequested{Epoch: c.epoch, Node: own, By: by}, nil)
	}
}

// passRevocation passes a request that was read on to all subscribers of the node;
// machines of other seats ignore it. by is the earliest deadline read so far, or 0. No
// request is missed, because the data are read whenever the watch is armed, and changing
// them fires it.
//
// A lock's single node may have been replaced by the time this is delivered; czxid
// identifies the one that was read.
func (c *client) passRevocation(node string, czxid int64, by recipes.Moment) {
	s := c.session
	s.loop.Post(func() {
		for _, seat := range c.watches.Subscribers(node) {
			if seat.single != nil && seat.token(node) != czxid {
				continue
			}
			s.tell(seat, recipes.RevocationRequested{Epoch: c.epoch, Node: seat.name(node), By: by}, nil)
		}
	})
}

// deadline is when a lock must be released, after a revocation request.
type deadline struct {
	at    time.Time   // by the session's clock
	timer *time.Timer // stops during a suspend; see [Session.resetDeadlines]
}

// startDeadline starts the timer of a holder with a deadline, the earliest so far. When
// it fires, the session notifies the machine, and the lock is lost. The holder may notice
// earlier, by its own clock. No reader takes its place from the deadline on; see
// [Session.isOverdue].
func (s *Session) startDeadline(seat *Seat, by recipes.Moment) {
	s.stopDeadline(seat)
	at := actors.TimeOf(by)
	over := func() { seat.answer(recipes.Overdue{By: by}, nil) }
	s.deadlines[seat] = deadline{at, time.AfterFunc(at.Sub(s.clock.now()), over)}
}

// resetDeadlines sets the pending timers again, because they are late after a suspend.
// [Session.tend] calls it while a seat holds.
func (s *Session) resetDeadlines(now time.Time) {
	for _, d := range s.deadlines {
		if d.timer.Stop() {
			d.timer.Reset(d.at.Sub(now))
		}
	}
}

// Time converts a Moment to the clock of time.Now; see [actors.House].
func (s *Session) Time(m recipes.Moment) time.Time { return s.clock.ordinary(actors.TimeOf(m)) }

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

// Revoke asks the current holders of the lock at the path to release it within the grace,
// and returns nil when all of them are gone. It evicts a holder that is still there five
// quarters of a session timeout after the grace and after the last change of its data;
// the longer of the holder's timeout and ours counts. It does not affect later holders.
//
// Revoke waits for a connection, and continues across sessions, until ctx ends. Then it
// returns the cause; the requests remain, and no node is deleted. Other errors are
// [ErrNotHeld], [ErrNotRevocable] and [ErrKind], for which no request was written,
// [ErrClosed], and a server's refusal.
func (s *Session) Revoke(ctx context.Context, dir string, grace time.Duration) error {
	e := &eviction{session: s, dir: under(s.chroot, dir), grace: within(grace).grace}
	e.seen, e.bounded = ctx.Value(seenKey{}).([]events.Contender)
	targets, err := call(ctx, s, callOptions{urgent: observing}, e.holders)
	if err != nil {
		return err
	}
	// Each holder has a goroutine. The first error ends all of them.
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

// WithAsked returns a context with which [Session.Revoke] calls asked once the first
// holder's node has the request.
func WithAsked(ctx context.Context, asked func()) context.Context {
	return context.WithValue(ctx, askedKey{}, sync.OnceFunc(asked))
}

type seenKey struct{}

// WithSeen returns a context for [Session.Revoke], which then sends requests only to
// these contenders, and evicts only these. They are as a look at the lock has shown them,
// with paths without the chroot. If none of them holds the lock now, Revoke returns
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

// holders returns the holders, or a [verdict] that says why they cannot be asked.
func (e *eviction) holders(c *client) (found []*target, _ error) {
	// Write through the quorum first, so that every holder that was granted the lock
	// earlier is listed.
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
	// A name in another library's form does not prove a holder: a persistent node
	// old-lock-0000000007 need not be one's. Its data would be overwritten, and in the
	// end it would be deleted.
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

// add adds a holder, or another permit of a known one.
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

// patience returns how long after the grace a holder is evicted. holder is the session
// timeout in its node, or 0; the longer of that and ours counts. The holder trusts its
// lock no longer than that, even if it receives nothing:
//
//  1. It has held for less than a probe interval, and does not watch its node yet.
//  2. The request is written.
//  3. Its session writes for another lock, which renews the lease.
//  4. Its connection falls silent before the end of the interval, in which it would have
//     read the request.
//
// Its lease ends at most one of its timeouts after that. A probe interval is a fraction
// of the timeout at most; see [Config]. Not covered: a session with thousands of new
// holders may take longer than a timeout to read their nodes (see mostUrgent), and so may
// one whose server turns its reads away, but not its writes.
func (s *Session) patience(holder time.Duration) time.Duration {
	timeout := max(s.Timeout(), holder)
	return timeout + timeout/probeMin
}

// target is a holder with a revocation request: a node, or all permits of an attempt. Its
// goroutine and its call take turns changing it.
type target struct {
	*watcher

	of    *eviction
	nodes []string // the remaining ones; the request is in the first
	ours  bool     // it understands our form of the request
	born  int64    // the zxid that created the first node; 0 before that was read

	until    time.Time     // when the grace is over; zero before the request
	last     time.Time     // when it is evicted
	version  int32         // of the first node's data when the request was last seen in it
	timeout  time.Duration // the longest session timeout seen in it; 0: none
	evicting bool          // one of its nodes was deleted by us
}

// follow asks the target, evicts it if need be, and returns once it is gone.
func (t *target) follow(ctx context.Context) error {
	defer t.leave()
	var last <-chan time.Time
	for again := true; again; again = t.wait(ctx, last) {
		gone, err := call(ctx, t.session, callOptions{urgent: observing}, func(c *client) (bool, error) {
			return t.see(ctx, c)
		})
		if err != nil && ctx.Err() == nil && !errors.Is(err, ErrClosed) {
			t.session.cfg.Logger.Warn("cannot send a holder the revocation request", t.zapNode(),
				zap.Error(err))
		}
		if err != nil || gone {
			return err
		}
		if asked, ok := ctx.Value(askedKey{}).(func()); ok {
			asked()
		}
		last = time.After(time.Until(t.last))
	}
	return context.Cause(ctx)
}

// see checks whether the target is still there, and does what is due: it writes the
// request to the node, or deletes the node when its time is up. Each round completes
// that, finds one of the nodes gone, or finds that it was changed in the meantime.
//
// The call returns at the end of ctx, perhaps in the middle of a round. From then on,
// it sends no write and no delete.
func (t *target) see(ctx context.Context, c *client) (gone bool, _ error) {
	t.begin()
	for range maxTries + len(t.nodes) {
		if len(t.nodes) == 0 {
			return true, nil
		}
		node, err := c.readW(ofData, t.nodes[0], t)
		if err == nil && t.born != 0 && node.stat.Czxid != t.born {
			err = zk.ErrNoNode // a later holder's node: its library reuses names
		}
		if err == nil {
			t.born = node.stat.Czxid
			if err = context.Cause(ctx); err == nil {
				err = t.deal(ctx, c, node.data, node.stat.Version)
			}
		}
		switch {
		case errors.Is(err, zk.ErrBadVersion):
		case errors.Is(err, zk.ErrNoNode):
			// The request is in the first of the remaining nodes.
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

// deal evicts the holder if its time is up, and otherwise makes sure that its node has
// the request. It writes and deletes only the version that was read. The permits after
// the first need no version, because their names are never used again. [zk.ErrNoNode]
// means that the node is gone.
//
// A holder that knows our form may have overwritten the request before it read it. Then
// its lease says nothing about what it knows. So whenever its data have changed, it is
// not evicted until the lease that it may have had then has run out.
func (t *target) deal(ctx context.Context, c *client, data []byte, version int32) error {
	now := time.Now()
	changed := t.ours && t.asked() && !t.evicting && version != t.version
	if t.asked() && !now.Before(t.last) && !changed {
		c.logger.Warn("evicting a holder that has not released the lock after a revocation request",
			t.zapNode())
		return t.remove(ctx, c, version)
	}
	standing, rest := read(data)
	t.timeout = max(t.timeout, timeoutIn(t.nodes[0], rest)) // others may overwrite it
	if want := t.revocation(now); want.adds(standing, t.asked()) {
		stat, err := c.conn.Set(t.nodes[0], want.data(rest), version)
		if err != nil {
			return err
		}
		version = stat.Version
	}
	now, t.version = time.Now(), version
	patience := t.session.patience(t.timeout)
	switch again := now.Add(patience); {
	case !t.asked():
		t.until = now.Add(t.of.grace)
		t.last = t.until.Add(patience)
	case changed && again.After(t.last):
		t.last = again
	}
	return nil
}

func (t *target) asked() bool { return !t.last.IsZero() }

// revocation returns the request to write now, with what is left of the grace.
func (t *target) revocation(now time.Time) revocation {
	switch {
	case !t.ours:
		return revocation{stands: true}
	case !t.asked():
		return within(t.of.grace)
	default:
		return within(t.until.Sub(now))
	}
}

// adds reports whether w must be written although the node has the request standing.
// asked means that a request was written before; then it is missing only if the data were
// overwritten, for example by a leader that publishes new data. A shorter remaining grace
// is no reason to write again.
func (w revocation) adds(standing revocation, asked bool) bool {
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

// remove deletes the holder's nodes. Several permits are deleted in one transaction, or
// one by one if some are gone already.
func (t *target) remove(ctx context.Context, c *client, version int32) error {
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
	if errors.Is(err, zk.ErrNoNode) && len(t.nodes) > 1 && ctx.Err() == nil {
		err = c.conn.Delete(t.nodes[0], version) // the others follow in later rounds
		if err == nil {
			t.evicting, err = true, zk.ErrNoNode
		}
	}
	return err
}

// zapNode returns the holder's node for the log.
func (t *target) zapNode() zap.Field { return zap.String("node", t.nodes[0]) }

// IsPermit reports whether the name has the form of a permit, ours or Curator's. Any
// other node among the permits has no holder that could be asked to release it.
func IsPermit(name string) bool {
	const digits = 10
	return len(name) > digits && strings.HasSuffix(name[:len(name)-digits], permitMarker)
}

// Remove deletes a node that was found in the directory, whichever session owns it. If it
// is missing, or a later node has its name, that is not an error. The path does not
// include the chroot. A holder whose node is deleted may keep working at the same time as
// the next holder, so call Remove only if an operator knows that it does not.
func (s *Session) Remove(ctx context.Context, dir string, found Found) error {
	node := under(s.chroot, path.Join(dir, found.Name))
	_, err := call(ctx, s, callOptions{urgent: joining}, func(c *client) (struct{}, error) {
		// Look each time, because the reply to an earlier delete may be lost. Without the
		// barrier, a lagging server may show the earlier node.
		outcome, err := c.barrier(node)
		if outcome == zkerr.Done {
			var stat *zk.Stat
			if _, stat, err = c.conn.Exists(node); err == nil && stat.Czxid == found.Stat.Czxid && ctx.Err() == nil {
				err = c.conn.Delete(node, anyVersion)
			}
		}
		if errors.Is(err, zk.ErrNoNode) {
			err = nil
		}
		return struct{}{}, err
	})
	return err
}
