//go:build unix

package histories

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// The classic workloads on a lock, in one: five processes with a session timeout of 2 s. Every 5 s the process in the critical
// section is halted until the next one has been in it for a while. Mutual exclusion is checked on what all of them saw; each set is
// checked for the elements that were acknowledged. All sets are written by the same holders in the same sections under the same
// pauses. Beside them another five do the same under the lock of the client library.
//
// Two more processes have a cached lock, which the three workers of each hand on among themselves. Every second time the process is
// halted while its node is idle.
func TestRealWorkloads(t *testing.T) {
	const (
		processes = 5
		caching   = 2
		timeout   = 2 * time.Second
		tick      = 500 * time.Millisecond
		period    = 5 * time.Second
		window    = 400 * time.Millisecond
	)
	t.Parallel()
	eventstest.NeedsServers(t)
	pauses := reliability.Trials(3, 3, 30)
	e := ensemble.Start(t, 3, ensemble.Tick(tick))
	raw, err := rawClient(e.Connect(), 20*tick)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	registers := []string{registerTrusting, registerAsking, registerComparing, registerPlain, registerTxn}
	create(t, raw, "/registers", nil)
	create(t, raw, "/locks", nil)
	for _, register := range registers[3:] {
		create(t, raw, nodeOf(register), []byte("[]"))
	}

	ours, stock, cached := newKeeper(), newKeeper(), newKeeper()
	var running sync.WaitGroup
	for i := range processes {
		j := job{
			Name: "work", Servers: e.Connect(), Path: "/locks/work", Timeout: timeout, Tick: tick, Worker: i, Workers: 1, Window: window,
			Nodes: registers[3:],
		}
		mine := startChild(t, j)
		running.Go(func() { ours.serve(t, mine) })
		j.Name, j.Path = "work, stock", "/locks/stock"
		theirs := startChild(t, j)
		running.Go(func() { stock.serve(t, theirs) })
	}
	const cachedPath = "/locks/cached"
	for i := range caching { // the second one rests for longer, so that the first one has idle nodes
		c := startChild(t, job{
			Name: "work", Servers: e.Connect(), Path: cachedPath, Timeout: timeout, Tick: tick, Worker: i, Workers: 3,
			Window: window / 2, Rest: window << (3 * i),
		})
		running.Go(func() { cached.serve(t, c) })
	}
	holds := func(at latest) bool { return !at.left }
	for _, k := range []*keeper{ours, stock} {
		running.Go(func() {
			for range pauses {
				k.pauseHolder(t, holds, period, timeout+tick)
			}
			k.finish()
		})
	}
	idle := func(at latest) bool { // a node that was handed on is kept until another contender comes
		if !at.left || at.fence.turn == 0 {
			return false
		}
		nodes, _, err := raw.Children(cachedPath)
		return err == nil && len(nodes) == 1
	}
	running.Go(func() {
		for range (pauses + 1) / 2 {
			cached.pauseHolder(t, idle, 0, timeout+tick)
			cached.pauseHolder(t, holds, 0, timeout+tick)
		}
		cached.finish()
	})
	running.Wait()
	for _, register := range registers[3:] {
		set, err := readNode(raw, nodeOf(register))
		if err != nil {
			t.Fatal(err)
		}
		ours.registers[register] = &memory{set: set}
	}

	h := newHaltedHistory()
	h.ops = slices.Concat(ours.operations(), cached.operations())
	verdict := check(t, "the critical section", h.operations(), h.notes)
	var total tally
	total.count(h.ops)
	overlap, longest := ours.overlaps()
	stockOverlap, stockLongest := stock.overlaps()
	reliability.Report(t, reliability.RowHistories,
		"%d processes, and %d with a cached lock, T = %v, a holder halted beyond it %d and %d times: %d operations: %s; %v",
		processes, caching, timeout, ours.pauses, cached.pauses, len(h.ops), verdict, &total)
	if verdict == "legal" {
		reliability.Report(t, reliability.RowTwoHolders,
			"%d processes, T = %v, a holder halted beyond it %d times: by Valid, 0; by what they were told before they were "+
				"halted, at %d of %d grants, up to %v (lock of the ZooKeeper client: at %d of %d, up to %v)",
			processes, timeout, ours.pauses, overlap, len(ours.sections), longest.Round(time.Millisecond),
			stockOverlap, len(stock.sections), stockLongest.Round(time.Millisecond))
	}
	var results []string
	for _, register := range registers {
		o := ours.outcome(register)
		results = append(results, o.String())
		if safe := register == registerComparing || register == registerTxn; !safe {
			continue
		}
		if o.lost != 0 || o.stale != 0 {
			t.Errorf("at the end %v: %d acknowledged updates lost and %d accepted late, want none", o, o.lost, o.stale)
		}
	}
	reliability.Report(t, reliability.RowStaleWrites,
		"acknowledged updates that were lost, and writes accepted after a newer grant: %s; %v",
		strings.Join(results, "; "), stock.outcome(registerStock))
	if o := cached.outcome(registerComparing); o.lost != 0 || o.stale != 0 {
		t.Errorf("with a cached lock %v: want no update lost and none accepted late", o)
	}
	if overlap, _ := cached.overlaps(); overlap == 0 || total.turns == 0 {
		t.Errorf("%d overlaps and %d turns in %d sections with a cached lock, want some of each: nothing has been tried",
			overlap, total.turns, len(cached.sections))
	}
	if ours.outcome(registerTxn).acknowledged == 0 || overlap == 0 {
		t.Errorf("%d transactions acknowledged and %d overlaps in %d sections, want some of each: nothing has been tried",
			ours.outcome(registerTxn).acknowledged, overlap, len(ours.sections))
	}
}

func create(t *testing.T, raw *zk.Conn, path string, data []byte) {
	t.Helper()
	if _, err := raw.Create(path, data, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatalf("creating %s: %v", path, err)
	}
}
