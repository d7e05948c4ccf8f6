package session

import (
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

var _ actors.Port = (*Seat)(nil)

// Place says where and as what an acquisition queues up.
type Place struct {
	Dir    string      // the lock's directory, without the chroot
	Kind   events.Kind // of the node's name; 0 is KindLock, and with KindUnfair Dir is not a directory but the node itself
	Data   []byte      // stored in the node
	ACL    []zk.ACL    // nil: that of the session's config
	Try    bool        // nobody will wait; of a lock of one node the look that tells who has it leaves no watch then
	In     *Seat       // a writer, whose place in the queue the node is to take; nil: a place of its own
	Detect bool        // the lock tells of crashes
	With   []*Seat     // one of those that hold shares its node, if any does when the node would be created

	Marks events.Marks // that its nodes bear

	Size    int32 // of a semaphore, should nobody have said yet how many permits there are; 0: it is none
	Permits int32 // how many of them are to be taken

	Members []Place // of a multi-lock; of each Dir, Kind and ACL count. Dir and Kind are those of the first
}

// Seat is one acquisition's way to ZooKeeper. It satisfies [actors.Port]; its
// methods may be called from any goroutine and do not block.
type Seat struct {
	session *Session
	dir     string // with the chroot
	*content
	post actors.Post

	// Only the session's drain touches these.
	tenure recipes.Tenure[*asked]
	unsent *asked // its latest request that waits to be sent, a delete excepted
	place  int32  // among the session's seats
	turn   bool   // its latest list request was made because its turn may have come
	passed bool   // a node that it had watched is gone, and it has not listed since

	lapsed atomic.Bool // the lock is lost; see Session.holds

	mu      sync.Mutex
	attempt recipes.Attempt // the latest, and
	guid    guid            // what its node bears
	epoch   recipes.Epoch   // of own
	left    bool            // closed: interested in nothing any more
	own     string          // the own node, once a listing or its creation has named it
	born    int64           // the zxid that created it, or 0
	pred    string          // what is to be watched beside it
	ahead   int64           // the zxid that created pred, or 0
}

// content is what a seat's nodes are created with. Nobody writes to it, but for what
// is said below, so that the many seats that ask for nothing of their own share one.
type content struct {
	kind  events.Kind
	marks events.Marks
	data  []byte
	acl   []zk.ACL
	in    *Seat   // see Place
	lent  int64   // the zxid that created that one's node; 0: there is none
	with  []*Seat // see Place; the session's drain forgets them when it has looked

	detect    bool                             // see Place
	abandoned atomic.Pointer[events.Abandoned] // what those who hold were told that somebody has left behind

	layout  layout
	single  *single  // the layout, if it is that of one node
	permits *permits // the layout, if it is a semaphore's
}

// Seat returns a seat for the place. Nothing happens before its Open.
func (s *Session) Seat(p Place) *Seat {
	if p.Kind == 0 {
		p.Kind = events.KindLock
	}
	t := &Seat{session: s, dir: join(s.chroot, p.Dir), content: s.plain[p.Kind]}
	if t.content == nil || p.Data != nil || p.ACL != nil || p.In != nil || p.With != nil || p.Size > 0 || p.Marks != 0 || p.Detect || p.Members != nil {
		t.content = &content{
			kind: p.Kind, marks: p.Marks, data: dataOf(p.Kind, p.Data), acl: p.ACL,
			in: p.In, lent: p.In.fence(), with: p.With, detect: p.Detect, layout: queued{},
		}
		if p.ACL == nil {
			t.acl = s.cfg.ACL
		}
	}
	switch {
	case p.Kind == events.KindUnfair:
		t.single = newSingle(t.dir, p.Try)
		t.layout, t.dir = t.single, path.Dir(t.dir)
	case p.Size > 0:
		t.permits = newPermits(t.dir, p.Size, p.Permits)
		t.layout, t.dir = t.permits, path.Join(t.dir, queueDir)
	case p.In != nil:
		t.layout = placed{}
	case p.Members != nil:
		t.layout = s.newMulti(p.Members)
	}
	return t
}

// Open starts the news of the session.
func (t *Seat) Open(post actors.Post) {
	t.post = post
	t.session.actor.Hand(entered{t})
}

// Close ends them, and the interest in any node.
func (t *Seat) Close() { t.session.actor.Post(left{t}) }

// Do makes a request of the machine's.
func (t *Seat) Do(request recipes.Effect) {
	switch e := request.(type) {
	case recipes.Create:
		t.Create(e)
	case recipes.Cancel:
		t.Cancel(e)
	case recipes.List:
		t.List(e)
	case recipes.Watch:
		t.Watch(e)
	case recipes.Advance:
		t.Advance(e)
	case recipes.Claim:
		t.Claim(e)
	case recipes.Survey:
		t.Survey(e)
	case recipes.Enter:
		t.Enter(e)
	case recipes.Delete:
		t.Delete(e)
	case recipes.Pause:
		t.Pause(e)
	case recipes.Discard:
		t.Discard(e)
	}
}

// Create makes the node of a new attempt. If it follows a Delete at once, the two
// are one request: that is posted, and no other goroutine has got to it yet.
func (t *Seat) Create(e recipes.Create) {
	id := t.newGUID(e.Attempt)
	t.session.actor.Hand(&asked{seat: t, epoch: e.Epoch, op: recipes.OpCreate, guid: id,
		run: func(c *client) (recipes.Input, error) { return t.layout.create(c, t, e.Epoch, id) }})
}

// Cancel takes a Create back that has not been sent.
func (t *Seat) Cancel(e recipes.Cancel) { t.session.actor.Hand(canceling{t, e.Epoch}) }

// List reads the directory.
func (t *Seat) List(e recipes.List) {
	t.mu.Lock()
	id := ""
	if t.attempt == e.Attempt && e.Attempt != 0 {
		id = t.guid.String()
	}
	t.mu.Unlock()
	t.session.actor.Post(t.listing(e, id))
}

// Watch asks to be told when a node of the directory is gone. It takes the place
// of the one asked for before.
func (t *Seat) Watch(e recipes.Watch) {
	// Noted here and not when the request is carried out: of two, the later counts.
	before := t.follow(t.at(e.Node))
	t.request(e.Epoch, recipes.OpWatch, func(c *client) (recipes.Input, error) {
		t.drop(c, before)
		return t.layout.watch(c, t, e)
	})
}

// Advance asks whether the seat's turn has come, now that the node it waited for is
// gone, and asks to be told when the next one is.
func (t *Seat) Advance(e recipes.Advance) {
	t.mu.Lock()
	var past int64
	if t.pred == path.Join(t.dir, e.Past) {
		past = t.ahead
	}
	t.mu.Unlock()
	before := t.follow(path.Join(t.dir, e.Next))
	t.requestFor(e.Node, e.Epoch, recipes.OpAdvance, func(c *client) (recipes.Input, error) {
		t.drop(c, before)
		return c.advance(t, e, past)
	})
}

// Claim proves that the own node exists and the session lives.
func (t *Seat) Claim(e recipes.Claim) {
	t.session.actor.Post(&asked{
		seat: t, epoch: e.Epoch, op: recipes.OpClaim, node: t.ownPath(e.Node), plain: e.Record == recipes.RecordNothing,
		run: func(c *client) (recipes.Input, error) { return t.layout.claim(c, t, e) },
	})
}

// Delete removes the own node. If it leaves no floor, and removes nothing else, a Create may join it, which takes
// a moment to come; see there.
func (t *Seat) Delete(e recipes.Delete) {
	r := &asked{seat: t, epoch: e.Epoch, op: recipes.OpDelete, node: t.at(e.Node), floor: e.Floor, clean: e.Clean}
	r.run = func(c *client) (recipes.Input, error) {
		e.Floor, e.Clean = r.floor, r.clean
		nodes := t.nodes(r.node)
		in, err := t.layout.remove(c, t, e)
		if _, gone := in.(recipes.Deleted); gone {
			c.renewBehind(t, nodes)
		}
		return in, err
	}
	if e.Floor || e.Clean {
		t.session.actor.Hand(r)
		return
	}
	t.session.actor.Post(r)
}

// Lapse says that the seat holds no more, though it has not given its node up, and will not hold again: what it has asked for
// before, to see whether it holds still, will not make it a holder when it is answered.
func (t *Seat) Lapse() {
	t.lapsed.Store(true)
	t.session.actor.Post(lapsing{t})
}

// Discard removes a node in whatever session comes next, and tries until it is
// known to be gone or a server refuses. Where another node may bear its name by then, nothing is
// removed: it went with its session.
func (t *Seat) Discard(e recipes.Discard) {
	if !t.layout.removable() {
		return
	}
	for _, node := range t.nodes(t.at(e.Node)) {
		t.session.actor.Post(&removal{node: node})
	}
}

// Deadline returns until when the epoch's session can be believed alive, in the
// terms of time.Now. It is the answer of the moment: should the machine be
// suspended, time.Now stands still and a later answer is earlier.
func (t *Seat) Deadline(epoch recipes.Epoch) time.Time { return t.session.deadline(epoch) }

func (t *Seat) request(epoch recipes.Epoch, op recipes.Op, run func(*client) (recipes.Input, error)) {
	t.session.actor.Post(&asked{seat: t, epoch: epoch, op: op, run: run})
}

// requestFor is request for what may end in a grant of the own node.
func (t *Seat) requestFor(own string, epoch recipes.Epoch, op recipes.Op, run func(*client) (recipes.Input, error)) {
	t.session.actor.Post(&asked{seat: t, epoch: epoch, op: op, node: t.ownPath(own), run: run})
}

// ownPath returns the path of the own node. It is the string that is kept already, if
// there is one: for a holder it is kept in several places and for long.
func (t *Seat) ownPath(own string) string {
	node := t.at(own)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.own == node {
		return t.own
	}
	return node
}

func (t *Seat) newGUID(attempt recipes.Attempt) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	permits := int32(0)
	if t.permits != nil {
		permits = t.permits.wanted
	}
	t.attempt, t.guid = attempt, newGUID(t.marks, permits)
	t.layout.anew()
	return t.guid.String()
}

// follow notes which node is to be watched beside the own one, and returns the
// one before it.
func (t *Seat) follow(pred string) (before string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left {
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

// token returns the zxid that created the own node, or 0.
func (t *Seat) token(own string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.own != own {
		return 0
	}
	return t.born
}

// want registers the seat's interest in the own node, unless it has another one or
// none by now. It reports whether it is the first: then the watch is still to be armed.
func (t *Seat) want(c *client, own string) (first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return own != "" && t.follows(own) && c.watches.Add(own, t)
}

// nameOwn notes which node is the own one and which zxid created it, 0 if that is
// not known, and returns the one before it. A request of a past epoch, which may be
// answered late, has nothing to say.
func (t *Seat) nameOwn(epoch recipes.Epoch, own string, born int64) (before string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left || epoch < t.epoch {
		return ""
	}
	before, t.epoch, t.own, t.born = t.own, epoch, own, born
	return before
}

// note registers the seat's interest in the node, and reports whether the caller
// has to arm the watch. Requests run in goroutines of their own and may overtake
// each other: what the seat is not interested in any more is not registered.
func (t *Seat) note(c *client, node string) (arm bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	arm = c.watches.Arm(node, t)
	t.forget(c, node)
	return arm
}

// drop ends the interest in a node, unless the seat is interested in it again.
func (t *Seat) drop(c *client, node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(c, node)
}

// forget is called with mu held.
func (t *Seat) forget(c *client, node string) {
	if !t.follows(node) {
		c.watches.Drop(node, t)
	}
}

// leave ends the interest in any node of the client's.
func (t *Seat) leave(c *client) {
	t.mu.Lock()
	defer t.mu.Unlock()
	nodes := append(t.ownNodes(), t.pred)
	t.own, t.born, t.pred, t.ahead, t.left = "", 0, "", 0, true
	t.layout.leave(c, t)
	for _, node := range nodes {
		t.forget(c, node)
	}
}
