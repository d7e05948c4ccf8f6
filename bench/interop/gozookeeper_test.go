package interop

import (
	"testing"
)

// TestGoZookeepersLockWaits: go-zookeeper's Lock meets each of our forms at a path, in both orders. It waits behind each of our nodes, and
// ours wait for it. Nothing that we leave in the directory, or write into it, makes it fail.
func TestGoZookeepersLockWaits(t *testing.T) {
	t.Parallel()
	for _, ours := range some([]form{formDowngrade, formMutex, formRead, formWrite}) {
		t.Run(string(ours), func(t *testing.T) {
			t.Parallel()
			s := enter(t).set(t)
			lock, other, lock2 := s.connect(stock, formLock), s.connect(zkgrant, ours), s.connect(stock, formLock)
			for round := range 3 {
				// The first time, the directory is ours, with a marker. A contender that had to wait leaves a floor.
				s.enters(other)
				s.queueUp(lock)
				s.queueUp(lock2)
				s.shares(other) // two nodes of one number
				s.silent(lock, lock2)
				s.goes(other)
				s.silent(lock, lock2)
				s.leaves(other)

				s.says(lock, newsEnter)
				if data, err := s.arena.witness.data(s.dir); err != nil || len(data) == 0 {
					t.Errorf("round %d: the directory is not ours, which was the point: %q, %v", round, data, err)
				}
				s.queueUp(other)
				s.silent(other, lock2)
				s.departs(lock)
				s.passes(lock2)
				s.passes(other)
			}
			s.clears(s.dir)
		})
	}
}
