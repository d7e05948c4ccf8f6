package session

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/budget"
)

var _ actors.Port = (*Seat)(nil)

// Seat is one acquisition's way to ZooKeeper. It satisfies [actors.Port]. The session's loop calls its
// methods, and any goroutine calls Deadline. None of them blocks.
type Seat struct {
	session *Session
	dir     string // with the chroot
	*content
	post actors.Post

	// Only the loop touches these.
	unsent  *asked // its latest request that waits to be sent, unless that is a delete
	place   int32  // among the session's seats
	turn    bool   // its latest list request was made because its turn may have come
	listed  bool   // with its node, on the present connection
	counts  bool   // its nodes have room in the budget, see room.go
	leaving bool   // and are about to go, because others need the room
	passed  bool   // a node that it had watched is gone, and it has not listed since

	// A reader may have taken the node's place in the queue. Such a contender leaves no floor, because
	// a floor says that no older contender is left:
	//
	//  1. W holds. A reader R and another writer V wait behind it.
	//  2. W's read node is made.
	//  3. W leaves, and R enters beside the read node.
	//  4. R leaves.
	//  5. V knows that W is gone, and would take its floor to say that no contender is ahead.
	traded bool

	closed  bool // it follows no node any more; the mutex guards it and what is below
	mu      sync.Mutex
	attempt recipes.Attempt // the latest, and
	guid    guid            // the GUID of its nodes
	epoch   recipes.Epoch   // of own
	own     string          // the own node, once a listing or its creation has named it
	born    int64           // the zxid that created it, or 0
	pred    string          // the node to watch beside it
	ahead   int64           // the zxid that created pred, or 0
}

// content is what a seat's nodes are created with. Nothing writes to it, so the many seats that ask for nothing of their own share
// one.
type content struct {
	kind  events.Kind
	marks events.Marks
	data  []byte
	acl   []zk.ACL
	in    *Seat // see Place
	lent  int64 // the zxid that created the node of in; 0: there is none

	detect bool          // see Place
	delay  time.Duration // see Place

	layout  layout
	single  *single  // the layout, if it is that of one node
	permits *permits // the layout, if it is a semaphore's
}

// ownPath returns the path of the own node. If the string is kept already it returns that one: for a holder it is kept in several places
// and for long.
func (t *Seat) ownPath(own string) string {
	t.mu.Lock()
	kept := t.own
	t.mu.Unlock()
	if kept != "" && t.layout.nameOf(kept) == own {
		return kept
	}
	return t.at(own)
}

func (t *Seat) newGUID(attempt recipes.Attempt) guid {
	t.mu.Lock()
	defer t.mu.Unlock()
	permits := int32(0)
	if t.permits != nil {
		permits = t.permits.wanted
	}
	t.attempt, t.guid = attempt, newGUID(t.marks, permits)
	t.layout.anew()
	return t.guid
}

// follow notes which node is to be watched beside the own one, and returns the one before it.
func (t *Seat) follow(pred string) (before string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ""
	}
	if before = t.pred; before != pred {
		t.pred, t.ahead = pred, 0
	}
	return before
}

// sawPred notes which zxid created the node that is watched.
func (t *Seat) sawPred(pred string, czxid int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pred == pred {
		t.ahead = czxid
	}
}

// sawAhead returns the zxid that created the node, if it is the one that is watched, or 0.
func (t *Seat) sawAhead(node string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pred != node {
		return 0
	}
	return t.ahead
}

// attempted returns the latest attempt, and the GUID of its nodes.
func (t *Seat) attempted() (recipes.Attempt, guid) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.attempt, t.guid
}

// token returns the zxid that created the own node, or 0.
func (t *Seat) token(own string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.own != own {
		return 0
	}
	return t.born
}

// want subscribes the seat to the own node, unless it has another one or none by now. It reports
// whether the watch is still to be armed.
func (t *Seat) want(c *client, own string) (unarmed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return own != "" && t.follows(own) && c.watches.Add(own, t)
}

// nameOwn notes the own node, and the zxid that created it or 0 if that is not known. It returns the own node before. A request of a past
// epoch, which may be answered late, changes nothing.
func (t *Seat) nameOwn(epoch recipes.Epoch, own string, born int64) (before string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || epoch < t.epoch {
		return ""
	}
	before, t.epoch, t.own, t.born = t.own, epoch, own, born
	return before
}

// drop ends the subscription to a node, unless the seat follows it again.
func (t *Seat) drop(c *client, node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(c, node)
}

// forget ends the subscription to a node that the seat does not follow. It is called with mu held.
func (t *Seat) forget(c *client, node string) {
	if !t.follows(node) {
		c.watches.Drop(node, t)
	}
}

// leave ends the subscription to any node of the client.
func (t *Seat) leave(c *client) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own, pred, several := t.own, t.pred, t.layout.several()
	t.own, t.born, t.pred, t.ahead, t.closed = "", 0, "", 0, true
	t.layout.leave(c, t)
	c.looks.Drop(t.dir, t) // if it was watched
	t.forget(c, own)
	t.forget(c, pred)
	for _, node := range several {
		t.forget(c, node)
	}
}

// layout is how the nodes of one kind of lock stand at the server. The kinds differ in how a seat's requests are made, and in what the
// answers mean for the session. Each such difference is a method of layout. The rest of the package does not ask for the kind of a seat.
type layout interface {
	// These carry out what the machine asks for, in goroutines of their own, and return the answer. A list request gets what was found in
	// the directories of reads.
	create(c *client, t *Seat, epoch recipes.Epoch, id guid) (recipes.Input, error)
	list(c *client, t *Seat, e recipes.List, id guid, found []*names) (recipes.Input, error)
	watch(c *client, t *Seat, e recipes.Watch) (recipes.Input, error)
	claim(c *client, t *Seat, e recipes.Claim) (recipes.Input, error)
	remove(c *client, t *Seat, e recipes.Delete) (recipes.Input, error)

	// form is how the nodes stand.
	form() recipes.Layout
	// reads returns the directories that are listed before a list request is made, each once.
	reads(t *Seat) []string
	// needs returns how many nodes the contender must have of which the own one is the first.
	needs(own string) int

	// at returns the path of a node that the machine knows by the name; nameOf is its inverse.
	at(t *Seat, name string) string
	nameOf(node string) string
	// blame marks an error with the member of a multi-lock that its node or directory belongs to.
	blame(node string, err error) error
	// load returns the room that the nodes of an attempt take, see room.go.
	load(t *Seat) budget.Load
	// removable reports whether a node of a past epoch may be removed by its name.
	removable() bool

	// The seat's mu guards these. several returns the paths of the own nodes, for a lock that may have several; nothing writes to them.
	// anew begins another attempt, and leave ends all that the seat has at the client.
	several() []string
	anew()
	leave(c *client, t *Seat)

	// These are for the loop. firstHolds reports whether a contender that is proven to be the first has the lock by that.
	firstHolds() bool
	// told notes whether the own node is known to be there. lost says that it is gone, and cover has it watched.
	told(there bool)
	lost(c *client, t *Seat)
	cover(s *Session, c *client, t *Seat, node string)
}

// queued is a directory with a node for each contender; the numbers give the order. The other layouts embed it, and override some of its
// methods.
type queued struct{}

// single is what a seat has of a lock of one node.
type single struct {
	queued // except for the methods in single.go

	node   string // its path, with the chroot
	name   string // the last part of it
	glance bool   // it is only tried: no waiter waits for the node to go

	plain         atomic.Bool // the node's data may not be written, not even by us
	deleteUnknown atomic.Bool // a delete was sent, and its outcome is unknown
	uncertain     atomic.Bool // an outage or a change of its data may have hidden that there is another node now

	holder atomic.Pointer[events.Contender] // the owner at the last look

	// Only the loop touches these.
	known   bool      // an answer has said that the node is the seat's, and no later one that it is not
	writing int       // transactions that rest on the node, and are not answered
	leaving []request // what waits for these transactions: the delete
}

// permits is what a seat at a semaphore has in addition to one at a mutex.
type permits struct {
	queued // except for the methods in semaphore.go and permits.go

	root    string // the semaphore's path
	dir     string // the directory of the permits that are taken
	size    string // the node
	opinion int32  // the size to write if there is none
	wanted  int32
	held    []string // the paths of the own permits; guarded by the seat's mu, and never written to
}
