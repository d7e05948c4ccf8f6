package coordinator_test

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// quorumProxies stand between the servers of an ensemble, each on the way from one to
// another.
type quorumProxies map[int][]*partition // by the server that dials

// start runs an ensemble with a proxy on each way.
func (q quorumProxies) start(t *testing.T, n int, settings ...ensemble.Setting) *ensemble.Ensemble {
	t.Helper()
	via := ensemble.QuorumVia(func(from, _, port int) int {
		p := newPartition(t, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		q[from] = append(q[from], p)
		return p.listener.Addr().(*net.TCPAddr).Port
	})
	return ensemble.Start(t, n, append(settings, via)...)
}

// stranded is a lock that is held through a follower which is about to lose its leader.
type stranded struct {
	timeout      time.Duration
	how          string
	held, wanted *coordinator.Acquisition
	lost, next   time.Duration // since the follower was cut off
}

// A follower that has lost its leader does not know, and goes on answering its clients'
// pings while the leader ends their sessions. Holders are told before that all the same:
// those who have held for long, with probes in all phases, and those who were granted a
// moment ago in a session that had been idle. The ends of their sessions show in the
// grants to the next holders, who are connected to the leader.
func TestRealStaleFollower(t *testing.T) {
	t.Parallel()
	const tick, rounds, each = 500 * time.Millisecond, 3, 3
	proxies := quorumProxies{}
	// Until half of syncLimit has passed nobody closes a connection: the follower stays stale.
	e := proxies.start(t, 3, ensemble.Tick(tick), ensemble.SyncLimit(60))
	leader, err := e.Leader(realContext(t))
	if err != nil {
		t.Fatal(err)
	}
	follower := (leader + 1) % e.Size()
	raw := rawClient(t, e.Addr(leader))
	near := connectReal(t, e.Addr(leader))
	leads := map[string][]time.Duration{}
	for round := range rounds {
		// Each has a session of its own, so that each has its own phase.
		var all []*stranded
		var late []func()
		for _, timeout := range []time.Duration{3 * tick, 12 * tick} {
			for i := range each {
				away := connectReal(t, e.Addr(follower), coordinator.WithSessionTimeout(timeout), coordinator.WithTickTime(tick))
				for _, how := range []string{"held for long", "granted after a long idle"} {
					if how != "held for long" {
						away = connectReal(t, e.Addr(follower), coordinator.WithSessionTimeout(timeout), coordinator.WithTickTime(tick))
					}
					s := &stranded{timeout: timeout, how: how}
					lock := away.Mutex(fmt.Sprintf("/locks/stale/%d-%v-%d-%s", round, timeout, i, how))
					acquire := func() {
						s.held = lock.Acquire(t.Context())
						grantOf(t, s.held)
						s.wanted = near.Mutex(lock.Path()).Acquire(t.Context())
						queued(t, raw, lock.Path(), 2)
					}
					if how == "held for long" {
						acquire()
					} else {
						late = append(late, acquire)
					}
					all = append(all, s)
				}
			}
		}
		idle := 2*time.Second + time.Duration(round)*83*time.Millisecond
		begun := time.Now()
		eventually(t, "time passes", func() bool { return time.Since(begun) > idle })
		for _, acquire := range late {
			acquire()
		}
		for _, s := range all {
			notLost(t, s.held)
		}

		for _, p := range proxies[follower] {
			p.begin()
		}
		cut := time.Now()
		var watching sync.WaitGroup
		for _, s := range all {
			watching.Go(func() {
				select {
				case <-s.held.Lost():
					s.lost = time.Since(cut)
				case <-realContext(t).Done():
				}
			})
			watching.Go(func() {
				select {
				case <-s.wanted.Granted():
					s.next = time.Since(cut)
					if s.held.Valid() {
						t.Errorf("T %v, %s: valid, and granted to somebody else", s.timeout, s.how)
					}
				case <-realContext(t).Done():
				}
			})
		}
		watching.Wait()
		for _, s := range all {
			if s.lost == 0 || s.next == 0 || s.lost >= s.next {
				t.Errorf("T %v, %s: lost after %v, the next grant after %v", s.timeout, s.how, s.lost, s.next)
			}
			key := fmt.Sprintf("T %v, %s", s.timeout, s.how)
			leads[key] = append(leads[key], s.next-s.lost)
			s.wanted.Release()
		}
		for _, p := range proxies[follower] {
			p.heal()
		}
		if err := e.Wait(realContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	for key, list := range leads {
		t.Logf("%s: %d trials, lost before the next grant by %v to %v", key, len(list),
			slices.Min(list).Round(time.Millisecond), slices.Max(list).Round(time.Millisecond))
	}
}
