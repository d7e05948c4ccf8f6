package session

import (
	"errors"
	"runtime"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about the way of a request: parked, made, answered, or refused because it is too late.

// request is work for the client's blocking calls. Each kind has a [slot] in it.
type request interface {
	// admit has the request wait, or answers it without a server.
	admit(s *Session)
	// meantFor returns the epoch in which it may be made; 0 is any.
	meantFor() recipes.Epoch
	// do makes the calls, in a goroutine of its own. The loop handles the outcome by calling settle; err is the error of the
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

// begin runs calls of the client, in a goroutine of its own, and counts them, so that the
// client is not closed meanwhile. What run hands to the loop has to call finish.
func (s *Session) begin(c *client, run func()) {
	c.inflight++
	s.running++
	s.group.Go(run)
}

// finish is the counterpart of begin.
func (s *Session) finish(c *client) {
	c.inflight--
	s.running--
	if c.isOver() && c.inflight == 0 {
		s.endClient(c)
	}
	s.quiesce()
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

// take admits a request. One that is too late is refused at once: requests before it may wait
// for a connection, and it need not.
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
	for _, r := range append(late, s.unpark(s.late)...) {
		s.refuse(r)
	}
}

// pump starts what can be started, in order. The loop calls it when it finds no more to do, so a lock that is released and asked
// for again at once can have both done together.
func (s *Session) pump() {
	s.noteNodes()
	for c := s.client; c != nil && c.is(phaseUp) && !s.last && s.running < parallel; {
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
	on := c.resumed // the connection on which it is asked for
	s.begin(c, func() {
		settle, err := r.do(c)
		s.loop.Hand(func() {
			defer s.finish(c)
			s.pending.ended(r)
			if errors.Is(err, zk.ErrSessionExpired) {
				s.expire(c) // a server's word, as good as in a handshake
			}
			c.outdated = on != c.resumed
			settle(s)
		})
	})
	if r, ok := r.(*asked); ok && r.op == recipes.OpDelete {
		// It goes by itself, as it leaves a floor or more. Its goroutine runs now, as a rule.
		// Otherwise a loop may keep itself slow:
		//
		//  1. The caller asks for the lock again.
		//  2. The goroutine of that create runs first.
		//  3. The new node stands behind the old one, and waits.
		//  4. So the next delete leaves a floor, too.
		runtime.Gosched()
	}
}

// again has a request made again. If its connection is gone, the request waits for the next one. If a server has turned it away, it waits
// for a pause.
func (s *Session) again(c *client, r request) {
	if s.late(r) {
		s.refuse(r) // late requests have been swept out, and there is no other sweep
		return
	}
	if !c.is(phaseUp) {
		s.pending.add(r)
		return
	}
	c.afterPause(func() {
		if called, waits := r.(*called); !s.submit(r) && waits { // closed meanwhile, and its caller waits
			called.refuse()
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
	c := s.client
	if s.quiet == nil || c != nil && c.is(phaseSuspended) {
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
