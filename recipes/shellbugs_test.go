package recipes

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

type shellBug struct {
	shell shell
	does  string
	spec  string
}

// shellBugs are seeded bugs of the explorer's own model of the session, which carries out requests. Each has the spec of a world in
// which it is found; see specVariable. Seeded bugs of the machine stand in coordinator/reliability/mutants.
var shellBugs = []shellBug{
	// The fast path.
	{shellUnwatched, "walks back without watching", "clients=3 withdraw=1 eager -> stuck"},
	{shellNumbers, "names the floor by a number, and writes it apart",
		"clients=2 foreign=1 guest=2 reap=1 plain eager simple worlds=5000000 -> two holders"},
	{shellCounts, "counts the nodes after the create and not with it", "clients=2 remove=1 plain eager -> two holders"},
	{shellCancelsSent, "says that a create was taken back though it was sent", "clients=1 withdraw=1 -> a node left behind"},
	// Several machines in one session.
	{shellKeepsWord, "leaves no floor, and its session takes it for the last one",
		"roles=trades,takes,writer+shares guest=1 foreign=1 plain readers sharing eager simple worlds=5000000 -> two holders"},
	// Semaphores.
	{shellPlaceFirst, "gives its place up before it has its permits",
		"rules=semaphore:1:1,semaphore:1:1 permits eager -> more permits taken than there are"},
	// Locks that tell of crashes.
	{shellReadsEarly, "reads the record before it claims",
		"roles=writer,reader cut=1 flags=detect,detect sharing detect eager -> a grant that reports a crash that never was"},
	// Multi-locks.
	{shellTwoTransactions, "creates its nodes in two transactions", "places=pq,qp eager -> stuck"},
	{shellOneAnew, "takes one place anew and keeps the others", "places=p,pq,qp remove=1 eager worlds=1000000 -> no way to the end"},
	{shellClaimsOne, "claims one of its nodes", "places=pq,qp remove=1 eager -> a grant that no claim proves"},
}

// TestExploreReportsBugsOfTheShell checks that the explorer can fail. By default it leaves out the bugs that need more worlds than
// others.
func TestExploreReportsBugsOfTheShell(t *testing.T) {
	var states, count atomic.Int64
	atATime(2, shellBugs, func(b shellBug) {
		s, err := parseSpec(b.spec)
		s.shell = b.shell
		switch {
		case err != nil:
			t.Errorf("%q: %v", b.spec, err)
			return
		case s.limit > mostFind && !eventstest.Full():
			return
		}
		f := explore(Machine.Step, s.config, s.limit)
		t.Logf("%-70s %v, %d steps long", b.does, f, len(f.Trace))
		if f.Violation != s.want {
			t.Errorf("a session that %s: found %q, want %q", b.does, f.Violation, s.want)
		}
		count.Add(1)
		states.Add(int64(f.States))
	})
	fmt.Printf("reported %d of %d seeded bugs of the shell after %d worlds\n", count.Load(), len(shellBugs), states.Load())
}
