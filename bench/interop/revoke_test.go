package interop

import (
	"fmt"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
)

// TestCuratorsRevokerIsHeard: Curator's Revoker asks for a lock. A holder of zkgrant's is told so once, and holds on. No waiter takes the
// holder's node for gone, whichever library holds it.
func TestCuratorsRevokerIsHeard(t *testing.T) {
	t.Parallel()
	for _, holding := range some([]struct {
		family family
		form   form
	}{{zkgrant, formRevocable}, {curator, formMutex}, {stock, formLock}}) {
		t.Run(string(holding.family), func(t *testing.T) {
			t.Parallel()
			s := enter(t).set(t)
			holder, asker := s.connect(holding.family, holding.form), s.connect(curator, formMutex)
			waiting := []*contender{
				s.connect(zkgrant, formRevocable), s.connect(stock, formLock), s.connect(curator, formMutex),
			}
			s.enters(holder)
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
			s.departs(holder)
			for _, c := range waiting {
				s.passes(c)
			}
		})
	}
}

// TestCuratorsHoldersAreAsked: zkgrant's Revoke asks a holder of Curator's. A revocable holder hears it and gives the lock back. Any other
// holder hears nothing, and its node is removed five quarters of a session timeout after the grace.
func TestCuratorsHoldersAreAsked(t *testing.T) {
	t.Parallel()
	const timeout = 4 * time.Second
	for _, holding := range some([]form{formRevocable, formMutex, "semaphore:1"}) {
		t.Run(string(holding), func(t *testing.T) {
			t.Parallel()
			s := enter(t).set(t)
			holder, waiter := s.connect(curator, holding), s.connect(zkgrant, formMutex)
			if holding == "semaphore:1" {
				waiter = s.connect(zkgrant, holding)
			}
			operator, err := coordinator.Connect(t.Context(), s.arena.addr, coordinator.WithSessionTimeout(timeout))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := operator.Close(); err != nil {
					t.Error(err)
				}
			})
			s.enters(holder)
			s.acquire(waiter)
			s.silent(waiter)
			grace := time.Second
			if holding == formRevocable {
				grace = time.Minute // a busy machine gives the lock back long before that
			}
			began := time.Now()
			revoked := make(chan error, 1)
			go func() { revoked <- operator.Revoke(t.Context(), s.dir, grace) }()
			if holding == formRevocable {
				s.says(holder, newsRevoked)
				s.departs(holder)
			}
			if err := <-revoked; err != nil {
				t.Errorf("Revoke: %v", err)
			}
			took := time.Since(began)
			if removed := took >= grace+timeout; removed == (holding == formRevocable) {
				t.Errorf("Revoke took %v: removed %v, want %v", took, removed, !removed)
			}
			s.passes(waiter)
		})
	}
}
