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

// This file follows a request: it waits, is made and answered, or is refused because it
// is too late. The order of requests is plain data ([pending]). The room that their nodes
// need is accounted for here, too ([seeker]).

// request is work that makes blocking calls of the client. Every kind embeds a [slot].
type request interface {
	// admit queues the request, or answers it without a server.
	admit(s *Session)
	// do makes the calls, in a separate goroutine. The loop then calls settle to handle
	// the outcome; err is the error of the server or the client.
	do(c *client) (settle func(*Session), err error)
	// refuse is called instead of do if it is too late for the request.
	refuse(s *Session)
	// urgency returns how urgent the request is when it begins to wait.
	urgency() urgency
	// where returns the request's slot.
	where() *slot
	// onDequeue is called when the request stops waiting, just before it is made or
	// refused.
	onDequeue(s *Session)
}

// finish notes that calls counted in c.inflight have returned. While any are in flight,
// the client is not closed.
func (s *Session) finish(c *client) {
	c.inflight--
	if c.isOver() && c.inflight == 0 {
		s.endClient(c)
	}
	if s.quiet != nil {
		s.quiesce()
	}
}

// submit posts a request to the loop. It returns false if the session has ended.
func (s *Session) submit(r request) bool { return s.loop.Post(func() { s.take(r) }) }

// postFor posts f to the loop, which calls it unless the client's session is over by
// then.
func (s *Session) postFor(c *client, f func()) {
	s.loop.Post(func() {
		if !c.isOver() {
			f()
		}
	})
}

// take admits a request. One that is too late is refused at once, rather than after
// earlier requests that may wait for a connection.
func (s *Session) take(r request) {
	if s.late(r) {
		r.refuse(s)
		return
	}
	r.admit(s)
}

// late reports whether it is too late for the request.
func (s *Session) late(r request) bool {
	c, epoch := s.client, r.where().epoch
	return s.closing || epoch != 0 && (c == nil || c.isOver() || epoch != c.epoch)
}

// sweep refuses every request that is too late.
func (s *Session) sweep() {
	var late []request
	for r := range s.pending.all() {
		if s.late(r) {
			s.pending.remove(r)
			r.onDequeue(s)
			late = append(late, r)
		}
	}
	if len(s.roomless) > 0 {
		late = append(late, s.takeRoomless(s.late)...)
	}
	for _, r := range late {
		r.refuse(s)
	}
}

// pump starts all requests that can be started, in order. The loop calls it once it has
// run out of other work, or has been busy for long, so that a lock released and requested
// again at once takes a single transaction.
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
		r.onDequeue(s)
		if s.late(r) { // it was queued again after its session ended
			r.refuse(s)
			continue
		}
		of, own := r.(*seatRequest)
		switch {
		case own && of.lane == proving: // claims of holders share transactions
			r = s.gather(of, &jointClaim{})
		case own && of.leads && s.quiet != nil && s.overfull(): // and deletes from the last batches
			r = s.gather(of, &jointDelete{})
		}
		s.pending.count(r, 1)
		c.inflight++
		on := c.resumed // the connection on which it is sent
		s.group.Go(func() {
			settle, err := r.do(c)
			s.loop.Hand(func() {
				defer s.finish(c)
				s.pending.count(r, -1)
				if errors.Is(err, zk.ErrSessionExpired) {
					s.expire(c) // a server said so, which is as good as in a handshake
				}
				s.moved(c, on, err)
				// The machines verify what they know when the session resumes. An older
				// answer settled after that would never be verified.
				c.outdated = on != c.resumed
				settle(s)
			})
		})
		if own && of.op == recipes.OpDelete && !of.leads {
			// This delete is sent by itself, because it leaves a floor or more. Give its
			// goroutine a chance to run now. Otherwise a caller that acquires in a loop
			// may stay slow:
			//
			//  1. The caller requests the lock again.
			//  2. The goroutine of that create runs first.
			//  3. The new node queues up after the old one, and waits.
			//  4. Because it had to wait, its delete leaves a floor, too.
			runtime.Gosched()
		}
	}
}

// moved hangs up if a server reports that the session has moved to another connection; on
// identifies the one that carried the request. That happens as follows:
//
//  1. A follower is slow. The client gives up its handshake, and resumes the session at
//     another server.
//  2. The follower finds that handshake, and passes it on to the leader.
//  3. For the leader, the session is now the follower's, and it refuses every write of the
//     client, until the client makes another handshake.
//
// Servers close such a connection themselves, but before 3.6 not if the write is a
// transaction (ZOOKEEPER-2886). Almost all of ours are.
func (s *Session) moved(c *client, on int, err error) {
	if errors.Is(err, zk.ErrSessionMoved) && on == c.resumed && on+1 != c.movedOn && c.phase.Load() == phaseUp {
		c.movedOn = on + 1 // once, because a second hang-up could end the next connection
		c.logger.Info("reconnecting because the session has moved to another connection", zapSession(c),
			zapServer(c))
		c.hangUp()
	}
}

// again queues a request again: at once if its connection is gone, to wait for the next
// one, and after a pause if a server turned it away.
func (s *Session) again(c *client, r request) {
	if s.late(r) {
		r.refuse(s) // sweep has already run, and will not run again
		return
	}
	if c.phase.Load() != phaseUp {
		s.pending.add(r)
		return
	}
	c.afterPause(func() {
		if call, waits := r.(*callRequest); !s.submit(r) && waits { // closed meanwhile, while the caller waits
			call.outcome <- call.tooLate()
		}
	})
}

// afterPause calls f, which repeats a request that a server turned away, after a pause;
// see [wire.Throttle]. Requests of seats come here from settle, and all others from
// again. If the connection is gone, a request waits for the next one instead.
func (c *client) afterPause(f func()) {
	s := c.session
	c.paused++
	time.AfterFunc(c.throttle.Pause(c.clock.now(), c.link.Timeout()), func() {
		f()
		s.loop.Post(func() { // after what f has posted
			if c.paused--; s.quiet != nil {
				s.quiesce()
			}
		})
	})
}

// quiesce winds down the session for [Session.Quiesce]. It stops sending after a last
// flight of requests, and signals once those are answered. If the connection is lost in
// between, it waits for the next one, because without a connection no server learns of
// the session's end.
func (s *Session) quiesce() {
	c := s.client
	if c != nil && c.phase.Load() == phaseSuspended {
		return
	}
	s.pump()
	if s.overfull() && (c.inflight+c.paused > 0 || s.pending.next() != nil) {
		return // flight after flight, until few enough nodes are left for the session to end
	}
	s.last = true
	if c == nil || c.inflight == 0 {
		close(s.quiet)
		s.quiet = nil
	}
}

// urgency orders the requests: a request waits for more urgent ones, and for earlier ones
// of the same urgency.
type urgency uint8

const (
	// proving: checks whether a holder still holds.
	proving urgency = iota
	// turning: lists a directory for a contender whose turn may have come.
	turning
	// handing: deletes a node, or serves a waiter whose turn may have come.
	handing
	// observing: looks for a leader, or at a holder whose lock was requested. After a
	// reconnect, there is one for each, so only a few are made at a time.
	observing
	// looking: reads a queue, which may be long, so only a few are made at a time.
	looking
	// joining: a newcomer queues up, or asks for its place. There may be any number of
	// them.
	joining
	// cleaning: deletes an unused directory. No caller waits for it.
	cleaning

	urgencies
)

// The number of requests in progress is limited, because each takes a goroutine, and a
// server executes the requests of one session one after another. Urgent requests and the
// others have separate limits. Otherwise one half could wait for the other forever:
//
//  1. A thousand callers each release a lock and request it again, in a loop.
//  2. Each of these turnovers is urgent, because the release is.
//  3. So an urgent request is always waiting.
//
// The other requests never take the room of a release, and at most mostPatient of them
// are ahead of it at the server.
const (
	mostUrgent  = 224
	mostPatient = 128
	// mostServices limits the observing requests, and the looking ones.
	mostServices = 8
	// mostCleaning limits the directories being deleted.
	mostCleaning = 32
	// mostListed limits the expected bytes of all listings in progress, because a probe
	// that renews the lease waits for their answers. One listing of each urgency is
	// always allowed, so none waits forever.
	mostListed = 4 << 20
)

// pending holds the requests that wait for a connection or for their limit, and counts
// those in progress. The zero value is empty.
type pending struct {
	lanes    [urgencies]lane
	underWay [urgencies]int
	bytes    [urgencies]int32 // expected size of the listings in progress
}

// lane is a list of requests, oldest first.
type lane struct{ first, last *slot }

// slot is a request's place in a lane. Every kind of request embeds one, so it waits in
// one lane at a time.
type slot struct {
	prev, next *slot
	waits      request       // the request itself, while it waits
	lane       urgency       // where it waits or last waited
	bytes      int32         // expected size of the answer, if it is a listing
	epoch      recipes.Epoch // in which the request may be made; 0 means any
}

func (p *slot) where() *slot { return p }

// These are the defaults of a request.
func (*slot) urgency() urgency   { return handing }
func (*slot) onDequeue(*Session) {}
func (*slot) refuse(*Session)    {}

// add appends the request to the lane of its urgency.
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

// remove removes a request from its lane. It returns false if the request is not waiting.
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

// next returns the next request to make, or nil if the limits allow none. It does not
// remove the request.
func (q *pending) next() request {
	urgent := q.underWay[proving] + q.underWay[turning] + q.underWay[handing]
	patient := q.underWay[observing] + q.underWay[looking] + q.underWay[joining]
	for u := range q.lanes {
		p, under := q.lanes[u].first, q.underWay[u]
		if p == nil {
			continue
		}
		// The only listing of its urgency is always allowed. Otherwise a directory larger
		// than mostListed would never be listed.
		beside := q.bytes[u] > 0
		if p.bytes > 0 && beside && q.bytes[turning]+q.bytes[joining]+p.bytes > mostListed {
			// Smaller listings after it wait, too. If they could overtake it, a large
			// directory would wait for as long as small ones arrive.
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

// first returns the request of this urgency that has waited longest, or nil.
func (q *pending) first(u urgency) request {
	if first := q.lanes[u].first; first != nil {
		return first.waits
	}
	return nil
}

// count adds a request to those in progress if by is 1, or removes it if by is -1.
func (q *pending) count(r request, by int) {
	p := r.where()
	q.underWay[p.lane] += by
	q.bytes[p.lane] += int32(by) * p.bytes
}

// all iterates over the waiting requests, most urgent first. The current one may be
// removed during the iteration.
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

// From here on, this file is about the budget for the session's nodes; see
// [DefaultNodeBudget].
//
// A seat takes room for all its nodes with its first request, and returns it when it is
// closed: by then its machine knows that no node is left. A node that a server refused to
// delete keeps its room until the session ends.
//
// A request that finds no room is refused at once, unless there will be room once the
// session has deleted certain nodes: idle nodes of cached locks, which it gives up for
// this, and the remaining nodes of a place in the queue that was partly lost.

// seeker is a request that may need room.
type seeker interface {
	request
	// load returns the room that the request needs in addition to what it has.
	load(s *Session) budget.Load
	// enter takes the room, which must be available, and continues with the request.
	enter(s *Session)
	// full refuses the request for lack of room.
	full(s *Session, err error)
}

// roomRequest is a request that waits for room.
type roomRequest struct {
	seeker

	need budget.Load
}

// seek finds room for a request, lets it wait for room, or refuses it.
func (s *Session) seek(r seeker) {
	need := r.load(s)
	// A request does not overtake those that wait for room, unless it needs none.
	if s.budget.Fits(need) && (len(s.roomless) == 0 || need == budget.Load{}) {
		r.enter(s)
		return
	}
	all := s.waiting.Plus(need)
	// Idle nodes of cached locks make room.
	for !s.budget.WillFit(all) && s.giveUp() {
	}
	if !s.budget.WillFit(all) {
		r.full(s, s.fullness(need))
		return
	}
	s.roomless, s.waiting = append(s.roomless, roomRequest{r, need}), all
}

// giveUp gives up an idle node of a cached lock. It returns false if there is none.
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

// roomMade continues with the requests that wait for room, in order. If nodes that should
// have been deleted stay, it decides again for each request whether it may wait.
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

// takeRoomless removes and returns the requests waiting for room for which out returns
// true.
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

// leaveRoom is called for a request that is given up. If it waited for room, others that
// waited behind it may fit now.
func (s *Session) leaveRoom(r request) {
	if s.takeRoomless(func(parked request) bool { return parked == r }) != nil {
		s.roomMade()
	}
}

func (s *Session) fullness(need budget.Load) error {
	used, limit := s.budget.Used, s.cfg.NodeBudget
	if need.Bytes > int64(limit) {
		return fmt.Errorf("%w: one request needs %d bytes for its nodes, and the budget is %d: "+
			"request less, or raise WithNodeBudget as far as the servers can read", ErrSessionFull,
			need.Bytes, limit)
	}
	return fmt.Errorf("%w: its %d nodes take %d of %d bytes, and this request needs %d more: "+
		"release locks, spread them over several coordinators, or raise WithNodeBudget as far as the servers can read",
		ErrSessionFull, used.Nodes, used.Bytes, limit, need.Bytes)
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

// overfull reports whether the session has more nodes than the default budget allows,
// because an option raised the budget. Such a session deletes nodes before it ends, until
// it is no longer overfull.
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

// uncount returns the room of a seat. kept means that its nodes stay until the session
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
	r.onEnd(s)
}
