package recipes

import "math/bits"

type step struct {
	kind   stepKind
	client uint8
	node   uint8
}

type stepKind uint8

const (
	// Progress: these steps happen sooner or later by themselves.
	stepStart stepKind = iota + 1
	stepExecute
	stepAnswer
	stepFail
	stepGone
	stepCatchUp
	stepReconnect
	stepDropDead
	stepExpired
	stepOpen
	stepDiscard
	stepRelease
	stepPaused
	stepLeaves
	stepFollows
	stepChanged
	stepListed
	stepDelayOver
	// The other steps need not happen at all.
	stepExecutePlain
	stepLeavesFloor
	stepGivesUp
	stepForeignJoins
	stepGuestJoins
	stepDowngrade
	stepReap
	stepChange
	stepWithdraw
	stepCut
	stepLapse
	stepExpire
	stepKill
	stepRemove
	stepRefuse
	stepGhost
	stepRenew
	stepReleaseEarly
	stepRevoke
	stepRevokeSoon
	stepRevokeLate
	stepOverdue
	stepEnters
	stepLarger
	stepSmaller
	stepCrash
	stepUntaken
	stepCancel
	stepWrite
)

func (*environment) Progress(s step) bool { return s.kind <= stepDelayOver }

// An environment executes steps, and checks what must hold in every world.
type environment struct {
	*interpreter
	options

	several *multiEnv // not nil if there are several directories

	perm   permutation           // how the latest step sorted the clients
	log    func(c int, s string) // if set, called with what the machines do
	listed bool                  // the machine's current input is a listing
	news   bool                  // the answer in delivery rests on news alone
	proof  uint8                 // 1 + the node that the answer in delivery proves to be first
	bad    violation             // what the latest step broke
}

type options struct {
	eager     bool // all have requested the lock at the beginning
	ghost     bool // a dead session's create may be executed in the next session
	loose     bool // requests of one machine overtake each other
	rearm     bool // watches are set again after a reconnect; else they are lost
	ownWatch  bool // each contender's own node is watched from its creation on
	late      bool // an answer that came before the connection broke may be delivered after that, or after the next connection
	dated     bool // with late: the session knows the connection of each answer, and treats answers of earlier ones as lost
	early     bool // with late: a survey sent on the new connection is answered before the news of that connection
	clings    bool // a holder whose node was deleted while it had no connection does not release before it is notified
	plain     bool // check only that there are not two holders
	tokens    bool // and check the order of their tokens
	keepOrder bool // keep the clients in order, for transcripts
	whole     bool // keep what a machine should ignore
	dir       start
	either    bool // a client may write or read a marker or a floor, but need not
	single    bool // the lock is one node, created only if there is none. Here each has its own name, because the shell can distinguish them
	writer    bool // a foreign writer holds at the beginning, and may trade its node for a read node
	sharing   bool // contenders of ours from outside are writers
	readers   bool // contenders of another library are readers
	kazoos    bool // and have kazoo's names
	mixes     bool // contenders with kazoo's names may meet others
	permits   bool // it is a semaphore
	sizes     bool // and opinions on its size may differ
	detect    bool // holders leave a record, which shows a crash to others
	renews    bool // the numbers of all nodes are late
	together  bool // a listing serves every request that its session has received by then
	writes    bool // holders write data, on the condition that their node exists
}

type start uint8

const (
	dirKnown   start = iota // ours, and all clients know that
	dirUnknown              // ours, and no client knows that
	dirAlien                // another program's
	dirNone                 // not there yet
)

func newWorld(clients int, left budget, flags, roles []uint8) world {
	w := world{left: left}
	var flag, role [maxClients]uint8
	copy(flag[:], flags)
	copy(role[:], roles)
	for c := range w.clients {
		if c >= clients {
			w.clients[c] = client{machine: machineOver, told: toldFinish, lease: true}
			continue
		}
		cl := client{machine: machineNew, lease: true, conn: connNone, flags: flag[c], role: role[c]}
		switch {
		case cl.role&roleRead != 0:
			cl.machine = machineReader
		case cl.role&roleWrite != 0:
			cl.machine = machineWriter
		}
		if cl.role&roleKazoo != 0 {
			cl.machine += machineKazoo - machineNew
		}
		w.clients[c] = cl
	}
	return w
}

// open establishes every client's session before the first step.
func (e *environment) open(w *world) {
	if e.dir != dirNone {
		w.births = 1
		w.dirs[0] = 1<<numbered | dataTheirs
		if e.dir != dirAlien {
			w.dirs[0] = w.dirs[0].with(dataMarker)
		}
	}
	switch {
	case e.writer && e.several != nil:
		e.several.openWriter(w)
	case e.writer:
		w.next = 1
		w.nodes[0], w.forms[0] = node{owner: foreign}, formWrite
		w.past[0] = 1 << 0
	}
	if w.left.once > 0 {
		w.sizes[0] = sizeOf(uint8(e.semaphore(&w.clients[0]).Size), 0)
	}
	for c := range w.clients {
		if id := w.dirs[0].identity(); e.dir == dirKnown {
			w.clients[c].knows = knows(id, id)
		}
	}
	for c := range w.clients {
		if w.clients[c].conn == connNone {
			e.do(w, step{kind: stepOpen, client: uint8(c)})
		}
	}
	for c := range w.clients {
		if w.clients[c].machine != machineOver && e.eager && w.clients[c].role&roleTakes == 0 {
			e.do(w, step{kind: stepStart, client: uint8(c)})
		}
	}
	e.finish(w)
}

func (e *environment) Enabled(w *world, steps []step) []step {
	for c := range w.clients {
		cl := &w.clients[c]
		// With several directories a machine that is over may be started again, which
		// changes nothing.
		if cl.machine == machineOver && cl.requests[0].op == 0 && cl.discard == 0 && (e.several == nil || c >= len(e.several.roles)) {
			continue
		}
		steps = e.enabledFor(w, uint8(c), steps)
	}
	if e.several != nil {
		steps = e.several.enabledOutside(w, steps)
	} else {
		steps = e.enabledOutside(w, steps)
	}
	if w.delay.mark == markMade {
		steps = append(steps, step{kind: stepDelayOver})
	}
	if w.left.remove > 0 {
		for m := w.past[0] &^ w.outsiders(); m != 0; m &= m - 1 {
			steps = append(steps, step{kind: stepRemove, node: uint8(bits.TrailingZeros8(m))})
		}
	}
	return enabledRevocations(w, steps)
}

// enabledOutside appends the steps of processes other than the clients.
func (e *environment) enabledOutside(w *world, steps []step) []step {
	add := func(may bool, kind stepKind, node uint8) {
		if may {
			steps = append(steps, step{kind: kind, node: node})
		}
	}
	for m := w.outsiders(); m != 0; m &= m - 1 {
		id := uint8(bits.TrailingZeros8(m))
		if writer := w.forms[id].writer(); writer != noNode && w.past[0]&(1<<writer) != 0 {
			continue // the write node is deleted first
		}
		holds := w.past[0]&w.forms.blocking(id) == 0
		add(holds, stepLeaves, id)
		if w.forms[id].permit() {
			continue
		}
		room := w.sizes[0] != 0 && w.forms.taken(w.past[0]) < w.sizes[0].permits()
		add(holds && e.permits && w.nodes[id].owner == guest && room, stepEnters, id)
		add(holds && !e.single && w.nodes[id].owner == guest && w.dirs[0].ours(), stepLeavesFloor, id)
		add(!holds, stepGivesUp, id)
		trades := holds && w.nodes[id].owner == foreign && w.forms[id] == formWrite
		add(trades && w.past[0]&w.forms.beside(id) == 0, stepDowngrade, id)
	}
	vacant := !e.single || w.past[0] == 0
	add(w.left.foreign > 0 && vacant, stepForeignJoins, 0)
	add(w.left.guest > 0 && vacant, stepGuestJoins, 0)
	add(w.left.reap > 0 && w.past[0]&^w.forms.permits() == 0 && w.dirs[0] != 0, stepReap, 0)
	add(w.left.resize > 0 && w.sizes[0] != 0, stepLarger, 0)
	add(w.left.resize > 0 && w.sizes[0].permits() > 1, stepSmaller, 0)
	add(w.left.change > 0 && w.dirs[0].ours(), stepChange, 0)
	return steps
}

func (e *environment) enabledFor(w *world, c uint8, steps []step) []step {
	cl := &w.clients[c]
	add := func(may bool, kind stepKind) {
		if may {
			steps = append(steps, step{kind: kind, client: c})
		}
	}
	up, down := cl.conn == connUp, cl.conn == connDown
	add(cl.told&toldStart == 0 && (cl.role&roleTakes == 0 || w.mayTake(int(c))), stepStart)
	for i, r := range cl.requests {
		// A step names its request if that is not the oldest.
		first := i == e.executes(cl)
		if first || e.loose && r.status == sent && (up && cl.closed == 0) && !(e.shares(cl, &r) && r.flags&reqNext != 0) {
			steps = e.executions(w, cl, r, step{kind: stepExecute, client: c, node: pick(i, first)}, steps)
		}
		first = i == cl.find(executed)
		if (up || down && e.late) && (first || e.loose && r.status == executed) {
			steps = append(steps, step{kind: stepAnswer, client: c, node: pick(i, first)})
		}
	}
	add(cl.find(lost) >= 0 || down && cl.find(sent) >= 0, stepFail)
	for m := cl.fired; m != 0; m &= m - 1 {
		steps = append(steps, step{kind: stepGone, client: c, node: uint8(bits.TrailingZeros8(m))})
	}
	add(cl.look&lookFired != 0, stepChanged)
	add(cl.revocations.due() != 0, stepOverdue)
	add(up && cl.closed == 0 && cl.discard != 0, stepDiscard)
	clinging := e.clings && cl.told&toldOwed != 0 && cl.holds()
	release := stepRelease
	if w.pending(int(c)) {
		release = stepReleaseEarly // its caller waits for the read lock, but need not
	}
	add(cl.told&(toldGrant|toldWithdrawn|toldFinish) == toldGrant && !clinging, release)
	add(cl.told&(toldStart|toldGrant|toldWithdrawn|toldFinish) == toldStart && w.left.withdraw > 0, stepWithdraw)
	add(e.writes && cl.holds() && cl.closed == 0 && w.past[0]&(1<<e.traits[cl.machine].own) != 0, stepWrite)
	add(e.detect && cl.holds(), stepCrash)
	add(e.detect && cl.holds() && !clinging, stepUntaken)
	add(w.orphaned(int(c)), stepFollows)
	add(cl.cancelable() >= 0, stepCancel)
	add(up && cl.closed == 0 && w.left.refuse > 0 && e.refusable(cl), stepRefuse)
	add(e.ghost && up && cl.closed == 0 && cl.ghosts() >= 0, stepGhost)
	add(e.traits[cl.machine].state == Pausing, stepPaused)
	if !w.leads(int(c)) {
		return steps
	}
	add(up && cl.lag > 0, stepCatchUp)
	add(e.together && cl.role&roleShares != 0 && w.lists.now == listingBegun, stepListed)
	add(down && cl.closed == 0, stepReconnect)
	add(up && cl.knowsEnd(), stepDropDead)
	add(down && cl.closed != 0, stepExpired)
	add(cl.conn == connNone, stepOpen)
	// With several directories, nothing happens to a session whose caller has seen the
	// end, and a lease runs out once.
	live := cl.conn != connNone && (e.several == nil || cl.told&toldFinish == 0)
	add(up && w.left.cut > 0 && live, stepCut)
	add(w.left.lapse > 0 && live && (cl.lease || e.several == nil && w.mayGoStale(int(c))), stepLapse)
	add(up && cl.closed == 0 && !cl.lease, stepRenew)
	add(w.left.expire > 0 && live && cl.closed == 0, stepExpire)
	add(w.left.kill > 0 && live && cl.closed == 0, stepKill)
	return steps
}

func (e *environment) Take(w *world, s step) violation {
	e.bad = ""
	e.do(w, s)
	if e.bad == "" {
		e.bad = e.check(w)
	}
	e.finish(w)
	return e.bad
}

func (e *environment) finish(w *world) {
	e.normalise(w)
	e.perm = identity
	if !e.keepOrder {
		e.perm = w.sort()
	}
}
