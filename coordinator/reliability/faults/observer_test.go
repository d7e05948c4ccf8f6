package faults

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

const (
	// observerTick is the servers' tick.
	observerTick = 500 * time.Millisecond
	// observer is the number of the server that does not vote, the last of four.
	observer = 3
)

// observed are the trials of one kind, with holders that are clients of the observer.
type observed struct {
	name      string
	timeouts  [2]time.Duration // T is between these
	voter     bool             // the holder's connect string has a voter, too
	direct    bool             // the holder is a client of the leader itself, for comparison
	must      bool             // the lock must be lost
	mustNot   bool             // the lock must not be lost
	kept      int
	lost      int
	disturbed int // lost before the fault, on a busy machine
	lead      spread
}

// guest is one holder among them.
type guest struct {
	*trial
	kind      *observed
	observer  *ensemble.Proxy // on the way to it
	voter     *ensemble.Proxy // on the way to a voter, nil if none is known
	disturbed bool
}

// observatory is an ensemble of three voters and an observer.
type observatory struct {
	*ensemble.Ensemble
	links  *ensemble.Links
	told   time.Duration            // the tick that holders are told
	master bool                     // the observer follows server 0
	near   *coordinator.Coordinator // of voters that do not lead in this round, and have no observer behind them
	round  int

	leader    int
	followers [2]int
}

// newObservatory starts an observatory. The servers do not notice a cut until a round is over. But a voter that has mistaken a
// deposed leader for its own soon gives up.
func newObservatory(t *testing.T, settings ...ensemble.Setting) *observatory {
	t.Helper()
	o := &observatory{links: ensemble.NewLinks(t), told: observerTick}
	o.Ensemble = ensemble.Start(t, 4, append(settings, ensemble.Observers(1), o.links.Setting(), ensemble.Tick(observerTick),
		ensemble.SyncLimit(24), ensemble.Line("initLimit", "4"))...)
	return o
}

// Holders are clients of an observer, and contenders of voters. Whatever cuts them off from the leader, Lost comes before the next
// Grant: the observer is cut off, or dead for longer than T; the client is cut off from it, or from a voter behind it; the leader
// has no quorum; the observer follows a leader that has been deposed and does not know it.
//
//nolint:tparallel // the rounds break the same servers, one after the other
func TestClientsOfAnObserver(t *testing.T) {
	eventstest.Turn(t, 3)
	t.Parallel()
	eventstest.NeedsServers(t)
	o := newObservatory(t)
	most := time.Duration(reliability.Trials(3, 6, 6)) * observerTick
	short, long := [2]time.Duration{2 * observerTick, most}, [2]time.Duration{20 * observerTick, 20 * observerTick}
	var (
		isolated = &observed{name: "the observer is cut off", timeouts: short, must: true}
		client   = &observed{name: "the client is cut off from the observer", timeouts: short, must: true}
		moved    = &observed{name: "the client moves to a voter and is cut off from it", timeouts: short, voter: true, must: true}
		killed   = &observed{name: "the observer is killed", timeouts: short, must: true}
		back     = &observed{name: "the observer is killed and back within T", timeouts: long}
		fled     = &observed{name: "the observer is killed, and a voter is known", timeouts: long, voter: true, mustNot: true}
		deposed  = &observed{name: "the leader is deposed and does not know it", timeouts: short, must: true}
		again    = &observed{name: "the same, and connections are lost", timeouts: short, must: true}
		direct   = &observed{name: "the same, and the client is the leader's", timeouts: short, direct: true, must: true}
		parted   = &observed{name: "the leader is without a quorum for longer than T", timeouts: short, must: true}
	)
	for o.round = range reliability.Trials(1, 5, 5) {
		o.play(t, "cut-off", []*observed{isolated, client, moved}, func(t *testing.T, guests []*guest) {
			o.links.Isolate(observer)
			var moving sync.WaitGroup
			for _, g := range guests {
				switch g.kind {
				case client:
					g.observer.Hold(ensemble.BothWays)
				case moved:
					moving.Go(func() { g.move(t) })
				}
			}
			moving.Wait()
			granted(guests)
			o.links.Heal(observer)
		})
		o.play(t, "killed", []*observed{killed, back, fled}, func(t *testing.T, guests []*guest) {
			eventstest.Check(t, o.Kill(observer))
			granted(guests)
			eventstest.Check(t, o.Restart(observer))
		})
		o.play(t, "deposed", []*observed{deposed, again, direct}, func(t *testing.T, guests []*guest) {
			for _, i := range o.followers { // and they come back without having said goodbye to the leader
				o.links.Cut(o.leader, i)
				eventstest.Check(t, o.Kill(i))
			}
			for _, i := range o.followers {
				eventstest.Check(t, o.Restart(i))
			}
			var losing sync.WaitGroup
			for _, g := range guests {
				if g.kind != deposed {
					losing.Go(g.stumble)
				}
			}
			granted(guests)
			losing.Wait()
			o.links.Heal(o.leader)
		})
		o.play(t, "parted", []*observed{parted}, func(t *testing.T, guests []*guest) {
			for _, i := range o.followers {
				o.links.Cut(o.leader, i)
			}
			for _, g := range guests {
				happens(t, g.name+" is lost", func() bool { return !g.held.Valid() })
			}
			pause(t.Context(), observerTick)
			o.links.Heal(o.leader) // else the three elect it again: votes go by other ways
		})
	}
	report(t, "clients of an observer", isolated, client, moved, killed, back, fled, deposed, again, direct, parted)
}

// An observer that follows through an ObserverMaster is a hop further from the leader. A holder that is given twice the tick hears
// of its loss in time.
//
//nolint:tparallel // the rounds break the same servers, one after the other
func TestClientsBehindAnObserverMaster(t *testing.T) {
	eventstest.Turn(t, 3)
	t.Parallel()
	eventstest.NeedsServers(t)
	o := newObservatory(t, ensemble.ObserverMaster())
	o.told, o.master = 2*observerTick, true
	behind := &observed{
		name:     "with its ObserverMaster cut off",
		timeouts: [2]time.Duration{4 * observerTick, time.Duration(reliability.Trials(5, 8, 8)) * observerTick}, must: true,
	}
	for o.round = range reliability.Trials(1, 5, 5) {
		o.play(t, "master", []*observed{behind}, func(_ *testing.T, guests []*guest) {
			o.links.Isolate(0)
			granted(guests)
			o.links.Heal(0)
		})
	}
	report(t, "clients behind an ObserverMaster", behind)
}

// play has locks held by clients of the observer while the fault lasts, some of each kind, and passed on when it is over.
func (o *observatory) play(t *testing.T, stage string, kinds []*observed, fault func(t *testing.T, guests []*guest)) {
	t.Run(fmt.Sprintf("round %d, %s", o.round, stage), func(t *testing.T) { o.stage(t, stage, kinds, fault) })
}

func (o *observatory) stage(t *testing.T, stage string, kinds []*observed, fault func(t *testing.T, guests []*guest)) {
	ctx, each := patiently(t), reliability.Trials(2, 10, 10)
	var err error
	if o.leader, err = o.Leader(ctx); err != nil {
		t.Fatal(err)
	}
	o.followers = [2]int{(o.leader + 1) % observer, (o.leader + 2) % observer}
	var others []string
	for _, i := range o.followers {
		if i > 0 || !o.master {
			others = append(others, o.Addr(i))
		}
	}
	o.near = connect(t, strings.Join(others, ","), 10*time.Second, observerTick)
	var guests []*guest
	for k, kind := range kinds {
		for i := range each {
			guests = append(guests, o.guest(t, kind, fmt.Sprintf("/locks/%s-%d/%d-%d", stage, o.round, k, i)))
		}
	}
	pause(ctx, observerTick+rand.N(observerTick)) // there are probes on their way, in any phase of the leader's question
	for _, g := range guests {
		g.disturbed = !g.held.Valid()
		if g.voter != nil {
			g.voter.Refuse(false)
		}
	}
	fault(t, guests)
	for _, g := range guests {
		g.observer.Heal()
		if g.voter != nil {
			g.voter.Heal()
		}
	}
	if err := o.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	var returning sync.WaitGroup
	for _, g := range guests {
		returning.Go(func() {
			if g.reconnected(t) {
				g.handOver(t)
			}
		})
	}
	returning.Wait()
	for _, g := range guests {
		g.kind.count(t, g)
	}
}

// guest holds a lock of its own through the observer.
func (o *observatory) guest(t *testing.T, kind *observed, path string) *guest {
	t.Helper()
	timeout := kind.timeouts[0] + rand.N(kind.timeouts[1]-kind.timeouts[0]+1)
	server := observer
	if kind.direct {
		server = o.leader
	}
	g := &guest{kind: kind, observer: ensemble.StartProxy(t, o.Addr(server))}
	servers := g.observer.Addr()
	if kind.voter {
		g.voter = ensemble.StartProxy(t, o.Addr(o.followers[0]))
		g.voter.Refuse(true) // until it holds
		servers += "," + g.voter.Addr()
	}
	g.trial = &trial{
		name: fmt.Sprintf("%s, %s, T = %.2f s", path, kind.name, timeout.Seconds()), path: path, timeout: timeout,
		away: connect(t, servers, timeout, o.told), near: o.near,
	}
	g.hold(t, nil)
	return g
}

// granted waits until all locks that must be lost are granted to other contenders.
func granted(guests []*guest) {
	for _, g := range guests {
		if g.kind.must {
			<-g.over
		}
	}
}

// move cuts the client off from the observer, and a moment later from the voter that it goes on with.
func (g *guest) move(t *testing.T) {
	g.observer.Refuse(true)
	g.observer.Cut()
	happens(t, g.name+" is connected to a voter", func() bool {
		return g.voter.Accepted() > 0 && g.away.State() == coordinator.StateConnected
	})
	pause(t.Context(), rand.N(observerTick))
	g.voter.Hold(ensemble.BothWays)
}

// stumble ends the client's connection again and again: it is resumed each time.
func (g *guest) stumble() {
	again := time.NewTicker(g.timeout / 3)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			g.observer.Cut()
		case <-g.over:
			return
		}
	}
}

// count counts the outcome of a trial.
func (k *observed) count(t *testing.T, g *guest) {
	t.Helper()
	switch {
	case g.granted.IsZero(): // the referee has said so
	case g.disturbed:
		k.disturbed++
	case g.lost.IsZero():
		k.kept++
		if k.must {
			t.Errorf("%s: not lost", g.name)
		}
	default:
		k.lost++
		if k.mustNot {
			t.Errorf("%s: lost: %v, want it held", g.name, g.loss.Reason)
		}
		if g.loss.Reason != events.ReasonLeaseRanOut {
			t.Errorf("%s: lost because of %v (%v), want the lease to have run out", g.name, g.loss.Reason, g.loss.Err)
		}
		k.lead.addPart(g.granted.Sub(g.lost), g.timeout)
	}
}

// report reports the outcomes of the trials.
func report(t *testing.T, what string, kinds ...*observed) {
	t.Helper()
	trials := 0
	for _, k := range kinds {
		n := k.kept + k.lost
		trials += n
		text := fmt.Sprintf("client of an observer, %s: %d trials, %d lost", k.name, n, k.lost)
		if k.lost > 0 {
			text += fmt.Sprintf(", each before the next grant, by %.3f T at least (middle %.3f T)", k.lead.min(), k.lead.median())
		}
		if k.disturbed > 0 {
			text += fmt.Sprintf(" (%d more were lost before: the machine was busy)", k.disturbed)
		}
		reliability.Report(t, reliability.RowFault, "%s", text)
	}
	if trials > 0 {
		reliability.Report(t, reliability.RowTwoHolders, "real servers, %s: 0 in %d trials", what, trials)
	}
}
