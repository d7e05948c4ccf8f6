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

// pair is contenders of another library and of zkgrant at one lock.
type pair struct {
	name         string
	theirs, ours []team

	since    string // the first version that can play; empty: all can
	unplayed string // why older versions cannot; without since, why none can
}

// pairs are all pairs of a library with zkgrant.
func pairs(f family) []pair {
	one := func(teams ...team) []team { return teams }
	switch f {
	case curator:
		return []pair{
			{name: "mutex", theirs: one(alike(f, 4, formMutex)), ours: one(alike(zkgrant, 4, formMutex))},
			{
				name:   "read and write",
				theirs: one(both(f, formWrite, formRead)), ours: one(both(zkgrant, formWrite, formRead)),
			},
			{
				name:   "writers that become readers",
				theirs: one(downgrading(f, formDowngrade)), ours: one(downgrading(zkgrant, formDowngrade)),
				since: placeKept, unplayed: "the reader queues up again, and waiting writers enter beside it (CURATOR-621)",
			},
			{name: "four permits", theirs: one(alike(f, 6, semaphore(4))), ours: one(alike(zkgrant, 6, semaphore(4)))},
			{
				name:   "semaphore mutex",
				theirs: one(alike(f, 4, formSemaphoreMutex)), ours: one(alike(zkgrant, 4, semaphore(1))),
			},
			{name: "leader selector", theirs: one(alike(f, 4, formSelector)), ours: one(alike(zkgrant, 4, formElection))},
			{name: "leader latch", unplayed: "its nodes have names that zkgrant does not see, and it does not see zkgrant's"},
		}
	case kazoo:
		bothKazoo := one(both(zkgrant, formWriteKazoo, formReadKazoo))
		return []pair{
			{name: "mutex", theirs: one(alike(f, 4, formLock)), ours: one(alike(zkgrant, 4, formMutexKazoo))},
			{name: "mutex with a pattern", theirs: one(alike(f, 4, formLockExtra)), ours: one(alike(zkgrant, 4, formMutex))},
			{name: "write", theirs: one(alike(f, 4, formWrite)), ours: bothKazoo},
			{
				name: "read and write", theirs: one(both(f, formWrite, formRead)), ours: bothKazoo,
				since: readersFixed, unplayed: "a reader also waits for later writers, which wait for it",
			},
			{
				name: "readers that queue again", theirs: one(alike(f, 4, formReadAgain)), ours: one(
					team{family: zkgrant, forms: times(2, formReadKazoo)},
					team{family: zkgrant, forms: times(2, formWriteKazoo), killed: []form{formWriteKazoo}, seldom: 20},
				),
			},
			{
				name:   "mutex with patterns, beside readers and writers",
				theirs: one(alike(f, 4, formLockAll)), ours: one(downgrading(zkgrant, formDowngrade)),
			},
			{name: "election", theirs: one(alike(f, 4, formElection)), ours: one(alike(zkgrant, 4, formElectionKazoo))},
			{name: "semaphore", unplayed: "its nodes are in another place than zkgrant's"},
		}
	case stock:
		return []pair{
			{name: "mutex", theirs: one(alike(f, 4, formLock)), ours: one(alike(zkgrant, 4, formMutex))},
			{
				name:   "mutex, beside readers and writers",
				theirs: one(alike(f, 4, formLock)), ours: one(downgrading(zkgrant, formDowngrade)),
			},
			{name: "read and write, semaphore, election", unplayed: "it has none"},
		}
	case writeLock:
		return []pair{
			{name: "mutex", theirs: one(alike(f, 4, formWriteLock)), ours: one(alike(zkgrant, 4, formMutex))},
			{name: "read and write, semaphore", unplayed: "it has none"},
		}
	case zkgrant:
	}
	return nil
}

// TestNeighbours plays the installed version of one library and zkgrant in one queue:
// each pair in both orders, with a holder of each killed. `make neighbours` runs it for
// each line of .ci/neighbours.txt.
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
	version := a.version(t, f)
	var mu sync.Mutex // guards the sums
	var plays, entered, violations, inversions int
	t.Run("pairs", func(t *testing.T) {
		for _, p := range all {
			if p.unplayed != "" && (p.since == "" || !ensemble.Since(version, p.since)) {
				t.Run(p.name, func(t *testing.T) { t.Skipf("left out: %s %s, %s: %s", f, version, p.name, p.unplayed) })
				continue
			}
			for order, teams := range [][]team{slices.Concat(p.theirs, p.ours), slices.Concat(p.ours, p.theirs)} {
				name := p.name + [...]string{", theirs first", ", ours first"}[order]
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					g := a.play(t, workload{name: name, teams: teams, sections: handoffs})
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
