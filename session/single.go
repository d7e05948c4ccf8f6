package session

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file is about a lock that is a single node, at its own path: the session that
// creates the node holds the lock. Its successive nodes all have the same name, which the
// machine cannot tell apart. So a request about a seat's own node is answered for the
// node that the seat created, identified by the zxid that created it:
//
//   - Gone is sent for the seat's node only when that node is gone. A watch event
//     concerns the node that existed when it was sent, and precedes any answer that knows
//     of a later node. But a read that found nothing may be older than the node, so the
//     session then looks again ([verification]).
//   - A claim checks that the node exists, and then that it is the seat's.
//   - A delete is sent only by the owner (see [owners]). It is never simply repeated: the
//     owner looks first, after a write through the quorum. The owner also looks first
//     after an outage, unless an answer has since shown that its node still exists.
//   - A node of a past session is gone with that session, and never deleted by name.
//
// A delete that is simply repeated could delete another contender's node:
//
//  1. A's delete is executed, and its reply is lost.
//  2. B creates its node.
//  3. A deletes B's node.
//
// Limitation: A deletes B's node if A's node is deleted by hand and B creates its own
// before A watches its node, or while A's delete is in flight.

// Holder returns the holder of an unfair lock, as the seat's latest read found it, if
// there was one. Paths do not include the chroot.
func (t *Seat) Holder() (events.Contender, bool) {
	if t.single == nil {
		return events.Contender{}, false
	}
	if h := t.single.holder.Load(); h != nil {
		return *h, true
	}
	return events.Contender{}, false
}

// look reads the node for a list request.
func (c *client) look(t *Seat, e recipes.List) (recipes.Input, error) {
	t.follow(t.single.node)
	if e.Barrier {
		if in, err := c.barrierOf(t, e.Epoch); in != nil {
			return in, err
		}
	}
	node := t.single.node
	data, stat, err := c.read(t, !t.single.glance || e.Attempt != 0)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		t.single.holder.Store(nil)
		// If another seat of the session believes that it owns the node, that seat must
		// check.
		if other := c.owners.of(node); other != nil && other != t {
			c.verify(other)
		}
		return recipes.Listed{Epoch: e.Epoch}, nil
	case err != nil:
		return unanswered(e.Epoch, recipes.OpList, err)
	case !Ephemeral(stat):
		c.owners.leave(t)
		return recipes.Refused{Epoch: e.Epoch, Op: recipes.OpList},
			fmt.Errorf("%w: the node %s is not a lock", ErrKind, node)
	}
	name := recipes.TheNode(node)
	listed := recipes.Listed{Epoch: e.Epoch, Queue: []events.Name{name}}
	// Another seat of the session may own the node, so the session ID alone proves
	// nothing.
	if stat.EphemeralOwner == c.link.Session() && c.owners.owns(t, stat.Czxid) {
		t.nameOwn(c, e.Epoch, []string{node}, stat.Czxid)
		listed.Own = recipes.Own{Name: name, Owner: stat.EphemeralOwner, Token: stat.Czxid}
		return listed, nil
	}
	t.single.holder.Store(&events.Contender{
		Node: strings.TrimPrefix(node, t.session.chroot), Session: stat.EphemeralOwner,
		Since: time.UnixMilli(stat.Ctime), Token: stat.Czxid,
		Data: slices.Clone(UserData(node, data)), Kind: events.KindUnfair, Holding: true,
	})
	return listed, nil
}

// read reads the node, and watches it if requested.
func (c *client) read(t *Seat, watch bool) (data []byte, stat *zk.Stat, err error) {
	node := t.single.node
	if !watch {
		if data, stat, err = c.conn.Get(node); err == nil {
			c.found(node, t, stat)
		}
		return data, stat, err
	}
	s, err := c.follow(ofData, node, t)
	if errors.Is(err, zk.ErrNoNode) {
		c.watches.Drop(node, t) // events of this node do not concern the seat, which may create the next one
	}
	return s.data, s.stat, err
}

// removeSingle deletes the node if it is the seat's.
func (c *client) removeSingle(t *Seat, x *recipes.Errand) (recipes.Input, error) {
	if !c.owners.is(t) {
		return recipes.Deleted{Epoch: x.Epoch}, nil
	}
	x.Doubts = t.single.deleteUnknown.Load() || t.single.uncertain.Load()
	in, err := c.carryOut(t, x)
	if _, unknown := in.(recipes.Unknown); unknown {
		t.single.deleteUnknown.Store(true)
	}
	return in, err
}

// lookAt reads whether the single node is the seat's, and returns what follows.
func (c *client) lookAt(t *Seat, x *recipes.Errand) (m recipes.Meaning, _ error) {
	there, stat, err := c.conn.Exists(t.single.node)
	if outcome, err := zkerr.Classify(err); outcome != zkerr.Done {
		m.In, err = classified(x.Epoch, x.Op, outcome, err)
		return m, err
	}
	own := there && stat.Czxid == t.token(t.single.node)
	if x.Op == recipes.OpDelete {
		own = there && stat.EphemeralOwner == c.link.Session()
	}
	m = x.Looked(own)
	if _, refused := m.In.(recipes.Refused); refused {
		return m, zk.ErrNoNode
	}
	return m, nil
}

// Ephemeral reports whether a session owns the node. The owner values of containers and
// TTL nodes are not sessions.
//
// The first byte alone does not identify a TTL node: the sessions of a server with the id
// 255 have it, too. The next five bytes of a session are a time in milliseconds, counted
// from the start of the server's machine. So only sessions of such a server are mistaken
// for a TTL, and only if it was started within five hours of its machine.
func Ephemeral(stat *zk.Stat) bool {
	const withTime, timeBits = 0xff0000, 40
	owner := stat.EphemeralOwner
	return owner != 0 && owner != math.MinInt64 && uint64(owner)>>timeBits != withTime
}

// verification checks whether the node is still the one that the seat created, and
// watches it. It is for a seat that knows that the node is its own, not for one whose
// create is in progress, because the answer could be older than the create.
type verification struct {
	slot

	seat *Seat
	born int64 // set by the loop before the request is made
}

var _ request = (*verification)(nil)

func (v *verification) admit(s *Session) {
	if v.isDue() {
		s.pending.add(v)
	}
}

func (v *verification) do(c *client) (func(*Session), error) {
	node, err := c.follow(ofNode, v.seat.single.node, v.seat)
	outcome, err := zkerr.Classify(err)
	return func(s *Session) {
		switch {
		case !v.seat.single.known || v.seat.token(v.seat.single.node) != v.born:
		case errors.Is(err, zk.ErrNoNode), outcome == zkerr.Done && node.stat.Czxid != v.born:
			s.lostNode(c, v.seat, v.seat.single.node)
		case !outcome.Settled() || c.outdated:
			s.again(c, v)
		case outcome == zkerr.Done:
			v.seat.single.noteCertain(c)
		default: // the node cannot be watched
		}
	}, err
}

// isDue reports whether there is something to verify.
func (v *verification) isDue() bool {
	v.born = v.seat.token(v.seat.single.node)
	return v.seat.single.known
}

// isPast reports whether the missing node may be an earlier one than the node that the
// seat has created or is creating. If so, it also verifies the seat's node. Both have the
// same name, so the machine cannot distinguish them:
//
//  1. The machine waits for A's node, and requests a watch on it.
//  2. The connection breaks, and A's node goes.
//  3. On the next connection, the request is made, and so is a look, because after an
//     outage every waiter looks again. Both find nothing.
//  4. The look's answer is delivered, and the seat creates its node, and holds.
//  5. Only now is the other answer delivered: the node is gone.
//
// The machine would give up a node that exists, and which nothing would delete.
//
// A seat that has or may have a node does not wait for another one. If the read is newer
// than the node after all, the verification shows that.
func (s *Session) isPast(c *client, t *Seat) bool {
	if t.single == nil || !c.owners.is(t) {
		return false
	}
	s.take(&verification{slot: slot{epoch: c.epoch}, seat: t})
	return true
}

// noteCertain notes that an answer has shown the node to be the seat's. An answer from an
// earlier connection shows nothing about what has happened since.
func (l *single) noteCertain(c *client) {
	if c.phase.Load() == phaseUp {
		l.uncertain.Store(false)
	}
}

// rest makes a transaction depend on the lock's single node, if that is the seat's: the
// transaction is made before the node is deleted, or not at all. A guard alone would not
// do, because it checks the node by name:
//
//  1. The lock is lost, with a transaction in progress.
//  2. Our delete overtakes it.
//  3. Another contender creates the next node.
//  4. The guard finds that node.
func (l *single) rest(s *Session, t *Seat) (rests bool) {
	if _, holds := s.holders[t]; !holds || !l.known || s.isOverdue(t) {
		return false
	}
	l.writing++
	return true
}

// keeps makes a delete wait for the transactions that depend on the node.
func (l *single) keeps(r *seatRequest) bool {
	if r.op != recipes.OpDelete || l.writing == 0 {
		return false
	}
	l.deletes = append(l.deletes, r)
	return true
}

// unrest notes that a transaction is answered, or will never be made.
func (l *single) unrest(s *Session) {
	if l.writing--; l.writing > 0 {
		return
	}
	waiting := l.deletes
	l.deletes = nil
	for _, r := range waiting {
		s.take(r)
	}
}

// owners holds a client's books about the owners of single nodes, by path; see
// [recipes.OwnerBook]. It is safe for concurrent use.
type owners struct {
	mu sync.Mutex
	at map[string]recipes.OwnerBook[*Seat]
}

// enter makes the seat the owner, unless another seat is.
func (o *owners) enter(t *Seat) (entered bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b, entered := o.at[t.single.node].Enter(t)
	o.put(t, b)
	return entered
}

// leave notes that the seat has no node at the path, and no create in progress.
func (o *owners) leave(t *Seat) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.put(t, o.at[t.single.node].Leave(t))
}

// heard notes what the seat receives.
func (o *owners) heard(t *Seat, in recipes.Input) {
	token := t.token(t.single.node)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.put(t, o.at[t.single.node].Heard(t, in, token))
}

// put is called with mu held.
func (o *owners) put(t *Seat, b recipes.OwnerBook[*Seat]) {
	if b == (recipes.OwnerBook[*Seat]{}) {
		delete(o.at, t.single.node)
		return
	}
	o.at[t.single.node] = b
}

// is reports whether the seat is the owner.
func (o *owners) is(t *Seat) bool { return o.of(t.single.node) == t }

// owns reports whether this session's node that the zxid created is the seat's.
func (o *owners) owns(t *Seat, czxid int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.at[t.single.node].Owns(t, czxid)
}

// shake notes that it is unknown for the moment whether the nodes still exist.
func (o *owners) shake() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, b := range o.at {
		if t := b.Owner; t != nil {
			t.single.uncertain.Store(true)
		}
	}
}

// of returns the owner at the path, or nil.
func (o *owners) of(node string) *Seat {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.at[node].Owner
}

// found is called with each read of a node, by a seat or, if reader is nil, for all its
// subscribers. If the node is not the one that a seat of the session has created there,
// that seat's node is gone, and nothing else may show that:
//
//  1. A holds, and watches its node.
//  2. B writes to the node, and the watch fires.
//  3. B deletes the node, which fires no watch, and creates the next one.
//  4. A watches what it believes to be its node again.
func (c *client) found(node string, reader *Seat, stat *zk.Stat) {
	if t := c.owners.of(node); t != nil && t != reader && t.token(node) != stat.Czxid {
		c.verify(t) // in case the read is older than its node
	}
}
