package recipes

import "math/bits"

// This file has what the worlds of a semaphore have in addition to those of a mutex:
// permits, which are nodes outside the queue; the size, of which the leader and each
// replica have a version; and watches on both.
//
// All permits of an acquisition are one node with a weight, because one transaction
// creates them and the machine knows only the name of the first. If one of several is
// deleted by hand, it is the first one, and the rest becomes another node.

const (
	formPermit form = iota + 3 // the bits above inPlace are how many permits the node takes
	formRest                   // the same, after some permits were deleted
)

func permitOf(permits uint8) form { return formPermit | form(permits)<<inPlace }

func (f form) permit() bool { return f&formMask == formPermit || f&formMask == formRest }

func (f form) weight() uint8 {
	if !f.permit() {
		return 0
	}
	return uint8(f >> inPlace)
}

func (fs *forms) permits() (mask uint8) {
	if fs.plain() {
		return 0
	}
	for i, f := range fs {
		if f.permit() {
			mask |= 1 << i
		}
	}
	return mask
}

func (fs *forms) taken(nodes uint8) (taken uint8) {
	for m := nodes & fs.permits(); m != 0; m &= m - 1 {
		taken += fs[bits.TrailingZeros8(m)].weight()
	}
	return taken
}

// A size is the number of permits in a snapshot, and its version; 0 if it was never
// written.
type size uint8

func sizeOf(permits, version uint8) size { return size(permits | version<<4) }

func (s size) permits() uint8 { return uint8(s) & 0xf }
func (s size) version() uint8 { return uint8(s) >> 4 }

// A client's watches on the permits and on the size.
const (
	lookPermits uint8 = 1 << iota
	lookSize
	lookFired // Changed is due
)

func (w *world) resize(permits uint8) {
	s := sizeOf(permits, w.sizes[0].version()+1)
	if w.sizes[0] == 0 {
		s = sizeOf(permits, 0)
	}
	w.commit(w.past[0], w.dirs[0])
	w.sizes[0] = s
}

// look fires a client's watches for what the transaction has changed that its replica has
// just applied.
func (w *world) look(cl *client) {
	if cl.look&(lookPermits|lookSize) == 0 {
		return
	}
	if cl.look&lookPermits != 0 && (w.past[cl.lag]^w.past[cl.lag+1])&w.forms.permits() != 0 {
		cl.look = cl.look&^lookPermits | lookFired
	}
	if cl.look&lookSize != 0 && w.sizes[cl.lag] != w.sizes[cl.lag+1] {
		cl.look = cl.look&^lookSize | lookFired
	}
}

func (e *environment) semaphore(cl *client) Semaphore {
	s, _ := e.machines[cl.machine].rule.(Semaphore)
	return s
}

// sized makes sure that a client's replica knows a size. If the size was never written,
// it writes the client's opinion.
func (e *environment) sized(w *world, c int) {
	if w.sizes[w.clients[c].lag] != 0 {
		return
	}
	if w.sizes[0] == 0 {
		w.resize(uint8(e.semaphore(&w.clients[c]).Size))
	}
	w.raise(c)
}

// The parts of a Survey, which may be executed in any order.
const (
	partSize uint8 = iota + 1
	partInUse
	partOwn
)

// nobody represents no node in a request.
const nobody = 8

// executeSurvey executes one part, and reports whether it was the last.
func (e *environment) executeSurvey(w *world, c int, r *request, part uint8) (done bool) {
	cl := &w.clients[c]
	for part == 0 || r.mask&(1<<part) != 0 {
		part++ // the part that is not done yet
	}
	r.mask |= 1 << part
	defer func() { r.age = cl.lag }()
	watch := r.flags&reqStands != 0
	switch part {
	case partSize:
		e.sized(w, c)
		r.own = uint8(w.sizes[cl.lag])
		if watch {
			cl.look |= lookSize
		}
	case partInUse:
		r.arg |= w.forms.taken(w.past[cl.lag]) << 4
		if watch {
			cl.look |= lookPermits
		}
	case partOwn:
		if bit := uint8(1) << (r.arg & 7); w.past[cl.lag]&bit != 0 {
			cl.armed |= bit
		} else {
			r.flags |= reqMissing
		}
	}
	return r.mask == 1<<partSize|1<<partInUse|1<<partOwn
}

// survey returns the client's survey if it has that status, or -1.
func (cl *client) survey(s status) int {
	return cl.where(func(r request) bool { return r.op == OpSurvey && r.status == s })
}

// finishSurvey executes the rest of a client's survey, and delivers the answer.
func (e *environment) finishSurvey(w *world, c int) {
	cl := &w.clients[c]
	for i := cl.survey(sent); i >= 0; i = cl.survey(sent) {
		e.execute(w, c, i, 0, false)
	}
	if i := cl.survey(executed); i >= 0 {
		e.answer(w, c, i)
	}
}

// permitsBook is what every session knows about the directory of the permits, which
// exists from the beginning.
var permitsBook = DirectoryBook{czxid: 1}

// entersAtOnce executes the transaction that creates a client's permits without a place
// in the queue.
func (e *environment) entersAtOnce(w *world, c int, r *request, beside uint8, dir directory) {
	cl := &w.clients[c]
	rule := e.semaphore(cl)
	permits := uint8(rule.Permits)
	queued := beside&^w.forms.permits() != 0
	r.own = 1 + w.add(node{owner: uint8(c) + 1, epoch: cl.epoch, attempt: r.arg}, permitOf(permits), beside, dir)
	r.mask = uint8(rule.Size)
	w.left.once--
	if queued || w.forms.taken(w.past[0]) > w.sizes[0].permits() {
		w.spare |= 1 << (r.own - 1)
		return
	}
	if w.token[0] >= r.own {
		e.fails(tokenOrder)
	}
	w.token[0] = r.own
	r.flags |= reqFirst
}

// enters executes the transaction that trades a client's node for permits. beside are the
// other nodes that exist after it.
func (e *environment) enters(w *world, c int, r *request, beside uint8, dir directory) {
	cl, own, permits := &w.clients[c], r.arg&7, r.mask&0xf
	switch {
	case w.past[0]&w.forms.blocking(own) != 0:
		e.fails(overtook)
	case own+1 <= w.token[0]:
		e.fails(tokenOrder)
	case w.forms.taken(w.past[0]&^w.spare)+permits > w.sizes[0].permits():
		e.fails(overfull)
	}
	w.token[0] = max(w.token[0], own+1)
	n := node{owner: uint8(c) + 1, epoch: cl.epoch, attempt: w.nodes[own].attempt}
	r.own = 1 + w.add(n, permitOf(permits), beside, dir)
	r.flags |= reqFirst
	// The count includes permits that are about to be given back.
	r.flag(w.forms.taken(w.past[0]) > w.sizes[0].permits(), reqStands)
}

func (w *world) ownPermits(c int) uint8 { return w.mine(c, 0) & w.forms.permits() }

func (w *world) removePermit(id uint8) {
	f := w.forms[id]
	if f.weight() < 2 {
		w.without(1 << id)
		return
	}
	rest := w.add(w.nodes[id], formRest|form(f.weight()-1)<<inPlace, w.past[0]&^(1<<id), w.dirs[0])
	if w.spare&(1<<id) != 0 {
		w.spare |= 1 << rest
	}
}

// guestEnters makes a guest that is first in the queue take one permit.
func (w *world) guestEnters(id uint8) {
	w.add(node{owner: guest}, permitOf(1), w.past[0]&^(1<<id), w.dirs[0])
}
