package interop

import (
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// TestACachedLockTakesTurns has a zkgrant contender with a cached lock, and a contender
// of each other library. While one is inside, the other waits. After the first has left,
// the other soon enters, even if the first had its node cached and requests the lock
// again at once.
func TestACachedLockTakesTurns(t *testing.T) {
	t.Parallel()
	all := []role{{curator, formMutex}, {stock, formLock}, {kazoo, formLockExtra}, {zkgrant, formMutex}}
	scenes(t, all, func(s *stage, other role) {
		ours, theirs := s.connect(zkgrant, formCached), s.connect(other.family, other.form)
		for range 3 {
			s.keeps(ours)
			s.enters(ours)
			came := time.Now()
			s.queueUp(theirs)
			joining := time.Since(came)
			s.silent(theirs)
			s.leaves(ours)
			s.interrupts(theirs, ours, time.Now(), joining)
			s.keeps(ours) // its node is idle
			began := time.Now()
			s.acquire(theirs)
			s.interrupts(theirs, ours, began, joining)
		}
		s.does(ours, orderClose)
		s.remain(0)
	})
}

// keeps makes a contender visit until one node has served it five times. If such a node
// is interrupted, the next one is cached, too.
func (s *stage) keeps(c *contender) {
	s.t.Helper()
	last, same := "", 0
	for visits := 0; same < 5; visits++ {
		if visits > 20 {
			s.t.Fatalf("%v has visited %d times, and keeps no node", c, visits)
		}
		s.enters(c)
		node, _, err := s.arena.witness.nodeOf(s.dir, c.session, 1)
		eventstest.Must(s.t, err)
		s.leaves(c)
		if node != last {
			last, same = node, 0
		}
		same++
	}
}

// interrupts checks that theirs, which has requested the lock, enters within two probe
// intervals although ours, with the cached lock, requests it again. On a busy machine, it
// takes longer, as joining the queue does. ours then waits until theirs has left.
func (s *stage) interrupts(theirs, ours *contender, since time.Time, joining time.Duration) {
	s.t.Helper()
	s.says(theirs, orderAcquire)
	took, most := time.Since(since), 2*longSession/10+10*joining
	eventstest.Expect(s.t, took <= most, "%v comes in after %v, want %v at most", theirs, took, most)
	s.queueUp(ours)
	s.silent(ours)
	s.leaves(theirs)
	s.passes(ours)
}
