package session

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/recipes"
)

// This file is the way of a request: parked, made, answered, or refused because
// it is too late.

// parallel bounds the requests that are under way at a time. Each takes a
// goroutine; the server executes those of one session one after the other.
const parallel = 256

// pause is how long a request waits that a server has turned away for the moment. What a broken connection
// left unknown waits for the next connection instead.
const pause = 100 * time.Millisecond

// request is work for the client's blocking calls. Each kind has a [slot] in it.
type request interface {
	// meantFor is the epoch in which it may be made; 0 is any.
	meantFor() recipes.Epoch
	// do makes the calls, in a goroutine of its own. What is to be done with the
	// outcome is left to the session actor; err is what a server or the client said.
	do(c *client) (settle func(*Session), err error)
	// refuse is called instead if it is too late: the request is not made.
	refuse()
	// urgency is what it waits behind, as things stand when it begins to wait.
	urgency() urgency
	// where is its place among those that wait.
	where() *slot
}

// begin counts what runs in the client, so that it is not closed meanwhile.
func (s *Session) begin(c *client, run func() message) {
	c.inflight++
	s.running++
	s.group.Go(func() { s.actor.Hand(run()) })
}

// finish is the counterpart of begin.
func (s *Session) finish(c *client) {
	c.inflight--
	s.running--
	if c.over && c.inflight == 0 {
		s.endClient(c)
	}
	s.quiesce()
}

func (s *Session) onRequest(r request) {
	if s.late(r) {
		r.refuse() // those before it may wait for a connection, and it need not
		s.unrest(r)
		return
	}
	if a, ok := r.(*asked); ok {
		if s.answerHere(a) {
			return
		}
		if !s.mayTakePlace(a) {
			a.seat.post(recipes.Refused{Epoch: a.epoch, Op: a.op, Missing: true}, ErrGuard)
			return
		}
		s.noteTenure(a)
		if a.op != recipes.OpDelete {
			a.seat.unsent = a
		}
		if s.reads(a) {
			return
		}
		r = s.paired(a)
	}
	if r != nil && s.mayPark(r) {
		s.pending.add(r)
	}
}

// late tells whether it is too late for the request.
func (s *Session) late(r request) bool {
	c, epoch := s.client, r.meantFor()
	return s.closing || epoch != 0 && (c == nil || c.over || epoch != c.epoch)
}

// sweep refuses every request that is too late.
func (s *Session) sweep() {
	var late []request
	for r := range s.pending.all() {
		if s.late(r) {
			s.pending.remove(r)
			s.waitsNoMore(r)
			late = append(late, r)
		}
	}
	for _, r := range late {
		r.refuse()
		s.unrest(r)
	}
}

// pump starts what can be started, in order. It is the rest of the session actor:
// a lock that is released and asked for again at once can have both done together.
func (s *Session) pump() {
	for c := s.client; c != nil && c.up && !s.last && s.running < parallel; {
		r := s.pending.next()
		if r == nil {
			return
		}
		s.pending.remove(r)
		s.waitsNoMore(r)
		if s.late(r) { // one that was to be made again
			r.refuse()
			s.unrest(r)
			continue
		}
		s.start(c, s.gathered(r))
	}
}

func (s *Session) start(c *client, r request) {
	if g, ok := r.(*sharedListing); ok {
		g.of.begins(g)
	}
	s.pending.begun(r)
	on := c.resumed
	s.begin(c, func() message {
		settle, err := r.do(c)
		return answered{c, on, r, settle, err}
	})
}

func (s *Session) onAnswered(a answered) {
	defer s.finish(a.c)
	s.pending.ended(a.request)
	if errors.Is(a.err, zk.ErrSessionExpired) {
		s.expire(a.c) // a server's word, as good as in a handshake
	}
	a.c.outdated = a.on != a.c.resumed
	a.settle(s)
}

// again has a request made again: at once if its connection is gone, so that it is made on the next one, and after
// a pause if a server has turned it away.
func (s *Session) again(c *client, r request) {
	if s.late(r) {
		r.refuse() // those that are late have been swept out, and nobody sweeps once more
		s.unrest(r)
		return
	}
	if !c.up {
		s.pending.add(r)
		return
	}
	afterPause(func() {
		if !s.actor.Post(r) { // closed meanwhile, and somebody may wait for an answer
			r.refuse()
		}
	})
}

// afterPause keeps those who were turned away together from coming back together.
func afterPause(f func()) { time.AfterFunc(pause/2+rand.N(pause/2), f) }
