//go:build unix

package histories

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// memory is a set that the test keeps.
type memory struct {
	set  []int
	seen fence // the greatest fence that it was shown
}

// latest is the last Grant that the keeper has heard of.
type latest struct {
	holder *helper // nil if there was none
	fence  fence
	left   bool // it has left the critical section. If the lock is cached, its process may keep the node
	grants int  // how many grants there were by then
}

// keeper keeps the sets of one kind of process, and remembers what the processes did.
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
	for _, register := range []string{registerTrusting, registerAsking, registerComparing, registerStock} {
		k.registers[register] = &memory{}
	}
	return k
}

// finish lets each worker go home that is outside the critical section.
func (k *keeper) finish() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.finished = true
}

// serve answers a child until it may go home.
func (k *keeper) serve(t *testing.T, c *helper) {
	for {
		m, err := c.hear()
		if err != nil {
			t.Error(err)
			return
		}
		answer, more := k.answer(c, m)
		if more {
			err = c.send(answer)
		} else {
			err = c.HangUp()
		}
		if err != nil {
			t.Error(err)
		}
		if !more {
			return
		}
	}
}

// answer answers a request of a child.
func (k *keeper) answer(c *helper, m message) (answer message, more bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	answer.Kind, more = m.Kind, true
	switch m.Kind {
	case "ready":
		answer.Accepted = !k.finished
	case "home":
		return answer, false
	case "granted":
		k.latest = latest{holder: c, fence: m.fence(), grants: k.latest.grants + 1}
	case "section":
		k.sections = append(k.sections, m.Section)
		k.latest.left = k.latest.left || k.latest.holder == c && k.latest.fence == m.Section.fence()
	case "read":
		r := k.registers[m.Register]
		answer.Accepted = !r.seen.after(m.fence())
		r.seen = r.seen.or(m.fence())
		answer.Set = r.set
	case "write":
		r := k.registers[m.Register]
		answer.Accepted = m.Register != registerComparing || !r.seen.after(m.fence())
		if answer.Accepted {
			r.set = m.Set
		}
	}
	return answer, more
}

func (k *keeper) look() latest {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.latest
}

// pauseHolder halts the latest holder once may allows it. The holder stays halted until other workers have been in the
// critical section, and the rest of the period is over.
func (k *keeper) pauseHolder(t *testing.T, may func(latest) bool, period, expiry time.Duration) {
	start := time.Now()
	var at latest
	found := false
	patient, cancel := eventstest.Patient(realMax)
	defer cancel()
	k.until(patient, func() bool {
		at = k.look()
		found = at.holder != nil && may(at)
		return found
	})
	if !found {
		t.Errorf("for %v there was no holder to halt", realMax)
		return
	}
	if err := at.holder.halt(); err != nil {
		t.Error(err)
		return
	}
	k.mu.Lock()
	k.pauses++
	k.mu.Unlock()
	halted := time.Now()
	// The server grants the lock to no other contender before the session has expired; then some get their turn.
	k.until(patient, func() bool {
		return k.look().grants > at.grants+3 && time.Since(halted) > expiry
	})
	if err := at.holder.goOn(); err != nil {
		t.Error(err)
	}
	rest, end := context.WithDeadline(context.Background(), start.Add(period))
	defer end()
	k.until(rest, func() bool { return false })
}

// until polls until the condition holds, or the context ends.
func (k *keeper) until(ctx context.Context, cond func() bool) {
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for !cond() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// operations returns what all workers saw.
func (k *keeper) operations() (ops []operation) {
	for _, s := range k.sections {
		ops = append(ops, s.Ops...)
	}
	return ops
}

// overlaps counts the sections that began, as their processes believed, while an earlier one went on. It returns the
// longest time for which two overlapped.
func (k *keeper) overlaps() (count int, longest time.Duration) {
	byTime := func(a, b *section) int { return cmp.Compare(a.Granted, b.Granted) }
	sections := slices.SortedFunc(slices.Values(k.sections), byTime)
	var end int64
	for _, s := range sections {
		if s.Granted < end {
			count++
			longest = max(longest, time.Duration(min(end, s.Ended)-s.Granted))
		}
		end = max(end, s.Ended)
	}
	return count, longest
}

// outcome is what became of a set.
type outcome struct {
	register                  string
	acknowledged, lost, stale int
	compared                  bool // stale is known
}

func (o outcome) String() string {
	if !o.compared {
		return fmt.Sprintf("%s: %d of %d", o.register, o.lost, o.acknowledged)
	}
	return fmt.Sprintf("%s: %d of %d (%d late)", o.register, o.lost, o.acknowledged, o.stale)
}

// outcome counts the acknowledged elements that are not in the set, and the writes that were accepted though another
// worker had been granted the lock before they were sent.
func (k *keeper) outcome(register string) outcome {
	o := outcome{register: register}
	set := map[int]bool{}
	for _, element := range k.registers[register].set {
		set[element] = true
	}
	for _, s := range k.sections {
		for _, w := range s.Writes {
			if w.Register != register || !w.Accepted {
				continue
			}
			o.acknowledged++
			if !set[s.Element] {
				o.lost++
			}
			o.compared = s.Token != 0
			newer := func(other *section) bool { return other.fence().after(s.fence()) && other.Granted < w.Sent }
			if o.compared && slices.ContainsFunc(k.sections, newer) {
				o.stale++
			}
		}
	}
	return o
}
