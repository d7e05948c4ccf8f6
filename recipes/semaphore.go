package recipes

import "github.com/zkgrant/zkgrant/events"

// Semaphore admits contenders as long as there are permits, in the order in which they
// came. Each takes all of its permits at once or none, and whoever is first keeps the others
// waiting until there are as many as it wants; so two that want more than half never
// wait for each other, and one that wants many is not overtaken for ever.
//
// Its queue is that of a mutex. Who is first there asks how many permits there are and
// how many are in use, and if there is room for its own it trades its node in the
// queue for its permits, in one transaction. That is safe with what a lagging replica
// says of the permits:
//
//  1. Only the first in the queue makes permits, and it is the first for as long as its
//     node exists.
//  2. Whoever was first before has left the queue in the transaction that made its
//     permits. That this one has left was heard on the same connection, so a later
//     survey has these permits, or they have been given back.
//  3. From then on there can only be fewer, until its own transaction has removed
//     its node, on which that depends.
//
// On another connection it may be otherwise: a client does not come to a replica that is behind
// any answer it has had, but of a watch that fires it takes no note. 1. A trades its node for
// the last permit; 2. B, behind it, hears that the node is gone, and sends its survey; 3. its
// connection breaks; 4. it finds a replica that has not heard of A's transaction, on which there
// is room, and its own node. So behind a reconnect it lists again, where it would see A. An answer
// that comes between 3 and the news of 4 is no better: a request that the client had not sent yet
// when the connection broke goes out on the next one, ahead of the news.
//
// The size may change at any time, so the transaction depends on its version, too.
//
// Curator's contenders do not keep to 1: 1. C is the first, and its request to take a permit is lost with its session, and
// its node in the queue; 2. B, of ours, is the first, and finds room; 3. C asks again in its next session, takes a permit, and
// counts one, which is its own: it is in; 4. B trades its node for a permit. Curator survives this by counting when the
// permit is taken, and by waiting if there are too many; so B counts once more, at that moment or later, and gives way. Of
// two who count when both permits are there at least one sees that, and whoever counts before the other's is there is seen
// by the other.
type Semaphore struct {
	Size    int32 // how many permits there are, in the opinion of whoever asks
	Permits int32 // how many of them are to be taken
	Adopt   bool  // another opinion, if there is one, counts
}

// Kind is that of a mutex, as which everybody queues up.
func (Semaphore) Kind() events.Kind { return events.KindLock }

// Exclusive is true: there is one first in the queue.
func (Semaphore) Exclusive() bool { return true }

// Blockers returns the nearest older contender.
func (Semaphore) Blockers(queue []events.Name, me events.Name) []events.Name {
	return Mutex{}.Blockers(queue, me)
}

// Size returns how many permits the semaphore was last known to have, or 0.
func (m Machine) Size() int { return int(m.permits.size) }

// queues tells whether the machine is one of a semaphore and has not entered.
func (m *Machine) queues() bool {
	_, ok := m.rule.(Semaphore)
	return ok && !m.permits.entered
}

// unsettled tells whether a listing should bring the size: whoever is of another opinion
// need not wait until it is the first to hear of it.
func (m *Machine) unsettled() bool { return m.queues() && !m.permits.settled }

// several tells whether there may be more permits, or nodes of a multi-lock, than the one that the machine knows by
// name. If one is gone, the others are not, but with their session.
func (m *Machine) several() bool {
	if rule, ok := m.rule.(Multi); ok {
		return len(rule) > 1 && m.own.Name.Text != ""
	}
	s, _ := m.rule.(Semaphore)
	return m.permits.entered && s.Permits > 1
}

// survey asks whether there is room. Only one who has found none has to hear of changes,
// and asks once more for that: a watch that is armed by one who enters right away would
// tell it of its own permits.
func (m *Machine) survey() []Effect {
	m.forget()
	m.state = Surveying
	m.permits.changed, m.permits.doubted = false, false
	return []Effect{Survey{Epoch: m.epoch, Node: m.own.Name.Text, Watch: m.permits.full}}
}

// look begins a survey anew, without watches.
func (m *Machine) look() []Effect {
	m.permits.full = false
	return m.survey()
}

// unfit judges the size, 0 of which says nothing. Another opinion counts at the first
// look. Later on the size is followed; but who wants more permits than there are would
// keep the queue waiting until somebody makes more.
func (m *Machine) unfit(size int32) Why {
	s, ok := m.rule.(Semaphore)
	if !ok || size == 0 {
		return 0
	}
	m.permits.size = size
	switch {
	case !m.permits.settled && !s.Adopt && size != s.Size:
		return WhySizeMismatch
	case s.Permits > size:
		return WhyPermits
	default:
		m.permits.settled = true
		return 0
	}
}

func (m *Machine) onSurveyed(in Surveyed) []Effect {
	looking := m.state == Looking
	if in.Epoch != m.epoch || m.epoch == 0 || !looking && m.state != Surveying {
		return nil
	}
	if m.removed {
		return m.requeue()
	}
	if m.permits.doubted && !looking {
		return m.list()
	}
	s, _ := m.rule.(Semaphore)
	why := m.unfit(in.Size)
	room := int64(in.InUse)+int64(s.Permits) <= int64(in.Size)
	switch {
	case why == 0 && room && looking:
		return m.create()
	case why == 0 && room:
		floor := m.waited && m.leads()
		m.state = Entering
		return []Effect{Enter{Epoch: m.epoch, Node: m.own.Name.Text, Permits: s.Permits, Version: in.Version, Floor: floor}}
	case why == 0 && m.try:
		why = WhyBusy
	}
	switch {
	case why != 0 && looking:
		m.why = why
		return m.over()
	case why != 0:
		return m.fail(why)
	case m.permits.changed:
		return m.look()
	case !m.permits.full:
		m.permits.full = true
		return m.survey()
	default:
		m.state = Full
		return []Effect{Queue{Ahead: 0}}
	}
}

// onChanged looks again. News that overtake the answer to a survey may be what makes
// room, of which that answer does not know.
func (m *Machine) onChanged(in Changed) []Effect {
	switch {
	case in.Epoch != m.epoch:
		return nil
	case m.state == Full:
		return m.look()
	case m.state == Surveying:
		m.permits.changed = true
		return nil
	default:
		return nil
	}
}

func (m *Machine) onAdopted() []Effect {
	if s, ok := m.rule.(Semaphore); ok {
		s.Adopt = true
		m.rule = s
	}
	return nil
}

// onEntered takes the permits for the own node. The token stays that of the place in the
// queue: places are left in their order, so tokens grow from grant to grant.
func (m *Machine) onEntered(in Entered) []Effect {
	if in.Epoch != m.epoch || m.state != Entering || len(in.Permits) == 0 {
		var effects []Effect
		for _, permit := range in.Permits {
			effects = append(effects, Discard{Node: permit})
		}
		return effects
	}
	m.takePermits(in.Permits[0])
	switch {
	case m.why != 0:
		return m.release()
	case in.InUse > m.permits.size:
		return m.giveWay()
	default:
		return m.enter(in.Fresh)
	}
}

// onPermitsFound goes on with permits that a look-up has found, because the answer to Enter was
// lost. The claim tells whether they are all there.
func (m *Machine) onPermitsFound(own Own, inUse int32) []Effect {
	m.takePermits(own.Name.Text)
	switch {
	case m.why != 0:
		return m.release()
	case inUse > m.permits.size:
		return m.giveWay()
	default:
		return m.claim()
	}
}

// giveWay gives the permits back because more are in use than there are, and queues up anew. Some contender has made
// one without being the first in the queue; see Semaphore. It waits until there is room, as Curator's do, and ours would
// be in its way for as long as they stand.
func (m *Machine) giveWay() []Effect {
	if m.try {
		return m.fail(WhyBusy)
	}
	effects := []Effect{Discard{Node: m.own.Name.Text}}
	return append(append(effects, m.restart()...), Requeue{})
}

func (m *Machine) takePermits(first string) {
	m.own = Own{Name: events.Name{Text: first}, Owner: m.session, Token: m.own.Token}
	m.permits.entered, m.removed = true, false
}

// abandon has removed what may be left of several nodes of which one is gone.
func (m *Machine) abandon() []Effect {
	if !m.several() {
		return nil
	}
	return []Effect{Discard{Node: m.own.Name.Text}}
}

// enterPlan trades the own node for the permits. Its first operations are those that may fail for reasons of the protocol. Where the
// directory of the permits is ours, its marker is written once more: the answer has its Stat, and so counts the permits.
func (e Errand) enterPlan(v View) Plan {
	dir := v.Permits.Writable()
	p := planOf(0, Operation{Do: DoCheck, On: OnSize}, Operation{Do: DoDelete, On: OnOwn}, Operation{Do: DoCreate, On: OnPermits})
	if dir != 0 && v.Brief {
		p.dir = dir
		p = p.and(Operation{Do: DoSet, On: OnPermitDirectory, With: WithMarker})
	}
	if e.Floor && v.floor() {
		p = p.and(Operation{Do: DoSet, On: OnDirectory, With: WithFloor})
	}
	return p
}

// entered takes the answer to an enter. If that has not counted the permits of the directory that was known, they are counted behind it.
func (e Errand) entered(p Plan, a Answer) Meaning {
	missing := a.Result == ResultNoNode
	switch {
	case a.Result == ResultDone && len(a.Permits) == 0:
		return e.unknown() // it was executed, and a look-up finds the names
	case a.Result == ResultDone && p.dir != 0 && a.Stat.Czxid == p.dir:
		return tell(Entered{Epoch: e.Epoch, Permits: a.Permits, InUse: a.Stat.Children})
	case a.Result == ResultDone:
		return Meaning{Then: ThenCount, In: Entered{Epoch: e.Epoch, Permits: a.Permits}}
	case a.At.On == OnSize && (missing || a.Result == ResultBadVersion):
		return tell(Refused{Epoch: e.Epoch, Op: e.Op, Stale: true})
	case a.At.On == OnOwn:
		return e.refused(missing)
	case missing && (a.At.On == OnPermits || a.At.On == OnPermitDirectory):
		return e.next(ThenMakeParents).noting(NoteGone)
	case a.At.Do == DoSet:
		return e.next(ThenAgain).noting(NoteShut)
	default:
		return e.refused(false)
	}
}
