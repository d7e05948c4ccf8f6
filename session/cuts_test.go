package session_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// cut is where a connection breaks: at the nth request that counts.
type cut struct {
	at     int
	action zktest.Action
}

// intercept breaks the connection, once, and returns how many requests there have been.
func (c cut) intercept(srv *zktest.Server) (count func() int) {
	var mu sync.Mutex
	n := 0
	srv.Intercept(func(q zktest.Request) zktest.Action {
		switch q.Op {
		case zktest.OpConnect, zktest.OpPing, zktest.OpClose, zktest.OpSetWatches, zktest.OpAuth:
			return zktest.Pass()
		default:
		}
		mu.Lock()
		defer mu.Unlock()
		n++
		if n == c.at {
			return c.action
		}
		return zktest.Pass()
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// The connection breaks before or after each of the requests of an acquisition.
func TestEveryRequestIsAnsweredOnceWhereverTheConnectionBreaks(t *testing.T) {
	total := 0
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		count := cut{}.intercept(r.Server)
		r.Seat().Acquire()
		total = count()
	})
	// create, its parents, create; children, getData; the claim; delete.
	if total < 8 {
		t.Fatalf("an acquisition takes %d requests, want 8 or more: the test breaks at each", total)
	}
	for at := 1; at <= total; at++ {
		for name, action := range map[string]zktest.Action{"before": zktest.CutBefore(), "after": zktest.CutAfter()} {
			sessiontest.Run(t, fmt.Sprintf("%s request %d", name, at), func(r *sessiontest.Rig) {
				cut{at, action}.intercept(r.Server)
				s := r.Seat()
				s.Acquire()
				time.Sleep(time.Minute)
				for _, in := range s.Fresh() {
					if _, ok := in.(recipes.Gone); !ok {
						r.Errorf("a minute later the seat is told %+v, want nothing but that its node is gone", in)
					}
				}
				r.WantChildren(0)
			})
		}
	}
}

// The same with many at once, and with breaks all the time.
func TestEveryRequestIsAnsweredOnceInAStorm(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		const seats = 400
		rounds := eventstest.Amount(8, 20)
		list := make([]*sessiontest.Seat, seats)
		for i := range list {
			list[i] = r.SeatAt(session.Place{Dir: fmt.Sprintf("/locks/%d", i%7)})
			list[i].Want("Opened")
		}
		for round := range rounds {
			for i, s := range list {
				switch (i + round) % 4 {
				case 0:
					s.Create(recipes.Create{Epoch: 1, Attempt: recipes.Attempt(round)})
				case 1:
					s.List(recipes.List{Epoch: 1, Barrier: true})
				case 2:
					s.Claim(recipes.Claim{Epoch: 1, Node: "none"})
				case 3:
					s.Delete(recipes.Delete{Epoch: 1, Node: "none"})
				}
			}
			r.Server.Cut(r.Only())
			time.Sleep(time.Duration(round) * time.Millisecond)
		}
		r.Settle()
		time.Sleep(time.Second)
		for i, s := range list {
			answers := 0
			for _, in := range s.Fresh() {
				switch in.(type) {
				case recipes.Suspended, recipes.Reconnected:
				default:
					answers++
				}
			}
			if answers != rounds {
				t.Fatalf("seat %d has %d answers to %d requests, want one to each", i, answers, rounds)
			}
		}
	})
}

// The connection is lost again and again right behind the handshake, so requests for watches stay in the
// client's queue, and go out on later connections. The race detector is what fails here, if an answer gets
// through before the client has put its own request together.
func TestRequestsForWatchesThatOutliveTheirConnection(t *testing.T) {
	var cuts atomic.Int64
	rule := func(f faultnet.Frame) faultnet.Verdict {
		if f.Direction == faultnet.Down && f.Op == zktest.OpConnect && cuts.Add(-1) >= 0 {
			return faultnet.CutAfter()
		}
		return faultnet.Pass()
	}
	sessiontest.Bubble(t, func(r *sessiontest.Rig) {
		network := faultnet.New(r.Server.DialContext, rule)
		r.Open("", session.OptionFunc(func(c *session.Config) { c.Dial = network.Dial }))
		r.Plant("n")
		s := r.Watching("n")
		for range 50 {
			cuts.Store(3)
			r.Server.Cut(r.Only())
			r.Settle()
			time.Sleep(2 * time.Second) // the next dial comes at once
		}
		s.Fresh()
		r.DeleteNode("n")
		if told := sessiontest.TypesOf(s.Fresh()); !strings.Contains(told, "Gone") {
			t.Errorf("after 50 cuts the seat is told %s, want Gone", told)
		}
	})
}
