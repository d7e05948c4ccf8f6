package session

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/watch"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file is about what the session has watched: how a watch is armed, and who learns
// of its event. Seats follow nodes ([client.watches]) and hear once that a node is gone;
// a change of data arms the watch again. Goroutines of services, and seats that look out
// for a change of a directory, learn of any change ([client.looks]), and arm again by
// reading again.

// aspect is what a reading asks for, and so what its watch is about.
type aspect uint8

const (
	// ofNode asks whether a node is there. Its watch is on the data, which are read with
	// it.
	ofNode aspect = iota
	ofData
	ofChildren
	// ofAbsence watches for a node that is not there: [zk.ErrNoNode] says that it does.
	// If the node is there, the watch is one on its data, and counts as not armed.
	ofAbsence
)

// key is what a reading is subscribed to. A watch on the data says nothing of the
// children, so who asks for one does not have the other.
func (a aspect) key(path string) string {
	if a == ofData {
		return path + "\x00data"
	}
	return path
}

// snapshot is what a reading has found.
type snapshot struct {
	data     []byte // ofData, and ofNode if the reading has armed the watch
	children []string
	stat     *zk.Stat
	armed    bool // by this reading
}

// reader is a seat or a goroutine that needs to learn of changes.
type reader interface {
	// subscribe comes before the reading, see [watch.Set.Ask].
	subscribe(c *client, of aspect, path string) (arm bool, t watch.Ticket)
	// answered takes the outcome of a reading that was to arm the watch.
	answered(c *client, of aspect, path string, t watch.Ticket, armed bool)
}

// readW reads a path, with a watch on it unless it is watched already.
func (c *client) readW(of aspect, path string, who reader) (s snapshot, err error) {
	arm, ticket := who.subscribe(c, of, path)
	there := true
	switch {
	case of == ofChildren && arm:
		s.children, s.stat, _, err = c.conn.ChildrenW(path)
	case of == ofChildren:
		s.children, s.stat, err = c.conn.Children(path)
	case of == ofAbsence && arm:
		there, s.stat, _, err = c.conn.ExistsW(path)
	case of == ofAbsence, of == ofNode && !arm:
		there, s.stat, err = c.conn.Exists(path)
	case arm:
		s.data, s.stat, _, err = c.conn.GetW(path)
	default:
		s.data, s.stat, err = c.conn.Get(path)
	}
	s.armed = arm && err == nil && there == (of != ofAbsence)
	if err == nil && !there {
		err = zk.ErrNoNode
	}
	if arm {
		who.answered(c, of, path, ticket, s.armed)
	}
	if c.isOver() {
		err = zk.ErrConnectionClosed // a watch of a past session notifies nobody
	}
	return s, err
}

// follow reads a node that the seat follows, with a watch on it. A nil seat is for those
// that follow it already. What the reading says of a wish, and of the owner of a lock of
// one node, is passed on.
func (c *client) follow(of aspect, node string, t *Seat) (snapshot, error) {
	s, err := c.readW(of, node, t)
	if err != nil {
		return s, err
	}
	if s.armed {
		c.onNodeData(node, s.data, s.stat)
	} else if by, wished := c.requestIn(node); wished {
		c.askedBack(node, asking{czxid: s.stat.Czxid, by: by})
	}
	c.found(node, t, s.stat)
	return s, nil
}

// watch arms a watch. If the watch is armed already, it looks whether the node is still
// there.
func (c *client) watch(t *Seat, e recipes.Watch) (recipes.Input, error) {
	node := t.at(e.Node)
	seen, err := c.follow(ofNode, node, t)
	if err == nil {
		t.sawPred(node, seen.stat.Czxid)
		return nil, nil
	}
	if errors.Is(err, zk.ErrNoNode) {
		return recipes.Gone{Epoch: e.Epoch, Node: e.Node}, nil // the node that was to be watched, in the same epoch
	}
	in, err := unanswered(e.Epoch, recipes.OpWatch, t.blame(node, err))
	if refused, ok := in.(recipes.Refused); ok {
		refused.Node = e.Node
		in = refused
	}
	return in, err
}

// subscribe subscribes the seat to the node. Requests run in goroutines of their own and
// may overtake each other, so a node that the seat does not follow any more is left out.
// A nil seat subscribes nothing.
func (t *Seat) subscribe(c *client, _ aspect, node string) (arm bool, ticket watch.Ticket) {
	if t == nil {
		return c.watches.Ask(node, nil)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	arm, ticket = c.watches.Ask(node, t)
	t.forget(c, node)
	return arm, ticket
}

// answered ends the subscription if the watch could not be armed: the seat learns of that
// by the answer to its request.
func (t *Seat) answered(c *client, _ aspect, node string, ticket watch.Ticket, armed bool) {
	c.watches.Answered(node, ticket, armed)
	if !armed && t != nil {
		c.watches.Drop(node, t)
	}
}

// lookout is a seat that needs to learn of any change of a directory.
type lookout struct{ *Seat }

// subscribe subscribes the seat, unless it has left.
func (l lookout) subscribe(c *client, _ aspect, dir string) (arm bool, ticket watch.Ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return c.looks.Ask(dir, nil)
	}
	return c.looks.Ask(dir, l.Seat)
}

// answered keeps the subscription: each that asks beside it arms the watch itself.
func (lookout) answered(c *client, _ aspect, dir string, ticket watch.Ticket, armed bool) {
	c.looks.Answered(dir, ticket, armed)
}

// lookAgain makes the machine look.
func (t *Seat) lookAgain(c *client, _ bool) { t.session.tell(t, recipes.Changed{Epoch: c.epoch}, nil) }

// subscriber is notified once of a change of what a client watches for it, and looks
// again to hear more.
//
// After a reconnect each subscriber reads again, and arms its watch again unless the
// server is known to have restored it, see [watch.Set.Suspended].
type subscriber interface {
	// lookAgain says that something has happened there, or may have. gone says that the
	// path's node was deleted. The session's loop calls it.
	lookAgain(c *client, gone bool)
}

var _, _ subscriber = (*watcher)(nil), (*Seat)(nil)

// tellChanged has the subscribers of the key look again. gone says that its node was
// deleted.
func (s *Session) tellChanged(c *client, key string, gone bool) {
	for _, who := range c.looks.Fired(key) {
		who.lookAgain(c, gone)
	}
}

// tellGone notifies the subscribers that the node is gone, by an event or by a reading.
func (s *Session) tellGone(c *client, path string, event bool) {
	seats := c.watches.Fired(path)
	// The owner of a lock of one node is notified for its own node alone. After a reading,
	// it may have made that since.
	if t := c.owners.of(path); t != nil && t.single.known {
		seats = slices.DeleteFunc(seats, func(other *Seat) bool { return other == t })
		if event {
			s.lostSingle(c, t)
		} else {
			s.take(&verification{epoch: c.epoch, seat: t})
		}
	}
	for _, seat := range seats {
		seat.passed = true
		s.tell(seat, recipes.Gone{Epoch: c.epoch, Node: seat.name(path)}, nil)
	}
}

// rearmAll is for a server that did not restore the watches.
func (s *Session) rearmAll(c *client) {
	for _, path := range c.watches.Reset() {
		c.rewatch(path)
	}
	for _, key := range c.looks.Reset() {
		s.tellChanged(c, key, false)
	}
}

// rearm arms a watch again for the seats that follow the node by then, because the
// data have changed. If none does, nothing is asked.
type rearm struct {
	slot

	epoch recipes.Epoch
	node  string
}

func (r *rearm) admit(s *Session) { s.pending.add(r) }

func (r *rearm) meantFor() recipes.Epoch { return r.epoch }

func (r *rearm) urgency() urgency { return handing }

func (r *rearm) refuse() {} // the watches of an epoch end with it

func (r *rearm) do(c *client) (func(*Session), error) {
	if !c.watches.Wanted(r.node) {
		return func(*Session) {}, nil
	}
	_, err := c.follow(ofNode, r.node, nil)
	outcome, err := zkerr.Classify(err)
	return func(s *Session) {
		switch {
		case outcome == zkerr.Done: // it is armed
		case errors.Is(err, zk.ErrNoNode):
			s.tellGone(c, r.node, false)
		case !outcome.Settled():
			s.again(c, r)
		default: // the seats look again, and hear from the server itself why it cannot be watched
			for _, seat := range c.watches.Fired(r.node) {
				s.tell(seat, recipes.Unknown{Epoch: c.epoch, Op: recipes.OpWatch}, nil)
			}
		}
	}, nil
}

// watcher is for a goroutine that reads a node again whenever something may have happened
// to it. That is when its watch has fired, and when there is another connection: events
// between the two connections may be lost. In each round the goroutine has a [call] made,
// which begins with begin and watches one path, and then waits.
//
// A signal that comes while the call is in progress stays for the next round.
type watcher struct {
	session *Session
	changed chan struct{} // size 1
	renewed <-chan struct{}

	mu     sync.Mutex
	client *client // with key: what it subscribes to; nil: nothing
	key    string
	gone   bool // the path's node was deleted
	left   bool
}

func newWatcher(s *Session) *watcher { return &watcher{session: s, changed: make(chan struct{}, 1)} }

// begin comes before the first request of a round, which sees what has happened so far.
// It reports whether the node that was watched is known to be deleted.
func (w *watcher) begin() (gone bool) {
	w.renewed = w.session.nextConnection()
	select {
	case <-w.changed:
	default:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone
}

// subscribe subscribes the watcher to the path, and to no other. A call that continues
// after its caller has gone subscribes nothing.
func (w *watcher) subscribe(c *client, of aspect, path string) (arm bool, t watch.Ticket) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := of.key(path)
	if w.client != nil && (w.client != c || w.key != key) {
		w.client.looks.Drop(w.key, w)
	}
	w.gone = false
	if w.left {
		return c.looks.Ask(key, nil)
	}
	w.client, w.key = c, key
	return c.looks.Ask(key, w)
}

// answered keeps the subscription: the call fails, and another round follows.
func (*watcher) answered(c *client, of aspect, path string, t watch.Ticket, armed bool) {
	c.looks.Answered(of.key(path), t, armed)
}

// awaits watches for a node that was not there. It reports whether it is still missing.
func (w *watcher) awaits(c *client, path string) (missing bool, err error) {
	_, err = c.readW(ofAbsence, path, w)
	if errors.Is(err, zk.ErrNoNode) {
		return true, nil
	}
	return false, err
}

// leave ends the subscription, for good.
func (w *watcher) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = true
	if w.client != nil {
		w.client.looks.Drop(w.key, w)
	}
}

func (w *watcher) lookAgain(_ *client, gone bool) {
	w.mu.Lock()
	w.gone = w.gone || gone
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// wait returns true when it is time for another round, at the given time at the latest,
// and false when ctx has ended. A nil channel is no time.
func (w *watcher) wait(ctx context.Context, last <-chan time.Time) bool {
	select {
	case <-w.changed:
	case <-w.renewed:
	case <-last:
	case <-ctx.Done():
		return false
	}
	return true
}

// arm watches the own node and the directory, and looks for other contenders there.
func (c *client) arm(t *Seat, e recipes.Arm) (recipes.Input, error) {
	var own sync.WaitGroup
	var missing error
	own.Go(func() { _, missing = c.follow(ofNode, t.at(e.Node), t) })
	dir, err := c.readW(ofChildren, t.dir, lookout{t})
	own.Wait()
	if errors.Is(err, zk.ErrNoNode) {
		err = nil // so is the own node
	}
	if err = cmp.Or(missing, err); err != nil {
		return unanswered(e.Epoch, recipes.OpArm, err)
	}
	others := slices.ContainsFunc(dir.children, func(child string) bool {
		_, contends := events.ParseName(child)
		return contends && child != e.Node.Text
	})
	return recipes.Armed{Epoch: e.Epoch, Others: others}, nil
}
