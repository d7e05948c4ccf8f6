package recipes

import (
	"path"

	"github.com/zkgrant/zkgrant/events"
)

// Semaphore admits contenders in order of arrival, as long as there are permits. Each
// takes all of its permits at once or none, and the first in the queue keeps the others
// waiting until there are enough for it. So two contenders that each need more than half
// never wait for each other, and one that needs many is not overtaken forever.
//
// Its queue is that of a mutex. The first in the queue reads how many permits there are
// and how many are in use. If there is room, it trades its node in the queue for its
// permits, in one transaction. That is safe even if a lagging replica answers about the
// permits:
//
//  1. Only the first in the queue creates permits, and it is first for as long as its
//     node exists.
//  2. The previous first left the queue in the transaction that created its permits. The
//     news of that came on the same connection, so a later survey sees these permits,
//     unless they were released.
//  3. From then on, the number of permits in use can only fall, until the first's own
//     transaction, which depends on its node, has deleted that node.
//
// On another connection, step 2 may not hold. A client never connects to a replica that
// is older than an answer it has received. But it does not note the zxid of a watch
// event:
//
//  1. A trades its node for the last permit.
//  2. B, next in the queue, learns that the node is gone, and sends its survey.
//  3. B's connection breaks.
//  4. B connects to a replica that does not know A's transaction. There, it finds room,
//     and its own node.
//
// So after a reconnect B lists again, and would see A. An answer that arrives between
// step 3 and the news of step 4 is no better: a request that the client had not sent when
// the connection broke is sent on the next one, before that news.
//
// The size may change at any time, so the transaction depends on its version, too.
//
// Curator's contenders break the first rule:
//
//  1. C is first. Its session ends, and its request for a permit and its node are lost.
//  2. B, one of ours, is now first, and finds room.
//  3. C asks again in its next session, creates a permit, counts only that one, and
//     enters.
//  4. B trades its node for a permit.
//
// Curator survives this because it counts after it has created its permit, and waits if
// there are too many. So B also counts once more, in that transaction or later, and gives
// way. If both count when both permits exist, at least one sees that. If one counts
// before the other's permit exists, the other sees the first one's.
//
// A contender that expects the semaphore to be free takes its permits at once, without a
// place in the queue. The answer to that transaction says whether it was right: the queue
// is empty, and there is room. Otherwise it gives the permits back and queues up. Let F
// be the first in the queue, and X a contender that takes permits at once:
//
//  1. If F is in the queue when X takes them, X sees a contender, and does not hold.
//  2. If X holds, F came later, and its survey sees X's permits.
//
// So rule 1 holds for all permits whose owners hold. Permits about to be given back may
// be counted for a moment, so a contender that finds no room looks once more. If the
// answer was lost, permits taken at once prove nothing, because it may have said that
// they must be given back:
//
//  1. F queues up, and finds room for one.
//  2. X takes a permit at once. The answer, which would have shown F, is lost.
//  3. F trades its node for a permit.
//  4. X finds its permit.
type Semaphore struct {
	Size    int32 // how many permits there are, as the caller expects
	Permits int32 // how many permits the contender needs
	Adopt   bool  // accept the size that is found instead of Size
}

// Kind returns that of a mutex: all contenders queue as such.
func (Semaphore) Kind() events.Kind { return events.KindLock }

// Exclusive returns true: only one contender is first in the queue.
func (Semaphore) Exclusive() bool { return true }

// Blockers returns the nearest older contender.
func (Semaphore) Blockers(queue []events.Name, me events.Name) []events.Name {
	return Mutex{}.Blockers(queue, me)
}

// queues reports whether the machine is that of a semaphore and has not entered.
func (m *Machine) queues() bool {
	_, ok := m.rule.(Semaphore)
	return ok && !m.permits.entered
}

// unsettled reports whether a listing should also read the size. So a contender that
// expects another size fails early, not only when it is first.
func (m *Machine) unsettled() bool { return m.queues() && !m.permits.settled }

// several reports whether there may be more nodes than the one whose name the machine
// has: permits, or nodes of a multi-lock. If one of them is deleted, the others would
// stay until the session ends.
func (m *Machine) several() bool {
	if rule, ok := m.rule.(Multi); ok {
		return len(rule) > 1
	}
	s, _ := m.rule.(Semaphore)
	return m.permits.entered && s.Permits > 1
}

// survey asks whether there is room. A contender that found none asks again, with
// watches. If the first survey watched already, a contender that enters right away would
// be notified of its own permits.
func (m *Machine) survey() []Effect {
	m.listing = listing{}
	m.state = Surveying
	m.permits.changed, m.permits.doubted = false, false
	return []Effect{Survey{Epoch: m.epoch, Node: m.own.Name, Watch: m.permits.full && !m.try}}
}

// Findings is the result of the reads of a survey.
type Findings struct {
	Size    int32 // 0 if the size node does not contain a number
	Version int32
	InUse   int32
	Gone    bool // the contender's node does not exist
}

// Looks reports whether the survey also reads the contender's node.
func (e Survey) Looks() bool { return e.Watch && e.Node.Text != "" }

// Means returns the answer to a survey.
func (e Survey) Means(f Findings) Input {
	if f.Gone || f.Size == 0 {
		return Refused{Epoch: e.Epoch, Op: OpSurvey, Missing: f.Gone}
	}
	return Surveyed{Epoch: e.Epoch, Size: f.Size, Version: f.Version, InUse: f.InUse}
}

// look surveys from the start, without watches.
func (m *Machine) look() []Effect {
	m.permits.full = false
	return m.survey()
}

// unfit returns why the acquisition must end because of this size, or 0. At the first
// look, a size other than the expected one is an error; later changes are accepted. A
// contender that needs more permits than there are always ends, because it would keep the
// queue waiting until the size grows. A size of 0 means unknown.
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

// judge decides what a survey means for this contender.
func (m *Machine) judge(in Surveyed) (why Why, room bool) {
	s, _ := m.rule.(Semaphore)
	return m.unfit(in.Size), int64(in.InUse)+int64(s.Permits) <= int64(in.Size)
}

// permitsFound continues with permits that a look-up has found after the answer to Enter
// was lost. The claim then checks that all of them exist.
func (m *Machine) permitsFound(own Own, inUse int32) []Effect {
	m.takePermits(own.Name.Text)
	switch {
	case m.why != 0:
		return m.release()
	case inUse > m.permits.size && m.permits.counted:
		return m.giveWay()
	case inUse > m.permits.size:
		return m.recount()
	default:
		return m.claim()
	}
}

// recount looks once more if more permits are in use than there are: another contender
// may be about to give some back.
func (m *Machine) recount() []Effect {
	m.permits.counted = true
	return m.recover()
}

// enteredAtOnce handles permits that were taken without a place in the queue.
func (m *Machine) enteredAtOnce(in Entered) []Effect {
	if len(in.Permits) == 0 {
		return nil
	}
	if why := m.unfit(in.Size); why != 0 && m.why == 0 {
		m.takePermits(in.Permits[0])
		return m.fail(why)
	}
	if in.Spare || m.why != 0 {
		return m.giveBack(in.Permits[0])
	}
	m.own.Token = in.Token
	m.takePermits(in.Permits[0])
	return m.enter(in.Fresh)
}

// giveBack gives back permits that were taken at once, and queues up, in one transaction.
// If its outcome is unknown, a look-up finds either the place in the queue or the
// permits.
func (m *Machine) giveBack(first string) []Effect {
	m.takePermits(first)
	if m.why != 0 {
		return m.release()
	}
	m.state, m.permits.entered = Creating, false
	return []Effect{Create{Epoch: m.epoch, Attempt: m.attempt, Back: m.own.Name}}
}

// giveWay gives the permits back because more are in use than there should be, and queues
// again. Another contender, such as one of Curator's, has created one without being first
// in the queue; see Semaphore. That contender waits until there is room, and our permits
// would be in its way.
func (m *Machine) giveWay() []Effect {
	if m.try {
		return m.fail(WhyBusy)
	}
	effects := []Effect{Discard{Node: m.own.Name}}
	return append(append(effects, m.restart()...), Requeue{})
}

func (m *Machine) takePermits(first string) {
	m.own = Own{Name: events.Name{Text: first}, Owner: m.session, Token: m.own.Token}
	m.permits.entered, m.removed = true, false
}

// fitsAtOnce reports whether a create takes its permits at once: as far as the session
// knows, the queue is empty and there is room.
func (e *Errand) fitsAtOnce(v View) bool {
	free := v.Permits.Children()+int(e.Permits)-len(e.Leavers) <= int(e.Count)
	return e.Count > 0 && v.Brief && free &&
		v.Permits.Writable() != 0 && v.Dir.markable() != 0 && v.Dir.Children() == 0
}

// taking adds the creates of the permits to the plan.
func (e *Errand) taking(p Plan) Plan {
	for range e.Permits {
		p = append(p, create(OnPermits, e.Permit, e.Data, Ephemeral|Numbered))
	}
	return p
}

// atOncePlan takes the permits without a place in the queue. The Stats in the answer say
// whether the queue is empty, and how many permits there are.
func (e *Errand) atOncePlan(v View, p Plan) Plan {
	p = e.taking(append(p, check(OnSize, e.Size).of(e.Version)))
	permits, queue := set(OnPermitDirectory, path.Dir(e.Permit), marker), set(OnDirectory, e.Dir, marker)
	permits.dir, queue.dir = v.Permits.Writable(), v.Dir.Writable()
	return append(p, permits, queue)
}

// atOnce reports whether the plan takes permits without a place in the queue.
func (p Plan) atOnce() bool {
	return len(p) > 1 && p[len(p)-2].On == OnPermitDirectory && p[len(p)-1].On == OnDirectory
}

// enteredAtOnce handles the answer to a plan of atOncePlan.
func (e *Errand) enteredAtOnce(p Plan, a Answer) Meaning {
	if len(a.Nodes) == 0 || len(a.Stats) < 2 {
		return e.unknown() // the permits may exist; a look-up finds them
	}
	in := Entered{Epoch: e.Epoch, Size: e.Count, Token: a.Stats[0].Mzxid}
	permits, queue := a.Stats[0], a.Stats[1]
	for _, node := range a.Nodes {
		in.Permits = append(in.Permits, PermitName(node))
	}
	last := len(p) - 1
	in.InUse = permits.Children
	counted := permits.Czxid == p[last-1].dir && queue.Czxid == p[last].dir
	in.Spare = !counted || queue.Children > 0 || permits.Children > e.Count
	if queue.Children > 0 {
		return Meaning{In: in, Note: NoteSeen, Dir: e.Dir, stat: queue}
	}
	return Meaning{In: in, Note: NoteSeen, Dir: path.Dir(e.Permit), stat: permits}
}

// notAtOnce handles the refusal of such a plan. Nothing was executed, and the contender
// queues up.
func (e *Errand) notAtOnce(a Answer, at Operation) Meaning {
	note := NoteGone
	if a.Result != ResultNoNode {
		note = NoteShut
	}
	e.Count = 0
	m := Meaning{Then: ThenAgain}
	if at.On == OnPermits || at.Do == DoSet {
		m = m.noting(note, at)
	}
	return m
}

// enterPlan trades the contender's node for the permits. The operations that the protocol
// expects to fail at times come first. If the directory of the permits is ours, its
// marker is written again, so that the answer has its Stat, which counts the permits.
func (e *Errand) enterPlan(v View) Plan {
	p := Plan{check(OnSize, e.Size).of(e.Version), remove(OnOwn, e.Nodes[0])}
	p = e.taking(p)
	counts := set(OnPermitDirectory, path.Dir(e.Permit), marker)
	if counts.dir = v.Permits.Writable(); counts.dir != 0 && v.Brief {
		p = append(p, counts)
	}
	return e.leavingFloor(p, v)
}

// entered handles the answer to an Enter. If it does not have the count of permits in the
// known directory, they are counted afterwards.
func (e *Errand) entered(p Plan, a Answer) Meaning {
	if a.Result == ResultDone {
		return e.counted(p, a)
	}
	missing, at := a.Result == ResultNoNode, p.Refused(a)
	switch {
	case at.On == OnSize && (missing || a.Result == ResultBadVersion):
		return Meaning{In: Refused{Epoch: e.Epoch, Op: e.Op, Stale: true}}
	case at.On == OnOwn:
		return e.refused(missing)
	case missing && (at.On == OnPermits || at.On == OnPermitDirectory):
		return Meaning{Then: ThenMakeParents}.noting(NoteGone, at)
	case at.Do == DoSet:
		return Meaning{Then: ThenAgain}.noting(NoteShut, at)
	default:
		return e.refused(false)
	}
}

func (e *Errand) counted(p Plan, a Answer) Meaning {
	in, stat := Entered{Epoch: e.Epoch}, a.stat()
	for _, node := range a.Nodes {
		in.Permits = append(in.Permits, PermitName(node))
	}
	if len(in.Permits) == 0 {
		return e.unknown() // the transaction was executed; a look-up finds the names
	}
	for _, o := range p {
		if o.On == OnPermitDirectory && o.dir == stat.Czxid {
			in.InUse = stat.Children
			return Meaning{In: in}
		}
	}
	return Meaning{Then: ThenCount, In: in}
}

// PermitName returns the name that a machine uses for a permit: its path below the
// semaphore's.
func PermitName(permit string) string {
	dir, name := path.Split(permit)
	return path.Base(dir) + "/" + name
}

// LooksForPermits reports whether to search the permits of a semaphore for the GUID, too,
// after listing its queue without finding it: the transaction that creates them may have
// been executed, and its answer lost. After the barrier, it was executed or never will
// be.
func (e List) LooksForPermits(l Listed) bool { return e.Barrier && l.Own == Own{} }

// Permits returns the answer for an attempt that has permits: the first one, the session
// that owns them, and how many permits are in use in all.
func (l Listed) Permits(first string, owner int64, inUse int32) Listed {
	l.Own, l.Entered, l.InUse = Own{Name: events.Name{Text: first}, Owner: owner}, true, inUse
	return l
}
