package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// silentTick is the servers' tick: T = 1 s is two and a half of it.
const silentTick = 400 * time.Millisecond

// silence is a kind of partition: between which parts of T it lasts, and on which ways.
type silence struct {
	name       string
	ways       ensemble.Direction
	least      float64
	most       float64
	timeouts   [2]time.Duration // T is between these
	must       bool             // the lock must be lost
	mustNot    bool             // the lock must not be lost
	cached     bool             // see trial
	trials     int
	kept, lost int
	disturbed  int // lost before the partition began, on a busy machine
	lead       spread
	early      spread // Valid turned false so long before the next grant
	expiry     spread // lead over the deletion of the node
}

func (s *silence) String() string { return fmt.Sprintf("%s, %v", s.name, s.ways) }

// partition lets the connection fall silent after the phase, and for the length. It reports whether the lock
// had been lost before.
func (s *silence) partition(
	t *testing.T, tr *trial, p *ensemble.Proxy, phase, length time.Duration,
) (disturbed bool) {
	ctx := t.Context()
	pause(ctx, phase)
	disturbed = !tr.held.Valid()
	p.Hold(s.ways)
	pause(ctx, length)
	p.Heal()
	if tr.reconnected(t) && !tr.handOver(t) && s.mustNot && !disturbed {
		t.Errorf("%s: lost: %v, want it held through a silence of less than T/2", tr.name, tr.loss.Reason)
	}
	return disturbed
}

// count counts the outcome of a trial.
func (s *silence) count(t *testing.T, tr *trial, disturbed bool) {
	switch {
	case tr.granted.IsZero(): // the referee has said so
	case disturbed:
		s.disturbed++
	case tr.lost.IsZero():
		s.kept++
		if s.must {
			t.Errorf("%s: not lost", tr.name)
		}
	default:
		s.lost++
		loss, end, want := tr.loss, tr.held.Err(), coordinator.ErrLeaseRanOut
		if loss.Reason != events.ReasonLeaseRanOut || !errors.Is(loss.Err, want) || !errors.Is(end, want) {
			t.Errorf("%s: lost because of %v (%v), and ended with %v", tr.name, loss.Reason, loss.Err, end)
		}
		if loss.Token != tr.grant.Token || loss.ID != tr.held.ID() {
			t.Errorf("%s: granted %+v, lost %+v", tr.name, tr.grant, loss)
		}
		s.lead.addPart(tr.granted.Sub(tr.lost), tr.timeout)
		s.early.addPart(tr.granted.Sub(tr.flipped), tr.timeout)
		if !tr.expired.IsZero() {
			s.expiry.addPart(tr.expired.Sub(tr.lost), tr.timeout)
		}
	}
}

// silenceKinds are the kinds of silence. A kind that is long enough to matter for the lock has a T of 1 to 2
// s. A kind that must not cost the lock has a T of 10 s. The kind for cached locks has 6 s.
func silenceKinds() []*silence {
	short, long := [2]time.Duration{time.Second, 2 * time.Second}, [2]time.Duration{10 * time.Second, 10 * time.Second}
	kinds := []*silence{{
		name: "longer than T, cached", ways: ensemble.BothWays, least: 1.2, most: 1.5,
		timeouts: [2]time.Duration{6 * time.Second, 6 * time.Second}, must: true, cached: true, trials: reliability.Trials(5, 50, 50),
	}}
	for _, way := range []struct {
		ways        ensemble.Direction
		short, full [3]int // trials: longer than T, around it, below a half
	}{
		{ensemble.BothWays, [3]int{12, 8, 4}, [3]int{200, 100, 60}},
		{ensemble.ToServer, [3]int{4, 2, 2}, [3]int{60, 30, 20}},
		{ensemble.ToClient, [3]int{4, 2, 2}, [3]int{60, 30, 20}},
	} {
		kinds = append(kinds,
			&silence{name: "longer than T", ways: way.ways, least: 1.5, most: 2.2, timeouts: short, must: true},
			&silence{name: "for about T", ways: way.ways, least: 0.8, most: 1.2, timeouts: short},
			&silence{name: "for less than T/2", ways: way.ways, least: 0.1, most: 0.5, timeouts: long, mustNot: true})
		for i, kind := range kinds[len(kinds)-3:] {
			kind.trials = reliability.Trials(way.short[i], way.short[i], way.full[i])
		}
	}
	return kinds
}

// Holders with a connection that falls silent, on either way or both, hear Lost before the next contender is
// granted the lock. If the silence is short they hear nothing. Each has a session, a proxy, a T and a moment
// of its own.
//
//nolint:tparallel // the rounds come one after the other, or the machine would be too busy
func TestSilentPartition(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	kinds := silenceKinds()
	e := ensemble.Start(t, 3, ensemble.Tick(silentTick), ensemble.Line("maxSessionTimeout", "40000"))
	leader, err := e.Leader(patiently(t))
	if err != nil {
		t.Fatal(err)
	}
	var plan []*silence
	for _, kind := range kinds {
		for range kind.trials {
			plan = append(plan, kind)
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	rest := plan[kinds[0].trials:] // the first kind takes longest, so all of it is in the first round
	rng.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	const together = 50
	for round := 0; len(plan) > 0; round++ {
		n := min(together, len(plan))
		t.Run(fmt.Sprintf("round %d", round), func(t *testing.T) { silences(t, e, leader, round, rng, plan[:n]) })
		plan = plan[n:]
	}
	reportSilences(t, kinds)
}

// silences runs one trial of each of the kinds, all at the same time.
func silences(t *testing.T, e *ensemble.Ensemble, leader, round int, rng *rand.Rand, kinds []*silence) {
	raw := stock(t, []string{e.Addr(leader)}, 10*time.Second, nil)
	var next []*coordinator.Coordinator
	for i := range 4 {
		next = append(next, connect(t, e.Addr(i%e.Size()), 10*time.Second, silentTick))
	}
	type run struct {
		*trial
		proxy  *ensemble.Proxy
		phase  time.Duration // until the silence begins
		length time.Duration
	}
	runs := make([]*run, len(kinds))
	for i, kind := range kinds {
		timeout := kind.timeouts[0] + time.Duration(rng.Float64()*float64(kind.timeouts[1]-kind.timeouts[0]))
		length := time.Duration((kind.least + rng.Float64()*(kind.most-kind.least)) * float64(timeout))
		p := ensemble.StartProxy(t, e.Addr(rng.IntN(e.Size())))
		runs[i] = &run{
			trial: &trial{
				name: fmt.Sprintf("silent %v, %.2f s, T = %.2f s", kind, length.Seconds(), timeout.Seconds()),
				path: fmt.Sprintf("/locks/silent/%d-%d", round, i), timeout: timeout,
				away: connect(t, p.Addr(), timeout, silentTick), near: next[i%len(next)], cached: kind.cached,
			},
			proxy: p, phase: time.Duration(rng.Int64N(int64(2 * time.Second))), length: length,
		}
	}
	for _, r := range runs {
		r.hold(t, raw)
	}
	disturbed := make([]bool, len(runs))
	var running sync.WaitGroup
	for i, r := range runs {
		running.Go(func() { disturbed[i] = kinds[i].partition(t, r.trial, r.proxy, r.phase, r.length) })
	}
	running.Wait()
	for i, r := range runs {
		kinds[i].count(t, r.trial, disturbed[i])
	}
}

func reportSilences(t *testing.T, kinds []*silence) {
	trials, spurious, needless := 0, 0, 0
	for _, s := range kinds {
		n := s.kept + s.lost
		if n == 0 {
			t.Logf("silent %v: not tried; %d were lost before the silence began: the machine was busy", s, s.disturbed)
			continue
		}
		trials += n
		if s.mustNot {
			spurious += s.lost
			needless += n
			continue
		}
		// If the servers hear a holder that hears nothing, it gives the node up itself, and the next grant follows
		// at once. So the lead says something about the lease only if the servers do not hear it.
		row := reliability.RowFault
		if s.must && s.ways == ensemble.BothWays {
			row = reliability.RowPartition
		}
		text := fmt.Sprintf("silent %v: %d trials, %d lost", s, n, s.lost)
		if s.lost > 0 {
			text += fmt.Sprintf(", each before the next grant, by %.3f T at least (middle %.3f T); "+
				"Valid false %.3f T before it at least", s.lead.min(), s.lead.median(), s.early.min())
		}
		if s.expiry.any() {
			text += fmt.Sprintf("; Lost %.3f T before the node went at least", s.expiry.min())
		}
		if s.disturbed > 0 {
			text += fmt.Sprintf(" (%d more were lost before the silence began: the machine was busy)", s.disturbed)
		}
		reliability.Report(t, row, "%s", text)
	}
	if needless > 0 {
		reliability.Report(t, reliability.RowSpuriousLost, "silent for less than T/2: %d in %d trials", spurious, needless)
	}
	if trials == 0 {
		return
	}
	reliability.Report(t, reliability.RowTwoHolders, "real servers, silent partitions: 0 in %d trials", trials)
	reliability.Report(t, reliability.RowWedged, "real servers, silent partitions: 0 in %d trials", trials)
}
