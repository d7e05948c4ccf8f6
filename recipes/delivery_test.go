package recipes

import "math/bits"

// answer delivers an answer, which is fresh if the lease is good.
func (e *environment) answer(w *world, c, i int) {
	cl := &w.clients[c]
	r := cl.requests[i]
	cl.drop(i)
	e.news = r.op == OpClaim && r.own&news != 0
	if !e.news {
		w.each(c, func(_ int, cl *client) { cl.seen = min(cl.seen, r.age) })
	}
	if r.write() && r.flags&(reqStale|reqRefused) == 0 && r.epoch == cl.epoch {
		w.renewed(c)
	}
	in := r.marked(e.reply(w, c, r))
	switch in.(type) {
	case Entered, Deleted:
		if r.op == OpCreate {
			break
		}
		w.removed(c, r.arg&7, r.flags&reqFloor != 0)
	}
	if _, refused := in.(Refused); !refused {
		e.proof = e.proves(c, r)
	}
	if r.epoch == cl.epoch {
		e.heardOwn(w, c, in)
	}
	if listed, is := in.(Listed); is && r.epoch == cl.epoch && listed.Own != (Own{}) && e.warms() {
		cl.told |= toldPlace
	}
	fresh := r.epoch == cl.epoch && cl.lease
	proof, proves := Prove(in, !e.permits, fresh)
	if proves {
		in = proof.Answer
	}
	e.feed(w, c, in)
	if held := r.op == OpClaim && r.flags&reqHeld != 0; proves && fresh && !held && e.traits[cl.machine].state == Held {
		cl.hold |= holdProven
	}
	e.proof = 0
}

// proves returns 1 + the node that an answer proves to be first, or 0.
func (e *environment) proves(c int, r request) uint8 {
	switch {
	case r.flags&reqFirst == 0, e.several != nil && r.op == OpAdvance:
		return 0
	case e.several != nil && r.op == OpClaim: // the group
		return 1 + uint8(bits.TrailingZeros8(e.several.first(c, r.mask)))/2
	default:
		return r.granted() + 1
	}
}

func (e *environment) reply(w *world, c int, r request) Input {
	op, epoch, missing, several := r.op, Epoch(r.epoch), r.flags&reqMissing != 0, e.several != nil
	switch {
	case several && op == OpCreate:
		return e.several.created(w, c, r)
	case several && op == OpList:
		return e.several.listed(w, c, r)
	case op == OpCreate && missing && e.single:
		return Occupied{epoch}
	case r.flags&reqRefused != 0, missing && op != OpSurvey && op != OpList:
		in := Refused{Epoch: epoch, Op: op, Missing: missing}
		if op == OpWatch {
			in.Node = e.nameOf(w, r.arg)
		}
		return in
	case op == OpCreate:
		if w.forms[r.own-1].permit() {
			permits := []string{e.nameOf(w, r.own-1).Text}
			return Entered{Epoch: epoch, Permits: permits, Size: int32(r.mask), Token: tokenBase + int64(r.own-1), Spare: r.flags&reqStands == 0}
		}
		in := Created{Epoch: epoch, Node: e.nameOf(w, r.own-1), Alone: r.flags&reqStands != 0}
		if in.Alone {
			in.Token = tokenBase + int64(r.own-1)
		}
		return in
	case op == OpList:
		return e.listing(w, r)
	case op == OpSurvey:
		f := Findings{Size: int32(r.own & 0xf), Version: int32(r.own >> 4), InUse: int32(r.arg >> 4), Gone: missing}
		return Survey{Epoch: epoch}.Means(f)
	case several && op == OpClaim:
		return Claimed{Epoch: epoch}
	case several && op == OpAdvance:
		return Advanced{Epoch: epoch, Stands: r.flags&reqStands != 0}
	case op == OpClaim && r.mask&maskDelay != 0:
		return Delayed{Epoch: epoch, For: 1}
	case op == OpClaim:
		in := Claimed{Epoch: epoch, Recorded: r.mask != 0}
		if r.mask&maskLeft != 0 {
			in.Abandoned = &somebody
		}
		return in
	case op == OpAdvance:
		in, _ := r.handoff().Answer(epoch)
		return in
	case op == OpEnter && r.own == 0:
		return Refused{Epoch: epoch, Op: op, Stale: true}
	case op == OpEnter:
		in := Entered{Epoch: epoch, Permits: []string{e.nameOf(w, r.own-1).Text}}
		if r.flags&reqStands != 0 {
			in.InUse = 9 // more than the semaphore has
		}
		return in
	case op == OpDelete:
		return Deleted{epoch}
	default:
		panic("a watch is not answered")
	}
}

// listing returns the answer to a list request, the youngest contender first.
func (e *environment) listing(w *world, r request) Input {
	in := Listed{Epoch: Epoch(r.epoch), Entered: r.flags&reqFloor != 0, Size: int32(r.arg >> 4)}
	for m := r.mask; m != 0; {
		id := uint8(7 - bits.LeadingZeros8(m))
		m &^= 1 << id
		in.Queue = append(in.Queue, e.nameOf(w, id))
	}
	if id := r.own & 0xf; id != 0 {
		in.Own = Own{Name: e.nameOf(w, id-1), Owner: sessionID(r.own >> 4), Token: tokenBase + int64(id-1)}
		if in.Entered {
			in.Own.Token = 0 // unknown
		}
	}
	return in
}

func (cl *client) unwant(epoch uint8) {
	for i := range cl.requests {
		if r := &cl.requests[i]; r.op == OpCreate && r.epoch == epoch {
			r.flags |= reqUnwanted
		}
	}
}

// cancelable returns the index of a canceled create that may not have been sent yet, or
// -1. Only the session knows whether a request still waits for a connection or for room.
func (cl *client) cancelable() int {
	return cl.where(func(r request) bool {
		waits := r.status == parked || r.status == sent && r.own == 0
		return r.op == OpCreate && r.flags&reqUnwanted != 0 && waits
	})
}

func (e *environment) cancel(w *world, c int) {
	cl := &w.clients[c]
	i := cl.cancelable()
	r := cl.requests[i]
	cl.drop(i)
	if r.epoch == cl.epoch {
		w.own(c, w.owners(c).Leave(c+1))
	}
	e.feed(w, c, Canceled{Epoch(r.epoch)})
}

// fail delivers Unknown for a request that will not be answered.
func (e *environment) fail(w *world, c int) {
	cl := &w.clients[c]
	i := cl.find(lost)
	if i < 0 {
		i = cl.find(sent)
	}
	r := cl.requests[i]
	cl.drop(i)
	if r.epoch == cl.epoch {
		e.heardOwn(w, c, Unknown{Op: r.op})
	}
	e.feed(w, c, r.marked(Unknown{Epoch: Epoch(r.epoch), Op: r.op}))
}

// gone returns what is left of a request that will not be answered: the contents of its
// Unknown.
func (r request) gone() request {
	left := request{op: r.op, status: lost, epoch: r.epoch, arg: r.arg}
	if r.op == OpClaim {
		left.flags = r.flags & reqHeld
	}
	return left
}

func (r request) marked(in Input) Input {
	return Claim{Held: r.op == OpClaim && r.flags&reqHeld != 0}.Marks(in)
}
