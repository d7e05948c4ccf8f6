package coordinator_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestTheStormOfAllSides: multi-locks whose members read and write, readers, writers who become readers, upgradable readers who
// upgrade, once or twice, at the same three paths. Replies are lost, connections and sessions end, reads are behind, single nodes are deleted. At each path a writer
// is alone and the tokens of writers grow, unless nodes are deleted or sessions ended by hand; nobody is stuck, and nothing is left.
func TestTheStormOfAllSides(t *testing.T) {
	seeds := uint64(24)
	if testing.Short() {
		seeds = 6
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				s := &sidesStorm{
					t: t, srv: srv, random: rand.New(rand.NewPCG(seed, 7)), paths: []string{accountA, accountB, accountC},
					faults: seed%4 > 0, deletes: seed%4 == 3, lags: seed%4 == 2, sides: map[string]map[*coordinator.Acquisition]string{}, tokens: map[string]int64{},
				}
				s.run(seed)
			})
		})
	}
}

type sidesStorm struct {
	t                     *testing.T
	srv                   *zktest.Server
	random                *rand.Rand
	paths                 []string
	faults, deletes, lags bool

	upgrades, multis, lost, granted atomic.Int64
	mu                              sync.Mutex
	sides                           map[string]map[*coordinator.Acquisition]string
	tokens                          map[string]int64
	live                            sync.Map
}

func (s *sidesStorm) run(seed uint64) {
	const contenders, rounds = 12, 10
	var cs []*coordinator.Coordinator
	for range 4 {
		cs = append(cs, coordtest.Connect(s.t, s.srv))
	}
	drop := rand.New(rand.NewPCG(seed, 99))
	var dropping sync.Mutex
	if s.faults {
		s.srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Op == zktest.OpPing || r.Op == zktest.OpConnect {
				return zktest.Pass()
			}
			dropping.Lock()
			defer dropping.Unlock()
			switch drop.IntN(60) {
			case 0:
				return zktest.CutAfter()
			case 1:
				return zktest.CutBefore()
			case 2, 3, 4:
				return zktest.Delay(time.Duration(drop.IntN(500)) * time.Millisecond)
			case 5:
				return zktest.Fail(zktest.Throttled)
			default:
				return zktest.Pass()
			}
		})
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
	deadline := time.After(2 * time.Hour)
	for !coordtest.IsClosed(over) {
		select {
		case <-over:
		case <-deadline:
			s.t.Log(nodesBelow(s.srv, s.paths...))
			s.live.Range(func(k, v any) bool { s.t.Log(v, k.(*coordinator.Acquisition).Err()); return true })
			s.t.Error("somebody is stuck")
			for _, c := range cs {
				c.Close()
			}
			<-over
			return
		case <-time.After(time.Duration(s.random.IntN(500)) * time.Millisecond):
			s.fault()
		}
	}
	s.srv.Intercept(nil)
	for _, id := range s.srv.Sessions() {
		s.srv.Lag(id, false)
		s.srv.Mute(id, false)
	}
	time.Sleep(time.Minute)
	if left := nodesBelow(s.srv, s.paths...); len(left) > 0 {
		s.t.Errorf("left behind: %v", left)
	}
	s.t.Logf("%d granted, %d upgrades, %d multis, %d lost", s.granted.Load(), s.upgrades.Load(), s.multis.Load(), s.lost.Load())
}

func (s *sidesStorm) wait(a *coordinator.Acquisition, mine *rand.Rand, what string) (events.Grant, bool) {
	s.live.Store(a, what)
	ctx := context.Background()
	if mine.IntN(5) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(mine.IntN(1500))*time.Millisecond)
		defer cancel()
	}
	g, err := a.Wait(ctx)
	if err != nil {
		s.end(a)
		return g, false
	}
	s.granted.Add(1)
	return g, true
}

func (s *sidesStorm) end(a *coordinator.Acquisition) {
	a.Release()
	<-a.Done()
	s.live.Delete(a)
}

func (s *sidesStorm) dwell(a *coordinator.Acquisition, mine *rand.Rand) {
	select {
	case <-a.Lost():
		s.lost.Add(1)
	case <-time.After(time.Duration(mine.IntN(300)*(1+mine.IntN(2)*mine.IntN(10))) * time.Millisecond):
	}
}

func (s *sidesStorm) visit(c *coordinator.Coordinator, mine *rand.Rand) {
	switch mine.IntN(3) {
	case 0:
		s.multi(c, mine)
	case 1:
		s.upgrade(c.ReadWrite(s.paths[mine.IntN(len(s.paths))]), mine)
	default:
		s.single(c, mine)
	}
}

func (s *sidesStorm) multi(c *coordinator.Coordinator, mine *rand.Rand) {
	var locks []*coordinator.Lock
	sides := map[string]string{}
	for _, i := range mine.Perm(len(s.paths))[:1+mine.IntN(len(s.paths))] {
		p := s.paths[i]
		if mine.IntN(2) == 0 {
			locks, sides[p] = append(locks, c.ReadWrite(p).Read()), "r"
		} else {
			locks, sides[p] = append(locks, c.ReadWrite(p).Write()), "w"
		}
	}
	a := c.Multi(locks...).Acquire(context.Background())
	g, ok := s.wait(a, mine, fmt.Sprint("multi ", sides))
	if !ok {
		return
	}
	s.multis.Add(1)
	s.enter(a, sides, g.Token)
	s.dwell(a, mine)
	s.leave(a, sides)
	s.end(a)
}

func (s *sidesStorm) single(c *coordinator.Coordinator, mine *rand.Rand) {
	p := s.paths[mine.IntN(len(s.paths))]
	side, l := "r", c.ReadWrite(p).Read()
	if mine.IntN(2) == 0 {
		side, l = "w", c.ReadWrite(p).Write()
	}
	a := l.Acquire(context.Background())
	g, ok := s.wait(a, mine, side+p)
	if !ok {
		return
	}
	s.enter(a, map[string]string{p: side}, g.Token)
	s.dwell(a, mine)
	if side == "w" && mine.IntN(2) == 0 {
		r := c.ReadWrite(p).Read().Acquire(context.WithoutCancel(a.Context(context.Background())))
		if mine.IntN(3) > 0 {
			if _, ok := s.wait(r, mine, "downgrade "+p); ok {
				s.leave(a, map[string]string{p: side})
				s.end(a)
				s.enter(r, map[string]string{p: "r"}, 0)
				s.dwell(r, mine)
				s.leave(r, map[string]string{p: "r"})
				s.end(r)
				return
			}
		}
		s.live.Store(r, "downgrade given up "+p)
		defer s.end(r)
	}
	s.leave(a, map[string]string{p: side})
	s.end(a)
}

func (s *sidesStorm) upgrade(rw *coordinator.ReadWrite, mine *rand.Rand) {
	p := rw.Read().Path()
	u := rw.Upgradable().Acquire(context.Background())
	g, ok := s.wait(u, mine, "u"+p)
	if !ok {
		return
	}
	s.enter(u, map[string]string{p: "u"}, g.Token)
	s.dwell(u, mine)
	ctx := context.WithoutCancel(u.Context(context.Background()))
	var all sync.WaitGroup
	for range 1 + mine.IntN(2) {
		x := rw.Write().Acquire(ctx)
		own := rand.New(rand.NewPCG(mine.Uint64(), 3))
		all.Go(func() {
			g, ok := s.wait(x, own, "x"+p)
			if !ok {
				return
			}
			s.upgrades.Add(1)
			s.enterOver(x, u, p, g.Token)
			s.dwell(x, own)
			s.leave(x, map[string]string{p: "w"})
			s.end(x)
		})
		time.Sleep(time.Duration(mine.IntN(300)) * time.Millisecond)
	}
	if mine.IntN(2) == 0 {
		all.Wait()
	}
	s.leave(u, map[string]string{p: "u"})
	s.end(u)
	all.Wait()
}

func (s *sidesStorm) enter(a *coordinator.Acquisition, sides map[string]string, token int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, side := range sides {
		s.come(a, nil, p, side, token)
	}
}

func (s *sidesStorm) enterOver(x, u *coordinator.Acquisition, p string, token int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.come(x, u, p, "w", token)
}

func (s *sidesStorm) come(a, under *coordinator.Acquisition, p, side string, token int64) {
	if s.sides[p] == nil {
		s.sides[p] = map[*coordinator.Acquisition]string{}
	}
	for other, theirs := range s.sides[p] {
		together := side == "r" && theirs != "w" || side == "u" && theirs == "r" || other == under
		if !together && other.Valid() && a.Valid() && !s.deletes {
			v, _ := s.live.Load(a)
			w, _ := s.live.Load(other)
			s.t.Errorf("%s beside %s at %s (%v, %v): %v", side, theirs, p, v, w, s.srv.Children(p))
		}
	}
	s.sides[p][a] = side
	if side == "w" {
		if token < s.tokens[p] && a.Valid() && !s.deletes || token == s.tokens[p] && under == nil && a.Valid() && !s.deletes {
			s.t.Errorf("at %s token %d behind %d, upgrade %v", p, token, s.tokens[p], under != nil)
		}
		s.tokens[p] = max(token, s.tokens[p])
	}
}

func (s *sidesStorm) leave(a *coordinator.Acquisition, sides map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range sides {
		delete(s.sides[p], a)
	}
}

func (s *sidesStorm) fault() {
	ids := s.srv.Sessions()
	if !s.faults || len(ids) == 0 {
		return
	}
	id := ids[s.random.IntN(len(ids))]
	switch s.random.IntN(8) {
	case 0, 1:
		s.srv.Cut(id)
	case 2:
		s.srv.Mute(id, true)
		time.AfterFunc(time.Duration(s.random.IntN(20))*time.Second, func() { s.srv.Mute(id, false) })
	case 3:
		if s.deletes { // whoever holds hears of it when others may be in already
			_ = s.srv.Expire(id)
		}
	case 4, 5:
		if s.lags {
			s.srv.Lag(id, true)
			time.AfterFunc(time.Duration(s.random.IntN(3000))*time.Millisecond, func() { s.srv.Lag(id, false) })
		}
	default:
		p := s.paths[s.random.IntN(len(s.paths))]
		if nodes := s.srv.Children(p); len(nodes) > 0 && s.deletes {
			_ = s.srv.Delete(path.Join(p, nodes[s.random.IntN(len(nodes))]))
		}
	}
}
