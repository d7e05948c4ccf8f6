package interop

import (
	"testing"
	"time"
)

// TestACachedLockTakesTurns has a contender of zkgrant's that keeps its node, and one of each other library's. While one is inside, the
// other waits. When the one has left, the other is soon inside, even if the one kept its node for itself until then and asks again at once.
func TestACachedLockTakesTurns(t *testing.T) {
	t.Parallel()
	for _, c := range some([]role{{curator, formMutex}, {stock, formLock}, {kazoo, formLockExtra}, {zkgrant, formMutex}}) {
		t.Run(string(c.family), func(t *testing.T) {
			t.Parallel()
			s := enter(t).set(t)
			ours, theirs := s.connect(zkgrant, formCached), s.connect(c.family, c.form)
			for range 3 {
				s.keeps(ours)
				s.enters(ours)
				s.queueUp(theirs)
				s.silent(theirs)
				s.departs(ours)
				s.interrupts(theirs, ours, time.Now())
				s.keeps(ours) // and it is idle
				began := time.Now()
				s.acquire(theirs)
				s.interrupts(theirs, ours, began)
			}
			s.order(ours, orderStop)
			s.says(ours, newsStopped)
			s.clears(s.dir)
		})
	}
}

// keeps makes a contender visit until one node has served it five times. A node that is interrupted that late does not prevent the next
// one from being kept.
func (s *stage) keeps(c *contender) {
	s.t.Helper()
	last, same := "", 0
	for visits := 0; same < 5; visits++ {
		if visits > 20 {
			s.t.Fatalf("%s has visited %d times, and keeps no node", c.name, visits)
		}
		s.enters(c)
		node, _, err := s.arena.witness.nodeOf(s.dir, c.session, 1)
		if err != nil {
			s.t.Fatal(err)
		}
		s.departs(c)
		if node != last {
			last, same = node, 0
		}
		same++
	}
}

// interrupts checks that a contender that has asked enters within two probe intervals although the contender with the cached lock asks
// again. The latter waits until the first one has left.
func (s *stage) interrupts(theirs, ours *contender, since time.Time) {
	s.t.Helper()
	s.says(theirs, newsEnter)
	if took, most := time.Since(since), 2*longSession/10; took > most {
		s.t.Errorf("%s comes in after %v, want %v at most", theirs.name, took, most)
	}
	s.queueUp(ours)
	s.silent(ours)
	s.departs(theirs)
	s.passes(ours)
}
