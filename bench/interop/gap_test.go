package interop

import (
	"fmt"
	"testing"
	"time"
)

// TestAGapInTheQueueLetsNobodyIn: waiters of each family vanish, killed or because their wait is over, while others stand behind them. The
// node that the others watch is gone, and it is not their turn. When it is, they enter in the order in which they came.
func TestAGapInTheQueueLetsNobodyIn(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{true, false} {
		for _, holding := range some([]family{zkgrant, curator, stock}) {
			name := fmt.Sprintf("a waiter behind %s gives up", holding)
			if killed {
				name = fmt.Sprintf("a waiter behind %s is killed", holding)
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := enter(t).set(t)
				holder := s.connect(holding, mutexOf(holding))
				s.enters(holder)
				s.openGaps(killed, holder)
			})
		}
	}
}

// mutexOf is the form of a family's mutex.
func mutexOf(f family) form {
	if f == stock {
		return formLock
	}
	return formMutex
}

// openGaps plays the scene behind a holder that is inside.
func (s *stage) openGaps(killed bool, holder *contender) {
	s.t.Helper()
	var vanishing, waiting []*contender
	joining := time.Duration(0) // the longest that a contender took to come into the queue
	for _, pair := range [][2]family{
		{zkgrant, curator}, {zkgrant, stock}, {curator, zkgrant}, {stock, zkgrant}, {zkgrant, zkgrant},
	} {
		vanishing = append(vanishing, s.alone(pair[0], mutexOf(pair[0])))
		waiting = append(waiting, s.connect(pair[1], mutexOf(pair[1])))
	}
	for i, c := range vanishing {
		if killed {
			s.acquire(c)
		} else {
			// Long enough for all contenders to come into the queue behind it.
			s.acquireWithin(c, 6*time.Second+time.Duration(10*len(vanishing))*joining)
		}
		s.appears(c, s.dir)
		came := time.Now()
		s.queueUp(waiting[i])
		joining = max(joining, time.Since(came))
	}
	for _, c := range vanishing {
		if !killed {
			s.says(c, newsBusy)
		} else if err := c.player.process.Kill(); err != nil {
			s.t.Fatal(err)
		}
	}
	s.until(func() error {
		left, err := s.arena.witness.children(s.dir)
		if err == nil && len(left) != 1+len(waiting) {
			err = fmt.Errorf("after waiters gave up or were killed: %d nodes, want %d", len(left), 1+len(waiting))
		}
		return err
	})
	s.silent(waiting...)
	s.departs(holder)
	for i, c := range waiting {
		s.says(c, newsEnter)
		s.silent(waiting[i+1:]...)
		s.departs(c)
	}
	s.clears(s.dir)
}
