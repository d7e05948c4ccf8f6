package session_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
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

// acquire goes through a whole acquisition, and tries each request again until it has a definite answer.
func (s *seat) acquire() {
	r := s.r
	r.Helper()
	s.want("Opened")
	var listed recipes.Listed
	attempt := recipes.Attempt(0)
	for listed.Own == (recipes.Own{}) {
		attempt++
		if attempt > 2 {
			r.Fatal("created twice, and not found")
		}
		s.Create(recipes.Create{Epoch: 1, Attempt: attempt})
		in := s.answer()
		_, lost := in.(recipes.Unknown)
		if _, ok := in.(recipes.Created); !ok && !lost {
			r.Fatalf("%+v", in)
		}
		for again := true; again; {
			s.List(recipes.List{Epoch: 1, Attempt: attempt, Barrier: lost})
			in := s.answer()
			again = in == recipes.Unknown{Epoch: 1, Op: recipes.OpList}
			if !again {
				listed = in.(recipes.Listed)
			}
		}
		// The listing either has the node or proves that there is none.
		if n := len(r.srv.Children(dir)); n > 1 || len(listed.Queue) != n || (listed.Own.Name.Text != "") != (n == 1) {
			r.Fatalf("%d nodes, and the listing says %+v", n, listed)
		}
	}
	node := listed.Own.Name.Text
	if listed.Own.Owner != r.only() || listed.Own.Owner != r.srv.Owner(dir+"/"+node) {
		r.Errorf("%+v in session %#x", listed.Own, r.only())
	}
	for {
		s.Claim(recipes.Claim{Epoch: 1, Node: node})
		in := s.answer()
		if in == (recipes.Claimed{Epoch: 1, Fresh: true}) {
			break
		}
		if in != (recipes.Unknown{Epoch: 1, Op: recipes.OpClaim}) {
			r.Fatalf("%+v", in)
		}
	}
	s.delete(node)
}

func (s *seat) delete(node string) {
	r := s.r
	r.Helper()
	for {
		s.Delete(recipes.Delete{Epoch: 1, Node: node})
		deleted := false
		r.until("the deletion is answered", func() bool {
			for _, in := range s.fresh() {
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

// The connection breaks before or after each of the requests of an acquisition.
func TestEveryRequestIsAnsweredOnceWhereverTheConnectionBreaks(t *testing.T) {
	total := 0
	inSession(t, func(r *rig) {
		count := cut{}.intercept(r.srv)
		r.seat().acquire()
		total = count()
	})
	// create, its parents, create; children, getData; the claim; delete.
	if total < 8 {
		t.Fatalf("an acquisition takes %d requests", total)
	}
	for at := 1; at <= total; at++ {
		for name, action := range map[string]zktest.Action{"before": zktest.CutBefore(), "after": zktest.CutAfter()} {
			t.Run(fmt.Sprintf("%s request %d", name, at), func(t *testing.T) {
				inSession(t, func(r *rig) {
					cut{at, action}.intercept(r.srv)
					s := r.seat()
					s.acquire()
					time.Sleep(time.Minute)
					for _, in := range s.fresh() {
						if _, ok := in.(recipes.Gone); !ok {
							t.Errorf("%+v came later", in)
						}
					}
					if n := len(r.srv.Children(dir)); n != 0 {
						t.Errorf("%d nodes left", n)
					}
				})
			})
		}
	}
}

// The same with many at once, and with breaks all the time.
func TestEveryRequestIsAnsweredOnceInAStorm(t *testing.T) {
	inSession(t, func(r *rig) {
		const seats, rounds = 400, 20
		list := make([]*seat, seats)
		for i := range list {
			list[i] = r.seatAt(session.Place{Dir: fmt.Sprintf("/locks/%d", i%7)})
			list[i].want("Opened")
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
			r.srv.Cut(r.only())
			time.Sleep(time.Duration(round) * time.Millisecond)
		}
		r.settle()
		time.Sleep(time.Second)
		for i, s := range list {
			answers := 0
			for _, in := range s.fresh() {
				switch in.(type) {
				case recipes.Suspended, recipes.Reconnected:
				default:
					answers++
				}
			}
			if answers != rounds {
				t.Fatalf("seat %d: %d answers to %d requests", i, answers, rounds)
			}
		}
	})
}
