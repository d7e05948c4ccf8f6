package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// staleTick is the servers' tick.
const staleTick = 500 * time.Millisecond

// stranded are the trials of one kind that are held through a follower that is about to lose its leader.
type stranded struct {
	timeout   time.Duration
	late      bool // the first grant of a session that was idle for long
	lost      int
	disturbed int // lost before the follower was cut off, on a busy machine
	lead      spread
	expiry    spread // lead over the deletion of the node
	stock     spread // how long the stock client's holder believed on, in seconds
}

func (s *stranded) String() string {
	if s.late {
		return fmt.Sprintf("T = %d ticks, granted after a long idle", s.timeout/staleTick)
	}
	return fmt.Sprintf("T = %d ticks, held for long", s.timeout/staleTick)
}

// A follower that has lost its leader does not know it, and goes on answering its clients' pings while the leader ends their
// sessions. Holders are told before that all the same: long-time holders with probes in all phases, and holders that were granted
// the lock a moment ago in a session that had been idle. The stock client's lock is held beside them for comparison.
//
//nolint:tparallel // the rounds cut off the same follower, one after the other
func TestStaleFollower(t *testing.T) {
	eventstest.Turn(t, 3)
	t.Parallel()
	eventstest.NeedsServers(t)
	const each = 3
	links := ensemble.NewLinks(t)
	// Until half of syncLimit has passed no server closes a connection: the follower stays stale.
	e := ensemble.Start(t, 3, links.Setting(), ensemble.Tick(staleTick), ensemble.SyncLimit(60))
	kinds := []*stranded{
		{timeout: 3 * staleTick}, {timeout: 12 * staleTick},
		{timeout: 3 * staleTick, late: true}, {timeout: 12 * staleTick, late: true},
	}
	// On a busy machine locks with a short T are lost before the fault begins. That is no trial, and two more rounds are played for
	// the sake of those kinds.
	untried := func(s *stranded) bool { return s.lost == 0 }
	rounds := reliability.Trials(1, 1, 8)
	for round := 0; round < rounds || round < rounds+2 && slices.ContainsFunc(kinds, untried) && !t.Failed(); round++ {
		t.Run(fmt.Sprintf("round %d", round), func(t *testing.T) { strandedRound(t, e, links, round, each, kinds) })
	}
	trials := 0
	for _, s := range kinds {
		trials += s.lost
		if untried(s) {
			t.Logf("%v: not tried; %d were lost before: the machine was busy", s, s.disturbed)
			continue
		}
		text := fmt.Sprintf("%v: %d trials, Lost before the next grant by %.3f T at least (middle %.3f T), "+
			"before the real expiry by %.3f T at least", s, s.lost, s.lead.min(), s.lead.median(), s.expiry.min())
		if s.disturbed > 0 {
			text += fmt.Sprintf(" (%d more were lost before: the machine was busy)", s.disturbed)
		}
		if s.stock.any() {
			text += fmt.Sprintf("; the stock client's zk.Lock beside it believed on for %.1f s at least "+
				"after the next grant", s.stock.min())
		}
		reliability.Report(t, reliability.RowStaleFollower, "%s", text)
	}
	if trials > 0 {
		reliability.Report(t, reliability.RowTwoHolders, "real servers, stale follower: 0 in %d trials", trials)
	}
}

func strandedRound(t *testing.T, e *ensemble.Ensemble, links *ensemble.Links, round, each int, kinds []*stranded) {
	ctx := patiently(t)
	leader, err := e.Leader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	follower := (leader + 1) % e.Size()
	raw := stock(t, []string{e.Addr(leader)}, 10*time.Second, nil)
	near := connect(t, e.Addr(leader), 10*time.Second, staleTick)
	type run struct {
		*trial
		kind *stranded
	}
	var runs []run
	var stocks []*stockPair
	for k, kind := range kinds {
		for i := range each {
			runs = append(runs, run{&trial{
				name: fmt.Sprintf("%v, round %d, %d", kind, round, i),
				path: fmt.Sprintf("/locks/stale/%d-%d-%d", round, k, i), timeout: kind.timeout,
				away: connect(t, e.Addr(follower), kind.timeout, staleTick), near: near,
			}, kind})
		}
		if !kind.late {
			path := fmt.Sprintf("/locks/stock/%d-%d", round, k)
			stocks = append(stocks, newStockPair(t, e, follower, leader, kind, path))
		}
	}
	for _, r := range runs {
		if !r.kind.late {
			r.hold(t, raw)
		}
	}
	pause(ctx, 2*time.Second+rand.N(time.Duration(reliability.Trials(500, 500, 5000))*time.Millisecond))
	for _, r := range runs {
		if r.kind.late {
			r.hold(t, raw)
		}
	}
	pause(ctx, rand.N(staleTick/2)) // any phase of the leader's question
	disturbed := make([]bool, len(runs))
	for i, r := range runs {
		disturbed[i] = !r.held.Valid()
	}
	links.Isolate(follower)
	var waiting sync.WaitGroup
	for _, s := range stocks {
		waiting.Go(func() { s.next(t) })
	}
	for _, r := range runs {
		<-r.over
	}
	waiting.Wait()
	if reliability.Trials(0, 0, 1) > 0 {
		pause(ctx, 5*time.Second) // for the stock client; the follower is stale for some seconds more
	}
	for _, s := range stocks {
		s.judge()
	}
	links.Heal(follower)
	if err := e.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	var returning sync.WaitGroup
	for _, r := range runs {
		returning.Go(func() {
			if r.reconnected(t) {
				r.handOver(t)
			}
		})
	}
	returning.Wait()
	for i, r := range runs {
		switch s := r.kind; {
		case r.granted.IsZero(): // the referee has said so
		case disturbed[i]:
			s.disturbed++
		case r.lost.IsZero() || r.expired.IsZero():
			t.Errorf("%s: granted to the next one: told at %v, expired at %v", r.name, r.lost, r.expired)
		default:
			s.lost++
			s.lead.addPart(r.granted.Sub(r.lost), s.timeout)
			s.expiry.addPart(r.expired.Sub(r.lost), s.timeout)
		}
	}
}

// stockPair is a zk.Lock on the follower and one behind it on the leader. It reports no loss, so its holder counts as believing
// while its client reports no lost connection. That is the most careful way to use it.
type stockPair struct {
	kind         *stranded
	wanted       *zk.Lock
	disconnected atomic.Int64 // when, in nanoseconds; 0: not yet
	granted      time.Time
}

func newStockPair(t *testing.T, e *ensemble.Ensemble, follower, leader int, kind *stranded, path string) *stockPair {
	t.Helper()
	s := &stockPair{kind: kind}
	holder := stock(t, []string{e.Addr(follower)}, kind.timeout, func(ev zk.Event) {
		if ev.State == zk.StateDisconnected {
			s.disconnected.CompareAndSwap(0, time.Now().UnixNano())
		}
	})
	held := zk.NewLock(holder, path, zk.WorldACL(zk.PermAll))
	if err := held.Lock(); err != nil {
		t.Fatal(err)
	}
	s.wanted = zk.NewLock(stock(t, []string{e.Addr(leader)}, 10*time.Second, nil), path, zk.WorldACL(zk.PermAll))
	return s
}

// next has the next contender wait for the lock, and notes when it gets it.
func (s *stockPair) next(t *testing.T) {
	if err := s.wanted.Lock(); err != nil {
		t.Errorf("the stock client: %v", err)
		return
	}
	s.granted = time.Now()
}

// judge adds how long there were two holders.
func (s *stockPair) judge() {
	end := time.Now() // the follower is stale still
	if at := s.disconnected.Load(); at != 0 {
		end = time.Unix(0, at)
	}
	s.kind.stock.add(end.Sub(s.granted).Seconds())
}
