package interop

import (
	"fmt"
	"testing"
)

// TestDowngradeIsSeen: a writer becomes a reader while readers and writers wait behind it. The readers enter at once, up to the first
// writer, which waits until the reader has left, too. All enter in the order in which they came, and none is left waiting. Curator's
// downgrade before 5.5 keeps out no contender that came before it. The test shows that with Curator's own contenders, too.
func TestDowngradeIsSeen(t *testing.T) {
	t.Parallel()
	for _, downgrading := range []struct {
		family family
		form   form
	}{
		{zkgrant, formDowngrade}, {curator, formDowngrade}, {curator, formInPlace},
	} {
		for _, waiting := range []family{zkgrant, curator} {
			if downgrading.family == zkgrant && waiting == zkgrant {
				continue // no other library is needed to test them
			}
			for _, forms := range some([][]form{{formRead, formRead, formWrite, formRead}, {formWrite, formRead, formWrite}}) {
				name := fmt.Sprintf("%s's %s, with %s's %v behind", downgrading.family, downgrading.form, waiting, forms)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					s := enter(t).set(t)
					s.downgrade(s.connect(downgrading.family, downgrading.form), waiting, forms)
				})
			}
		}
	}
}

// downgrade plays the scene.
func (s *stage) downgrade(writer *contender, behind family, forms []form) {
	s.t.Helper()
	s.enters(writer)
	waiting := make([]*contender, len(forms))
	for i, f := range forms {
		waiting[i] = s.connect(behind, f)
		s.queueUp(waiting[i])
	}
	s.shares(writer) // it has both nodes
	s.silent(waiting...)

	s.goes(writer) // it reads
	if !s.arena.keepsItsPlace(writer) {
		s.passes(waiting[0]) // of any form
		s.leaves(writer)
		for _, c := range waiting[1:] {
			s.passes(c)
		}
		s.clears(s.dir)
		return
	}
	for len(waiting) > 0 && waiting[0].form.shared() {
		s.passes(waiting[0])
		waiting = waiting[1:]
	}
	s.silent(waiting...)
	s.leaves(writer)
	for _, c := range waiting {
		s.passes(c)
	}
	s.clears(s.dir)
}
