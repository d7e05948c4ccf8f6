package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// A melee is what a crowd of contenders does at a few paths, without faults or with many.
//
// At each path a writer is alone and the tokens of writers grow, unless nodes are deleted or sessions ended by hand. No contender
// is stuck, and nothing is left.
type melee struct {
	t                     *testing.T
	srv                   *zktest.Server // nil: real servers, at which nothing breaks
	random                *rand.Rand
	paths                 []string
	mutexes               bool          // all exclude each other, and each waits until it is granted
	faults, deletes, lags bool          // what breaks: connections and replies; nodes and sessions; reads are behind
	every, dwells         time.Duration // at most so long between two faults, and under a lock

	multis, lost, granted atomic.Int64
	mu                    sync.Mutex
	sides                 map[string]map[*coordinator.Acquisition]string
	tokens                map[string]int64
	live                  sync.Map
}

// TestTheStormOfOppositeOrders: contenders of three sessions want the same mutexes in all orders, together and some of them singly.
// Each is granted. In two of three runs connections break and sessions end. In one of three nodes are deleted, too.
func TestTheStormOfOppositeOrders(t *testing.T) {
	storms(t, eventstest.Amount(3, 30), 3, func(s *melee, seed uint64) {
		s.mutexes, s.faults, s.deletes, s.every = true, seed%3 > 0, seed%3 > 1, 3*time.Second
	})
}

// TestTheStormOfAllSides: multi-locks with members that read and write, readers, writers, and writers that become readers. In three
// of four runs replies are lost, connections and sessions end. In one of four reads are behind. In another one nodes are deleted.
func TestTheStormOfAllSides(t *testing.T) {
	storms(t, eventstest.Amount(4, 24), 4, func(s *melee, seed uint64) {
		s.faults, s.deletes, s.lags, s.every = seed%4 > 0, seed%4 == 3, seed%4 == 2, time.Second/2
	})
}

// TestRealStorms has crowds of each kind of lock meet at one ensemble, like the storms on the double.
func TestRealStorms(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel()
	e := coordtest.Servers(t, 3)
	for name, test := range map[string]func(*testing.T, *ensemble.Ensemble){
		"opposite orders": realOppositeOrders, "permits": realPermits, "readers and writers": realReadersAndWriters, "elections": realElections,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, e)
		})
	}
}

// realOppositeOrders is the storm of opposite orders with sessions at each server, without faults.
func realOppositeOrders(t *testing.T, e *ensemble.Ensemble) {
	var cs []*coordinator.Coordinator
	for i := range 3 {
		cs = append(cs, coordtest.ConnectReal(t, e.Addr(i)))
	}
	s := newMelee(t, 1)
	s.mutexes, s.dwells = true, 5*time.Millisecond
	s.run(cs, 1)
	raw := coordtest.RawClient(t, e.Addr(0))
	for _, p := range s.paths {
		coordtest.Queued(t, raw, p, 0)
	}
}

// storms plays storms in virtual time, each with so many sessions.
func storms(t *testing.T, seeds, sessions int, set func(s *melee, seed uint64)) {
	t.Helper()
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				s := newMelee(t, seed)
				s.srv, s.dwells = srv, 300*time.Millisecond
				set(s, seed)
				var cs []*coordinator.Coordinator
				for range sessions {
					cs = append(cs, coordtest.Connect(t, srv))
				}
				if s.faults {
					srv.Intercept(s.drop(seed))
				}
				s.run(cs, seed)
				srv.Intercept(nil)
				for _, id := range srv.Sessions() {
					srv.Lag(id, false)
					srv.Mute(id, false)
				}
				time.Sleep(time.Minute)
				if left := nodesBelow(srv, s.paths...); len(left) > 0 {
					t.Errorf("when all have left the nodes %v are there, want none", left)
				}
			})
		})
	}
}

func newMelee(t *testing.T, seed uint64) *melee {
	t.Helper()
	return &melee{
		t: t, random: rand.New(rand.NewPCG(seed, 7)), paths: []string{accountA, accountB, accountC},
		sides: map[string]map[*coordinator.Acquisition]string{}, tokens: map[string]int64{},
	}
}

// drop loses, delays and refuses some requests.
func (s *melee) drop(seed uint64) func(zktest.Request) zktest.Action {
	random := rand.New(rand.NewPCG(seed, 99))
	var mu sync.Mutex
	return func(r zktest.Request) zktest.Action {
		if r.Op == zktest.OpPing || r.Op == zktest.OpConnect {
			return zktest.Pass()
		}
		mu.Lock()
		defer mu.Unlock()
		switch random.IntN(60) {
		case 0:
			return zktest.CutAfter()
		case 1:
			return zktest.CutBefore()
		case 2, 3, 4:
			return zktest.Delay(time.Duration(random.IntN(500)) * time.Millisecond)
		case 5:
			return zktest.Fail(zktest.Throttled)
		default:
			return zktest.Pass()
		}
	}
}

// run has twelve contenders in the sessions acquire ten times each.
func (s *melee) run(cs []*coordinator.Coordinator, seed uint64) {
	const contenders, rounds = 12, 10
	over := make(chan struct{})
	var running sync.WaitGroup
	for i := range contenders {
		c, mine := cs[i%len(cs)], rand.New(rand.NewPCG(seed, uint64(i)+2))
		running.Go(func() {
			for range rounds {
				s.visit(c, mine)
			}
		})
	}
	go func() {
		running.Wait()
		close(over)
	}()
	if s.srv == nil {
		<-over
	}
	deadline := time.After(2 * time.Hour) // of virtual time
	for !coordtest.IsClosed(over) {
		select {
		case <-over:
		case <-deadline:
			s.t.Log(nodesBelow(s.srv, s.paths...))
			s.live.Range(func(k, v any) bool { s.t.Log(v, k.(*coordinator.Acquisition).Err()); return true })
			s.t.Error("some contenders wait or do not end after two hours, want all of them to have ended")
			for _, c := range cs {
				_ = c.Close()
			}
			<-over
			return
		case <-time.After(time.Duration(s.random.Int64N(int64(s.every)))):
			s.fault()
		}
	}
	if n := s.granted.Load(); s.mutexes && n != contenders*rounds {
		s.t.Errorf("%d were granted, want all %d", n, contenders*rounds)
	}
	s.t.Logf("%d granted, %d multis, %d lost", s.granted.Load(), s.multis.Load(), s.lost.Load())
}

// at returns a lock of one of the sides at a path.
func (s *melee) at(c *coordinator.Coordinator, p, side string) *coordinator.Lock {
	switch {
	case s.mutexes:
		return c.Mutex(p)
	case side == "r":
		return c.ReadWrite(p).Read()
	default:
		return c.ReadWrite(p).Write()
	}
}

// side picks one of the sides.
func (s *melee) side(mine *rand.Rand) string {
	if !s.mutexes && mine.IntN(2) == 0 {
		return "r"
	}
	return "w"
}

func (s *melee) wait(a *coordinator.Acquisition, mine *rand.Rand, what string) (events.Grant, bool) {
	s.live.Store(a, what)
	ctx := context.Background()
	if !s.mutexes && mine.IntN(5) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(mine.IntN(1500))*time.Millisecond)
		defer cancel()
	}
	g, err := a.Wait(ctx)
	if lost := new(coordinator.LostError); s.deletes && errors.As(err, &lost) { // the node was deleted at the instant of the grant
		s.granted.Add(1)
		s.lost.Add(1)
		s.end(a)
		return g, false
	}
	if err != nil {
		if s.mutexes {
			s.t.Errorf("%s: %v, want a grant", what, err)
		}
		s.end(a)
		return g, false
	}
	s.granted.Add(1)
	return g, true
}

func (s *melee) end(a *coordinator.Acquisition) {
	coordtest.End(a)
	s.live.Delete(a)
}

func (s *melee) dwell(a *coordinator.Acquisition, mine *rand.Rand) {
	select {
	case <-a.Lost():
		s.lost.Add(1)
	case <-time.After(time.Duration(mine.Int64N(int64(s.dwells)) * int64(1+mine.IntN(2)*mine.IntN(10)))):
	}
}

func (s *melee) visit(c *coordinator.Coordinator, mine *rand.Rand) {
	if mine.IntN(3) == 0 || s.mutexes && mine.IntN(2) == 0 {
		s.multi(c, mine)
	} else {
		s.single(c, mine)
	}
}

func (s *melee) multi(c *coordinator.Coordinator, mine *rand.Rand) {
	var locks []*coordinator.Lock
	sides := map[string]string{}
	for _, i := range mine.Perm(len(s.paths))[:1+mine.IntN(len(s.paths))] {
		p := s.paths[i]
		sides[p] = s.side(mine)
		locks = append(locks, s.at(c, p, sides[p]))
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

func (s *melee) single(c *coordinator.Coordinator, mine *rand.Rand) {
	p := s.paths[mine.IntN(len(s.paths))]
	side := s.side(mine)
	a := s.at(c, p, side).Acquire(context.Background())
	g, ok := s.wait(a, mine, side+p)
	if !ok {
		return
	}
	s.enter(a, map[string]string{p: side}, g.Token)
	s.dwell(a, mine)
	if side == "w" && !s.mutexes && mine.IntN(2) == 0 {
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

func (s *melee) enter(a *coordinator.Acquisition, sides map[string]string, token int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, side := range sides {
		s.come(a, p, side, token)
	}
}

func (s *melee) come(a *coordinator.Acquisition, p, side string, token int64) {
	if s.sides[p] == nil {
		s.sides[p] = map[*coordinator.Acquisition]string{}
	}
	for other, theirs := range s.sides[p] {
		together := side == "r" && theirs == "r"
		if !together && other.Valid() && a.Valid() && !s.deletes {
			v, _ := s.live.Load(a)
			w, _ := s.live.Load(other)
			s.t.Errorf("%s holds %s as %q beside one that holds it as %q (%s), want it alone", v, p, side, theirs, w)
		}
	}
	s.sides[p][a] = side
	if side == "w" {
		if token <= s.tokens[p] && a.Valid() && !s.deletes {
			s.t.Errorf("at %s the token %d is granted after %d, want a greater one", p, token, s.tokens[p])
		}
		s.tokens[p] = max(token, s.tokens[p])
	}
}

func (s *melee) leave(a *coordinator.Acquisition, sides map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range sides {
		delete(s.sides[p], a)
	}
}

func (s *melee) fault() {
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
		if s.deletes { // the holder hears of it when others may be in already
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

// Directories that other clients fill, and that other clients remove.

// TestAVeryLongQueueCostsOneListing to join. A contender that leaves far ahead costs nothing, and each of the last ones to leave
// costs one round.
func TestAVeryLongQueueCostsOneListing(t *testing.T) {
	ahead := eventstest.Amount(5_000, 25_000)
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		node := func(i int) string { return fmt.Sprintf("%s/_c_%032x-lock-%010d", lockPath, i, i) }
		for i := range ahead {
			eventstest.Must(t, srv.Create(node(i), nil))
		}
		eventstest.Must(t, srv.SetSequence(lockPath, int32(ahead)))
		c := coordtest.Connect(t, srv)
		stream := c.Events(t.Context())
		sent := coordtest.Traffic(srv)
		a := coordtest.Queue(c.Mutex(lockPath))
		if ev, ok := (<-stream).(events.Queued); !ok || ev.Ahead != ahead {
			t.Errorf("the waiter hears %+v, want that %d are ahead", ev, ahead)
		}
		joined := sent.Load()
		if joined > steps || srv.Watches() != 2 {
			t.Errorf("to join took %d requests and %d watches, want at most %d and 2", joined, srv.Watches(), steps)
		}
		for i := range ahead - 2 {
			eventstest.Must(t, srv.Delete(node(i)))
		}
		synctest.Wait()
		if n := sent.Load() - joined; n != 0 {
			t.Errorf("%d requests because contenders left that stood far ahead, want none", n)
		}
		if err := srv.Delete(node(ahead - 1)); err != nil { // gives up, out of turn
			t.Fatal(err)
		}
		synctest.Wait()
		if a.Valid() {
			t.Fatal("granted with a contender ahead, want it to wait")
		}
		eventstest.Must(t, srv.Delete(node(ahead-2)))
		if _, err := a.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := sent.Load() - joined; n > 10 { // two walks back by three requests, a listing with the own node and the floor, a claim
			t.Errorf("%d requests for the last two ahead, want at most 10", n)
		}
	})
}

// TestAContenderWakesOnlyItsSuccessor drains a queue with waiters of many sessions: each handoff takes the same few requests,
// however long the queue is.
func TestAContenderWakesOnlyItsSuccessor(t *testing.T) {
	const waiters = 200
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs := []*coordinator.Coordinator{coordtest.Connect(t, srv), coordtest.Connect(t, srv), coordtest.Connect(t, srv)}
		all := make([]*coordinator.Acquisition, waiters)
		for i := range all {
			all[i] = coordtest.Queue(cs[i%len(cs)].Mutex(lockPath))
		}
		sent := coordtest.Traffic(srv)
		for i, a := range all {
			before := sent.Load()
			if _, err := a.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			a.Release()
			synctest.Wait()
			if n := sent.Load() - before; n > 3 { // delete, and the next one looks for the floor and claims
				t.Fatalf("hand-over %d took %d requests, want at most 3", i, n)
			}
		}
	})
}

// TestTheHolderIsToldAndTheWaitersQueueAgainWhenTheDirectoryIsDeleted. Each of them is granted in the end, with a greater token.
func TestTheHolderIsToldAndTheWaitersQueueAgainWhenTheDirectoryIsDeleted(t *testing.T) {
	const waiters = 30
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs := []*coordinator.Coordinator{coordtest.Connect(t, srv), coordtest.Connect(t, srv), coordtest.Connect(t, srv)}
		stream := cs[1].Events(t.Context())
		holder, first := coordtest.Hold(t, cs[0].Mutex(lockPath))
		var all []*coordinator.Acquisition
		for i := range waiters {
			all = append(all, coordtest.Queue(cs[i%len(cs)].Mutex(lockPath)))
		}
		srv.MuteAll(true) // or they would be back before the directory is empty
		for _, child := range srv.Children(lockPath) {
			eventstest.Must(t, srv.Delete(lockPath+"/"+child))
		}
		for _, dir := range []string{lockPath, "/locks"} {
			eventstest.Must(t, srv.Delete(dir))
		}
		srv.MuteAll(false)
		if lost := <-holder.Lost(); lost.Reason != events.ReasonNodeRemoved {
			t.Errorf("the holder hears %+v, want that its node was removed", lost)
		}
		synctest.Wait()
		requeued := 0
		for requeued < waiters/len(cs) {
			if _, ok := (<-stream).(events.Requeued); ok {
				requeued++
			}
		}
		last := first.Token
		for range all {
			var now *coordinator.Acquisition
			for _, a := range all {
				if a.Valid() {
					if now != nil {
						t.Fatal("two hold the lock, want one")
					}
					now = a
				}
			}
			if now == nil {
				t.Fatal("none of those that queue again holds the lock, want one")
			}
			grant, err := now.Wait(t.Context())
			if err != nil || grant.Token <= last {
				t.Fatalf("%+v is granted, %v, want a token above %d", grant, err, last)
			}
			last = grant.Token
			now.Release()
			synctest.Wait()
		}
		if got := srv.Children(lockPath); len(got) != 0 {
			t.Errorf("when all have released the nodes %v are left, want none", got)
		}
	})
}
