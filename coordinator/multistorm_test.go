package coordinator_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestTheStormOfOppositeOrders: twelve contenders of three sessions want the same paths in all orders, some of them singly, while
// nothing breaks, or connections do and sessions end, or nodes are deleted, too. Nobody is stuck; and at each path one is inside and tokens
// grow, unless nodes are deleted.
func TestTheStormOfOppositeOrders(t *testing.T) {
	seeds := uint64(30)
	if testing.Short() {
		seeds = 6
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				s := &multiStorm{
					t: t, srv: srv, random: rand.New(rand.NewPCG(seed, 1)), paths: []string{accountA, accountB, accountC, "/accounts/d"},
					faults: seed%3 > 0, deletes: seed%3 > 1, inside: map[string]map[*coordinator.Acquisition]bool{}, tokens: map[string]int64{},
				}
				s.run(seed)
			})
		})
	}
}

type multiStorm struct {
	t               *testing.T
	srv             *zktest.Server
	random          *rand.Rand
	paths           []string
	faults, deletes bool

	granted, lost atomic.Int64
	mu            sync.Mutex
	inside        map[string]map[*coordinator.Acquisition]bool
	tokens        map[string]int64
}

func (s *multiStorm) run(seed uint64) {
	const contenders, rounds = 12, 10
	var cs []*coordinator.Coordinator
	for range 3 {
		cs = append(cs, coordtest.Connect(s.t, s.srv))
	}
	var running sync.WaitGroup
	for i := range contenders {
		c, mine := cs[i%len(cs)], rand.New(rand.NewPCG(seed, uint64(i)+2))
		running.Go(func() {
			for range rounds {
				s.visit(c, mine)
			}
		})
	}
	over := make(chan struct{})
	go func() {
		running.Wait()
		close(over)
	}()
	deadline := time.After(time.Hour)
	for !coordtest.IsClosed(over) {
		select {
		case <-over:
		case <-deadline:
			s.t.Fatal("somebody is stuck")
		case <-time.After(time.Duration(s.random.IntN(3000)) * time.Millisecond):
			s.fault()
		}
	}
	time.Sleep(30 * time.Second)
	if left := nodesBelow(s.srv, s.paths...); len(left) > 0 {
		s.t.Errorf("left behind: %v", left)
	}
	if n := s.granted.Load(); n != contenders*rounds {
		s.t.Errorf("%d were granted", n)
	}
	s.t.Logf("%d granted, %d lost", s.granted.Load(), s.lost.Load())
}

// visit is one contender's turn.
func (s *multiStorm) visit(c *coordinator.Coordinator, mine *rand.Rand) {
	var wanted []string
	for _, p := range mine.Perm(len(s.paths))[:1+mine.IntN(len(s.paths))] {
		wanted = append(wanted, s.paths[p])
	}
	l := mutexes(c, wanted...)
	if len(wanted) == 1 && mine.IntN(2) == 0 {
		l = c.Mutex(wanted[0])
	}
	a := l.Acquire(context.Background())
	grant, err := a.Wait(context.Background())
	if err != nil {
		s.t.Errorf("%v: %v", wanted, err)
		return
	}
	s.granted.Add(1)
	s.enter(a, wanted, grant.Token)
	select {
	case <-a.Lost():
		s.lost.Add(1)
	case <-time.After(time.Duration(mine.IntN(300)) * time.Millisecond):
	}
	s.mu.Lock()
	for _, p := range wanted {
		delete(s.inside[p], a)
	}
	s.mu.Unlock()
	a.Release()
	<-a.Done()
}

func (s *multiStorm) enter(a *coordinator.Acquisition, wanted []string, token int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range wanted {
		for other := range s.inside[p] {
			if other.Valid() && a.Valid() && !s.deletes {
				s.t.Errorf("two are inside at %s", p)
			}
		}
		if s.inside[p] == nil {
			s.inside[p] = map[*coordinator.Acquisition]bool{}
		}
		s.inside[p][a] = true
		if token <= s.tokens[p] && a.Valid() && !s.deletes {
			s.t.Errorf("at %s token %d behind %d", p, token, s.tokens[p])
		}
		s.tokens[p] = max(token, s.tokens[p])
	}
}

func (s *multiStorm) fault() {
	ids := s.srv.Sessions()
	if !s.faults || len(ids) == 0 {
		return
	}
	id := ids[s.random.IntN(len(ids))]
	switch s.random.IntN(6) {
	case 0, 1:
		s.srv.Cut(id)
	case 2: // perhaps for so long that the session ends
		s.srv.Mute(id, true)
		time.AfterFunc(time.Duration(s.random.IntN(20))*time.Second, func() { s.srv.Mute(id, false) })
	default:
		p := s.paths[s.random.IntN(len(s.paths))]
		if nodes := s.srv.Children(p); len(nodes) > 0 && s.deletes {
			_ = s.srv.Delete(p + "/" + nodes[s.random.IntN(len(nodes))])
		}
	}
}
