package session

import (
	"math/rand/v2"
	"path"
	"slices"
	"strings"
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

// Seat connects one acquisition to ZooKeeper. It implements [actors.Port]: only the
// session's loop calls Open, Close and Do; any goroutine may call Deadline, Proven and
// Interval. The other methods lock mu to use the fields below it; the loop, the
// goroutines of requests and callers call them. Only Transact and Read block.
type Seat struct {
	session *Session
	dir     string // with the chroot
	*content
	post actors.Post // set by Open; only the loop calls it

	// Only the loop touches these.
	unsent  *seatRequest // the latest request that has not been sent, unless it is a delete
	place   int32        // index in the session's seats
	turn    bool         // the latest list request was made because its turn may have come
	listed  bool         // it was listed with its node on the current connection
	counts  bool         // its nodes are counted in the budget; see [seeker]
	leaving bool         // and will be deleted soon, because others need the room
	passed  bool         // a node that it watched is gone, and it has not listed since

	// A reader may have taken the node's place in the queue. Then the seat leaves no
	// floor, because that would say that no older contender is left:
	//
	//  1. W holds. A reader R and then another writer V wait in the queue.
	//  2. W's read node is created.
	//  3. W leaves with a floor, and R enters beside the read node.
	//  4. R leaves.
	//  5. V knows that W is gone, and would conclude from the floor that no contender is
	//     ahead.
	traded bool // only the loop touches it

	brief bool // its path is short enough to appear several times in a transaction; never changes

	// The event that the node ahead is gone granted the lock. The client does not record
	// the zxid of an event, so until its next answer it may connect to a server whose
	// state is older than the Grant.
	news atomic.Bool

	// The epoch in which it was withdrawn while its create was in progress, or 0. After
	// that, nothing more is created for it.
	withdrawn atomic.Uint32

	closed  bool // it no longer follows any node; mu guards this and all fields below
	mu      sync.Mutex
	attempt recipes.Attempt // the latest one
	guid    guid            // the GUID of its nodes
	epoch   recipes.Epoch   // of own
	own     string          // the seat's node, once a listing or its creation has named it
	born    int64           // the zxid that created it, or 0
	pred    string          // the other node to watch
	ahead   int64           // the zxid that created pred, or 0
}

// content is what a seat's nodes are created with, and how they are arranged. Seats
// without settings of their own share one.
type content struct {
	kind  events.Kind
	marks events.Marks
	data  []byte
	acl   []zk.ACL
	in    *Seat // see Place
	lent  int64 // the zxid that created the node of in; 0: there is none

	delay time.Duration // see Place

	// These depend on the kind of lock. A seat that may have several nodes also has
	// several.
	layout  recipes.Layout
	single  *single   // of a lock that is a single node
	permits *permits  // of a semaphore
	members []member  // of a multi-lock; the seat's own directory is the first one's
	several *ownNodes // of a semaphore, and of a multi-lock
}

// single is what a seat needs for a lock that is a single node.
type single struct {
	node   string // its path, with the chroot
	glance bool   // it is a Try: nobody waits for the node to go

	plain         atomic.Bool // the node's data may not be written, not even by us
	deleteUnknown atomic.Bool // a delete was sent whose outcome is unknown
	uncertain     atomic.Bool // an outage or a change of its data may have hidden a replacement of the node

	holder atomic.Pointer[events.Contender] // the owner, as last read

	// Only the loop touches these.
	known   bool      // according to the latest answer, the node is the seat's
	writing int       // unanswered transactions that depend on the node
	deletes []request // the delete, which waits for these transactions
}

// permits is what a seat needs for a semaphore.
type permits struct {
	root    string // the semaphore's path
	dir     string // the directory of the permits in use
	size    string // the node
	opinion int32  // the size to write if none was written yet
	wanted  int32
}

// member is one place of a multi-lock.
type member struct {
	path string // as the caller wrote it
	dir  string // with the chroot
	kind events.Kind
	acl  []zk.ACL
}

// ownNodes are the known nodes of a seat that may have several: for a semaphore, one in
// the queue, and then the permits; for a multi-lock, those of its members, in order. The
// seat's mu guards the field; the slice itself is never modified.
type ownNodes struct{ nodes []string }

// Open subscribes to the session's inputs, which continue from the returned state.
func (t *Seat) Open(post actors.Post) (opened recipes.Opened) {
	s := t.session
	t.post, t.place = post, int32(len(s.seats))
	s.seats = append(s.seats, t)
	if !s.leftovers.Empty() {
		t.eachDir(s.leftovers.Entered) // it may create a node there
	}
	c := s.client
	if suspended := c.phase.Load() == phaseSuspended; suspended || c.phase.Load() == phaseUp {
		opened = recipes.Opened{Epoch: c.epoch, Session: c.link.Session(), Suspended: suspended}
	}
	return opened
}

// Close ends these inputs, and everything else that the session does for the seat.
func (t *Seat) Close() {
	s, c := t.session, t.session.client
	if t.unsent != nil {
		s.unsend(t)
	}
	s.unseat(t)
	if len(s.deadlines)+len(s.delays) > 0 { // few seats have a timer
		s.stopDeadline(t)
		s.stopDelay(t)
	}
	s.noteNodeGone(t)
	s.uncount(t, false)

	// From now on it follows no node. The client drops watches that no other seat needs.
	t.mu.Lock()
	for _, node := range [...]string{t.own, t.pred} {
		if node != "" {
			c.watches.Drop(node, t)
		}
	}
	if t.several != nil {
		for _, node := range t.several.nodes {
			c.watches.Drop(node, t)
		}
		t.several.nodes = nil
	}
	t.own, t.born, t.pred, t.ahead, t.closed = "", 0, "", 0, true
	if t.single != nil {
		c.owners.leave(t)
	}
	if t.permits != nil {
		c.looks.Drop(t.permits.dir, t)
	}
	c.looks.Drop(t.dir, t) // if it was watched
	t.mu.Unlock()

	if !s.leftovers.Empty() {
		now := time.Now()
		t.eachDir(func(dir string) { s.leftovers.Left(dir, now) })
		s.scheduleCleanup()
	}
}

// unseat removes the seat from s.seats, if it is there.
func (s *Session) unseat(seat *Seat) {
	last := len(s.seats) - 1
	if int(seat.place) > last || s.seats[seat.place] != seat {
		return
	}
	moved := s.seats[last]
	s.seats[seat.place], moved.place = moved, seat.place
	s.seats[last] = nil
	s.seats = s.seats[:last]
}

// Do makes a request of the seat's machine.
func (t *Seat) Do(request recipes.Effect) {
	s := t.session
	switch e := request.(type) {
	case recipes.Cancel:
		s.cancel(t, e.Epoch)
	case recipes.Pause:
		t.pause(e)
	case recipes.Discard:
		t.discard(e)
	case recipes.Revoke:
		s.startDeadline(t, e.By)
	case recipes.Warm:
		s.warm(t)
	case recipes.Rest:
		delete(s.holders, t)
	default:
		s.take(t.ask(e))
	}
}

// discard deletes a node, in a later session if need be, and retries until the node is
// known to be gone or a server refuses. It does nothing for an unfair lock, whose next
// node may have the same name by then; the discarded node ends with its session.
func (t *Seat) discard(e recipes.Discard) {
	if t.single != nil {
		return
	}
	for _, node := range t.nodes(t.at(e.Node)) {
		t.session.take(&removal{node: node})
	}
}

// Deadline returns the time until which the epoch's session counts as alive, by the clock
// of time.Now. The result is valid only for the moment: while the computer is suspended,
// that clock stands still, and the next result is earlier.
func (t *Seat) Deadline(epoch recipes.Epoch) time.Time {
	if c := t.session.inEpoch(epoch); c != nil {
		return c.deadline()
	}
	return time.Time{}
}

// pause posts Paused after the given time, after a random time, or once an idle node
// would have been given up. It needs no connection.
func (t *Seat) pause(e recipes.Pause) {
	s := t.session
	over := func() { t.answer(recipes.Paused{Epoch: e.Epoch}, nil) }
	if e.For > 0 { // a lock-delay
		s.stopDelay(t)
		// When it is over, the seat may have another one, whose timer must not be stopped.
		s.delays[t] = time.AfterFunc(e.For, over)
		return
	}
	wait := rand.N(pauseBound(e.Attempt))
	if e.Yield {
		wait = s.yieldTime()
	}
	time.AfterFunc(wait, over)
}

// pauseBound returns the maximum of a random pause. The first attempt does not increase
// it, because the first create comes too late for every waiter.
func pauseBound(attempt recipes.Attempt) time.Duration {
	bound := firstPause
	for ; attempt > 1 && bound < lastPause; attempt-- {
		bound *= 2
	}
	return bound
}

// The pauses of waiters for a single node are random, up to a bound. The bound doubles
// with each create that came too late, from firstPause to lastPause. Once it has grown,
// few of many waiters come back within a round trip of each other.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 320 * time.Millisecond
)

// cancel answers a create that was not sent yet. If it was sent, its own answer says what
// to delete.
func (s *Session) cancel(t *Seat, epoch recipes.Epoch) {
	if r := t.unsent; r == nil || r.op != recipes.OpCreate || r.epoch != epoch {
		t.withdrawn.Store(uint32(epoch))
		return
	}
	s.unsend(t)
	t.answer(recipes.Canceled{Epoch: epoch}, nil)
}

// unsend removes the seat's request that was not sent yet, so that nothing accumulates if
// a caller tries again and again while no server can be reached. A delete is not removed,
// because the node exists.
func (s *Session) unsend(t *Seat) {
	r := t.unsent
	t.unsent = nil
	if r.with == nil {
		s.wantsNothing(r)
		s.pending.remove(r)
		s.leaveRoom(r)
		return
	}
	// The delete is sent by itself, or another create joins it.
	r.with.with = nil
	if s.joinable[t.dir] == nil {
		s.joinable[t.dir] = r.with
	}
}

// listedDirs returns the directories that a list request reads, each once. Those of a
// multi-lock are listed together, but each at its own moment. That is safe: no contender
// is ever inserted ahead of a node in a queue, so one that is not listed ahead of the
// seat's node will not be there later.
func (t *Seat) listedDirs() []string {
	switch {
	case t.single != nil:
		return nil
	case t.members == nil:
		return []string{t.dir}
	}
	dirs := make([]string, len(t.members))
	for i, m := range t.members {
		dirs[i] = m.dir
	}
	return dirs
}

// eachDir calls do with each directory in which the seat may have nodes.
func (t *Seat) eachDir(do func(dir string)) {
	for _, m := range t.members {
		do(m.dir)
	}
	if t.permits != nil {
		do(t.permits.dir)
	}
	if t.members == nil {
		do(t.dir)
	}
}

// load returns the room that the nodes of an attempt take; see [seeker]. A node in a
// queue takes the bytes of its path and of the path's length, as in [budget.Node].
// Permits replace that node in one transaction, and take more room than it does.
func (t *Seat) load() (all budget.Load) {
	const length, slash, guid, digits = 4, 1, len(guidMark) + 37, 10
	const beside = length + slash + guid + digits
	switch {
	case t.single != nil:
		return budget.Node(len(t.single.node), 0)
	case t.permits != nil:
		const token = 17 // a zxid in hexadecimal digits, and a dash
		const name = slash + guid + token + len(permitMarker) + digits
		return budget.Node(len(t.permits.root), len(t.permits.dir)+name).Times(int64(t.permits.wanted))
	case t.members == nil:
		return budget.Load{Nodes: 1, Bytes: int64(len(t.dir) + beside + len(t.kind.Marker()))}
	}
	for _, m := range t.members {
		all.Nodes++
		all.Bytes += int64(len(m.dir) + beside + len(m.kind.Marker()))
	}
	return all
}

// needs returns how many nodes the contender must have, given the first of them.
func (t *Seat) needs(own string) int {
	switch {
	case t.members != nil:
		return len(t.members)
	case t.permits != nil && path.Dir(own) == t.permits.dir:
		return int(t.permits.wanted)
	default:
		return 1
	}
}

// at returns the path of the node that the machine knows by this name.
func (t *Seat) at(name events.Name) string {
	switch {
	case t.members != nil:
		return below(t.members[name.Member].dir, name.Text)
	case t.permits != nil && strings.HasPrefix(name.Text, permitDir+"/"):
		return path.Join(t.permits.root, name.Text)
	default:
		return below(t.dir, name.Text)
	}
}

// name is the inverse of at. For each of the seat's own permits or nodes of a multi-lock,
// it returns the name of the first one, by which the machine knows them all.
func (t *Seat) name(node string) events.Name {
	if t.several != nil {
		t.mu.Lock()
		if own := t.several.nodes; slices.Contains(own, node) {
			node = own[0]
		}
		t.mu.Unlock()
	}
	name := events.Name{Text: path.Base(node)}
	if t.permits != nil && path.Dir(node) == t.permits.dir {
		name.Text = recipes.PermitName(node)
	}
	for i, m := range t.members {
		if m.dir == path.Dir(node) {
			name.Member = int32(i)
		}
	}
	return name
}

// blame adds to an error the member of a multi-lock whose node or directory it concerns.
func (t *Seat) blame(node string, err error) error {
	for i, m := range t.members {
		if m.dir == node || m.dir == path.Dir(node) {
			return t.refusedAt(i, err)
		}
	}
	return err
}

// path returns the lock's path as callers write it, for log lines.
func (t *Seat) path() string {
	at := t.dir
	if t.permits != nil {
		at = t.permits.root
	}
	return strings.TrimPrefix(at, t.session.chroot)
}

// prefixes returns the paths of an attempt's nodes, up to the number.
func (t *Seat) prefixes(id guid) []string {
	if t.members == nil {
		var room [256]byte
		b := append(room[:0], t.dir...)
		if t.dir != "/" {
			b = append(b, '/')
		}
		return []string{string(append(appendHead(b, t.kind, id), t.kind.Marker()...))}
	}
	all := make([]string, len(t.members))
	for i, m := range t.members {
		all[i] = path.Join(m.dir, head(m.kind, id)+m.kind.Marker())
	}
	return all
}

// ownPath returns the path of the seat's node. If it can, it returns the string that the
// seat has already, because a holder keeps it in several places, and for a long time.
func (t *Seat) ownPath(own events.Name) string {
	t.mu.Lock()
	kept := t.own
	t.mu.Unlock()
	switch {
	case !strings.HasSuffix(kept, own.Text): // no other node of the seat has this suffix
		return t.at(own)
	case t.members != nil && path.Dir(kept) != t.members[own.Member].dir:
		return t.at(own)
	default:
		return kept
	}
}

// ownNode returns the path of the seat's node, or "".
func (t *Seat) ownNode() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.own
}

// nodes returns the node, or all of the seat's nodes if it is one of several.
func (t *Seat) nodes(node string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.several != nil && slices.Contains(t.several.nodes, node) {
		return slices.Clone(t.several.nodes)
	}
	return []string{node}
}

// claimed returns the nodes that a claim checks: own, or all of the seat's nodes if it is
// one of several. If some are not known, it returns the answer for the machine.
func (t *Seat) claimed(epoch recipes.Epoch, own string) (nodes []string, incomplete recipes.Input) {
	nodes = t.nodes(own)
	return nodes, recipes.Claim{Epoch: epoch}.Incomplete(len(nodes), t.needs(own))
}

// attempted returns the latest attempt, and the GUID of its nodes.
func (t *Seat) attempted() (recipes.Attempt, guid) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.attempt, t.guid
}

// nameOwn notes the seat's node, or all known ones of several, and the zxid that created
// it, or 0 if that is not known. It ignores requests of past epochs, which may be
// answered late.
func (t *Seat) nameOwn(c *client, epoch recipes.Epoch, nodes []string, born int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || epoch < t.epoch || len(nodes) == 0 {
		return
	}
	if t.several != nil {
		// For a multi-lock, known nodes are kept even if they may be gone: when its
		// machine gives up the node that it knows by name, the seat must give up all of
		// them, and deleting a missing node does no harm. For permits, only those found
		// now count, because a claim needs all of them.
		isNew := func(node string) bool { return !slices.Contains(t.several.nodes, node) }
		if t.permits != nil || slices.ContainsFunc(nodes, isNew) {
			t.several.nodes = nodes
		}
		nodes = t.several.nodes
	}
	before := t.own
	t.epoch, t.own, t.born = epoch, nodes[0], born
	if before != "" && before != t.own {
		t.forget(c, before)
	}
	if t.permits != nil && path.Dir(t.own) == t.permits.dir {
		c.looks.Drop(t.permits.dir, t) // it no longer waits for room
	}
}

// isWithdrawn reports whether the seat was withdrawn while its create was in progress.
func (t *Seat) isWithdrawn(epoch recipes.Epoch) bool { return t.withdrawn.Load() == uint32(epoch) }

// token returns the zxid that created the seat's node, or 0.
func (t *Seat) token(own string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.own != own {
		return 0
	}
	return t.born
}

// follow sets the other node to watch. It returns the previous one, and the zxid that
// created that one, or 0.
func (t *Seat) follow(pred string) (before string, czxid int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return "", 0
	}
	if before, czxid = t.pred, t.ahead; before != pred {
		t.pred, t.ahead = pred, 0
	}
	return before, czxid
}

// Ahead returns the path of the node that a waiter watches, or "". Any goroutine may call
// it.
func (t *Seat) Ahead() string {
	if t.single != nil {
		return strings.TrimPrefix(t.single.node, t.session.chroot)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimPrefix(t.pred, t.session.chroot)
}

// sawPred notes the zxid that created the watched node.
func (t *Seat) sawPred(pred string, czxid int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pred == pred {
		t.ahead = czxid
	}
}

// want subscribes the seat to its own node, unless it has another one or none by now. It
// reports whether the watch has yet to be armed.
func (t *Seat) want(c *client, own string) (unarmed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return own != "" && t.follows(own) && c.watches.Add(own, t)
}

// drop ends the subscription to a node, unless the seat follows it again by now.
func (t *Seat) drop(c *client, node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(c, node)
}

// forget ends the subscription to a node, unless the seat follows it. It is called with
// mu held.
func (t *Seat) forget(c *client, node string) {
	if !t.follows(node) {
		c.watches.Drop(node, t)
	}
}

// follows reports whether the seat follows the node. It is called with mu held.
func (t *Seat) follows(node string) bool {
	return node == t.own || node == t.pred || t.several != nil && slices.Contains(t.several.nodes, node)
}

// under appends a path to the chroot. Both are valid paths, or empty.
func under(chroot, p string) string {
	switch {
	case chroot == "":
		return p
	case p == "/":
		return chroot
	default:
		return chroot + p
	}
}

// below is path.Join for a valid path and a name, which may be empty. It saves an
// allocation.
func below(dir, name string) string {
	switch {
	case name == "":
		return dir
	case dir == "/":
		return dir + name
	default:
		return dir + "/" + name
	}
}

// dataIn returns the data of the seat's nodes in the client's session.
func (t *Seat) dataIn(c *client) []byte {
	if t.marks&events.MarkRevocable == 0 {
		return t.data
	}
	return withTimeout(t.data, c.link.Timeout())
}

// fence returns the zxid that created a holding writer's node, or 0. It is the token of a
// reader in the writer's place; see mayTakePlace. The zxid of the read node itself would
// be greater than those of waiting writers:
//
//  1. W5 holds, created by 5, and V6 waits.
//  2. The read node of W5 is created, by 7.
//  3. W5 leaves. The reader presents its token 7 to a store that refuses older ones, and
//     leaves.
//  4. V6 is granted, and the store refuses it, although no later writer was granted.
func (t *Seat) fence() int64 {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.born
}
