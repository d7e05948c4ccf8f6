package recipes

import (
	"slices"

	"github.com/zkgrant/zkgrant/events"
)

// This file is the machine itself. Step handles the inputs that mean the same in every
// state, and passes all others to the function of the current state, which has everything
// that can happen there.

// Step applies one input to the machine. The effects must be executed in order.
func (m *Machine) Step(in Input) []Effect {
	// Answers and news from an earlier session say nothing about this one.
	if d, ok := in.(dated); ok && (m.epoch == 0 || d.of() != m.epoch) {
		return stray(in)
	}
	switch in := in.(type) {
	case Started:
		// A withdrawal may come before the start. Starting then would queue for a caller
		// that is no longer there.
		if m.started || m.state == Over {
			return nil
		}
		m.started, m.try, m.strict, m.detect = true, in.Try, in.Strict, in.Detect
		return m.begin()
	case Opened:
		m.epoch, m.session, m.up = in.Epoch, in.Session, !in.Suspended
		// If the session comes up only after the start, the start takes effect now.
		if m.state == Idle && m.started {
			return m.begin()
		}
		return nil
	case Withdrawn:
		return m.onWithdrawn(in)
	case Expired:
		return m.onExpired()
	case RevocationRequested:
		return m.onRevocationRequested(in)
	case Adopted:
		if s, ok := m.rule.(Semaphore); ok {
			s.Adopt = true
			m.rule = s
		}
		return nil
	case Reconnected:
		m.up = true
	case Suspended:
		m.up = false
		if m.ends() {
			return m.finish(nil) // nothing is held, and the connection may be down for long
		}
	case LeaseRanOut:
		if m.ends() {
			return m.finish(nil) // nothing is held, so the caller need not wait any longer
		}
	case Refused:
		// A late answer to a request of an earlier state must not end this one.
		if !m.awaits(in.Op) {
			return nil
		}
	case Unknown:
		if !m.awaits(in.Op) {
			return nil
		}
	case Gone:
		if in.Node.Same(m.own.Name) {
			return m.ownGone()
		}
	}
	switch m.state {
	case Looking:
		return m.stepLooking(in)
	case Creating:
		return m.stepCreating(in)
	case Recovering:
		return m.stepRecovering(in)
	case Listing:
		return m.stepListing(in)
	case Waiting:
		return m.stepWaiting(in)
	case Pausing:
		return m.stepPausing(in)
	case Advancing:
		return m.stepAdvancing(in)
	case Claiming:
		return m.stepClaiming(in)
	case Surveying:
		return m.stepSurveying(in)
	case Full:
		return m.stepFull(in)
	case Entering:
		return m.stepEntering(in)
	case Held:
		return m.stepHeld(in)
	case Releasing:
		return m.stepReleasing(in)
	case Idle, Lapsed, Over:
	}
	return stray(in)
}

// ends reports whether the acquisition is ending. Then Finish comes when the connection
// is lost, even before the node is gone. The end of the lease would not do:
//
//  1. A waiter's lease runs out, which does not matter.
//  2. The waiter is withdrawn, and its delete is in progress.
//  3. The connection is lost, perhaps for hours.
func (m *Machine) ends() bool { return m.why != 0 && m.state != Lapsed }

// awaits reports whether the state expects the answer to a request of this kind. At most
// one request that can change the state is in progress, so kind and epoch identify it.
func (m *Machine) awaits(op Op) bool {
	switch m.state {
	case Looking:
		return op == OpList || op == OpSurvey
	case Recovering, Listing:
		return op == OpList
	case Creating:
		return op == OpCreate
	case Waiting:
		return op == OpWatch
	case Advancing:
		return op == OpAdvance
	case Claiming, Held:
		return op == OpClaim
	case Surveying:
		return op == OpSurvey
	case Entering:
		return op == OpEnter
	case Releasing:
		return op == OpDelete
	case Idle, Pausing, Full, Lapsed, Over:
	}
	return false
}

// stray handles an answer that no state expects. If the request created nodes after all,
// nothing else would delete them.
func stray(in Input) (effects []Effect) {
	switch in := in.(type) {
	case Created:
		effects = []Effect{Discard{Node: in.Node}}
	case Enqueued:
		for _, node := range in.Nodes {
			effects = append(effects, Discard{Node: node})
		}
	case Entered:
		for _, permit := range in.Permits {
			effects = append(effects, Discard{Node: events.Name{Text: permit}})
		}
	}
	return effects
}

// ownGone handles the news that our node is gone.
func (m *Machine) ownGone() []Effect {
	switch m.state {
	case Held:
		m.removed = true
		return m.lose(events.ReasonNodeRemoved)
	case Waiting, Full, Pausing:
		return m.requeue()
	case Listing, Advancing, Claiming, Surveying, Lapsed:
		m.removed = true // the answer in progress may be older than this news
	case Idle, Looking, Creating, Recovering, Entering, Releasing, Over:
	}
	return nil
}

func (m *Machine) stepLooking(in Input) []Effect {
	switch in := in.(type) {
	case Listed:
		return m.looked(in)
	case Surveyed:
		switch why, room := m.judge(in); {
		case why != 0:
			return m.fail(why)
		case room:
			return m.create()
		case !m.permits.full: // some permits may be about to be released
			m.permits.full = true
			return []Effect{Survey{Epoch: m.epoch}}
		default:
			return m.fail(WhyBusy)
		}
	case Refused:
		return m.fail(WhyRefused)
	case Unknown:
		if in.Op == OpSurvey {
			return []Effect{Survey{Epoch: m.epoch}}
		}
		return []Effect{List{Epoch: m.epoch}}
	default:
		return stray(in)
	}
}

// looked handles a listing made before we have a node.
func (m *Machine) looked(in Listed) []Effect {
	switch {
	case mixed(m.rule, in.Queue):
		return m.fail(WhyMixed)
	case len(m.rule.Blockers(in.Queue, newcomer)) == 0:
	case m.try && yields(in.Queue) && !m.queues():
		m.patient = true // only from within the queue can it learn whether the lock is held
	case m.try:
		return m.fail(WhyBusy)
	default: // the one node of the lock is another contender's
		m.state, m.older, m.ahead = Waiting, neighbours{in.Queue[0].Text}, 1
		return []Effect{Queue{Ahead: 1}, Watch{Epoch: m.epoch, Node: m.blocker(0)}}
	}
	if m.queues() {
		return []Effect{Survey{Epoch: m.epoch}}
	}
	return m.create()
}

func (m *Machine) stepCreating(in Input) []Effect {
	if all, several := in.(Enqueued); several {
		// A multi-lock goes through the same states. From here on, its first node
		// represents all of them.
		if len(all.Nodes) == 0 { // never: then the answer is Unknown
			return nil
		}
		first := all.Nodes[0]
		if m.why == 0 &&
			slices.ContainsFunc(all.Nodes, func(n events.Name) bool { return n.Check() != nil }) {
			m.own = Own{Name: first}
			return m.fail(WhySequenceEnd)
		}
		in = Created{Epoch: all.Epoch, Node: first, Alone: all.Alone, Fresh: all.Fresh, Token: all.Token}
	}
	switch in := in.(type) {
	case Created:
		m.own = Own{Name: in.Node}
		switch {
		case m.why != 0:
			return m.release()
		case in.Node.Check() != nil:
			// At the end of the sequence, servers assign the same number twice, so the
			// numbers no longer give an order.
			return m.fail(WhySequenceEnd)
		case in.Alone:
			// The create itself proved that no contender is ahead, so neither a listing
			// nor a claim is needed.
			m.own.Owner, m.own.Token = m.session, in.Token
			return m.enter(in.Fresh)
		default:
			return m.list()
		}
	case Entered:
		return m.enteredAtOnce(in)
	case Canceled:
		if m.why == 0 {
			return nil // never: only a withdrawal cancels
		}
		return m.release()
	case Occupied:
		// Another contender owns the lock's single node. If it was created after our look
		// found none, other waiters are about to try the same, so it is better to back
		// off.
		switch {
		case m.why != 0:
			return m.over()
		case m.try || m.attempt == 1:
			return m.list()
		default:
			return m.pause()
		}
	case Refused:
		return m.fail(WhyRefused)
	case Unknown:
		// The reply is lost, and the node may exist. A second node could queue behind it
		// forever.
		return m.recover()
	default:
		return stray(in)
	}
}

// recover looks for nodes that a request of unknown outcome may have created. With the
// barrier, the look sees everything that was executed before it.
func (m *Machine) recover() []Effect {
	m.state = Recovering
	return []Effect{List{Epoch: m.epoch, Attempt: m.attempt, Barrier: true}}
}

func (m *Machine) stepRecovering(in Input) []Effect {
	switch in := in.(type) {
	case Listed:
		switch {
		case in.Own != Own{}:
			return m.found(in)
		case m.own.Name.Text != "" && !m.permits.unproven:
			return m.requeue() // its node is gone from both places
		default:
			return m.restart() // the barrier proves that it was never created
		}
	case Refused:
		// The session deletes what it has listed. Our place in a semaphore's queue may be
		// known already.
		return m.fail(WhyRefused)
	case Unknown:
		return m.recover()
	default:
		return stray(in)
	}
}

func (m *Machine) stepListing(in Input) []Effect {
	switch in := in.(type) {
	case Listed:
		if in.Own == (Own{}) || m.removed {
			return m.requeue()
		}
		return m.found(in)
	case Refused:
		return m.fail(WhyRefused)
	case Unknown:
		return m.list()
	case Paused:
		m.patient = false // the answer says whether the idle node is gone, if there is one
		if !m.up {
			return m.fail(WhyBusy)
		}
		return nil
	case Suspended:
		if m.try && m.waited && !m.patient { // the pause was over before
			return m.fail(WhyBusy)
		}
		return nil
	default:
		return stray(in)
	}
}

// found handles a listing that contains our node. The cases in which the node is not a
// place in the queue come first, then those in which nothing may be granted, then the
// rule.
func (m *Machine) found(in Listed) []Effect {
	if in.Own.Owner != m.session {
		// The node has our GUID, but belongs to an earlier session of ours, and would go
		// away when that session ends.
		return append(m.restart(), Discard{Node: in.Own.Name})
	}
	switch {
	case in.Entered && m.permits.unproven:
		return m.giveBack(in.Own.Name.Text)
	case in.Entered:
		return m.permitsFound(in.Own, in.InUse)
	}
	m.own = in.Own
	// Withdrawn during the look-up: it must not go on to claim.
	if m.why != 0 {
		return m.release()
	}
	if in.Parted {
		return m.requeue() // some of its nodes are gone, so the remaining ones are not a valid place
	}
	if why := m.unfit(in.Size); why != 0 {
		return m.fail(why)
	}
	if mixed(m.rule, in.Queue) {
		return m.fail(WhyMixed)
	}
	// Without a total order of the numbers, two contenders could both believe that they
	// are first.
	if !usable(m.rule, in.Queue, m.own.Name) {
		return m.fail(WhySequenceEnd)
	}
	blockers := m.rule.Blockers(in.Queue, m.own.Name)
	switch {
	case len(blockers) == 0:
		return m.first()
	// A Try ends at a contender, unless that may be a cached lock's idle node, which its
	// process gives up once it sees ours.
	case m.try && !(m.patient && yields(blockers) && ahead(m.rule, in.Queue, m.own.Name) == 1):
		return m.fail(WhyBusy)
	default:
		// A later listing does not give the idle node more time, nor keep the session warm
		// for longer: each bound counts from the first.
		isNew := !m.waited
		pauses := m.try && isNew
		m.state, m.waited = Waiting, true
		// Watch only the nearest older contender. If all waiters watched the oldest,
		// every release would wake all of them.
		m.older, m.member = nearest(m.rule, in.Queue, m.own.Name), blockers[0].Member
		m.ahead = int32(ahead(m.rule, in.Queue, m.own.Name))
		effects := []Effect{Queue{Ahead: int(m.ahead)}, Watch{Epoch: m.epoch, Node: m.blocker(0)}}
		if pauses {
			effects = append(effects, Pause{Epoch: m.epoch, Yield: true})
		}
		if isNew {
			effects = m.warm(effects)
		}
		return effects
	}
}

func (m *Machine) stepWaiting(in Input) []Effect {
	switch in := in.(type) {
	case Gone:
		// The end of any other node does not make it our turn.
		if in.Node.Same(m.blocker(0)) {
			return m.passed()
		}
	case Paused:
		if m.patient {
			return m.fail(WhyBusy)
		}
	case Refused:
		if in.Node.Same(m.blocker(0)) {
			return m.fail(WhyRefused)
		}
	case Reconnected, Unknown:
		// After a reconnect, events arrive in any order, and some servers lose a few. So
		// no watch is trusted any more: a new listing shows what to watch.
		return m.list()
	default:
		return stray(in)
	}
	return nil
}

func (m *Machine) stepPausing(in Input) []Effect {
	if _, over := in.(Paused); !over {
		return stray(in)
	}
	if m.own.Name.Text != "" { // the lock-delay is over
		return m.claim()
	}
	return m.list()
}

// stepAdvancing enters or moves up. The three parts of the answer may be from different
// moments. That is safe: that the blocker left as a holder, and that it was the nearest,
// stays true; and if the next node is deleted later, its watch reports it.
func (m *Machine) stepAdvancing(in Input) []Effect {
	switch in := in.(type) {
	case Advanced:
		switch {
		case m.removed:
			return m.requeue()
		case in.Floor:
			return m.enter(in.Fresh)
		case in.Stands && m.older[1] != "":
			m.state = Waiting
			m.older, m.ahead = m.older.shift(), m.ahead-1
			return m.warm(nil)
		default:
			return m.list()
		}
	case Gone:
		if in.Node.Same(m.blocker(1)) {
			m.older[1] = "" // the answer may say that the node exists, but its end will not be reported again
		}
		return nil
	case Reconnected:
		m.older[1] = "" // the answer and its watch may belong to the previous connection
		return nil
	case Refused:
		return m.refused(in)
	case Unknown:
		return m.list()
	default:
		return stray(in)
	}
}

// refused acts on a refusal while our node waits for its turn, or to enter.
func (m *Machine) refused(in Refused) []Effect {
	switch {
	case in.Missing:
		return m.requeue()
	case m.why == 0 && in.Stale:
		return m.look()
	default:
		return m.fail(WhyRefused)
	}
}

func (m *Machine) stepClaiming(in Input) []Effect {
	switch in := in.(type) {
	case Claimed:
		switch {
		case in.Recorded && !m.detect: // never: then the claim has no Record
			return nil
		case m.removed:
			return m.requeue()
		case !in.Recorded:
			return m.enter(in.Fresh)
		}
		m.recorded = m.recorded || m.recording() == RecordMade && in.Abandoned == nil
		if m.why != 0 {
			m.clean = m.recorded
			return m.release()
		}
		return m.grant(in.Fresh, in.Abandoned)
	case Delayed:
		switch {
		case m.removed:
			return m.requeue()
		case m.why != 0:
			return m.release()
		case m.try:
			return m.fail(WhyBusy)
		default: // it claims again after the lock-delay; see lockdelay.go
			m.state = Pausing
			return []Effect{Queue{Delay: in.For}, Pause{Epoch: m.epoch, For: in.For}}
		}
	case Refused:
		return m.refused(in)
	case Unknown:
		return m.claim()
	default:
		return stray(in)
	}
}

func (m *Machine) stepSurveying(in Input) []Effect {
	switch in := in.(type) {
	case Surveyed:
		return m.surveyed(in)
	case Changed:
		m.permits.changed = true // the answer may be older than this change
		return nil
	case Suspended, Reconnected:
		m.permits.doubted = true // the news that we are first may be older than the connection
		return nil
	case Refused:
		return m.refused(in)
	case Unknown:
		return m.list() // the survey may need another connection
	default:
		return stray(in)
	}
}

func (m *Machine) surveyed(in Surveyed) []Effect {
	if m.removed {
		return m.requeue()
	}
	// Whether we are first is no longer certain, so the survey must not lead to an enter.
	if m.permits.doubted {
		return m.list()
	}
	switch why, room := m.judge(in); {
	case why != 0:
		return m.fail(why)
	case room:
		floor := m.waited && m.leads()
		m.state, m.permits.unproven, m.permits.counted = Entering, false, false
		s, _ := m.rule.(Semaphore)
		return []Effect{Enter{Epoch: m.epoch, Node: m.own.Name, Permits: s.Permits, Version: in.Version,
			Floor: floor}}
	case m.permits.changed:
		return m.look()
	case m.try && m.permits.full:
		return m.fail(WhyBusy)
	case !m.permits.full:
		m.permits.full = true
		return m.survey()
	default:
		m.state = Full
		return []Effect{Queue{Ahead: 0}}
	}
}

func (m *Machine) stepFull(in Input) []Effect {
	switch in.(type) {
	case Changed:
		return m.look()
	case Reconnected:
		return m.survey()
	default:
		return stray(in)
	}
}

// stepEntering takes the permits in exchange for our node. The token is still that of our
// place in the queue: contenders leave the queue in order, so tokens grow from grant to
// grant.
func (m *Machine) stepEntering(in Input) []Effect {
	switch in := in.(type) {
	case Entered:
		if len(in.Permits) == 0 {
			return nil
		}
		m.takePermits(in.Permits[0])
		switch {
		case m.why != 0:
			return m.release()
		case in.InUse > m.permits.size:
			return m.recount()
		default:
			return m.enter(in.Fresh)
		}
	case Refused:
		return m.refused(in)
	case Unknown:
		return m.recover()
	default:
		return stray(in)
	}
}

func (m *Machine) stepHeld(in Input) []Effect {
	switch in := in.(type) {
	case Suspended:
		if m.strict {
			return m.lose(events.ReasonSuspended)
		}
	case LeaseRanOut:
		// From now on the servers may expire the session, and the next holder may enter.
		return m.lose(events.ReasonLeaseRanOut)
	case Overdue:
		if m.by != 0 && in.By >= m.by { // later if a sooner deadline was reported meanwhile
			return m.lose(events.ReasonRevoked)
		}
	case Reconnected:
		if !m.verifying {
			m.verifying = true // the event that our node is gone may be lost
			return m.verify()
		}
	case Claimed:
		m.verifying = m.verifying && !in.Held
	case Refused:
		// The claim proves that the node is gone, even though no watch reported it.
		if in.Missing {
			return m.ownGone()
		}
		m.verifying = m.verifying && !in.Held
	case Unknown:
		// The claim may also be one of [Contention], which repeats it.
		if in.Held && m.verifying {
			return m.verify()
		}
	default:
		return stray(in)
	}
	return nil
}

// verify asks whether the node of a holder still exists.
func (m *Machine) verify() []Effect {
	return []Effect{Claim{Epoch: m.epoch, Node: m.own.Name, Held: true}}
}

func (m *Machine) stepReleasing(in Input) []Effect {
	switch in.(type) {
	case Deleted:
		return m.over()
	case Refused:
		if m.why == WhyReleased || m.why == WhyPanicked {
			m.why = WhyRefused // the caller must learn that the node, or its record, still exists
		}
		return m.over()
	case Unknown:
		return m.remove()
	default:
		return stray(in)
	}
}

// onWithdrawn ends the acquisition in any state: every node is deleted. If only an answer
// in progress will say which nodes exist, it waits for that first.
func (m *Machine) onWithdrawn(in Withdrawn) []Effect {
	if m.why != 0 && m.state != Lapsed || m.state == Over {
		if in.Why == WhyNoSession {
			return m.finish(nil) // it is ending already, and the servers do not answer
		}
		return nil
	}
	if m.detect {
		m.leavesClean(in)
	}
	if m.why == 0 {
		m.why = in.Why
	}
	var effects []Effect
	switch m.state {
	case Idle, Looking:
		return m.over()
	case Creating:
		// If the Create was sent, its answer shows what to delete.
		effects = []Effect{Cancel{Epoch: m.epoch}}
	case Recovering, Entering:
		// The answer in progress says what to delete.
	default:
		switch {
		case m.removed && !m.several():
			return m.over()
		case m.state == Claiming && m.recording() == RecordMade:
			// The answer in progress says whether the record is ours.
		default:
			effects = m.release()
		}
	}
	if !m.up || m.why == WhyNoSession || m.why == WhyLost && !in.Ran {
		// Nothing is held, and the servers may not answer for a long time. Only an
		// acquisition with a function waits until its node is gone.
		return m.finish(effects)
	}
	return effects
}

// onExpired starts over if the caller is still waiting, and otherwise ends the
// acquisition: a dead session has no nodes.
func (m *Machine) onExpired() []Effect {
	place := m.own.Name.Text != ""
	m.epoch, m.session, m.up = 0, 0, false
	m.own = Own{} // no node is left
	switch {
	case m.state == Held:
		return m.lose(events.ReasonSessionExpired)
	case m.state == Lapsed || m.state == Over || m.state == Idle:
		return nil // if it is lapsed, only the caller's function is still to return
	case m.why != 0:
		// It is ending already, and the end of the session has deleted its nodes.
		return m.over()
	}
	effects := m.begin()
	// It queues again at the end, so the position that the caller knows is outdated.
	if place {
		effects = append(effects, Requeue{})
	}
	return effects
}

// onRevocationRequested passes a revocation request on for the caller to decide. The
// request is only data in the node, so the lock is still held.
//
// Of several requests, the one with the earliest deadline counts, and the caller is
// notified of each that is earlier than the last. A request with a later deadline, or
// none, adds nothing. A request that came before the Grant is reported with it.
func (m *Machine) onRevocationRequested(in RevocationRequested) []Effect {
	// A watch on the node ahead also reads the requests to that contender, which are not
	// ours.
	if m.own.Name.Text == "" || !in.Node.Same(m.own.Name) || m.why != 0 {
		return nil
	}
	sooner := in.By != 0 && (m.by == 0 || in.By < m.by)
	// Every read of the node finds the same request again, but it is reported only once.
	if m.asked && !sooner {
		return nil
	}
	m.asked = true
	if sooner {
		m.by = in.By
	}
	// Before the Grant there is nothing to give up. The request follows the Grant.
	if m.state != Held {
		return nil
	}
	return []Effect{Revoke{By: m.by}}
}
