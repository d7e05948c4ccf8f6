package interop

import (
	"fmt"
	"testing"
)

// TestDowngradeIsSeen has a writer become a reader while readers and writers wait behind it. Who waits is let in when
// it ought to be: readers at once, up to the first writer, which waits until the reader has gone, too; everybody in the
// order in which they came, and nobody is left waiting. Curator's downgrade before 5.5 keeps nobody out who came before
// it was one, which is shown with Curator's own contenders, too.
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
				continue // they need no other library to be tested
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
		s.passes(waiting[0]) // whatever it is
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
