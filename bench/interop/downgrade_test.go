package interop

import (
	"testing"

	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// TestDowngradeIsSeen: a writer becomes a reader while readers and writers wait. The
// readers ahead of the first waiting writer enter at once. That writer waits until the
// downgraded reader has left, too. All enter in the order of their arrival, and none is
// left waiting. Before version 5.5, a downgraded reader of Curator queues up again, so it
// keeps out none of those waiters. The test shows that for Curator's own contenders, too.
func TestDowngradeIsSeen(t *testing.T) {
	t.Parallel()
	type scene struct {
		downgrading role
		behind      family
		forms       []form
	}
	var all []scene
	for _, forms := range [][]form{{formRead, formRead, formWrite, formRead}, {formWrite, formRead, formWrite}} {
		all = append(all, // zkgrant after zkgrant needs no other library
			scene{role{zkgrant, formDowngrade}, curator, forms}, scene{role{curator, formDowngrade}, zkgrant, forms},
			scene{role{curator, formInPlace}, zkgrant, forms}, scene{role{curator, formDowngrade}, curator, forms},
			scene{role{curator, formInPlace}, curator, forms})
	}
	scenes(t, all, func(s *stage, c scene) {
		writer := s.connect(c.downgrading.family, c.downgrading.form)
		s.enters(writer)
		var waiting []*contender
		for _, f := range c.forms {
			waiting = append(waiting, s.connect(c.behind, f))
			s.queueUp(waiting[len(waiting)-1])
		}
		s.does(writer, orderShares) // it has both nodes
		s.silent(waiting...)
		s.does(writer, orderShare) // it is a reader now
		// Since 5.5, Curator's downgraded reader keeps its place. Before that it queues
		// up again after the waiting writers.
		queues := c.downgrading == role{curator, formDowngrade} && !ensemble.Since(version(s.t, curator), placeKept)
		if queues {
			s.passes(waiting[0]) // whatever its form
			waiting = waiting[1:]
		} else {
			for len(waiting) > 0 && waiting[0].form.shared() {
				s.passes(waiting[0])
				waiting = waiting[1:]
			}
			s.silent(waiting...)
		}
		s.leaves(writer)
		for _, w := range waiting {
			s.passes(w)
		}
		s.remain(0)
	})
}
