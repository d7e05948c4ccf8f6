package session

import "iter"

// This file is about the order in which requests are made. It is plain data: what goes first is decided here, and done elsewhere.

// urgency orders the requests: a request waits behind those that are more urgent, and behind earlier ones that are as urgent.
type urgency uint8

const (
	// proving: it tells whether a holder still holds.
	proving urgency = iota
	// handing: it gives a node up, or a waiter of which the turn may have come waits for it.
	handing
	// observing: it looks for a leader. After a reconnect there is one for each election that is observed, and few are made at a
	// time.
	observing
	// looking: it reads a queue, which may be long, and few are made at a time.
	looking
	// joining: a newcomer wants to queue up. There may be any number of them, and always one that waits.
	joining
	// cleaning: it removes a directory that is not used any more. No caller waits for it.
	cleaning

	urgencies
)

// What is under way at a time is bounded for all requests together, see parallel, and for each half of them. Without bounds for the
// halves one could wait for the other for ever:
//
//  1. A thousand callers each release a lock and ask for it again, in a loop.
//  2. Each of these turnovers is urgent, because the release is.
//  3. So there is always an urgent request that waits.
//
// So the requests that are not urgent have room of their own. And a release finds room, and at most mostJoining requests before it
// at the server.
const (
	mostUrgent  = parallel - parallel/8
	mostJoining = parallel / 2
)

// pending holds the requests that wait for a connection or for room, and counts those that are under way. The zero value is empty.
type pending struct {
	lanes    [urgencies]lane
	underWay [urgencies]int
}

// lane is a list of requests, the oldest first.
type lane struct{ first, last *slot }

// slot is a request's place. Each kind of request has one, and waits at one place at a time.
type slot struct {
	prev, next *slot
	waits      request // the request itself, while it waits
	lane       urgency // where it waits, or did
}

func (p *slot) where() *slot { return p }

// These do nothing, for the kinds of requests that do not need them.
func (*slot) begins(*Session) {}
func (*slot) ends(*Session)   {}

// add has the request wait, behind those that are as urgent.
func (q *pending) add(r request) {
	p := r.where()
	p.waits, p.lane = r, r.urgency()
	l := &q.lanes[p.lane]
	p.prev = l.last
	if l.last == nil {
		l.first = p
	} else {
		l.last.next = p
	}
	l.last = p
}

// hasten has a waiting request go before those that are less urgent than it has become.
func (q *pending) hasten(r request) {
	if p := r.where(); p.waits != nil && r.urgency() < p.lane {
		q.remove(r)
		q.add(r)
	}
}

// remove takes a request out. It reports false, and does nothing, if the request does not wait.
func (q *pending) remove(r request) bool {
	p := r.where()
	if p.waits == nil {
		return false
	}
	l := &q.lanes[p.lane]
	if p.prev == nil {
		l.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		l.last = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.prev, p.next, p.waits = nil, nil, nil
	return true
}

// next returns the request that is to be made next, or nil if there is none that has room. The request waits until it is removed.
func (q *pending) next() request {
	for u := range q.lanes {
		if first := q.lanes[u].first; first != nil && q.room(urgency(u)) {
			return first.waits
		}
	}
	return nil
}

// first returns the request of an urgency that has waited longest, or nil.
func (q *pending) first(u urgency) request {
	if first := q.lanes[u].first; first != nil {
		return first.waits
	}
	return nil
}

func (q *pending) room(u urgency) bool {
	urgent := q.underWay[proving] + q.underWay[handing]
	patient := q.underWay[observing] + q.underWay[looking] + q.underWay[joining]
	switch u {
	case proving, handing:
		return urgent < mostUrgent
	case observing:
		return q.underWay[observing] < mostLeaderReads && patient < mostJoining
	case looking:
		return q.underWay[looking] < mostLooks && patient < mostJoining
	case cleaning:
		return q.underWay[cleaning] < mostCleaning
	default:
		return patient < mostJoining
	}
}

// begun counts a request that is under way, until it has ended.
func (q *pending) begun(r request) { q.underWay[r.where().lane]++ }

func (q *pending) ended(r request) { q.underWay[r.where().lane]-- }

// all goes through the requests that wait, the most urgent first. The current one may be removed meanwhile.
func (q *pending) all() iter.Seq[request] {
	return func(yield func(request) bool) {
		for u := range q.lanes {
			for p := q.lanes[u].first; p != nil; {
				next := p.next
				if !yield(p.waits) {
					return
				}
				p = next
			}
		}
	}
}

// parallel bounds the requests that are under way at a time. Each takes a goroutine. The server executes the requests of one
// session one after the other.
const parallel = 256

// mostLeaderReads bounds the leader reads that are under way at a time, as mostLooks bounds the looks.
const mostLeaderReads = 8

// mostCleaning bounds the directories of which the removal is under way.
const mostCleaning = 32

// mostLooks bounds the looks under way at a time. Each takes one of the places of requests, for as long as all of its readings take.
const mostLooks = 8
