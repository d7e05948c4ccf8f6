package interop

import (
	"fmt"
	"testing"
)

// TestUpgradeBesideOthers has an upgradable reader of ours become the writer beside Curator's and go-zookeeper's contenders, for
// whom it is a writer all the time. It waits for those who came before it, and for our reader who came in beside it, and for none who
// came later; they come in when both of its nodes are gone, in the order in which they came.
func TestUpgradeBesideOthers(t *testing.T) {
	t.Parallel()
	for _, behind := range some([]struct {
		family family
		forms  []form
	}{
		{curator, []form{formWrite, formRead, formWrite}},
		{curator, []form{formRead, formRead, formWrite, formRead}},
		{stock, []form{formLock, formLock}},
	}) {
		t.Run(fmt.Sprintf("%s's %v behind", behind.family, behind.forms), func(t *testing.T) {
			t.Parallel()
			s := enter(t).set(t)
			before := s.connect(curator, formRead)
			s.enters(before)
			up, beside := s.connect(zkgrant, formUpgrade), s.connect(zkgrant, formRead)
			for _, c := range []*contender{up, beside} {
				s.enters(c)
			}
			var waiting []*contender
			for _, f := range behind.forms {
				c := s.connect(behind.family, f)
				s.queueUp(c)
				waiting = append(waiting, c)
			}
			s.silent(waiting...)

			s.order(up, orderGo) // it asks to write
			late := s.connect(zkgrant, formRead)
			s.queueUp(late)
			for _, reader := range []*contender{before, beside} {
				s.silent(append(waiting, up, late)...)
				s.departs(reader)
			}
			s.says(up, newsShare) // it writes
			s.silent(append(waiting, late)...)
			s.goes(up) // with the upgradable lock released
			s.silent(append(waiting, late)...)
			s.leaves(up)
			for _, c := range append(waiting, late) {
				s.passes(c)
			}
			s.clears(s.dir)
		})
	}
	t.Run("behind Curator's writer", func(t *testing.T) {
		t.Parallel()
		s := enter(t).set(t)
		writer, up, late := s.connect(curator, formWrite), s.connect(zkgrant, formUpgrade), s.connect(curator, formRead)
		s.enters(writer)
		s.queueUp(up)
		s.queueUp(late)
		s.silent(up, late)
		s.departs(writer)
		s.says(up, newsEnter)
		s.silent(late)
		s.order(up, orderGo)
		s.says(up, newsShare) // the reader behind it is not waited for
		s.silent(late)
		s.departs(up)
		s.passes(late)
		s.clears(s.dir)
	})
}
