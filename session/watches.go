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

// This file is about watches: how a watch is armed, and who is notified of its event.
// Seats follow nodes ([client.watches]) and are notified once, when a node is gone; a
// change of data arms the watch again. Goroutines of services, and seats that watch a
// directory, are notified of any change ([client.looks]), and arm the watch again by
// reading again.

// aspect is what a read and its watch are about.
type aspect uint8

const (
	// ofNode reads whether a node exists. Its watch is on the data, which are read with
	// it.
	ofNode aspect = iota
	ofData
	ofChildren
	// ofAbsence watches for the creation of a node, if the read returns [zk.ErrNoNode].
	// If the node exists, the watch is one on its data, and does not count as armed.
	ofAbsence
)

// key returns the key of a read's subscription. Data and children have separate keys,
// because a watch on one does not report changes of the other.
func (a aspect) key(path string) string {
	if a == ofData {
		return path + "\x00data"
	}
	return path
}

// snapshot is the result of a read.
type snapshot struct {
	data     []byte // ofData, and ofNode if this read armed the watch
	children []string
	stat     *zk.Stat
	armed    bool // the watch was armed by this read
}

// reader is a seat or a goroutine that must be notified of changes.
type reader interface {
	// subscribe is called before the read; see [watch.Set.Ask].
	subscribe(c *client, of aspect, path string) (arm bool, t watch.Ticket)
	// answered is called with the outcome of a read that was to arm the watch.
	answered(c *client, of aspect, path string, t watch.Ticket, armed bool)
}

// readW reads a path, and watches it unless it is watched already.
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
		err = zk.ErrConnectionClosed // watches of a past session do not fire
	}
	return s, err
}

// follow reads and watches a node that the seat follows; t is nil if it is for seats that
// follow the node already. follow passes on a revocation request, and what the read shows
// about the owner of a lock's single node.
func (c *client) follow(of aspect, node string, t *Seat) (snapshot, error) {
	s, err := c.readW(of, node, t)
	if err != nil {
		return s, err
	}
	if s.armed {
		c.onNodeData(node, s.data, s.stat)
	} else if by, requested := c.requestIn(node); requested {
		c.passRevocation(node, s.stat.Czxid, by)
	}
	c.found(node, t, s.stat)
	return s, nil
}

// watch arms a watch. If the watch is armed already, it checks that the node still
// exists.
func (c *client) watch(t *Seat, e recipes.Watch) (recipes.Input, error) {
	node := t.at(e.Node)
	seen, err := c.follow(ofNode, node, t)
	if err == nil {
		t.sawPred(node, seen.stat.Czxid)
		return nil, nil
	}
	if errors.Is(err, zk.ErrNoNode) {
		return recipes.Gone{Epoch: e.Epoch, Node: e.Node}, nil // by the request's own name and epoch
	}
	in, err := unanswered(e.Epoch, recipes.OpWatch, t.blame(node, err))
	if refused, ok := in.(recipes.Refused); ok {
		refused.Node = e.Node
		in = refused
	}
	return in, err
}

// subscribe subscribes the seat to any change of a directory, unless it has left, or to
// the end of a node, unless it no longer follows that: requests run in separate
// goroutines and may overtake each other. A nil seat subscribes to nothing.
func (t *Seat) subscribe(c *client, of aspect, path string) (arm bool, ticket watch.Ticket) {
	if t == nil {
		return c.watches.Ask(path, nil)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case of != ofChildren:
		arm, ticket = c.watches.Ask(path, t)
		t.forget(c, path)
	case t.closed:
		arm, ticket = c.looks.Ask(path, nil)
	default:
		arm, ticket = c.looks.Ask(path, t)
	}
	return arm, ticket
}

// answered ends the subscription to a node if the watch could not be armed. The seat
// learns of that from the answer to its request. The subscription to a directory is kept,
// because every other reader arms the watch itself.
func (t *Seat) answered(c *client, of aspect, path string, ticket watch.Ticket, armed bool) {
	if of == ofChildren {
		c.looks.Answered(path, ticket, armed)
		return
	}
	c.watches.Answered(path, ticket, armed)
	if !armed && t != nil {
		c.watches.Drop(path, t)
	}
}

// lookAgain makes the machine look.
func (t *Seat) lookAgain(c *client, _ bool) { t.session.tell(t, recipes.Changed{Epoch: c.epoch}, nil) }

// subscriber is notified once of a change of what a client watches for it. It reads again
// to be notified again.
//
// After a reconnect, each subscriber reads again. It also arms its watch again, unless
// the watch is known to be restored at the server; see [watch.Set.Suspended].
type subscriber interface {
	// lookAgain reports a change, or a possible one. gone means that the path's node was
	// deleted. The session's loop calls it.
	lookAgain(c *client, gone bool)
}

var _, _ subscriber = (*watcher)(nil), (*Seat)(nil)

// tellChanged notifies the subscribers of the key. gone means that its node was deleted.
func (s *Session) tellChanged(c *client, key string, gone bool) {
	for _, who := range c.looks.Fired(key) {
		who.lookAgain(c, gone)
	}
}

// tellGone notifies the subscribers that the node is gone, as reported by an event or a
// read.
func (s *Session) tellGone(c *client, path string, event bool) {
	seats := c.watches.Fired(path)
	// The owner of a lock's single node must be notified only about its own node. After a
	// read, check first: it may have created that node since.
	if t := c.owners.of(path); t != nil && t.single.known {
		seats = slices.DeleteFunc(seats, func(other *Seat) bool { return other == t })
		if event {
			s.lostNode(c, t, path)
		} else {
			s.take(&verification{slot: slot{epoch: c.epoch}, seat: t})
		}
	}
	for _, seat := range seats {
		seat.passed = true
		s.tell(seat, recipes.Gone{Epoch: c.epoch, Node: seat.name(path)}, nil)
	}
}

// rearmAll arms all watches again, after a server did not restore them.
func (s *Session) rearmAll(c *client) {
	for _, path := range c.watches.Reset() {
		c.rewatch(path)
	}
	for _, key := range c.looks.Reset() {
		s.tellChanged(c, key, false)
	}
}

// rearm arms a watch again for the seats that follow the node, because its data have
// changed. If no seat follows it by then, no request is sent.
type rearm struct {
	slot

	node string
}

func (r *rearm) admit(s *Session) { s.pending.add(r) }

func (r *rearm) do(c *client) (func(*Session), error) {
	if len(c.watches.Subscribers(r.node)) == 0 {
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
		default: // the seats read again, and get the server's own error
			for _, seat := range c.watches.Fired(r.node) {
				s.tell(seat, recipes.Unknown{Epoch: c.epoch, Op: recipes.OpWatch}, nil)
			}
		}
	}, nil
}

// watcher is for a goroutine that reads a node again whenever it may have changed: when
// its watch has fired, and when there is a new connection, because events in between may
// be lost. In each round, the goroutine makes a [call], which starts with begin and
// watches one path, and then waits.
//
// A signal that comes during the call is kept for the next round.
type watcher struct {
	session *Session
	changed chan struct{} // size 1
	renewed <-chan struct{}

	mu     sync.Mutex
	client *client // with key: the subscription; nil: none
	key    string
	gone   bool // the path's node was deleted
	left   bool
}

func newWatcher(s *Session) *watcher { return &watcher{session: s, changed: make(chan struct{}, 1)} }

// begin is called before the first request of a round, which sees everything that has
// happened so far. It reports whether the watched node is known to be deleted.
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

// subscribe subscribes the watcher to this path only. A call that continues after its
// caller has left subscribes to nothing.
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

// answered keeps the subscription: if the watch was not armed, the call fails, and
// another round follows.
func (*watcher) answered(c *client, of aspect, path string, t watch.Ticket, armed bool) {
	c.looks.Answered(of.key(path), t, armed)
}

// awaits watches for the creation of a missing node. It reports whether the node is still
// missing.
func (w *watcher) awaits(c *client, path string) (missing bool, err error) {
	_, err = c.readW(ofAbsence, path, w)
	if errors.Is(err, zk.ErrNoNode) {
		return true, nil
	}
	return false, err
}

// leave ends the subscription for good.
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

// wait returns true when it is time for another round, or when last fires, and false when
// ctx ends. last may be nil.
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

// arm watches the seat's node and the directory, and checks the directory for other
// contenders.
func (c *client) arm(t *Seat, e recipes.Arm) (recipes.Input, error) {
	var own sync.WaitGroup
	var missing error
	own.Go(func() { _, missing = c.follow(ofNode, t.at(e.Node), t) })
	dir, err := c.readW(ofChildren, t.dir, t)
	own.Wait()
	if errors.Is(err, zk.ErrNoNode) {
		err = nil // then the seat's node is missing, too
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
