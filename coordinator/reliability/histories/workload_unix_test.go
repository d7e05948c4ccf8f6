//go:build unix

package histories

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/coordinator/reliability/child"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// The classic workloads on a lock, in one: five processes with a session timeout of 2 s.
// Every 5 s, the process in the critical section is halted until the next one has been in
// it for a while. Mutual exclusion is checked on what all of them saw, and each set for
// the acknowledged elements. The same holders write all sets, in the same sections with
// the same pauses.
//
// Two more processes have a cached lock, and three workers each, which hand it to each
// other. Every second time, the process is halted while its node is idle.
func TestRealWorkloads(t *testing.T) {
	const (
		processes, caching = 5, 2
		timeout, tick      = 2 * time.Second, 500 * time.Millisecond
		period, window     = 5 * time.Second, 400 * time.Millisecond
		cachedPath         = "/locks/cached"
	)
	t.Parallel()
	eventstest.NeedsServers(t)
	pauses := reliability.Trials(3, 3, 30)
	e := ensemble.Start(t, 3, ensemble.Tick(tick))
	raw := coordtest.RawClient(t, e.Connect())
	nodes := []string{registerPlain, registerTxn}
	for _, node := range []string{"/registers", "/locks", nodeOf(registerPlain), nodeOf(registerTxn)} {
		_, err := raw.Create(node, []byte("[]"), 0, zk.WorldACL(zk.PermAll))
		eventstest.Must(t, err)
	}

	ours, cached := newKeeper(), newKeeper()
	var running sync.WaitGroup
	serve := func(k *keeper, j job) {
		j.Servers, j.Timeout, j.Tick = e.Connect(), timeout, tick
		c := startChild(t, j)
		running.Go(func() { eventstest.Check(t, k.serve(c)) })
	}
	for i := range processes {
		serve(ours, job{Path: "/locks/work", Worker: i, Workers: 1, Window: window, Nodes: nodes})
	}
	for i := range caching { // the second process rests longer, so that the first one has idle nodes
		serve(cached, job{Path: cachedPath, Worker: i, Workers: 3, Window: window / 2, Rest: window << (3 * i)})
	}
	holds := func(at latest) bool { return !at.left }
	idle := func(at latest) bool { // a node that was handed on is kept until another contender arrives
		if !at.left || at.fence.Turn == 0 {
			return false
		}
		nodes, _, err := raw.Children(cachedPath)
		return err == nil && len(nodes) == 1
	}
	running.Go(func() {
		for range pauses {
			ours.pauseHolder(t, holds, period, timeout+tick)
		}
		ours.finish()
	})
	running.Go(func() {
		for range (pauses + 1) / 2 {
			cached.pauseHolder(t, idle, 0, timeout+tick)
			cached.pauseHolder(t, holds, 0, timeout+tick)
		}
		cached.finish()
	})
	running.Wait()
	for _, register := range nodes {
		set, err := readNode(raw, nodeOf(register))
		eventstest.Must(t, err)
		ours.registers[register] = &memory{set: set}
	}

	ops := slices.Concat(ours.operations(), cached.operations())
	verdict, total := check(t, "the critical section", ops, nil), tally(ops)
	overlap, longest := ours.overlaps()
	reliability.Report(t, reliability.RowHistories,
		"%d processes, and %d with a cached lock, T = %v, a holder halted beyond it %d and %d times: %d operations, %s (%s)",
		processes, caching, timeout, ours.pauses, cached.pauses, len(ops), verdict, reliability.Counts(total))
	if verdict == "legal" {
		reliability.Report(t, reliability.RowTwoHolders,
			"%d processes, T = %v, a holder halted beyond it %d times: 0 according to Valid; by what they knew before they were "+
				"halted, at %d of %d grants, for %v at most", processes, timeout, ours.pauses, overlap, len(ours.sections), longest.Round(time.Millisecond))
	}
	var results []string
	for _, register := range append(memoryRegisters(), nodes...) {
		results = append(results, ours.outcome(register).String())
	}
	reliability.Report(t, reliability.RowStaleWrites,
		"acknowledged updates that were lost, and how many writes were accepted after a newer grant (late): %s", strings.Join(results, "; "))
	for _, o := range []outcome{ours.outcome(registerComparing), ours.outcome(registerTxn), cached.outcome(registerComparing)} {
		eventstest.Expect(t, o.lost == 0 && o.stale == 0,
			"at the end %v: %d acknowledged updates lost and %d accepted late, want none", o, o.lost, o.stale)
	}
	if n, _ := cached.overlaps(); n == 0 || overlap == 0 || total["turn"] == 0 || ours.outcome(registerTxn).acknowledged == 0 {
		t.Errorf("%d and %d overlaps, %d turns and %d transactions acknowledged, want some of each: nothing has been tried",
			overlap, n, total["turn"], ours.outcome(registerTxn).acknowledged)
	}
}

// memory is a set that the test keeps in memory.
type memory struct {
	set  []int
	seen fence // the greatest fence that it has seen
}

// latest is the last Grant that the keeper knows of.
type latest struct {
	holder *child.Child // nil if there was none
	fence  fence
	left   bool // it has left the critical section; if the lock is cached, its process may keep the node
	grants int  // how many grants there have been
}

// keeper keeps the sets of one kind of process, and records what the processes did.
type keeper struct {
	mu        sync.Mutex
	registers map[string]*memory
	latest    latest
	pauses    int
	sections  []*section
	finished  bool
}

func newKeeper() *keeper {
	k := &keeper{registers: map[string]*memory{}}
	for _, register := range memoryRegisters() {
		k.registers[register] = &memory{}
	}
	return k
}

// finish lets each worker end once it is outside the critical section.
func (k *keeper) finish() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.finished = true
}

// serve answers a child until it may end.
func (k *keeper) serve(c *child.Child) error {
	for {
		var m message
		if err := c.Hear(&m); err != nil {
			return err
		}
		if m.Kind == "home" {
			return c.HangUp()
		}
		if err := c.Tell(k.answer(c, m)); err != nil {
			return err
		}
	}
}

// answer answers a child's request.
func (k *keeper) answer(c *child.Child, m message) (answer message) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch m.Kind {
	case "ready":
		answer.Accepted = !k.finished
	case "granted":
		k.latest = latest{holder: c, fence: m.fence, grants: k.latest.grants + 1}
	case "section":
		k.sections = append(k.sections, m.Section)
		k.latest.left = k.latest.left || k.latest.holder == c && k.latest.fence == m.Section.fence
	case "read":
		r := k.registers[m.Register]
		answer.Accepted = !r.seen.after(m.fence)
		r.seen = r.seen.or(m.fence)
		answer.Set = r.set
	case "write":
		r := k.registers[m.Register]
		if answer.Accepted = m.Register != registerComparing || !r.seen.after(m.fence); answer.Accepted {
			r.set = m.Set
		}
	}
	return answer
}

func (k *keeper) look() latest {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.latest
}

// pauseHolder halts the latest holder once may allows it. The holder stays halted until
// other workers have been in the critical section and its session has expired.
// pauseHolder returns at the end of the period at the earliest.
func (k *keeper) pauseHolder(t *testing.T, may func(latest) bool, period, expiry time.Duration) {
	start := time.Now()
	patient, cancel := eventstest.Patient(realMax)
	defer cancel()
	var at latest
	if !until(patient, func() bool { at = k.look(); return at.holder != nil && may(at) }) {
		t.Errorf("for %v there was no holder to halt", realMax)
		return
	}
	eventstest.Check(t, halt(at.holder))
	k.mu.Lock()
	k.pauses++
	k.mu.Unlock()
	halted := time.Now()
	// The server grants the lock to no other contender before the session has expired;
	// then some of them get their turn.
	until(patient, func() bool { return k.look().grants > at.grants+3 && time.Since(halted) > expiry })
	eventstest.Check(t, goOn(at.holder))
	<-time.After(time.Until(start.Add(period)))
}

// until polls until the condition holds or the context ends, and reports whether the
// condition holds.
func until(ctx context.Context, cond func() bool) bool {
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for !cond() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// operations returns what all workers saw.
func (k *keeper) operations() (ops []operation) {
	for _, s := range k.sections {
		ops = append(ops, s.Ops...)
	}
	return ops
}

// overlaps counts the sections that, as their processes believed, began during an earlier
// one. It returns the longest overlap.
func (k *keeper) overlaps() (count int, longest time.Duration) {
	var end int64
	for _, s := range slices.SortedFunc(slices.Values(k.sections), func(a, b *section) int { return cmp.Compare(a.Granted, b.Granted) }) {
		if s.Granted < end {
			count++
			longest = max(longest, time.Duration(min(end, s.Ended)-s.Granted))
		}
		end = max(end, s.Ended)
	}
	return count, longest
}

// outcome is the result for one set.
type outcome struct {
	register                  string
	acknowledged, lost, stale int
}

func (o outcome) String() string {
	return fmt.Sprintf("%s: %d of %d (%d late)", o.register, o.lost, o.acknowledged, o.stale)
}

// outcome counts the acknowledged elements that are missing in the set, and the writes
// that were accepted although another worker had been granted the lock before they were
// sent.
func (k *keeper) outcome(register string) outcome {
	o := outcome{register: register}
	for _, s := range k.sections {
		for _, w := range s.Writes {
			if w.Register != register || !w.Accepted {
				continue
			}
			o.acknowledged++
			if !slices.Contains(k.registers[register].set, s.Element) {
				o.lost++
			}
			newer := func(other *section) bool { return other.fence.after(s.fence) && other.Granted < w.Sent }
			if slices.ContainsFunc(k.sections, newer) {
				o.stale++
			}
		}
	}
	return o
}
