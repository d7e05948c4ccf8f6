package faults

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

const (
	observerTick = 500 * time.Millisecond // the servers' tick
	observer     = 3                      // number of the server that does not vote, the last of four
)

// observatory is an ensemble of three voters and an observer.
type observatory struct {
	*ensemble.Ensemble
	links  *ensemble.Links
	told   time.Duration // the tick that holders are told
	master bool          // the observer follows server 0
	round  int

	leader    int
	followers [2]int
}

// newObservatory starts an observatory. The servers do not notice a cut until a round is
// over, but a voter that has mistaken a deposed leader for its own soon gives up.
func newObservatory(t *testing.T, settings ...ensemble.Setting) *observatory {
	t.Helper()
	o := &observatory{links: ensemble.NewLinks(t), told: observerTick}
	o.Ensemble = ensemble.Start(t, 4, append(settings, ensemble.Observers(1), o.links.Setting(), ensemble.Tick(observerTick),
		ensemble.Line("syncLimit", "24"), ensemble.Line("initLimit", "4"))...)
	return o
}

// Holders are clients of an observer, and contenders are clients of voters. Whatever cuts
// the holders off from the leader, Lost comes before the next Grant: the observer is cut
// off, or dead for longer than T; the client is cut off from it, or from the voter that
// it moved to; the leader has no quorum; or the observer follows a leader that does not
// know that it is deposed.
//
//nolint:tparallel // the rounds break the same servers, one after the other
func TestClientsOfAnObserver(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	o := newObservatory(t)
	short := [2]time.Duration{2 * observerTick, time.Duration(reliability.Trials(3, 6, 6)) * observerTick}
	long := [2]time.Duration{20 * observerTick, 20 * observerTick}
	must := func(name string) *kind { return &kind{name: name, timeouts: short, must: true} }
	var (
		isolated = must("the observer is cut off")
		client   = must("the client is cut off from the observer")
		moved    = must("the client moves to a voter and is cut off from it")
		killed   = must("the observer is killed")
		back     = &kind{name: "the observer is killed and back within T", timeouts: long}
		fled     = &kind{name: "the observer is killed, and a voter is known", timeouts: long, mustNot: true}
		deposed  = must("the leader is deposed and does not know it")
		again    = must("the same, and connections are lost")
		direct   = must("the same, and the client is the leader's")
		parted   = must("the leader is without a quorum for longer than T")
	)
	moved.voter, fled.voter, direct.direct = true, true, true
	for o.round = range reliability.Trials(1, 5, 5) {
		o.play(t, "cut-off", func(t *testing.T, all []*trial) {
			o.links.Isolate(observer)
			each(all, func(tr *trial) {
				switch tr.kind {
				case client:
					tr.proxy.Hold(ensemble.BothWays)
				case moved:
					move(t, tr)
				}
			})
			granted(all)
			o.links.Heal(observer)
		}, isolated, client, moved)
		o.play(t, "killed", func(t *testing.T, all []*trial) {
			kill(t, o.Ensemble, observer)
			granted(all)
			restart(t, o.Ensemble, observer)
		}, killed, back, fled)
		o.play(t, "deposed", func(t *testing.T, all []*trial) {
			for _, i := range o.followers { // they come back without telling the leader that they left
				o.links.Cut(o.leader, i)
				kill(t, o.Ensemble, i)
			}
			restart(t, o.Ensemble, o.followers[:]...)
			each(all, func(tr *trial) {
				if tr.kind != deposed {
					stumble(tr)
				}
			})
			granted(all)
			o.links.Heal(o.leader)
		}, deposed, again, direct)
		o.play(t, "parted", func(t *testing.T, all []*trial) {
			for _, i := range o.followers {
				o.links.Cut(o.leader, i)
			}
			for _, tr := range all {
				happens(t, tr.name+" is lost", func() bool { return !tr.held.Valid() })
			}
			pause(t.Context(), observerTick)
			o.links.Heal(o.leader) // otherwise the three would elect it again, because votes take other links
		}, parted)
	}
	report(t, "clients of an observer",
		isolated, client, moved, killed, back, fled, deposed, again, direct, parted)
}

// An observer that follows through an ObserverMaster is one hop further from the leader.
// A holder that is given twice the tick receives its loss in time.
//
//nolint:tparallel // the rounds break the same servers, one after the other
func TestClientsBehindAnObserverMaster(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	o := newObservatory(t, ensemble.ObserverMaster())
	o.told, o.master = 2*observerTick, true
	cut := &kind{
		name:     "with its ObserverMaster cut off",
		timeouts: [2]time.Duration{4 * observerTick, time.Duration(reliability.Trials(5, 8, 8)) * observerTick}, must: true,
	}
	for o.round = range reliability.Trials(1, 5, 5) {
		o.play(t, "master", func(_ *testing.T, all []*trial) {
			o.links.Isolate(0)
			granted(all)
			o.links.Heal(0)
		}, cut)
	}
	report(t, "clients behind an ObserverMaster", cut)
}

// play lets clients of the observer hold locks, some of each kind, while the fault lasts.
// Afterwards the locks are passed on.
func (o *observatory) play(t *testing.T, stage string, fault func(*testing.T, []*trial), kinds ...*kind) {
	t.Run(fmt.Sprintf("round %d, %s", o.round, stage), func(t *testing.T) {
		leads, _ := leader(t, o.Ensemble)
		o.leader, o.followers = leads, [2]int{(leads + 1) % observer, (leads + 2) % observer}
		var others []string // servers that no observer follows
		for _, i := range o.followers {
			if i > 0 || !o.master {
				others = append(others, o.Addr(i))
			}
		}
		near := connect(t, strings.Join(others, ","), 10*time.Second, observerTick)
		var all []*trial
		for k, kind := range kinds {
			for i := range reliability.Trials(2, 10, 10) {
				all = append(all, o.hold(t, kind, fmt.Sprintf("/locks/%s-%d/%d-%d", stage, o.round, k, i), near))
			}
		}
		pause(t.Context(), observerTick+rand.N(observerTick)) // probes are under way, in any phase of the leader's question
		for _, tr := range all {
			tr.disturbed = !tr.held.Valid()
			if tr.second != nil {
				tr.second.Refuse(false)
			}
		}
		fault(t, all)
		for _, tr := range all {
			tr.proxy.Heal()
			if tr.second != nil {
				tr.second.Heal()
			}
		}
		up(t, o.Ensemble)
		settle(t, all)
	})
}

// hold holds a lock through the observer.
func (o *observatory) hold(t *testing.T, k *kind, path string, near *coordinator.Coordinator) *trial {
	t.Helper()
	server := observer
	if k.direct {
		server = o.leader
	}
	tr := k.trial(path, near)
	tr.proxy = ensemble.StartProxy(t, o.Addr(server))
	servers := tr.proxy.Addr()
	if k.voter {
		tr.second = ensemble.StartProxy(t, o.Addr(o.followers[0]))
		tr.second.Refuse(true) // refused until the lock is held
		servers += "," + tr.second.Addr()
	}
	tr.away = connect(t, servers, tr.timeout, o.told)
	tr.hold(t, nil)
	return tr
}

// move cuts the client off from the observer, and a moment later from the voter that it
// then uses.
func move(t *testing.T, tr *trial) {
	tr.proxy.Refuse(true)
	tr.proxy.Cut()
	happens(t, tr.name+" is connected to a voter", func() bool {
		return tr.second.Accepted() > 0 && tr.away.State() == coordinator.StateConnected
	})
	pause(t.Context(), rand.N(observerTick))
	tr.second.Hold(ensemble.BothWays)
}

// stumble cuts the client's connection again and again until the lock is granted. It is
// resumed each time.
func stumble(tr *trial) {
	again := time.NewTicker(tr.timeout / 3)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			tr.proxy.Cut()
		case <-tr.over:
			return
		}
	}
}
