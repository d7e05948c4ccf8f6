package session

import (
	"math/rand/v2"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
)

// This file is the way of a request: parked, made, answered, or refused because
// it is too late.

// pause is how long a request waits that a server has turned away for the moment. What a broken connection
// left unknown waits for the next connection instead.
const pause = 100 * time.Millisecond

// request is work for the client's blocking calls. Each kind has a [slot] in it. It is a message: what is done about it, unless it is
// too late, is to have it wait, or to answer it without a server.
type request interface {
	message
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
	// begins says that it does not wait any more, for it is about to be made or refused. ends says that it was refused.
	begins(s *Session)
	ends(s *Session)
}

// gatherer is a request that takes others along. It returns what is made for all of them.
type gatherer interface{ gather(s *Session) request }

// begin runs what calls the client, in a goroutine of its own, and counts it, so that the client is not closed meanwhile. The message that run
// hands over is to call finish.
func (s *Session) begin(c *client, run func()) {
	c.inflight++
	s.running++
	s.crew.Go(run)
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

// handle is the drain's. A request that is too late is refused at once: those before it may wait for a connection, and it need not.
func (s *Session) handle(m message) {
	if r, ok := m.(request); ok && s.late(r) {
		s.refuse(r)
		return
	}
	m.on(s)
}

func (s *Session) refuse(r request) {
	r.refuse()
	r.ends(s)
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
			r.begins(s)
			late = append(late, r)
		}
	}
	for _, r := range late {
		s.refuse(r)
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
		r.begins(s)
		if s.late(r) { // one that was to be made again
			s.refuse(r)
			continue
		}
		if g, ok := r.(gatherer); ok {
			r = g.gather(s)
		}
		s.start(c, r)
	}
}

func (s *Session) start(c *client, r request) {
	s.pending.begun(r)
	on := c.resumed
	s.begin(c, func() {
		settle, err := r.do(c)
		s.actor.Hand(answered{c, on, r, settle, err})
	})
}

// again has a request made again: at once if its connection is gone, so that it is made on the next one, and after
// a pause if a server has turned it away.
func (s *Session) again(c *client, r request) {
	if s.late(r) {
		s.refuse(r) // those that are late have been swept out, and nobody sweeps once more
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

// quiesce ends what goes out when a last flight has, and tells who waits for its answers. A connection that is lost meanwhile is
// waited for, too: without one no server hears of the end of the session.
func (s *Session) quiesce() {
	if s.quiet == nil || s.State() == Suspended {
		return
	}
	s.pump()
	s.last = true
	if c := s.client; c == nil || c.inflight == 0 {
		close(s.quiet)
		s.quiet = nil
	}
}

// answered: a request was made.
type answered struct {
	c       *client
	asked   int // the connection on which it was asked for, as counted by client.resumed
	request request
	settle  func(*Session)
	err     error
}
