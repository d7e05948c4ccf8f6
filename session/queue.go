package session

import (
	"time"

	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about the way of a request: parked, made, answered, or refused because it is too late.

// request is work for the client's blocking calls. Each kind has a [slot] in it. It is a message: unless it is too late, it is made to
// wait, or answered without a server.
type request interface {
	message
	// meantFor returns the epoch in which it may be made; 0 is any.
	meantFor() recipes.Epoch
	// do makes the calls, in a goroutine of its own. The session actor handles the outcome by calling settle; err is the error of the
	// server or the client.
	do(c *client) (settle func(*Session), err error)
	// refuse is called instead of do if it is too late.
	refuse()
	// urgency returns how urgent it is when it begins to wait.
	urgency() urgency
	// where returns its place among the requests that wait.
	where() *slot
	// begins says that it does not wait any more, because it is about to be made or refused. ends says that it was refused,
	// or that its caller does not wait any more. A kind of request may also call its own ends when it is answered.
	begins(s *Session)
	ends(s *Session)
}

// gatherer is a request that takes others along. gather returns the request that is made for all of them.
type gatherer interface{ gather(s *Session) request }

// begin runs calls of the client, in a goroutine of its own, and counts them, so that the client is not closed meanwhile. The message that
// run hands over has to call finish.
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

// handle is called by the drain. A request that is too late is refused at once. Requests before it may wait for a connection, and it need
// not.
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

// late reports whether it is too late for the request.
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
	for _, r := range append(late, s.unpark(s.late)...) {
		s.refuse(r)
	}
}

// pump starts what can be started, in order. It is the last part of each drain of the session actor, so a lock that is released and asked
// for again at once can have both done together.
func (s *Session) pump() {
	s.noteNodes()
	for c := s.client; c != nil && c.up && !s.last && s.running < parallel; {
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

// again has a request made again. If its connection is gone, the request waits for the next one. If a server has turned it away, it waits
// for a pause.
func (s *Session) again(c *client, r request) {
	if s.late(r) {
		s.refuse(r) // late requests have been swept out, and there is no other sweep
		return
	}
	if !c.up {
		s.pending.add(r)
		return
	}
	c.afterPause(func() {
		if !s.actor.Post(r) { // closed meanwhile, and a caller may wait for an answer
			r.refuse()
		}
	})
}

// afterPause has a request made again that a server has turned away for the moment, see [wire.Throttle]. Every kind of request comes here:
// those of seats by settle, and all others by again. A request with a lost answer waits for the next connection instead.
func (c *client) afterPause(f func()) {
	time.AfterFunc(c.throttle.Pause(c.clock.now(), c.link.Timeout()), f)
}

// quiesce stops sending when a last flight has gone, and signals when it was answered. If the connection is lost meanwhile it waits for the
// next one: without a connection no server hears of the end of the session.
func (s *Session) quiesce() {
	if s.quiet == nil || s.State() == Suspended {
		return
	}
	s.pump()
	c := s.client
	if s.overfull() && (c.inflight > 0 || s.pending.next() != nil) {
		return // one flight after the other, until the end of the session is small enough
	}
	s.last = true
	if c == nil || c.inflight == 0 {
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
