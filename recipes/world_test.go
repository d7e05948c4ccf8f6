package recipes

import (
	"bytes"
	"math/bits"
	"slices"

	"github.com/zkgrant/zkgrant/recipes/internal/searchtest"
)

// This file has the world that machines live in, for the explorer and for the
// transcripts: an ensemble whose leader has the truth, one replica per client that lags
// behind, a connection per client that can be cut, sessions that can end, and callers. It
// is a flat comparable value.
//
// It has no time. The end of a session's lease is a step of its own. The leader may end a
// session only after that step, as the lease promises.

const (
	maxClients  = 3
	maxNodes    = 8
	maxRequests = 5
	maxLag      = 2
)

type world struct {
	clients   [maxClients]client
	nodes     [maxNodes]node        // in the order of creation; zeroed once no replica has it
	forms     forms                 // what their names say; zeroed once no replica and no client has it
	past      [maxLag + 1]uint8     // the nodes that exist at the leader, those that existed one transaction before, and so on
	dirs      [maxLag + 1]directory // the directory at those moments
	sizes     [maxLag + 1]size      // how many permits a semaphore had
	next      uint8                 // the index of the next node
	births    uint8                 // how many directories were created
	virgin    bool                  // no node was ever created in the directory
	_         [1]uint8
	wrote     uint8             // 1 + transactions since a holder wrote data, at most maxLag ago; 0: every replica has the data
	byHand    uint8             // nodes that were deleted by hand
	requested uint8             // nodes with a revocation request
	token     [2]uint8          // 1 + the node, or the group, of the newest exclusive grant in each directory
	records   [maxLag + 1]uint8 // 1 + the node that the record names or named
	acted     uint8             // nodes under which a caller may have done something
	claimed   uint8             // nodes whose claim has created or found the record
	spare     uint8             // permits that must be given back, as the answer to their creation says
	truth     truth
	delay     delay
	left      budget
	lists     listings // of the clients of one session
}

// A node belongs to a client's session, or to an outside contender.
type node struct{ owner, epoch, attempt uint8 }

// Owners are client + 1, or one of these.
const (
	guest   = 0xe + iota // a contender of ours that is not a client
	foreign              // a contender of another library
)

// A budget says how many faults of each kind may still happen.
type budget struct {
	cut        uint8 // a connection breaks
	lapse      uint8 // a lease runs out
	expire     uint8 // the leader ends a session whose lease has run out
	kill       uint8 // an operator ends a session
	remove     uint8 // a node is deleted by hand
	withdraw   uint8 // a caller gives up before the grant
	foreign    uint8 // another library's contender joins
	refuse     uint8 // a server refuses a request
	guest      uint8 // a contender of ours joins, which is only a node here
	reap       uint8 // the directory is removed while it is empty
	change     uint8 // another program overwrites the directory's data
	resize     uint8 // a semaphore grows or shrinks by one
	revocation uint8 // a revocation request without a deadline is written to a node
	soon       uint8 // the same, with a soon deadline
	late       uint8 // the same, with a later deadline
	once       uint8 // a contender takes its permits without a place in the queue
	trade      uint8 // with two directories: a writer of another library becomes a reader
}

type client struct {
	machine     uint32
	requests    [maxRequests]request // in the order sent; op 0 ends the list
	flags       uint8                // flagTry, flagKeep, flagStrict
	conn        conn
	epoch       uint8
	closed      uint8 // 0: the leader has the session; else 1 + transactions since it ended, at most 1+maxLag
	lag         uint8 // how many transactions the replica is behind the leader
	seen        uint8 // how many transactions the newest answer seen is behind the leader
	lease       bool
	told        uint8 // what has been reported, as bits
	armed       uint8 // watches at the replica
	fired       uint8 // watches that have fired and were not delivered yet
	discard     uint8 // nodes left behind that are still to be removed
	knows       knowledge
	role        uint8
	left        LeaverBook[uint8] // of nodes, each 1 + its index
	look        uint8
	revocations revocations
	known       uint8 // for a multi-lock: the attempt's nodes that the shell knows, including former ones
	hold        uint8 // what the session knows about the client's hold
}

type conn uint8

const (
	connUp conn = iota
	connDown
	connNone // between two sessions
)

const (
	toldStart uint8 = 1 << iota
	toldWithdrawn
	toldGrant
	toldLost
	toldFinish
	toldOwed  // not yet reported: the client's node was deleted while it held without a connection
	toldClean // by the caller: it held the lock, and has released it
	toldPlace // by the session: it was listed with its node, on the current connection
)

const (
	holdProven uint8 = 1 << iota // the machine holds by a proof: its lease is watched
	holdTraded                   // a reader may have taken the node's place in the queue
)

// A request exists from the machine's effect until its answer is delivered.
type request struct { //nolint:recvcheck // one of its methods changes it in place
	op     Op // 0: no request
	status status
	epoch  uint8
	arg    uint8 // attempt or node
	mask   uint8 // List: the answer; Advance: the parts that are done
	own    uint8 // List: 1 + the node found, and its epoch << 4; Create: index + 1; Advance: the blocker, and the next one << 4; Claim: unsent and news, or 0
	age    uint8 // how many transactions the answer is behind the leader, at most maxLag
	flags  uint8
}

type status uint8

const (
	parked   status = iota + 1 // waits for a connection
	sent                       // in progress; without a connection, perhaps
	executed                   // the answer is on its way
	lost                       // the answer will never come: Unknown is due
)

const (
	reqBarrier uint8 = 1 << iota
	reqStale         // T passed since it was sent
	reqFirst         // Create, Claim, Advance: no older contender existed at the leader
	reqMissing       // Claim, Advance: the contender's node did not exist
	reqRefused
	reqFloor  // Advance: the floor names the blocker; Delete: a floor is to be written
	reqStands // Advance: the next node exists; Create: no other node exists
	reqNext   // List: the next listing serves it

	reqHeld     = reqBarrier // Claim: by a holder
	reqWhole    = reqBarrier // Advance: of a multi-lock, executed as one
	reqUnwanted = reqFloor   // Create: it is canceled if it was not sent
	reqMade     = reqNext    // Create: the session has just created the directory
)

// write reports whether the answer needs the leader.
func (r request) write() bool {
	op := r.op
	return op == OpCreate || op == OpClaim && r.own&unsent == 0 || op == OpEnter || op == OpDelete || op == OpAdvance || r.flags&reqBarrier != 0
}

// granted returns the node that the answer proves to be first.
func (r request) granted() uint8 {
	if op := r.op; op == OpCreate || op == OpEnter {
		return r.own - 1
	}
	return r.arg
}

// read reports whether the answer depends on the state of the replica.
func (r request) read() bool {
	op := r.op
	return op == OpWatch || op == OpAdvance || op == OpSurvey || op == OpList && r.flags&reqBarrier == 0
}

// begun reports whether some parts of a request have been executed.
func (r request) begun() bool {
	switch {
	case r.status != sent:
		return false
	case r.op == OpSurvey:
		return r.mask&(1<<partSize|1<<partInUse) != 0
	case r.op == OpList:
		return r.own != 0 // of several directories
	default:
		return r.op == OpAdvance && r.flags&reqWhole == 0 && r.mask != 0
	}
}

func (r *request) flag(is bool, flags uint8) {
	if is {
		r.flags |= flags
	}
}

// where returns the index of the oldest request for which is returns true, or -1.
func (cl *client) where(is func(r request) bool) int { return slices.IndexFunc(cl.requests[:], is) }

func (cl *client) push(r request) bool {
	i := cl.where(func(r request) bool { return r.op == 0 })
	if i >= 0 {
		cl.requests[i] = r
	}
	return i >= 0
}

func (cl *client) forget(is func(r request) bool) { _ = slices.DeleteFunc(cl.requests[:], is) }

func (cl *client) drop(i int) {
	copy(cl.requests[i:], cl.requests[i+1:])
	cl.requests[maxRequests-1] = request{}
}

// find returns the index of the oldest request with a status, or -1.
func (cl *client) find(s status) int { return cl.where(func(r request) bool { return r.status == s }) }

// stale reports whether T has passed since a request in progress was sent.
func (cl *client) stale() bool {
	return cl.where(func(r request) bool { return r.flags&reqStale != 0 }) >= 0
}

// holds reports whether the caller may believe that it holds the lock.
func (cl *client) holds() bool {
	return cl.told&toldGrant != 0 && cl.told&(toldLost|toldWithdrawn|toldFinish) == 0
}

// knowsEnd reports whether the replica has applied the end of the session.
func (cl *client) knowsEnd() bool { return cl.closed != 0 && cl.lag <= cl.closed-1 }

// mine returns the nodes of a client that exist at the leader: of one epoch, or
// of any for epoch 0.
func (w *world) mine(c int, epoch uint8) uint8 { return w.mineOf(c, epoch, w.past[0]) }

func (w *world) mineOf(c int, epoch, view uint8) uint8 {
	var mask uint8
	for i, n := range w.nodes {
		if n.owner == uint8(c)+1 && (epoch == 0 || n.epoch == epoch) {
			mask |= 1 << i
		}
	}
	return mask & view
}

func (w *world) outsiders() uint8 {
	var mask uint8
	for i, n := range w.nodes {
		if n.owner >= guest {
			mask |= 1 << i
		}
	}
	return mask & w.past[0]
}

func (w *world) without(nodes uint8) { w.commit(w.past[0]&^nodes, w.dirs[0]) }

func (w *world) commit(alive uint8, dir directory) {
	for c := range w.clients {
		if w.clients[c].lag == maxLag {
			w.catchUp(c)
		}
	}
	copy(w.past[1:], w.past[:])
	copy(w.dirs[1:], w.dirs[:])
	copy(w.sizes[1:], w.sizes[:])
	copy(w.records[1:], w.records[:])
	w.ended(w.past[0] &^ alive)
	w.past[0], w.dirs[0] = alive, dir
	if w.wrote != 0 {
		w.wrote = (w.wrote + 1) % (2 + maxLag)
	}
	for c := range w.clients {
		cl := &w.clients[c]
		if cl.conn == connUp {
			cl.lag++
		}
		cl.seen = min(cl.seen+1, maxLag)
		if cl.closed != 0 {
			cl.closed = min(cl.closed+1, 1+maxLag)
		}
		for i := range cl.requests {
			if r := &cl.requests[i]; r.status == executed || r.begun() {
				r.age = min(r.age+1, maxLag)
			}
		}
	}
}

// catchUp applies one more transaction at a client's replica; its watches fire.
func (w *world) catchUp(c int) {
	for m := w.mates(c); m != 0; m &= m - 1 {
		cl := &w.clients[bits.TrailingZeros8(m)]
		cl.lag--
		gone := w.past[cl.lag+1] &^ w.past[cl.lag] & cl.armed
		cl.armed &^= gone
		cl.fired |= gone
		w.look(cl)
	}
}

// create creates a node, and sets the directory's data unless they are 0. It panics if
// the world is too small for its budget.
func (w *world) create(n node, f form, data directory) uint8 {
	dir := w.dirs[0]
	if data != 0 {
		dir = dir.with(data)
	}
	return w.add(n, f, w.past[0], dir)
}

func (w *world) add(n node, f form, beside uint8, dir directory) uint8 {
	if w.next == maxNodes {
		panic("more nodes than this world has room for")
	}
	id := w.next
	w.next++
	w.virgin = false
	w.nodes[id], w.forms[id] = n, f
	w.commit(beside|1<<id, dir)
	return id
}

// A permutation says which client of the previous world each client was.
type permutation [maxClients]uint8

var identity = permutation{0, 1, 2}

// sort brings clients that differ only in their names into one order.
func (w *world) sort() permutation {
	p := identity
	for i := 1; i < maxClients; i++ {
		for j := i; j > 0 && w.clients[j].less(&w.clients[j-1]); j-- {
			w.clients[j], w.clients[j-1] = w.clients[j-1], w.clients[j]
			p[j], p[j-1] = p[j-1], p[j]
		}
	}
	if p == identity {
		return p
	}
	var inverse permutation
	for i, c := range p {
		inverse[c] = uint8(i)
	}
	for i := range w.nodes {
		if o := w.nodes[i].owner; o != 0 && o < guest {
			w.nodes[i].owner = inverse[o-1] + 1
		}
	}
	return p
}

func (cl *client) less(other *client) bool {
	if cl.machine != other.machine {
		return cl.machine < other.machine
	}
	return bytes.Compare(searchtest.Bytes(cl), searchtest.Bytes(other)) < 0
}
