package interop

import (
	"errors"
	"path"
	"testing"
)

// TestLockObjectsOutliveTheirDirectory: a contender of another library uses a directory
// of zkgrant's, pauses until the server has removed the empty directory, and uses its
// lock object again. Neither contender gets an error, and they wait for each other.
func TestLockObjectsOutliveTheirDirectory(t *testing.T) {
	t.Parallel()
	type pair struct {
		other role
		ours  form
	}
	scenes(t, []pair{
		{role{curator, formMutex}, formMutex},
		{role{curator, formRead}, formWrite},
		{role{curator, formWrite}, formRead},
		{role{curator, semaphore(1)}, semaphore(1)},
		{role{curator, formSemaphoreMutex}, semaphore(1)},
		{role{stock, formLock}, formMutex},
	}, func(s *stage, c pair) {
		ours, other := s.connect(zkgrant, c.ours), s.connect(c.other.family, c.other.form)
		dirs := []string{s.dir}
		if permits, _ := c.ours.permits(); permits > 0 {
			dirs = []string{path.Join(s.dir, "locks"), path.Join(s.dir, "leases")}
		}
		for range 2 {
			s.visits(ours)
			for _, order := range [][2]*contender{{ours, other}, {other, ours}} { // the second waits until the first has left
				s.enters(order[0])
				s.acquire(order[1])
				s.appears(order[1], dirs[0])
				s.silent(order[1])
				s.leaves(order[0])
				s.passes(order[1])
			}
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
