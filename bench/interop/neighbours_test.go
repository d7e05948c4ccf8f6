package interop

import (
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// neighbourEnv names the family that TestNeighbours plays.
const neighbourEnv = "ZKGRANT_NEIGHBOUR"

// handoffs is how many sections each play of TestNeighbours has.
const handoffs = 400

// pair is a team of another library and one of zkgrant at a lock, which are played in
// both orders.
type pair struct {
	name  string
	teams []team  // theirs first
	tiers [2]tier // with theirs first, and with ours first

	since    string // the first version that can play; empty: every version
	unplayed string // why older versions cannot play; without since, why no version can
}

// plays returns both orders.
func (p pair) plays() []workload {
	ours := slices.Clone(p.teams)
	slices.Reverse(ours)
	return []workload{
		{name: p.name + ", theirs first", tier: p.tiers[0], teams: p.teams},
		{name: p.name + ", ours first", tier: p.tiers[1], teams: ours},
	}
}

// playsOf returns the plays that every version of the libraries supports.
func playsOf(families ...family) (all []workload) {
	for _, f := range families {
		for _, p := range pairs(f) {
			if p.name = string(f) + ", " + p.name; p.unplayed == "" {
				all = append(all, p.plays()...)
			}
		}
	}
	return all
}

// pairs returns all pairs of a library with zkgrant.
func pairs(f family) []pair {
	meet := func(n int, theirs, ours form) []team { return []team{alike(f, n, theirs), alike(zkgrant, n, ours)} }
	asKazoo := both(zkgrant, formWriteKazoo, formReadKazoo)
	switch f {
	case curator:
		return []pair{
			{name: "mutex", teams: meet(4, formMutex, formMutex), tiers: [2]tier{quickWithDeaths}},
			{
				name: "read and write", tiers: [2]tier{1: quick},
				teams: []team{both(f, formWrite, formRead), both(zkgrant, formWrite, formRead)},
			},
			{
				name:  "writers that become readers",
				teams: []team{downgrading(f, formDowngrade), downgrading(zkgrant, formDowngrade)},
				since: placeKept, unplayed: "the reader queues up again, and waiting writers enter beside it (CURATOR-621)",
			},
			{name: "four permits", teams: meet(6, semaphore(4), semaphore(4)), tiers: [2]tier{quick}},
			{name: "semaphore mutex", teams: meet(4, formSemaphoreMutex, semaphore(1))},
			{name: "leader selector", teams: meet(4, formSelector, formElection)},
			{name: "leader latch", unplayed: "its nodes have names that zkgrant does not see, and it does not see zkgrant's"},
		}
	case kazoo:
		return []pair{
			{name: "mutex", teams: meet(4, formLock, formMutexKazoo), tiers: [2]tier{quick}},
			{name: "mutex with a pattern", teams: meet(4, formLockExtra, formMutex)},
			{name: "write", teams: []team{alike(f, 4, formWrite), asKazoo}},
			{
				name: "read and write", teams: []team{both(f, formWrite, formRead), asKazoo},
				since: readersFixed, unplayed: "a reader also waits for later writers, which wait for it",
			},
			// kazoo's readers starve while writers keep coming; see
			// TestKazoosReaderWaitsForLaterWriters.
			{name: "readers that queue again", teams: []team{
				alike(f, 4, formReadAgain),
				{family: zkgrant, forms: times(2, formWriteKazoo), killed: []form{formWriteKazoo}, seldom: 20},
				{family: zkgrant, forms: times(2, formReadKazoo)},
			}},
			{name: "mutex with patterns, beside readers and writers", teams: []team{
				alike(f, 4, formLockAll),
				{
					family: zkgrant, forms: []form{formDowngrade, formRead, formWrite, formRead},
					killed: []form{formDowngrade, formRead},
				},
			}},
			{name: "election", teams: meet(4, formElection, formElectionKazoo)},
			{name: "semaphore", unplayed: "its nodes are in another place than zkgrant's"},
		}
	case stock:
		return []pair{
			{name: "mutex", teams: meet(4, formLock, formMutex), tiers: [2]tier{quick}},
			{
				name:  "mutex, beside readers and writers",
				teams: []team{alike(f, 4, formLock), downgrading(zkgrant, formDowngrade)},
			},
			{name: "read and write, semaphore, election", unplayed: "it has none"},
		}
	case writeLock:
		return []pair{
			{name: "mutex", teams: meet(4, formWriteLock, formMutex), tiers: [2]tier{quick}},
			{name: "read and write, semaphore", unplayed: "it has none"},
		}
	case zkgrant:
	}
	return nil
}

// TestNeighbours plays the installed version of one library and zkgrant in one queue:
// each pair in both orders, with a killed holder on each side. `make neighbours` runs it
// for each line of .ci/neighbours.txt.
func TestNeighbours(t *testing.T) {
	f := family(os.Getenv(neighbourEnv))
	if f == "" {
		t.Skip(neighbourEnv + " names no library: make neighbours does")
	}
	all := pairs(f)
	if all == nil {
		t.Fatalf("%s is %q, which is no library", neighbourEnv, f)
	}
	a := enter(t)
	version := version(t, f)
	var mu sync.Mutex // guards the sums
	var plays, entered, violations, inversions int
	t.Run("pairs", func(t *testing.T) {
		for _, p := range all {
			if p.unplayed != "" && (p.since == "" || !ensemble.Since(version, p.since)) {
				t.Run(p.name, func(t *testing.T) { t.Skipf("left out: %s %s, %s: %s", f, version, p.name, p.unplayed) })
				continue
			}
			for _, w := range p.plays() {
				t.Run(w.name, func(t *testing.T) {
					t.Parallel()
					w.sections = handoffs
					g := a.play(t, w)
					g.report(t)
					mu.Lock()
					defer mu.Unlock()
					plays++
					entered += g.referee.sections()
					violations += len(g.referee.violations)
					inversions += len(g.referee.inversions)
				})
			}
		}
	})
	t.Logf("beside zkgrant: %s %s, on ZooKeeper %s: %d plays, %d handoffs, %d violations, %d inversions",
		f, version, a.server.Version, plays, entered, violations, inversions)
}
