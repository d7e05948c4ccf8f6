package interop

import (
	"errors"
	"path"
	"testing"
)

// TestLockObjectsOutliveTheirDirectory: a contender of another library uses a directory of ours, rests until the server has removed the
// empty directory, and uses its lock object again. Both contenders find nothing wrong, and wait for each other.
func TestLockObjectsOutliveTheirDirectory(t *testing.T) {
	t.Parallel()
	for _, c := range some([]struct {
		family family
		form   form
		ours   form
	}{
		{curator, formMutex, formMutex},
		{curator, formRead, formWrite},
		{curator, formWrite, formRead},
		{curator, semaphore(1), semaphore(1)},
		{curator, formSemaphoreMutex, semaphore(1)},
		{stock, formLock, formMutex},
	}) {
		t.Run(string(c.family)+" "+string(c.form), func(t *testing.T) {
			t.Parallel()
			s := enter(t).set(t)
			ours, other := s.connect(zkgrant, c.ours), s.connect(c.family, c.form)
			dirs, queue := []string{s.dir}, s.dir
			if permits, _ := c.ours.permits(); permits > 0 {
				dirs = []string{path.Join(s.dir, "locks"), path.Join(s.dir, "leases")}
				queue = dirs[0]
			}
			for range 2 {
				s.visits(ours)
				s.meet(ours, other, queue)
				s.meet(other, ours, queue)
				s.until(func() (still error) {
					for _, dir := range dirs {
						still = errors.Join(still, s.arena.witness.gone(dir))
					}
					return still
				})
			}
			s.visits(other)
		})
	}
}

// meet makes the second one wait in the queue until the first one has left.
func (s *stage) meet(first, second *contender, queue string) {
	s.t.Helper()
	s.enters(first)
	s.acquire(second)
	s.appears(second, queue)
	s.silent(second)
	s.departs(first)
	s.passes(second)
}
