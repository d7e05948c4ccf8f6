package recipes

// This file is about how answers reach machines.

// answer delivers an answer. Whether it is fresh was noted on the way.
func (e *environment) answer(w *world, c, i int) {
	cl := &w.clients[c]
	r := cl.requests[i]
	cl.drop(i)
	w.each(c, func(_ int, cl *client) { cl.seen = min(cl.seen, r.age) })
	if r.write() && r.flags&(reqStale|reqRefused) == 0 && r.epoch == cl.epoch {
		w.renewed(c)
	}
	if e.several != nil {
		e.several.answer(w, c, r)
		return
	}
	in := e.reply(r)
	if in.kind == inEntered || in.kind == inDeleted {
		w.removed(c, r.arg&7, r.flags&reqFloor != 0)
	}
	if e.proof = 0; r.flags&reqFirst != 0 && in.kind != inRefused {
		e.proof = r.granted() + 1
	}
	told := e.input(in)
	if r.epoch == cl.epoch {
		e.heardOwn(w, c, told)
	}
	if listed, is := told.(Listed); is && r.epoch == cl.epoch && listed.Own != (Own{}) && e.warms() {
		cl.told |= toldPlace
	}
	if e.judge(cl, r, told) {
		in.flag |= flagFresh
	}
	e.feed(w, c, in)
	e.proof = 0
}

// reply is a server's answer.
func (e *environment) reply(r request) input {
	in := input{epoch: r.epoch, arg: r.op, own: noNode}
	switch {
	case Op(r.op) == OpCreate && r.flags&reqMissing != 0 && e.single:
		in = input{kind: inOccupied, epoch: r.epoch}
	case r.flags&reqRefused != 0:
		in.kind = inRefused
		if Op(r.op) == OpWatch {
			in.own = r.arg
		}
		if r.flags&reqMissing != 0 {
			in.flag = flagMissing
		}
	case Op(r.op) == OpCreate && r.flags&reqMissing != 0:
		in.kind, in.flag = inRefused, flagMissing
	case Op(r.op) == OpCreate:
		in = input{kind: inCreated, epoch: r.epoch, arg: r.own - 1}
		if r.flags&reqStands != 0 {
			in.flag = flagAlone
		}
	case Op(r.op) == OpList:
		in = input{kind: inListed, epoch: r.epoch, mask: r.mask, own: r.own, arg: r.arg >> 4}
		if r.flags&reqFloor != 0 {
			in.flag = flagEntered
		}
	case Op(r.op) == OpSurvey:
		in = surveyed(r)
	case r.flags&reqMissing != 0:
		in.kind, in.flag = inRefused, flagMissing
	case Op(r.op) == OpClaim && r.mask&maskDelay != 0:
		in = input{kind: inDelayed, epoch: r.epoch}
	case Op(r.op) == OpClaim:
		in = input{kind: inClaimed, epoch: r.epoch}
		if r.mask != 0 {
			in.flag |= flagRecorded
		}
		if r.mask&maskLeft != 0 {
			in.flag |= flagLeft
		}
	case Op(r.op) == OpAdvance:
		in = input{kind: inAdvanced, epoch: r.epoch}
		advanced, _ := r.handoff().Answer(0)
		if advanced.Floor {
			in.flag |= flagFloor
		}
		if advanced.Stands {
			in.flag |= flagStands
		}
	case Op(r.op) == OpEnter && r.own == 0:
		in.kind, in.flag = inRefused, flagStale
	case Op(r.op) == OpEnter:
		in = input{kind: inEntered, epoch: r.epoch, arg: r.own - 1}
	case Op(r.op) == OpDelete:
		in = input{kind: inDeleted, epoch: r.epoch}
	}
	return in
}

// unwant notes that a create is to be taken back.
func (cl *client) unwant(epoch uint8) {
	for i := range cl.requests {
		if r := &cl.requests[i]; Op(r.op) == OpCreate && r.epoch == epoch {
			r.flags |= reqUnwanted
		}
	}
}

// cancelable returns a create that is to be taken back and may not have been sent, or -1. Of a request under way only the session
// knows whether it waits for a connection, or for room.
func (e *environment) cancelable(cl *client) int {
	for i, r := range cl.requests {
		waits := r.status == parked || r.status == sent && r.own == 0 && r.flags&reqHalf == 0
		if Op(r.op) == OpCreate && r.flags&reqUnwanted != 0 && (waits || e.shell == shellCancelsSent && r.status == executed) {
			return i
		}
	}
	return -1
}

// cancel takes the create back, and tells the machine.
func (e *environment) cancel(w *world, c int) {
	cl := &w.clients[c]
	i := e.cancelable(cl)
	r := cl.requests[i]
	cl.drop(i)
	if r.epoch == cl.epoch {
		w.own(c, w.owners(c).Leave(c+1))
		cl.tenure = cl.tenure.GaveUp()
	}
	e.feed(w, c, input{kind: inCanceled, epoch: r.epoch})
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
		e.heardOwn(w, c, Unknown{Op: Op(r.op)})
	}
	e.feed(w, c, input{kind: inUnknown, epoch: r.epoch, arg: r.op})
}
