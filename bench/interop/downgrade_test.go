package interop

import (
	"testing"

	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// TestDowngradeIsSeen: a writer becomes a reader while readers and writers wait behind
// it. The readers enter at once, up to the first writer, which waits until the reader has
// left, too. All enter in the order in which they came, and none is left waiting.
// Curator's downgrade before 5.5 keeps out no contender that came before it. The test
// shows that with Curator's own contenders, too.
func TestDowngradeIsSeen(t *testing.T) {
	t.Parallel()
	type scene struct {
		downgrading role
		behind      family
		forms       []form
	}
	var all []scene
	for _, forms := range [][]form{{formRead, formRead, formWrite, formRead}, {formWrite, formRead, formWrite}} {
		all = append(all, // zkgrant's behind zkgrant's need no other library
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
		s.does(writer, orderShare) // it reads
		// Curator's keeps its place since 5.5. Before that it queues up again after the
		// waiting writers.
		queues := c.downgrading == role{curator, formDowngrade} && !ensemble.Since(version(s.t, curator), placeKept)
		if queues {
			s.passes(waiting[0]) // of any form
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
		s.clears()
	})
}
