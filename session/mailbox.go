package session

import (
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/recipes"
)

// message is what the session actor's mailbox takes: a [request], or one of the types
// below.
type message interface{}

type (
	// begin: make the first client.
	begin struct{}
	// happened: the client's callback was called.
	happened struct {
		c  *client
		ev zk.Event
	}
	// replaced: the wire has ended the session.
	replaced struct {
		c   *client
		err error
	}
	// turnedAway: a server did not answer the handshake.
	turnedAway struct {
		c   *client
		err error
	}
	// rested: a new session is old enough for requests.
	rested struct{ c *client }
	// greeted: the identities were added, or not.
	greeted struct {
		c   *client
		err error
	}
	// restored: the watches were restored, or have had their time.
	restored struct{ c *client }
	// vouched: a connection behind one without answers has answered, or not.
	vouched struct {
		c      *client
		server string
		err    error
	}
	// shaken: a watch for a semaphore's first may not be armed.
	shaken struct {
		c    *client
		path string
	}
	// wished: somebody wants a lock back.
	wished struct {
		c    *client
		node string
		wish asking
	}
	// unwatched: the server did not restore the watches.
	unwatched struct{ c *client }
	// ticked: the lease may have run out.
	ticked struct{ c *client }
	// lapsed: the lease had run out when it was renewed.
	lapsed struct{ c *client }
	// paced: a probe may be due.
	paced struct{ c *client }
	// probed: a probe was answered, or never will be.
	probed struct {
		c    *client
		seat *Seat
		node string
		err  error
	}
	// entered: a seat wants the news.
	entered struct{ seat *Seat }
	// left: a seat wants nothing more.
	left struct{ seat *Seat }
	// canceling: a seat wants its create no more.
	canceling struct {
		seat  *Seat
		epoch recipes.Epoch
	}
	// lapsing: a seat has lost the lock.
	lapsing struct{ seat *Seat }
	// answered: a request was made.
	answered struct {
		c       *client
		on      int // the connection on which it was asked for, as counted by client.resumed
		request request
		settle  func(*Session)
		err     error
	}
	// dropped: nobody waits for a request any more.
	dropped struct{ r request }
	// overdue: the grace for requests under way is over.
	overdue struct{ c *client }
	// ended: the client is gone.
	ended struct{ c *client }
	// quiescing: send a last flight.
	quiescing struct{ quiet chan<- struct{} }
	// shut: end everything.
	shut struct{ grace time.Duration }
	// hurried: end it now.
	hurried struct{}
	// missed: there may have been no connection for long.
	missed struct{}
)

// handle is the drain's.
func (s *Session) handle(m message) {
	switch m := m.(type) {
	case begin:
		s.noteAway(Connecting)
		s.connect(1)
	case happened:
		s.onEvent(m.c, m.ev)
	case replaced:
		m.c.logger.Info("the session is over", zap.Error(m.err))
		s.expire(m.c)
	case turnedAway:
		s.onTurnedAway(m.c, m.err)
	case rested:
		s.greet(m.c)
	case greeted:
		s.onGreeted(m.c, m.err)
	case restored:
		if m.c == s.client && !m.c.over && !m.c.up && m.c.opened && m.c.conn.State() == zk.StateHasSession {
			s.resume(m.c)
		}
	case vouched:
		s.onVouched(m)
	case unwatched:
		for _, path := range m.c.watches.Reset() {
			m.c.rewatch(path)
		}
		for _, path := range m.c.looks.Reset() {
			s.tellChanged(m.c, path, false)
		}
	case shaken:
		s.tellChanged(m.c, m.path, false)
	case wished:
		s.tellAskedBack(m)
	case ticked:
		s.onTick(m.c)
	case lapsed:
		s.onLapsed(m.c)
	case paced:
		s.onPace(m.c)
	case probed:
		s.onProbed(m)
	case entered:
		s.onEntered(m.seat)
	case left:
		s.unsend(m.seat)
		s.unseat(m.seat)
		s.gaveUp(m.seat)
		s.quit(m.seat)
		m.seat.leave(s.client)
	case canceling:
		s.onCanceling(m.seat, m.epoch)
	case lapsing:
		s.lapsed(m.seat)
	case request:
		s.onRequest(m)
	case answered:
		s.onAnswered(m)
	case dropped:
		s.drop(m.r)
	case overdue:
		if !m.c.closing {
			m.c.logger.Warn("requests are not answered; hanging up", zap.Int("requests", m.c.inflight))
			m.c.hangUp() // which answers them, and the last answer ends the client
		}
	case ended:
		delete(s.living, m.c)
		s.checkClosed()
	case quiescing:
		s.quiet = m.quiet
		s.quiesce()
	case shut:
		s.onShut(m.grace)
	case hurried:
		for c := range s.living {
			c.dialer.Stop()
			c.hangUp()
		}
	case missed:
		s.onMissed()
	}
}
