package sessiontest

import (
	"fmt"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// Recorded claims with a record, again if need be, until the claim is granted.
func (s *Seat) Recorded(node string) {
	s.Rig.Helper()
	claim := recipes.Claim{Epoch: 1, Node: events.Name{Text: node}, Record: recipes.RecordMade}
	s.Do(claim)
	s.Rig.Until("the claim is granted", func() (granted bool) {
		for _, in := range s.Fresh() {
			switch in := in.(type) {
			case recipes.Claimed:
				if in.Fresh {
					return true
				}
				s.Do(claim)
			case recipes.Unknown:
				s.Do(claim)
			}
		}
		return false
	})
}

// Owner is a seat that asks for the one node.
func (r *Rig) Owner() *Seat {
	r.Helper()
	return r.SeatedAt(session.Place{Dir: TaskNode, Kind: events.KindUnfair})
}

// DeleteNode deletes a node, again while it is unknown whether it is deleted.
func (s *Seat) DeleteNode(node string) {
	r := s.Rig
	r.Helper()
	for {
		s.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: node}})
		deleted := false
		r.Until("the deletion is answered", func() bool {
			for _, in := range s.Fresh() {
				switch in {
				case recipes.Deleted{Epoch: 1}:
					deleted = true
					return true
				case recipes.Unknown{Epoch: 1, Op: recipes.OpDelete}:
					return true
				}
			}
			return false
		})
		if deleted {
			return
		}
	}
}

// Until returns how long the lease of the first epoch is good from now on.
func (s *Seat) Until() time.Duration {
	synctest.Wait()
	return time.Until(s.Deadline(1))
}

// WantLease checks how long the lease of the first epoch is good from now on: at least
// and at most so long.
func (s *Seat) WantLease(least, most time.Duration) {
	s.Rig.Helper()
	if left := s.Until(); left < least || left > most {
		s.Rig.Errorf("the lease is good for another %v, want %v to %v", left, least, most)
	}
}

// NoPings keeps the client's pings from being answered, so that they are no signs of
// life.
func (r *Rig) NoPings() { r.On(zktest.OpPing, zktest.Swallow()) }

// On does something to each request of a kind.
func (r *Rig) On(op zktest.Op, action zktest.Action) {
	r.Server.Intercept(func(q zktest.Request) zktest.Action {
		if q.Op == op {
			return action
		}
		return zktest.Pass()
	})
}

// Single is a seat that asks for a lock of one node, with data of its own.
func (r *Rig) Single() *Seat {
	r.Helper()
	return r.SeatedAt(session.Place{Dir: Task, Kind: events.KindUnfair, Data: []byte("me")})
}

// MakeOf asks for a node, and returns the answer, which has to be of the type.
func MakeOf[T recipes.Input](s *Seat, attempt recipes.Attempt) T {
	s.Rig.Helper()
	s.Do(recipes.Create{Epoch: 1, Attempt: attempt})
	return AnswerOf[T](s)
}

// Makes asks for a node, and gets it.
func (s *Seat) Makes(attempt recipes.Attempt) recipes.Created {
	s.Rig.Helper()
	return MakeOf[recipes.Created](s, attempt)
}

// MakesAlone makes the first attempt's node, and the answer proves that it holds.
func (s *Seat) MakesAlone() recipes.Created {
	s.Rig.Helper()
	created := s.Makes(1)
	if !created.Alone || !created.Fresh {
		s.Rig.Fatalf("the create is answered %+v, want Alone and Fresh", created)
	}
	return created
}

// MakesBeside makes a node, and the answer does not prove that no other contender is
// there.
func (s *Seat) MakesBeside(attempt recipes.Attempt) recipes.Created {
	s.Rig.Helper()
	created := s.Makes(attempt)
	if created.Alone {
		s.Rig.Errorf("create %d is answered %+v, want not Alone", attempt, created)
	}
	return created
}

// WantOnly checks that this, and nothing else, was told since the last look.
func (s *Seat) WantOnly(want recipes.Input) {
	s.Rig.Helper()
	if got := s.Fresh(); len(got) != 1 || got[0] != want {
		s.Rig.Fatalf("the seat is told %+v, want one %#v", got, want)
	}
}

// Look lists, and returns the answer.
func (s *Seat) Look(attempt recipes.Attempt, barrier bool) recipes.Listed {
	s.Rig.Helper()
	s.Do(recipes.List{Epoch: 1, Attempt: attempt, Barrier: barrier})
	return AnswerOf[recipes.Listed](s)
}

// Once does something to the next request for which it is meant, and returns whether it
// has.
func (r *Rig) Once(action zktest.Action, meant func(zktest.Request) bool) func() bool {
	done := false
	r.Server.Intercept(func(q zktest.Request) zktest.Action {
		if done || !meant(q) {
			return zktest.Pass()
		}
		done = true
		return action
	})
	return func() bool { return done }
}

// WantChildren checks how many nodes the directory has.
func (r *Rig) WantChildren(n int) {
	r.Helper()
	synctest.Wait()
	if got := r.Server.Children(Dir); len(got) != n {
		r.Errorf("the directory has %v, want %d nodes", got, n)
	}
}

// Leaving is a queue of three whose last one waits for the second: the first
// leaves as a holder, and then the second for some reason.
func (r *Rig) Leaving(first func(*Seat, string)) (waiter *Seat, advance recipes.Advance) {
	r.Helper()
	r.Warm()
	var seats [3]*Seat
	var nodes [3]string
	for i := range seats {
		seats[i] = r.Seated()
		nodes[i] = seats[i].CreateNode(1).Text
		seats[i].ListNodes(1)
	}
	waiter = seats[2]
	waiter.WatchNode(nodes[1])
	first(seats[0], nodes[0])
	waiter.Fresh()
	seats[1].Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: nodes[1]}})
	waiter.WantGone(nodes[1])
	return waiter, recipes.Advance{Epoch: 1, Node: events.Name{Text: nodes[2]}, Past: events.Name{Text: nodes[1]}, Next: events.Name{Text: nodes[0]}}
}

// Writer is a seat that writes, in a directory that is known to be ours. Alone there it
// holds.
func (r *Rig) Writer() (w *Seat, node events.Name) {
	r.Helper()
	r.Warm()
	w = r.SeatedAt(session.Place{Dir: Dir, Kind: events.KindWrite})
	return w, w.Makes(1).Node
}

// InPlaceOf is a seat that wants to take another one's place.
func (r *Rig) InPlaceOf(w *Seat) *Seat {
	r.Helper()
	return r.SeatedAt(session.Place{Dir: Dir, Kind: events.KindRead, In: w.Seat})
}

// ExpireBefore ends the session that the server has, and waits for the next one.
func (s *Seat) ExpireBefore(next recipes.Epoch) {
	s.Rig.Helper()
	s.Rig.Must(s.Rig.Server.Expire(s.Rig.Only()))
	s.Await(next)
}

// Await waits for the epoch's session.
func (s *Seat) Await(epoch recipes.Epoch) {
	s.Rig.Helper()
	s.Rig.Until(fmt.Sprintf("epoch %d has a session", epoch), func() bool { return !s.Deadline(epoch).IsZero() })
}

// Begin opens the seat, and notes what it knows from then on.
func (s *Seat) Begin() {
	s.Rig.Session.Loop().Post(func() {
		if opened := s.Open(s.Note); opened.Epoch != 0 {
			s.Note(opened, nil)
		}
	})
}

// Do makes a request, as a machine does.
func (s *Seat) Do(request recipes.Effect) {
	s.Rig.Session.Loop().Post(func() {
		switch e := request.(type) {
		case recipes.Create, recipes.Delete:
			s.holds, s.claims = "", ""
		case recipes.Claim:
			s.claims = e.Node.Text
		case recipes.Advance:
			s.claims = e.Node.Text
		}
		s.Seat.Do(request)
	})
}

// Close closes the seat.
func (s *Seat) Close() { s.Rig.Session.Loop().Post(s.Seat.Close) }

// believe notes whether a machine would hold its lock after the input.
func (s *Seat) believe(in recipes.Input) {
	switch in := in.(type) {
	case recipes.Created:
		if in.Alone && in.Fresh {
			s.holds = in.Node.Text
		}
	case recipes.Enqueued:
		if in.Alone && in.Fresh {
			s.holds = in.Nodes[0].Text
		}
	case recipes.Entered:
		if in.Fresh {
			s.holds = in.Permits[0]
		}
	case recipes.Advanced:
		if in.Floor && in.Fresh {
			s.holds = s.claims
		}
	case recipes.Claimed:
		if in.Fresh {
			s.holds = s.claims
		}
	case recipes.Gone:
		if in.Node.Text == s.holds {
			s.holds = ""
		}
	case recipes.Refused:
		if recipes.Disproves(in) {
			s.holds = ""
		}
	case recipes.Suspended:
		if s.Strict {
			s.holds = ""
		}
	case recipes.LeaseRanOut, recipes.Expired, recipes.Overdue:
		s.holds = ""
	}
}
