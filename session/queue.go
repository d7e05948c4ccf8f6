package session

import (
	"errors"
	"fmt"
	"iter"
	"runtime"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/budget"
)

// This file is about the way of a request: parked, made, answered, or refused because it
// is too late; about the order in which requests are made, which is plain data
// ([pending]); and about the room that the nodes of a request need ([seeker]).

// request is work for the client's blocking calls. Each kind has a [slot] in it.
type request interface {
	// admit makes the request wait, or answers it without a server.
	admit(s *Session)
	// meantFor returns the epoch in which it may be made; 0 is any.
	meantFor() recipes.Epoch
	// do makes the calls, in a goroutine of its own. The loop handles the outcome by
	// calling settle; err is the error of the server or the client.
	do(c *client) (settle func(*Session), err error)
	// refuse is called instead of do if it is too late.
	refuse()
	// urgency returns how urgent it is when it begins to wait.
	urgency() urgency
	// where returns its place among the requests that wait.
	where() *slot
	// begins says that it does not wait any more, because it is about to be made or
	// refused. ends says that it was refused, or that its caller does not wait any more.
	// A kind of request may also call its own ends when it is answered.
	begins(s *Session)
	ends(s *Session)
}

// finish ends what was counted as in flight: calls of the client, in a goroutine of their
// own. While there are any the client is not closed.
func (s *Session) finish(c *client) {
	c.inflight--
	if c.isOver() && c.inflight == 0 {
		s.endClient(c)
	}
	if s.quiet != nil {
		s.quiesce()
	}
}

// submit has the loop take a request. It reports false if nothing is left of the session.
func (s *Session) submit(r request) bool { return s.loop.Post(func() { s.take(r) }) }

// postFor has the loop call f, unless the session of the client is over by then.
func (s *Session) postFor(c *client, f func()) {
	s.loop.Post(func() {
		if !c.isOver() {
			f()
		}
	})
}

// take admits a request. One that is too late is refused at once: requests before it may
// wait for a connection, and it need not.
func (s *Session) take(r request) {
	if s.late(r) {
		s.refuse(r)
		return
	}
	r.admit(s)
}

func (s *Session) refuse(r request) {
	r.refuse()
	r.ends(s)
}

// late reports whether it is too late for the request.
func (s *Session) late(r request) bool {
	c, epoch := s.client, r.meantFor()
	return s.closing || epoch != 0 && (c == nil || c.isOver() || epoch != c.epoch)
}

// sweep refuses every request that is too late.
func (s *Session) sweep() {
	var late []request
	for r := range s.pending.all() {
		if s.late(r) {
			s.pending.remove(r)
			r.begins(s)
			late = append(late, r)
		}
	}
	if len(s.roomless) > 0 {
		late = append(late, s.takeRoomless(s.late)...)
	}
	for _, r := range late {
		s.refuse(r)
	}
}

// pump starts what can be started, in order. The loop calls it when it finds no more to
// do, so a lock that is released and asked for again at once can have both done together.
func (s *Session) pump() {
	if s.cfg.Identities != nil {
		s.noteNodes()
	}
	for c := s.client; c != nil && c.phase.Load() == phaseUp && !s.last; {
		r := s.pending.next()
		if r == nil {
			return
		}
		s.pending.remove(r)
		r.begins(s)
		if s.late(r) { // a request that was to be made again
			s.refuse(r)
			continue
		}
		of, own := r.(*seatRequest)
		switch {
		case own && of.lane == proving: // claims of holders are made together
			r = of.gatherClaims(s)
		case own && of.leads && s.quiet != nil && s.overfull(): // and deletes of the last flights
			r = of.gatherDeletes(s)
		}
		s.pending.count(r, 1)
		c.inflight++
		on := c.resumed // the connection on which it is asked for
		s.group.Go(func() {
			settle, err := r.do(c)
			s.loop.Hand(func() {
				defer s.finish(c)
				s.pending.count(r, -1)
				if errors.Is(err, zk.ErrSessionExpired) {
					s.expire(c) // a server's word, as good as in a handshake
				}
				// The machines verify what they know when the session resumes. Nothing
				// would verify an older answer that is settled after that.
				c.outdated = on != c.resumed
				settle(s)
			})
		})
		if own && of.op == recipes.OpDelete && !of.leads {
			// It goes by itself, as it leaves a floor or more. Its goroutine runs now, as
			// a rule. Otherwise a loop may keep itself slow:
			//
			//  1. The caller requests the lock again.
			//  2. The goroutine of that create runs first.
			//  3. The new node queues up after the old one, and waits.
			//  4. So the next delete leaves a floor, too.
			runtime.Gosched()
		}
	}
}

// again has a request made again. If its connection is gone, the request waits for the
// next one. If a server has turned it away, it waits for a pause.
func (s *Session) again(c *client, r request) {
	if s.late(r) {
		s.refuse(r) // late requests have been swept out, and there is no other sweep
		return
	}
	if c.phase.Load() != phaseUp {
		s.pending.add(r)
		return
	}
	c.afterPause(func() {
		if call, waits := r.(*callRequest); !s.submit(r) && waits { // closed meanwhile, and its caller waits
			call.refuse()
		}
	})
}

// afterPause has a request made again that a server has turned away for the moment, see
// [wire.Throttle]. Every kind of request comes here: those of seats by settle, and all
// others by again. A request with a lost answer waits for the next connection instead.
func (c *client) afterPause(f func()) {
	time.AfterFunc(c.throttle.Pause(c.clock.now(), c.link.Timeout()), f)
}

// quiesce is for a session that is to fall quiet, see [Session.Quiesce]. It stops sending
// when a last flight has gone, and signals when it was answered. If the connection is lost
// meanwhile it waits for the next one: without a connection no server learns of the end of
// the session.
func (s *Session) quiesce() {
	c := s.client
	if c != nil && c.phase.Load() == phaseSuspended {
		return
	}
	s.pump()
	if s.overfull() && (c.inflight > 0 || s.pending.next() != nil) {
		return // one flight after the other, until the end of the session is small enough
	}
	s.last = true
	if c == nil || c.inflight == 0 {
		close(s.quiet)
		s.quiet = nil
	}
}

// urgency orders the requests: a request waits behind those that are more urgent, and
// behind earlier ones that are as urgent.
type urgency uint8

const (
	// proving: it reports whether a holder still holds.
	proving urgency = iota
	// turning: it lists a directory for a contender whose turn may have come.
	turning
	// handing: it gives a node up, or a waiter whose turn may have come waits for
	// it.
	handing
	// observing: it looks for a leader, or for a holder that was asked for its lock.
	// After a reconnect there is one for each of them, and few are made at a time.
	observing
	// looking: it reads a queue, which may be long, and few are made at a time.
	looking
	// joining: a newcomer queues, or asks for its place. There may be any
	// number of them, and always one that waits.
	joining
	// cleaning: it removes a directory that is no longer used. No caller waits for it.
	cleaning

	urgencies
)

// What is in progress at a time is bounded: each request takes a goroutine, and a server
// executes the requests of one session one after the other. The urgent requests have room
// of their own, and so have the others. Otherwise one half could wait for the other
// forever:
//
//  1. A thousand callers each release a lock and ask for it again, in a loop.
//  2. Each of these turnovers is urgent, because the release is.
//  3. So there is always an urgent request that waits.
//
// A release finds room, and at most mostPatient requests before it at the server.
const (
	mostUrgent  = 224
	mostPatient = 128
	// mostServices bounds the requests of one kind of service: observers and revocations,
	// looks.
	mostServices = 8
	// mostCleaning bounds the directories whose removal is in progress.
	mostCleaning = 32
	// mostListed bounds the expected bytes of the listings that are in progress together.
	// A probe that keeps a lock waits at most behind these. One listing of each urgency
	// may be in progress in any case, so none waits forever.
	mostListed = 4 << 20
)

// pending holds the requests that wait for a connection or for room, and counts those
// that are in progress. The zero value is empty.
type pending struct {
	lanes    [urgencies]lane
	underWay [urgencies]int
	bytes    [urgencies]int32 // expected of the listings that are in progress
}

// lane is a list of requests, the oldest first.
type lane struct{ first, last *slot }

// slot is a request's place. Each kind of request has one, and waits at one place at a
// time.
type slot struct {
	prev, next *slot
	waits      request // the request itself, while it waits
	lane       urgency // where it waits, or did
	bytes      int32   // expected of the answer, if it is a listing
}

func (p *slot) where() *slot { return p }

// These do nothing, for the kinds of requests that do not need them.
func (*slot) begins(*Session) {}
func (*slot) ends(*Session)   {}

// add makes the request wait, after those that are as urgent.
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

// remove takes a request out. It reports false, and does nothing, if the request does not
// wait.
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

// next returns the request that is to be made next, or nil if there is none that has
// room. The request waits until it is removed.
func (q *pending) next() request {
	urgent := q.underWay[proving] + q.underWay[turning] + q.underWay[handing]
	patient := q.underWay[observing] + q.underWay[looking] + q.underWay[joining]
	for u := range q.lanes {
		p, under := q.lanes[u].first, q.underWay[u]
		if p == nil {
			continue
		}
		// The first listing of its urgency always fits. Otherwise a directory larger than
		// mostListed would never be listed.
		beside := q.bytes[u] > 0
		if p.bytes > 0 && beside && q.bytes[turning]+q.bytes[joining]+p.bytes > mostListed {
			// Smaller listings behind it wait, too. If they could overtake it, a large
			// directory would wait for as long as small ones come.
			continue
		}
		var room bool
		switch urgency(u) {
		case proving, turning, handing:
			room = urgent < mostUrgent
		case observing, looking:
			room = under < mostServices && patient < mostPatient
		case cleaning:
			room = under < mostCleaning
		default:
			room = patient < mostPatient
		}
		if room {
			return p.waits
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

// count counts a request as in progress, by 1, or takes it out of the count, by -1.
func (q *pending) count(r request, by int) {
	p := r.where()
	q.underWay[p.lane] += by
	q.bytes[p.lane] += int32(by) * p.bytes
}

// all goes through the requests that wait, the most urgent first. The current one may be
// removed meanwhile.
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

// What follows is about the budget of the session's nodes, see [DefaultNodeBudget].
//
// A seat takes room for all of its nodes with its first request, and returns it when it
// is unseated: by then its machine knows that no node is left. If a server has refused to
// delete a node, it counts until the session ends.
//
// A request that finds no room is refused at once. Exception: it waits while nodes of the
// session go without any user's doing, and it fits when they are gone. Those are idle
// nodes of cached locks, which are given up for it, and the rest of a place in the queue
// that was lost in part.

// seeker is a request that may need room.
type seeker interface {
	request
	// load is the room that it needs, beside what it has.
	load(s *Session) budget.Load
	// enter continues with the request. There is room, and it takes that.
	enter(s *Session)
	// full refuses the request.
	full(s *Session, err error)
}

// roomRequest is a request that waits for room.
type roomRequest struct {
	seeker

	need budget.Load
}

// seek finds room for a request.
func (s *Session) seek(r seeker) {
	need := r.load(s)
	// A newcomer does not overtake the requests that wait for room. A request that needs
	// none does not wait behind them.
	if s.budget.Fits(need) && (len(s.roomless) == 0 || need == budget.Load{}) {
		r.enter(s)
		return
	}
	all := s.waiting.Plus(need)
	// giveUp makes room: an idle node of a cached lock is deleted.
	for !s.budget.WillFit(all) && s.giveUp() {
	}
	if !s.budget.WillFit(all) {
		r.full(s, s.fullness(need))
		return
	}
	s.roomless, s.waiting = append(s.roomless, roomRequest{r, need}), all
}

// giveUp gives up the idle node of a cached lock. It reports false if there is none.
func (s *Session) giveUp() bool {
	if s.cfg.GiveUp == nil {
		return false
	}
	t := s.cfg.GiveUp()
	if t != nil && t.counts && !t.leaving {
		t.leaving = true
		s.budget.Leaving(t.load())
	}
	return t != nil
}

// roomMade continues with the requests that wait for room, in order. If nodes stay that
// were to go, it finds out for each request whether it may still wait.
func (s *Session) roomMade() {
	s.showFill()
	for len(s.roomless) > 0 && s.budget.Fits(s.roomless[0].need) {
		first := s.roomless[0]
		s.roomless, s.waiting = s.roomless[1:], s.waiting.Minus(first.need)
		first.enter(s)
	}
	if len(s.roomless) > 0 && !s.budget.WillFit(s.waiting) {
		all := s.roomless
		s.roomless, s.waiting = nil, budget.Load{}
		for _, r := range all {
			s.seek(r.seeker)
		}
	}
}

// takeRoomless removes the requests for which out returns true from those that wait for
// room, and returns them.
func (s *Session) takeRoomless(out func(request) bool) (taken []request) {
	var left []roomRequest
	for _, r := range s.roomless {
		if out(r.seeker) {
			taken = append(taken, r.seeker)
			s.waiting = s.waiting.Minus(r.need)
		} else {
			left = append(left, r)
		}
	}
	s.roomless = left
	return taken
}

func (s *Session) fullness(need budget.Load) error {
	used := s.budget.Used
	if need.Bytes > s.budget.Limit() {
		return fmt.Errorf("%w: one request needs %d bytes for its nodes, and the budget is %d: "+
			"request less, or raise WithNodeBudget as far as the servers can read", ErrSessionFull,
			need.Bytes, s.budget.Limit())
	}
	return fmt.Errorf("%w: its %d nodes take %d of %d bytes, and this acquisition needs %d more: "+
		"release locks, spread them over several coordinators, or raise WithNodeBudget as far as the servers can read",
		ErrSessionFull, used.Nodes, used.Bytes, s.budget.Limit(), need.Bytes)
}

// Fill reports how much of the budget is used.
type Fill struct{ Nodes, Bytes, Budget int }

// Fill returns how much of the budget is used.
func (s *Session) Fill() Fill {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.fill
}

// showFill publishes how much of the budget is used, if that has changed.
func (s *Session) showFill() {
	used := s.budget.Used
	fill := Fill{int(used.Nodes), int(used.Bytes), s.cfg.NodeBudget}
	s.mu.Lock()
	changed := s.view.fill != fill
	s.view.fill = fill
	s.mu.Unlock()
	if changed && s.cfg.OnFill != nil {
		s.cfg.OnFill(fill)
	}
}

// overfull reports whether an option has made the budget so large, and the session has so
// many nodes, that its end is more than the default budget allows. Then as many nodes are
// deleted first.
func (s *Session) overfull() bool {
	c := s.client
	return c != nil && c.phase.Load() == phaseUp && s.budget.Used.Bytes > DefaultNodeBudget
}

var _, _ seeker = (*seatRequest)(nil), (*callRequest)(nil)

func (r *seatRequest) load(*Session) budget.Load {
	if r.seat.counts {
		return budget.Load{}
	}
	return r.seat.load()
}

func (r *seatRequest) full(s *Session, err error) {
	s.cfg.Logger.Warn("session full; acquisition refused", zap.String("path", r.seat.path()), zap.Error(err))
	r.seat.unsent = nil
	r.seat.answer(r.marked(recipes.Refused{Epoch: r.epoch, Op: r.op}), err)
}

// uncount returns the room of a seat. kept says that its nodes stay until the session
// ends.
func (s *Session) uncount(t *Seat, kept bool) {
	if !t.counts {
		return
	}
	l := t.load()
	if kept {
		s.budget.Keep(l, t.leaving)
	} else {
		s.budget.Return(l, t.leaving)
	}
	t.counts, t.leaving = false, false
	s.roomMade()
}

func (r *callRequest) load(s *Session) budget.Load { return s.nodes.Load(r.txn.ops) }

func (r *callRequest) enter(s *Session) {
	r.txn.begun = s.nodes.Begin(&s.budget, r.txn.ops)
	s.showFill()
	s.pending.add(r)
}

func (r *callRequest) full(s *Session, err error) {
	r.outcome <- err
	r.ends(s)
}
