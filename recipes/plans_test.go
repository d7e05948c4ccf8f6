package recipes

import (
	"math/bits"
)

// This file is about how the explorer executes requests that write: it applies the
// transactions of their plans to a world.

// errand returns a client's request as its session executes it.
func (e *environment) errand(w *world, cl *client, r *request) *Errand {
	x := &Errand{Op: r.op, Epoch: Epoch(r.epoch), Dir: "/lock", Nodes: []string{"/lock/own"}, Holder: "/lock.holder"}
	x.Size, x.Permit = "/size", "/leases/permit-"
	switch x.Op {
	case OpCreate:
		if w.left.once > 0 {
			s := e.semaphore(cl) // the session read the size at the beginning
			x.Permits, x.Count, x.Version = s.Permits, s.Size, 0
		}
		if e.permits && r.mask != 0 { // it gives permits back, and takes none at once
			x.Leavers, x.Count = []string{"/leases/leaver"}, 0
		}
		x.Made = r.flags&reqMade != 0
		switch {
		case cl.role&roleTakes != 0:
			x.Layout = LayoutPlace
		case e.single:
			x.Layout = LayoutNode
		}
	case OpDelete:
		switch x.Floor, x.Clean = r.flags&reqFloor != 0, r.mask&maskClean != 0; {
		case w.forms[r.arg&7].permit():
			x.Layout = LayoutSeveral
		case e.single:
			x.Layout = LayoutNode
		case cl.role&roleTakes != 0:
			x.Layout = LayoutPlace
		}
	case OpClaim:
		if x.Record = Recording(r.mask & maskRecord); e.single {
			x.Layout = LayoutNode
		}
	case OpEnter:
		x.Floor, x.Version, x.Permits = r.flags&reqFloor != 0, int32(r.mask>>4), 1
	default:
	}
	return x
}

// carryOut executes one transaction after the other, as the session does, and reports
// whether the request is answered. A transaction that has created something for the next
// one is a step of its own; one that was refused is not. Without a connection, only one
// transaction is executed, and its answer is lost. With closed, the directory's data may
// not be written; the session of a client without a connection knows that.
func (e *environment) carryOut(w *world, c int, r *request, zombie, closed bool) (done bool) {
	cl := &w.clients[c]
	x, v := e.errand(w, cl, r), View{Dir: cl.knows.book(), Token: int64(r.arg) + 1, Brief: true}
	if closed && zombie {
		v.Dir = v.Dir.shut()
	}
	if r.op == OpCreate {
		v.Permits = permitsBook
		if closed && w.left.once > 0 {
			x.Count, closed = 0, false
		}
	}
	if e.renews && x.Renews() && x.Layout == LayoutQueue && e.renew(w, c, r, zombie) {
		return true
	}
	for {
		p := x.Plan(v)
		a := e.transact(w, c, r, p, closed)
		if zombie {
			return true
		}
		m := x.Means(p, a)
		switch m.Then {
		case ThenReadRecord:
			m = w.readRecord(c, r, x)
		case ThenLook: // here, each node has its own name
			m = x.Looked(w.past[0]&(1<<(r.arg&7)) != 0)
		default:
		}
		v.Dir = m.Book(v.Dir)
		if m.Note == NoteGone || m.Note == NoteSeen {
			w.learn(c, w.dirs[0], v.Dir)
		}
		switch m.Then {
		case ThenTell, ThenCount:
			keepIn(r, m.In)
			return true
		case ThenApart: // of permits
			if r.op == OpCreate {
				if rest := w.ownPermits(c); rest != 0 {
					w.without(rest)
				}
				x.Leavers, r.mask = nil, 0
				break
			}
			if rest := w.past[0] & (1<<(r.arg&7) | w.ownPermits(c)); rest != 0 {
				w.without(rest)
			}
			return true
		case ThenMakeParents:
			w.born(true)
			r.flag(r.op == OpCreate, reqMade)
			return false
		default: // there is another plan
		}
	}
}

// renew removes the directory along with a request's own node, by what the client's
// replica knows. It reports whether that succeeded.
func (e *environment) renew(w *world, c int, r *request, zombie bool) bool {
	cl := &w.clients[c]
	d, view := w.dirs[cl.lag], w.past[cl.lag]&^w.forms.permits()
	p := Renewal{
		Dir: "/lock", Version: int32(d), Data: d.says(), Children: int32(bits.OnesCount8(view)), Own: "/lock/own",
		Stays: cl.role&roleKazoo != 0,
	}.Plan()
	if len(p) == 0 || e.transact(w, c, r, p, false).Result != ResultDone {
		return false
	}
	r.flags &^= reqFloor
	if !zombie {
		w.learn(c, 0, DirectoryBook{})
	}
	return true
}

// keepIn keeps an answer in its request, until it is delivered.
func keepIn(r *request, in Input) {
	switch in := in.(type) {
	case Created:
		r.flag(in.Alone, reqStands)
	case Entered:
		r.flag(r.op == OpCreate && !in.Spare, reqStands)
	case Claimed:
		if in.Abandoned != nil {
			r.mask |= maskLeft
		}
	case Delayed:
		r.mask |= maskDelay
	case Occupied:
		r.flags |= reqMissing // in fact, the node exists
	case Refused:
		switch {
		case in.Missing:
			r.flags |= reqMissing
		case in.Stale: // it has created no permits
		default:
			r.flags |= reqRefused
		}
	default:
	}
}

// turnsOver executes a delete, and the create of another contender of its session, in one
// transaction, if a create may join. It reports whether both are answered.
func (e *environment) turnsOver(w *world, c int, r *request, closed bool) (answered bool) {
	cl := &w.clients[c]
	v := View{Dir: cl.knows.book(), Permits: permitsBook, Brief: true}
	x := e.errand(w, cl, r)
	if !e.together || r.epoch != cl.epoch || r.op != OpDelete || !(Delete{Floor: x.Floor, Clean: x.Clean}).Leads(x.Layout, v) {
		return false
	}
	w.each(c, func(other int, mate *client) {
		for i := range mate.requests {
			next := &mate.requests[i]
			x, create := e.errand(w, mate, next), Create{}
			if len(x.Leavers) > 0 {
				create.Back.Text = x.Leavers[0]
			}
			if answered || other == c || next.op != OpCreate || next.status != sent || next.epoch != mate.epoch || !create.Follows(x.Layout, v) {
				continue
			}
			x.Leavers, next.mask = []string{"/lock/leaver"}, r.arg+1
			p := x.Plan(v)
			a := e.transact(w, other, next, p, closed)
			m := x.Means(p, a)
			if !p.atOnce() {
				next.mask = 0
			}
			if m.Note == NoteGone || m.Note == NoteSeen {
				w.learn(c, w.dirs[0], m.Book(v.Dir))
			}
			if m.Then == ThenApart { // first the delete, and then the create
				return
			}
			keepIn(next, m.In)
			keepIn(r, x.Left(a))
			w.raise(c)
			next.status, next.age, r.status, r.age = executed, cl.lag, executed, cl.lag
			answered = true
		}
	})
	return answered
}

// claims claims the node of a request at the leader.
func (e *environment) claims(w *world, c int, r *request) Input {
	x := Errand{Op: OpAdvance, Nodes: []string{"/lock/own"}}
	p := x.Plan(View{})
	return x.Means(p, e.transact(w, c, r, p, false)).In
}

// claimTogether executes a claim in one transaction with all other claims of its session
// that can share one. It reports whether this claim can. This claim comes first, because
// any of them may be the first.
func (e *environment) claimTogether(w *world, c int, r *request) (together bool) {
	joint := func(cl *client, r *request) bool {
		held, record := r.flags&reqHeld != 0, Recording(r.mask&maskRecord)
		return r.op == OpClaim && r.status == sent && r.epoch == cl.epoch && Claim{Held: held, Record: record}.Joint(e.errand(w, cl, r).Layout)
	}
	if !e.together || !joint(&w.clients[c], r) {
		return false
	}
	of := []*request{r}
	w.each(c, func(other int, cl *client) {
		for i := range cl.requests {
			if other != c && joint(cl, &cl.requests[i]) {
				of = append(of, &cl.requests[i])
			}
		}
	})
	bad := -1
	for i, r := range of {
		if in := e.claims(w, c, r); in != Input(Claimed{}) {
			bad = i
			keepIn(r, in)
			break
		}
	}
	w.raise(c)
	for i, r := range of {
		switch JointVerdict(i, bad) {
		case VerdictProven:
			r.status, r.age = executed, w.clients[c].lag
		case VerdictGone:
			r.status, r.age, r.flags = executed, w.clients[c].lag, r.flags|reqMissing
		case VerdictAgain:
		}
	}
	return true
}

// barrier executes the write that precedes a listing. Whatever the answer, the listing
// follows.
func (e *environment) barrier(w *world, c int, r *request) {
	x := Errand{Op: OpList, Epoch: Epoch(r.epoch), Dir: "/lock"}
	p := x.Plan(View{})
	if m := x.Means(p, e.transact(w, c, r, p, false)); m.Then != ThenLook {
		panic("a listing without a barrier")
	}
}

// transact executes one transaction at the leader, all of it or nothing. With closed, the
// directory's data may not be written.
func (e *environment) transact(w *world, c int, r *request, p Plan, closed bool) (a Answer) {
	cl := &w.clients[c]
	own := r.arg & 7
	alive, dir, record, delayed := w.past[0], w.dirs[0], w.records[0], w.delay
	var creates, deletes, turns, enters, atOnce, sets, changes bool
	for i, o := range p {
		result, writes := ResultDone, o.Do != DoCheck
		missing := func(is bool) {
			if is {
				result = ResultNoNode
			}
		}
		switch (deed{o.Do, o.On}) {
		case deed{DoCreate, OnOwn}:
			if missing(dir == 0); e.single && alive != 0 {
				result = ResultNodeExists
			}
			creates = true
		case deed{DoSet, OnOwn}:
		case deed{DoCheck, OnDirectory}:
			missing(dir == 0)
		case deed{DoCheck, OnSize}:
			if missing(w.sizes[0] == 0); o.Version != AnyVersion && int32(w.sizes[0].version()) != o.Version {
				result = ResultBadVersion
			}
		case deed{DoCreate, OnPermits}:
			enters, a.Nodes = true, []string{o.Path + "0000000000"}
		case deed{DoSet, OnPermitDirectory}:
			atOnce = true
		case deed{DoDelete, OnOwn}:
			missing(alive&(1<<own) == 0)
			alive &^= 1 << own
			deletes = true
		case deed{DoDelete, OnLeaver}:
			missing(alive&(1<<(r.mask-1)) == 0)
			alive &^= 1 << (r.mask - 1)
			turns = true
		case deed{DoCheck, OnOwn}:
			missing(alive&(1<<own) == 0 || w.forms[own]&formMask == formRest)
		case deed{DoCheck, OnWriter}:
			missing(alive&(1<<(r.mask-1)) == 0)
		case deed{DoSet, OnDirectory}:
			dir = dir.with(dataMarker)
			if floor := ParseDirectoryData(o.Data).Floor; floor != 0 {
				dir = dir.with(dataFloor + directory(floor-1)&7) // carryOut chose the token
			}
		case deed{DoDelete, OnDirectory}:
			switch missing(dir == 0); {
			case int32(dir) != o.Version:
				result = ResultBadVersion
			case alive&^w.forms.permits() != 0:
				result = ResultRefused
			default:
				dir = 0
			}
		case deed{DoCreate, OnDirectory}:
			dir = w.unborn(true)
		case deed{DoCreate, OnRecord}:
			if w.claimed |= 1 << own; record != 0 {
				result = ResultNodeExists
			}
			record, delayed = own+1, delay{says: cl.delays(), behind: delayed.behind}
		case deed{DoCheck, OnRecord}:
			missing(record == 0)
		case deed{DoDelete, OnRecord}:
			missing(record == 0)
			record, delayed = 0, delay{behind: delayed.behind}
		case deed{DoSet, OnRecord}:
			missing(record == 0)
			if string(o.Data) == markedRecord {
				a.Stats = []Stat{{Czxid: 1, Mtime: delayed.since()}}
				delayed = w.marked(delayed)
				break
			}
			w.claimed |= 1 << own
			delayed = delay{taken: own + 1, says: delayed.says || cl.delays(), behind: delayed.behind}
		default:
			panic("no such operation")
		}
		if o.Do == DoSet && o.On != OnRecord && closed {
			result = ResultRefused
		}
		if o.On == OnDirectory && writes && result == ResultDone {
			e.overwrites(w, cl)
		}
		if a.Result = result; result != ResultDone {
			return w.heads(r, p, Answer{Result: result, At: i})
		}
		changes, sets = changes || writes, sets || o.Do == DoSet && o.On != OnRecord
	}
	w.delay = delayed
	if deletes {
		e.parts(w, c, r)
	}
	if turns {
		e.parts(w, int(w.nodes[r.mask-1].owner)-1, &request{arg: r.mask - 1})
	}
	switch {
	case creates:
		f, first := cl.form(), alive&^w.forms.permits() == 0
		if cl.role&roleTakes != 0 {
			f, first = twinOf(r.mask-1), alive&w.forms.blocking(r.mask-1) == 0
		}
		r.flag(first, reqFirst)
		a.Nodes = []string{"/lock/lock-0000000001"} // reply has the real name
		if w.virgin {
			a.Nodes[0] = "/lock/lock-0000000000"
		}
		r.own = 1 + w.add(node{owner: uint8(c) + 1, epoch: cl.epoch, attempt: r.arg}, f, alive, dir)
		if !sets {
			a.Stats = []Stat{{Czxid: tokenBase + int64(r.own)}} // as in the reply to the create
		}
	case atOnce:
		e.entersAtOnce(w, c, r, alive, dir)
	case enters:
		e.enters(w, c, r, alive, dir)
	case changes:
		w.commit(alive, dir)
	}
	w.records[0] = record
	if sets {
		children := bits.OnesCount8(w.past[0] &^ w.forms.permits())
		a.Stats = []Stat{{Czxid: int64(dir.identity()), Mzxid: tokenBase + int64(w.next), Children: int32(children)}}
	}
	if atOnce {
		taken := int32(w.forms.taken(w.past[0]))
		a.Stats = append([]Stat{{Czxid: permitsBook.czxid, Mzxid: tokenBase + int64(r.own-1), Children: taken}}, a.Stats...)
	}
	return w.heads(r, p, a)
}

type deed struct {
	do Verb
	on Role
}

const markedRecord = "marked"

// heads notes whether a claim has found no contender ahead of its node.
func (w *world) heads(r *request, p Plan, a Answer) Answer {
	claims := r.op == OpClaim || r.op == OpAdvance
	r.flag(claims && p.Refused(a).On != OnOwn && w.past[0]&w.forms.blocking(r.arg&7) == 0, reqFirst)
	return a
}
