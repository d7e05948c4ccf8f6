package recipes

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/zkgrant/zkgrant/events"
)

// The world of multi-locks: two directories, p and q, beside which that of the other explorer has one. An ensemble
// whose leader has the truth, a replica per client that lags behind, connections that break, sessions that end.
//
// A step of the leader makes or removes nodes of both directories at once. What a create makes is a group: a node in each of the
// directories that its client wants, of which the number is that of the group. The nodes of all groups are a mask, with
// two bits for each.
const (
	multiClients = 3
	multiGroups  = 8
	multiLag     = 2
	dirsP        = 0x5555 // the nodes in the first directory
	dirsQ        = dirsP << 1
)

type multiWorld struct {
	clients [multiClients]multiClient
	groups  [multiGroups]multiGroup
	past    [multiLag + 1]uint16 // the nodes at the leader, one transaction before, and so on
	next    uint8
	token   [2]uint8 // 1 + the newest exclusive grant's group, of each directory
	_       uint8
	byHand  uint16 // nodes that somebody took away
	left    budget
}

type multiGroup struct {
	owner, epoch, attempt uint8 // owner: client + 1, or outside
	as                    uint8 // 1 + the group whose GUID it bears; 0: it has one of its own
}

const multiOutside = 9

type multiClient struct {
	machine  uint32
	requests [4]multiRequest
	conn     conn
	epoch    uint8
	closed   uint8 // 1 + transactions since the leader has ended the session
	lag      uint8
	seen     uint8
	lease    bool
	told     uint8
	_        uint8
	armed    uint16
	fired    uint16
	known    uint16 // the nodes that the shell knows to be the attempt's, or to have been
	discard  uint16
}

type multiRequest struct {
	op     uint8
	status status
	epoch  uint8
	arg    uint8 // an attempt
	node   uint8 // of Watch: whom; of Advance: the next one
	parts  uint8 // of List: the directories that were read
	own    uint8 // 1 + the group that was made or found
	age    uint8
	flags  uint8
	_      uint8
	view   uint16 // of List: what was read; of Claim, Delete: what it is about
}

// multiNode is the bit of a group's node in a directory.
func multiNode(group, dir uint8) uint16 { return 1 << (2*group + dir) }

// A multiRole is what a client of the world wants: places in directories, in an order.
type multiRole struct {
	dirs  []uint8
	kinds []events.Kind
	plain bool // a mutex's, read's or write's machine in the one directory, and not a multi-lock's
	flags uint8
}

func (r multiRole) rule() Rule {
	if r.plain {
		return Multi([]byte{byte(r.kinds[0])}).rule(0)
	}
	return MultiOf(r.kinds...)
}

// nodes returns the nodes of a group of the client's.
func (r multiRole) nodes(group uint8) (mask uint16) {
	for _, d := range r.dirs {
		mask |= multiNode(group, d)
	}
	return mask
}

func (r multiRole) kind(dir uint8) events.Kind {
	return r.kinds[slices.Index(r.dirs, dir)]
}

// A multiEnv carries steps out in worlds of multi-locks, and checks what must hold in each.
type multiEnv struct {
	options

	roles   []multiRole
	step    stepFunc
	bad     violation
	proof   uint8 // 1 + the group that an answer which is being fed proves
	log     func(c int, text string)
	numbers map[Machine]uint32
	known   []Machine
	names   map[[5]uint8]events.Name
}

func newMultiEnv(step stepFunc, cfg config) *multiEnv {
	return &multiEnv{options: cfg.options, roles: cfg.places, step: step, numbers: map[Machine]uint32{}, names: map[[5]uint8]events.Name{}}
}

func (e *multiEnv) intern(m Machine) uint32 {
	id, ok := e.numbers[m]
	if !ok {
		id = uint32(len(e.known))
		e.numbers[m], e.known = id, append(e.known, m)
	}
	return id
}

// open returns the world in which everybody has a session.
func (e *multiEnv) open(left budget) (w multiWorld) {
	w.left = left
	if e.writer {
		w.groups[0] = multiGroup{owner: multiOutside}
		w.groups[1] = multiGroup{owner: multiOutside, attempt: 1} // the read node in the write node's place
		w.next = 2
		w.past[0] = multiNode(0, 0)
	}
	for c := range w.clients {
		cl := &w.clients[c]
		cl.lease = true
		if c >= len(e.roles) {
			cl.machine, cl.told = e.over(), toldFinish
			continue
		}
		cl.machine = e.intern(NewMachine(e.roles[c].rule()))
		cl.epoch = 1
		e.feed(&w, c, Opened{Epoch: 1, Session: session(c, 1)})
	}
	for c := range e.roles {
		if e.eager {
			e.Take(&w, step{kind: stepStart, client: uint8(c)})
		}
	}
	return w
}

func session(c int, epoch uint8) int64 { return int64(c+1)<<8 | int64(epoch) }

// seq is a group's number in each of its directories. The read node that takes a writer's place has the writer's.
func (e *multiEnv) seq(group uint8) int64 {
	if e.writer && group == 1 {
		return 0
	}
	return int64(group)
}

// kindOf is what the name of a node says.
func (e *multiEnv) kindOf(w *multiWorld, group, dir uint8) events.Kind {
	switch o := w.groups[group].owner; {
	case o == multiOutside && group == 0:
		return events.KindWrite
	case o == multiOutside:
		return events.KindRead
	default:
		return e.roles[o-1].kind(dir)
	}
}

// name is what a client calls a node.
func (e *multiEnv) name(w *multiWorld, c int, group, dir uint8) events.Name {
	kind := e.kindOf(w, group, dir)
	key := [5]uint8{uint8(c), group, dir, uint8(kind), w.groups[group].as}
	if n, ok := e.names[key]; ok {
		return n
	}
	as := group
	if a := w.groups[group].as; a != 0 {
		as = a - 1
	}
	n := events.Name{Text: fmt.Sprintf("_c_g%d-%s%010d", as, kind.Marker(), e.seq(group)), Kind: kind, Seq: e.seq(group)}
	if !e.roles[c].plain {
		n.Text = MemberName(slices.Index(e.roles[c].dirs, dir), n.Text)
	}
	e.names[key] = n
	return n
}

// node finds a node by a client's name for it.
func (e *multiEnv) node(c int, name string) (group, dir uint8, ok bool) {
	member, node := 0, name
	if !e.roles[c].plain {
		if member, node, ok = ParseMember(name); !ok {
			return 0, 0, false
		}
	}
	n, ok := events.ParseName(node)
	group = uint8(n.Seq)
	if e.writer && n.Kind.Reads() && n.Seq == 0 {
		group = 1
	}
	return group, e.roles[c].dirs[member], ok
}

// blocking returns the nodes that keep a node from being the first in its queue, of those that exist at the leader.
func (e *multiEnv) blocking(w *multiWorld, group, dir uint8) (mask uint16) {
	mine := e.kindOf(w, group, dir)
	for g := range w.next {
		bit := multiNode(g, dir)
		older := e.seq(g) < e.seq(group)
		if w.past[0]&bit != 0 && older && g != group && (!mine.Reads() || !e.kindOf(w, g, dir).Reads()) {
			mask |= bit
		}
	}
	return mask
}

// leads tells whether a group's nodes all exist, and nobody stands before any.
func (e *multiEnv) leads(w *multiWorld, nodes uint16) bool {
	for m := nodes; m != 0; m &= m - 1 {
		id := uint8(bits.TrailingZeros16(m))
		if e.blocking(w, id/2, id%2) != 0 {
			return false
		}
	}
	return w.past[0]&nodes == nodes
}

// commit is one transaction at the leader.
func (w *multiWorld) commit(alive uint16) {
	for c := range w.clients {
		if w.clients[c].lag == multiLag {
			w.catchUp(c)
		}
	}
	copy(w.past[1:], w.past[:])
	w.past[0] = alive
	for c := range w.clients {
		cl := &w.clients[c]
		if cl.conn == connUp {
			cl.lag++
		}
		cl.seen = min(cl.seen+1, multiLag)
		if cl.closed != 0 {
			cl.closed = min(cl.closed+1, 1+multiLag)
		}
		for i := range cl.requests {
			if r := &cl.requests[i]; r.status == executed || r.parts != 0 {
				r.age = min(r.age+1, multiLag)
			}
		}
	}
}

// catchUp applies one more transaction at a client's replica; its watches fire.
func (w *multiWorld) catchUp(c int) {
	cl := &w.clients[c]
	cl.lag--
	gone := w.past[cl.lag+1] &^ w.past[cl.lag] & cl.armed
	cl.armed &^= gone
	cl.fired |= gone
}

func (w *multiWorld) raise(c int) {
	for w.clients[c].lag > 0 {
		w.catchUp(c)
	}
}

// find returns the index of the oldest request of a status, or -1.
func (cl *multiClient) find(s status) int {
	return slices.IndexFunc(cl.requests[:], func(r multiRequest) bool { return r.op != 0 && r.status == s })
}

func (cl *multiClient) drop(i int) {
	copy(cl.requests[i:], cl.requests[i+1:])
	cl.requests[len(cl.requests)-1] = multiRequest{}
}

func (cl *multiClient) holds() bool {
	return cl.told&toldGrant != 0 && cl.told&(toldLost|toldWithdrawn|toldFinish) == 0
}

// arm watches nodes, as far as a view has them.
func (cl *multiClient) arm(nodes, view uint16) {
	cl.armed |= nodes & view
	cl.fired |= nodes &^ view &^ cl.armed
}
