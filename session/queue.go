package session

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

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

// request is work for one of the client's blocking calls.
type request struct {
	seat    *Seat
	epoch   recipes.Epoch // 0: whatever comes next
	op      recipes.Op
	run     func(*client) (recipes.Input, error)
	node    string // for OpClaim: the node that is claimed
	discard string // a node to remove, in any epoch
	rearm   string // a path to watch again
}

// begin counts what runs in the client, so that it is not closed meanwhile.
func (s *Session) begin(c *client, run func() message) {
	c.inflight++
	s.running++
	s.group.Go(func() { s.actor.Post(run()) })
}

// finish is the counterpart of begin.
func (s *Session) finish(c *client) {
	c.inflight--
	s.running--
	if c.over && c.inflight == 0 {
		s.endClient(c)
	}
	s.pump()
}

func (s *Session) onRequest(r *request) {
	if s.late(r) {
		s.refuse(r) // those before it may wait for a connection, and it need not
		return
	}
	s.noteTenure(r)
	s.parked = append(s.parked, r)
	s.pump()
}

// late tells whether it is too late for the request.
func (s *Session) late(r *request) bool {
	c := s.client
	return s.closing || r.epoch != 0 && (c == nil || c.over || r.epoch != c.epoch)
}

// sweep answers every request that is too late.
func (s *Session) sweep() {
	s.parked = slices.DeleteFunc(s.parked, func(r *request) bool {
		late := s.late(r)
		if late {
			s.refuse(r)
		}
		return late
	})
}

// pump starts what can be started, in order.
func (s *Session) pump() {
	c := s.client
	for len(s.parked) > 0 {
		if !c.up || s.running >= parallel {
			return
		}
		r := s.parked[0]
		s.parked = s.parked[1:]
		if s.late(r) { // one that was to be made again
			s.refuse(r)
			continue
		}
		s.begin(c, func() message {
			a := answered{request: r, c: c}
			switch {
			case r.discard != "":
				if c.discard(r.discard) {
					a.in = recipes.Unknown{}
				}
			case r.rearm != "":
				a.in = c.rearm(r.rearm)
			default:
				a.in, a.err = r.run(c)
			}
			return a
		})
	}
	s.parked = nil
}

// refuse answers a request that will not be made.
func (s *Session) refuse(r *request) {
	if r.run != nil {
		r.seat.post(recipes.Unknown{Epoch: r.epoch, Op: r.op}, nil)
	}
}

func (s *Session) onAnswered(a answered) {
	defer s.finish(a.c)
	_, unknown := a.in.(recipes.Unknown)
	if errors.Is(a.err, zk.ErrSessionExpired) {
		s.expire(a.c) // a server's word, as good as in a handshake
	}
	switch {
	case a.discard != "":
		if a.in != nil {
			s.again(a)
		}
	case a.rearm != "":
		switch a.in.(type) {
		case recipes.Gone:
			s.tellGone(a.c, a.rearm)
		case recipes.Unknown:
			s.again(a)
		case recipes.Refused:
			s.tellUnwatched(a.c, a.rearm)
		default: // it is armed
		}
	case a.in != nil:
		logAnswer(a)
		if claimed, ok := a.in.(recipes.Claimed); ok {
			s.onClaimed(a, claimed)
			return
		}
		if unknown && a.c.up {
			// Whoever is told makes the request again at once.
			time.AfterFunc(pause/2+rand.N(pause/2), func() { a.seat.post(a.in, a.err) })
			return
		}
		a.seat.post(a.in, a.err)
	}
}

// logAnswer says what nobody else may hear: a refused delete leaves a node that
// blocks others until the session ends.
func logAnswer(a answered) {
	level, what := zap.DebugLevel, "request failed"
	if _, refused := a.in.(recipes.Refused); refused {
		level, what = zap.WarnLevel, "request refused"
		if a.op == recipes.OpDelete {
			level, what = zap.ErrorLevel, "could not remove a node; it stays until the session ends"
		}
	}
	if a.err != nil {
		a.c.logger.Log(level, what, zap.Stringer("request", a.op), zap.String("dir", a.seat.dir), zap.Error(a.err))
	}
}

// again parks a request that has to be made again: at once if its connection is gone, so that it is made on the
// next one, and after a pause if a server has turned it away.
func (s *Session) again(a answered) {
	if !a.c.up {
		s.parked = append(s.parked, a.request)
		return
	}
	time.AfterFunc(pause/2+rand.N(pause/2), func() { s.actor.Post(a.request) })
}
