package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// TestTxnSaysWhatBecameOfIt makes transactions under random faults, each of which creates a node of its own, and counts the nodes
// afterwards. A transaction that returned nil was executed once, one of unknown outcome at most once, and any other never. All of
// them return.
func TestTxnSaysWhatBecameOfIt(t *testing.T) {
	seeds, fates := uint64(eventstest.Amount(15, 150)), map[string]int{}
	for seed := range seeds {
		eventstest.Bubble(t, func(t *testing.T) {
			s := newTxnStory(t, seed)
			s.play()
			s.judge(fates)
		})
		if t.Failed() {
			break
		}
	}
	t.Log(fates)
	if seeds >= 100 && (fates["done"] < 500 || fates["unknown"] < 200 || fates["not executed"] < 50) {
		t.Error("too few of one kind, want 500 done, 200 unknown and 50 not executed")
	}
}

// txnStory is a coordinator that makes transactions while its connection, server and locks are disturbed.
type txnStory struct {
	*testing.T
	seed    uint64
	timeout time.Duration
	srv     *zktest.Server
	network *faultnet.Network
	c       *coordinator.Coordinator
	running sync.WaitGroup
	healed  atomic.Bool

	mu    sync.Mutex
	rng   *rand.Rand
	asked []string         // the prefix of the node that each transaction makes
	told  map[string]error // what it returned
}

func newTxnStory(t *testing.T, seed uint64) *txnStory {
	const tick = time.Second
	s := &txnStory{T: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 0)), told: map[string]error{}}
	s.timeout = tick * time.Duration(2+s.roll(8))
	s.srv = zktest.Start(t, zktest.Tick(tick), zktest.Followers())
	eventstest.Must(t, s.srv.Create("/app/made", nil))
	s.srv.Intercept(func(r zktest.Request) zktest.Action {
		if r.Op != zktest.OpMulti || len(r.Parts) < 2 || s.healed.Load() {
			return zktest.Pass()
		}
		return oneOf(s, 14, zktest.Pass(), zktest.Fail(zktest.Throttled), zktest.Fail(zktest.SessionMoved),
			zktest.CutAfter(), zktest.CutBefore(), zktest.Delay(s.some(s.timeout)))
	})
	s.network = faultnet.New(s.srv.DialContext, func(faultnet.Frame) faultnet.Verdict {
		if s.healed.Load() {
			return faultnet.Pass()
		}
		return oneOf(s, 4*40, faultnet.Pass(), faultnet.CutAfter(), faultnet.CutBefore(), faultnet.Swallow(),
			faultnet.HoldFor(s.some(s.timeout)))
	})
	var err error
	s.c, err = coordinator.Connect(t.Context(), s.srv.Addr()+"/app", coordinator.WithDialer(s.network.Dial),
		coordinator.WithSessionTimeout(s.timeout), coordinator.WithTickTime(tick))
	eventstest.Must(t, err)
	return s
}

// oneOf returns each of the others once in n times, and mostly the usual one.
func oneOf[T any](s *txnStory, n int, usual T, others ...T) T {
	if i := s.roll(n); i < len(others) {
		return others[i]
	}
	return usual
}

// roll returns a number below n. It may be called from any goroutine.
func (s *txnStory) roll(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

// some returns a time below d.
func (s *txnStory) some(d time.Duration) time.Duration { return time.Duration(s.roll(int(d))) }

func (s *txnStory) play() {
	for range 6 {
		a := s.c.Mutex("/locks/a").Acquire(context.Background())
		select {
		case <-a.Granted():
		case <-time.After(s.some(5 * s.timeout)): // not held, or the Grant was not taken: it is tried all the same
		}
		for range s.roll(12) {
			s.transact(a)
			if s.roll(2) == 0 {
				time.Sleep(s.some(s.timeout / 4))
			}
		}
		s.disturb()
		a.Release()
	}
	if s.roll(2) == 0 {
		time.Sleep(s.timeout)
	}
	_ = s.c.Close() // whether the servers could be told does not matter here
	s.healed.Store(true)
	s.network.Heal()
	s.running.Wait() // or the bubble says that it is deadlocked
	time.Sleep(10 * s.timeout)
	s.network.Close()
}

// transact makes a transaction that creates a node.
func (s *txnStory) transact(a *coordinator.Acquisition) {
	prefix := fmt.Sprintf("/made/%d-", len(s.asked))
	s.asked = append(s.asked, prefix)
	ctx, cancel := context.WithCancel(context.Background())
	if s.roll(3) == 0 {
		ctx, cancel = context.WithTimeout(ctx, s.some(s.timeout))
	}
	s.running.Go(func() {
		defer cancel()
		_, err := a.Txn(ctx, &zk.CreateRequest{Path: prefix, Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagSequence})
		s.mu.Lock()
		defer s.mu.Unlock()
		s.told[prefix] = err
	})
}

func (s *txnStory) disturb() {
	session := s.c.SessionID()
	switch s.roll(8) {
	case 0:
		_ = s.srv.Expire(session) // there may be none at the moment
	case 1:
		s.network.Cut()
	case 2:
		s.network.Partition()
		time.Sleep(s.some(2 * s.timeout))
		s.network.Heal()
	case 3:
		s.srv.Strand(session, true)
		time.Sleep(s.some(s.timeout))
		s.srv.Strand(session, false)
	default: // nothing
	}
}

func (s *txnStory) judge(fates map[string]int) {
	made := map[string]int{}
	for _, child := range s.srv.Children("/app/made") {
		number, _, _ := strings.Cut(child, "-")
		made["/made/"+number+"-"]++
	}
	for _, prefix := range s.asked {
		err, n, fate, least, most := s.told[prefix], made[prefix], "not executed", 0, 0
		switch {
		case err == nil:
			fate, least, most = "done", 1, 1
		case errors.Is(err, coordinator.ErrOutcomeUnknown):
			fate, most = "unknown", 1
		case errors.Is(err, coordinator.ErrNodeRemoved):
			s.Errorf("seed %d: %s: Txn returned %v, want another error: no node is removed by hand", s.seed, prefix, err)
		}
		fates[fate]++
		if n < least || n > most {
			s.Errorf("seed %d: %s was executed %d times, and Txn returned %v; want %d to %d times",
				s.seed, prefix, n, err, least, most)
		}
	}
}
