package interop

import (
	"fmt"
	"testing"
)

// TestCuratorsRevokerIsHeard has Curator's Revoker ask for a lock: a holder of ours is told so, once, and goes on
// holding it; nobody who waits behind the node takes it for gone, whoever holds it.
func TestCuratorsRevokerIsHeard(t *testing.T) {
	t.Parallel()
	for _, holding := range []struct {
		family family
		form   form
	}{{zkgrant, formRevocable}, {curator, formMutex}, {stock, formLock}} {
		t.Run(string(holding.family), func(t *testing.T) {
			t.Parallel()
			s := enter(t).set(t)
			holder, asker := s.connect(holding.family, holding.form), s.connect(curator, formMutex)
			waiting := []*contender{
				s.connect(zkgrant, formRevocable), s.connect(stock, formLock), s.connect(curator, formMutex),
			}
			s.acquire(holder)
			s.says(holder, newsEnter)
			for _, c := range waiting {
				s.queueUp(c)
			}
			node, _, err := s.arena.witness.nodeOf(s.dir, holder.session, 1)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				s.order(asker, orderRevoke, node)
			}
			s.until(func() error {
				data, err := s.arena.witness.data(node)
				if err == nil && string(data) != "__REVOKE__" {
					err = fmt.Errorf("%s has data %q", node, data)
				}
				return err
			})
			if holding.form == formRevocable {
				s.says(holder, newsRevoked)
			}
			s.silent(append(waiting, holder)...)
			s.goes(holder)
			s.leaves(holder)
			for _, c := range waiting {
				s.passes(c)
			}
		})
	}
}
