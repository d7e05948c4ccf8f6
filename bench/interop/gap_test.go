package interop

import (
	"fmt"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// TestAGapInTheQueueLetsNobodyIn: waiters of each family disappear, killed or at the end
// of their wait, while others wait after them. The node that those watch is gone, but it
// is not their turn yet. When it is, they enter in the order of their arrival.
func TestAGapInTheQueueLetsNobodyIn(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{true, false} {
		t.Run(fmt.Sprintf("killed %v", killed), func(t *testing.T) {
			t.Parallel()
			all := []role{{zkgrant, formMutex}, {curator, formMutex}, {stock, formLock}}
			scenes(t, all, func(s *stage, holding role) { s.openGaps(killed, holding) })
		})
	}
}

// openGaps plays the scene while a holder is inside.
func (s *stage) openGaps(killed bool, holding role) {
	s.t.Helper()
	ours, curators, stocks := role{zkgrant, formMutex}, role{curator, formMutex}, role{stock, formLock}
	holder := s.connect(holding.family, holding.form)
	s.enters(holder)
	var vanishing, waiting []*contender
	joining := time.Duration(0) // the longest time that a contender took to join the queue
	for _, pair := range [][2]role{{ours, curators}, {ours, stocks}, {curators, ours}, {stocks, ours}, {ours, ours}} {
		vanishing = append(vanishing, s.alone(pair[0].family, pair[0].form))
		waiting = append(waiting, s.connect(pair[1].family, pair[1].form))
	}
	for i, c := range vanishing {
		wait := endless
		if !killed { // long enough for all contenders to join the queue after it
			wait = 6*time.Second + time.Duration(10*len(vanishing))*joining
		}
		eventstest.Must(s.t, c.ask(wait))
		s.appears(c, s.dir)
		came := time.Now()
		s.queueUp(waiting[i])
		joining = max(joining, time.Since(came))
	}
	for _, c := range vanishing {
		if killed {
			eventstest.Must(s.t, c.player.process.Kill())
		} else {
			s.says(c, newsBusy)
		}
	}
	s.remain(1 + len(waiting))
	s.silent(waiting...)
	s.leaves(holder)
	for i, c := range waiting {
		s.says(c, orderAcquire)
		s.silent(waiting[i+1:]...)
		s.leaves(c)
	}
	s.remain(0)
}
