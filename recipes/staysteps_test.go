package recipes

// This file executes the steps in the world of stays. Between the decisions, it does what
// package cache and [actors.Lookout] do.

func (m *stayModel) do(w *stayWorld, step stayStep) {
	i, j := int(step.s), int(step.i)
	s, t := &w.sessions[i], &w.sessions[i].slots[j%staySlots]
	switch step.kind {
	case stepAsks:
		s.locals[j].rounds--
		m.elsewhere(w, i, j)
	case stepReleases:
		s.locals[j].state = localIdle
		m.change(w, i, int(s.locals[j].slot), func(b *stayBook) { b.Holders-- })
	case stepWithdraws:
		w.left.withdraw--
		s.locals[j].state = localIdle
		m.change(w, i, int(s.locals[j].slot), func(b *stayBook) { b.Waiting-- })
	case stepGranted: // a claim grants it, and renews the lease
		s.lease = true
		t.machine = machineHolds
		t.holds = true
		s.fresh = !m.far
		t.own = true
		m.change(w, i, j, func(b *stayBook) {
			b.Contention.Grant(Epoch(s.epoch), "")
			b.Stands, b.Worth = true, true
		})
	case stepCreates:
		t.node = w.create(1 + uint8(i)<<2 + uint8(j))
	case stepDeletes:
		node := t.node
		t.machine, t.node = machineNone, 0
		w.remove(node)
	case stepWatchesAgain: // at any later time
		m.change(w, i, j, func(b *stayBook) { b.Paced = false })
	case stepExecutes:
		others := w.queue
		others[t.node-1] = 0
		r := &t.requests[step.request]
		switch *r = stayAlone; {
		case w.queue[t.node-1] == 0:
			*r = stayMissing
		case step.request == stayArm && others != [stayNodes]uint8{}:
			*r = stayOthers
		}
		if step.request == stayArm {
			t.armed, t.own = true, true
		}
	case stepAnswers:
		m.answered(w, i, j, step.request)
	case stepChangedTold:
		t.changed = false
		m.hear(w, i, j, Changed{Epoch: Epoch(s.epoch)})
	case stepGoneTold:
		t.gone = false
		m.lose(w, i, j)
	case stepTimeIsUp:
		m.change(w, i, j, func(b *stayBook) { b.EndHandoffs() })
	case stepAges:
		m.change(w, i, j, func(b *stayBook) { b.Spent = true })
	case stepRests:
		b := m.books[t.book]
		b.Rest()
		t.book = m.intern(b)
		t.holds = false
	case stepProbes:
		s.fresh, s.lease = !m.far, true
	case stepTicks:
		w.left.tick--
		w.overdue = w.overdue || w.stranger == 1
		for i := range w.sessions {
			w.sessions[i].fresh = false
			for j := range w.sessions[i].slots {
				t := &w.sessions[i].slots[j]
				t.old = t.requests[stayClaim] != stayNothing
			}
		}
	case stepBreaks:
		w.left.cut--
		m.breaks(w, i)
	case stepConnects:
		m.connects(w, i)
	case stepRunsOut:
		w.left.lapse--
		m.runsOut(w, i)
	case stepExpires:
		w.left.expire--
		s.dead = true
		for _, t := range s.slots {
			w.remove(t.node)
		}
	case stepSessionEnds:
		m.sessionEnds(w, i)
	case stepRemoved:
		w.left.remove--
		w.byHand |= 1 << (t.node - 1)
		w.remove(t.node)
	case stepStrangerComes, stepNeighbourComes:
		w.left.stranger--
		w.stranger = 1
		for j, was := range w.sessions[0].slots {
			if step.kind == stepNeighbourComes && was.machine != machineNone {
				m.change(w, 0, j, func(b *stayBook) { b.Found = b.Want(m.handoffs) || b.Found })
			}
		}
		w.create(stayStranger)
	case stepStrangerLeaves:
		w.stranger, w.overdue = 2, false
		w.remove(w.head())
	case stepJunk:
		w.left.junk--
		w.fires(0)
	case stayProgress: // no step
	}
}

// answered delivers the answer to a request. Only a claim makes the session renew its
// lease for a node.
func (m *stayModel) answered(w *stayWorld, i, j int, request uint8) {
	s, t := &w.sessions[i], &w.sessions[i].slots[j]
	answer, stale, old, epoch := t.requests[request], t.stale, t.old, Epoch(s.epoch)
	op := OpClaim
	switch t.requests[request] = stayNothing; request {
	case stayArm:
		op = OpArm
	case stayClaim:
		t.stale, t.old = false, false
	}
	var in Input = Unknown{Epoch: epoch, Op: op}
	switch {
	case answer == stayLost:
		if request == stayVerify && t.machine == machineHolds {
			t.requests[stayVerify] = staySent // it waits for a connection
		}
	case answer == stayMissing:
		if request != stayArm {
			m.lose(w, i, j)
		}
		in = Refused{Epoch: epoch, Op: op, Missing: true}
	case request == stayArm:
		in = Armed{Epoch: epoch, Others: answer == stayOthers}
	case request == stayVerify:
		in = Claimed{Epoch: epoch, Fresh: s.lease && t.machine == machineHolds}
	default:
		s.lease = s.lease || !stale
		s.fresh = s.fresh || !old
		fresh := !stale && s.lease && t.machine == machineHolds
		t.holds = t.holds || fresh
		m.asked = old // contenders that it has not seen arrived during its round trip
		in = Claimed{Epoch: epoch, Fresh: fresh}
	}
	m.hear(w, i, j, Claim{Held: request == stayVerify}.Marks(in))
	m.asked = false
}

// breaks breaks a session's connection. Everything in progress is lost.
func (m *stayModel) breaks(w *stayWorld, i int) {
	s := &w.sessions[i]
	s.up = false
	for j := range s.slots {
		t := &s.slots[j]
		for k, r := range t.requests {
			if r > staySent || r == staySent && k != stayVerify {
				t.requests[k] = stayLost
			}
		}
		t.armed, t.own, t.changed, t.gone = false, false, false, false
	}
	for j := range s.slots {
		m.hear(w, i, j, Suspended{})
	}
}

// connects resumes the session. Each machine that holds verifies that it still does, and
// its node is watched again.
func (m *stayModel) connects(w *stayWorld, i int) {
	s := &w.sessions[i]
	s.up, s.lease, s.fresh = true, true, !m.far
	for j := range s.slots {
		t := &s.slots[j]
		if t.machine == machineHolds {
			t.own = w.queue[t.node-1] != 0 // the event of its end may be lost
			if t.requests[stayVerify] == stayNothing {
				t.requests[stayVerify] = staySent
			}
		}
		m.hear(w, i, j, Reconnected{})
	}
}

// runsOut ends the lease. Each holder in the session's book is notified.
func (m *stayModel) runsOut(w *stayWorld, i int) {
	s := &w.sessions[i]
	s.lease, s.fresh = false, false
	for j := range s.slots {
		t := &s.slots[j]
		t.stale = t.requests[stayClaim] != stayNothing
		if t.holds {
			t.holds = false
			m.lose(w, i, j)
		}
	}
}

// sessionEnds reports the end of a session. Another one follows, and the waiters queue up
// again.
func (m *stayModel) sessionEnds(w *stayWorld, i int) {
	s := &w.sessions[i]
	s.dead, s.up, s.lease, s.fresh = false, true, true, !m.far
	s.epoch++
	for j := range s.slots {
		t := &s.slots[j]
		*t = staySlot{book: t.book, machine: t.machine, node: t.node, since: t.since}
		if t.machine == machineLapsed {
			continue
		}
		m.lose(w, i, j)
		if t.node = 0; t.machine == machineLeaves {
			t.machine = machineNone
		}
	}
}

// lose handles the machine's loss: its holders are notified, and its waiters queue up
// again.
func (m *stayModel) lose(w *stayWorld, i, j int) {
	t := &w.sessions[i].slots[j]
	if t.machine != machineHolds {
		return
	}
	t.machine = machineLapsed
	t.holds, t.requests[stayVerify] = false, stayNothing // answers no longer matter
	w.byHand &^= 1 << (t.node - 1)
	m.change(w, i, j, func(b *stayBook) {
		b.Over, b.Contention = true, Contention{}
		for k := range w.sessions[i].locals {
			l := &w.sessions[i].locals[k]
			if l.state == localHolds && int(l.slot) == j {
				l.state = localIdle
				b.Holders--
			}
		}
	})
}

func (m *stayModel) hear(w *stayWorld, i, j int, in Input) {
	if w.sessions[i].slots[j].machine == machineNone {
		return
	}
	m.change(w, i, j, func(b *stayBook) {
		b.Hear(in)
		if _, resumed := in.(Reconnected); resumed {
			b.Resume()
		}
		b.Spent = b.Spent || b.Blind
		if b.Found {
			b.Want(m.handoffs)
		}
	})
}

// change changes the book of a node, and does what follows.
func (m *stayModel) change(w *stayWorld, i, j int, how func(*stayBook)) {
	t := &w.sessions[i].slots[j]
	b := m.books[t.book]
	how(&b)
	for {
		move := b.Stay.Next(func() bool { return m.find(w, i, j, &b, true) })
		if move == StayWatches {
			b.Watched = true
		}
		if move == StayWatches || move == StayWaits {
			m.find(w, i, j, &b, false)
		}
		t.book = m.intern(b)
		switch move {
		case StayWaits:
			m.rest(w, i, j)
			return
		case StayGrants:
			m.grants(w, i, j)
		case StayWatches, StayGoes:
		}
	}
}

// find makes the next request to find out whether there are other contenders.
func (m *stayModel) find(w *stayWorld, i, j int, b *stayBook, waits bool) (known bool) {
	s := &w.sessions[i]
	t := &s.slots[j]
	known, request := b.Contention.Next(waits, func(Epoch) (alive, recent bool) { return s.lease, s.fresh })
	sent := staySent
	if !s.up {
		sent = stayLost
	}
	switch request.(type) {
	case Arm:
		t.requests[stayArm] = sent
	case Claim:
		t.requests[stayClaim], t.stale, t.old = sent, false, m.far
	}
	return known
}

func (m *stayModel) grants(w *stayWorld, i, j int) {
	s := &w.sessions[i]
	t := &s.slots[j]
	b := m.books[t.book]
	turn := uint8(b.Turns - 1)
	if b.wanted && turn > 0 {
		t.since++
	}
	switch {
	case turn > 0 && !s.up:
		m.bad = stayCutOff
	case turn > 0 && w.overdue && !b.wanted && !m.asked:
		m.bad = stayForgotten
	case int32(t.since) > m.handoffs:
		m.bad = stayUnbounded
	case w.byHand&(1<<(t.node-1)) == 0 && (t.node < w.last || t.node == w.last && turn <= w.turn):
		m.bad = stayShrinks
	}
	w.last, w.turn = t.node, turn
	for k := range s.locals {
		if l := &s.locals[k]; l.state == localWaits && int(l.slot) == j {
			l.state = localHolds
			return
		}
	}
}

// rest moves the waiters that will have no turn, and gives up the node.
func (m *stayModel) rest(w *stayWorld, i, j int) {
	s := &w.sessions[i]
	t := &s.slots[j]
	for k := stayLocals - 1; k >= 0; k-- {
		b := m.books[t.book]
		if l := &s.locals[k]; b.Excess() > 0 && l.state == localWaits && int(l.slot) == j {
			b.Waiting--
			t.book = m.intern(b)
			m.elsewhere(w, i, k)
		}
	}
	if b := m.books[t.book]; b.Over && b.Holders == 0 && (t.machine == machineHolds || t.machine == machineLapsed || t.machine == machineQueues) {
		*t = staySlot{machine: machineLeaves, book: m.intern(stayBook{Stay: b.Stay}), node: t.node} // answers no longer matter
		if t.node == 0 {
			t.machine = machineNone
		}
	}
}

// elsewhere makes a local contender wait for the newest stay, or for a new one if that
// does not accept it.
func (m *stayModel) elsewhere(w *stayWorld, i, k int) {
	s := &w.sessions[i]
	l := &s.locals[k]
	newest := -1
	for j := range s.slots {
		t := &s.slots[j]
		if waits := t.machine == machineQueues; waits || (t.machine == machineHolds || t.machine == machineLapsed) && newest < 0 {
			newest = j // only one holds, and a stay that queues up is newer
		}
	}
	if newest < 0 || !m.books[s.slots[newest].book].Accepts() {
		newest = -1
		for j := range s.slots {
			if s.slots[j] == (staySlot{}) {
				newest = j
			}
		}
		if newest < 0 {
			panic("more stays than this world has room for")
		}
		s.slots[newest] = staySlot{machine: machineQueues, book: m.intern(stayBook{})}
	}
	l.state, l.slot = localWaits, uint8(newest)
	m.change(w, i, newest, func(b *stayBook) { b.Waiting++ })
}
