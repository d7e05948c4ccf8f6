package interop

import (
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// TestCuratorsRevokerIsHeard: Curator's Revoker requests a lock. A zkgrant holder is
// notified once, and keeps the lock. Whichever library holds the lock, no waiter
// concludes that the holder's node is gone.
func TestCuratorsRevokerIsHeard(t *testing.T) {
	t.Parallel()
	scenes(t, []role{{zkgrant, formRevocable}, {curator, formMutex}, {stock, formLock}}, func(s *stage, holding role) {
		holder, asker := s.connect(holding.family, holding.form), s.connect(curator, formMutex)
		waiting := []*contender{s.connect(zkgrant, formRevocable), s.connect(stock, formLock), s.connect(curator, formMutex)}
		s.enters(holder)
		for _, c := range waiting {
			s.queueUp(c)
		}
		node, _, err := s.arena.witness.nodeOf(s.dir, holder.session, 1)
		eventstest.Must(s.t, err)
		for range 2 {
			s.does(asker, orderRevoke, node)
		}
		if data, err := s.arena.witness.data(node); err != nil || string(data) != "__REVOKE__" {
			s.t.Errorf("%s has data %q, %v", node, data, err)
		}
		if holding.form == formRevocable {
			s.says(holder, newsRevoked)
		}
		s.silent(append(waiting, holder)...)
		s.leaves(holder)
		for _, c := range waiting {
			s.passes(c)
		}
	})
}

// TestCuratorsHoldersAreAsked: zkgrant's Revoke sends a request to a Curator holder. A
// revocable holder is notified and releases the lock. Any other holder is not notified,
// and its node is removed five quarters of a session timeout after the grace.
func TestCuratorsHoldersAreAsked(t *testing.T) {
	t.Parallel()
	const timeout = 4 * time.Second
	scenes(t, []form{formRevocable, formMutex, semaphore(1)}, func(s *stage, holding form) {
		revocable, waits := holding == formRevocable, formMutex
		if holding == semaphore(1) {
			waits = holding
		}
		holder, waiter := s.connect(curator, holding), s.connect(zkgrant, waits)
		operator, err := coordinator.Connect(s.t.Context(), s.arena.addr, coordinator.WithSessionTimeout(timeout))
		eventstest.Must(s.t, err)
		s.t.Cleanup(func() { eventstest.Check(s.t, operator.Close()) })
		s.enters(holder)
		s.acquire(waiter)
		s.silent(waiter)
		grace := time.Second
		if revocable {
			grace = time.Minute // even a busy machine releases the lock long before that
		}
		began := time.Now()
		revoked := make(chan error, 1)
		go func() { revoked <- operator.Revoke(s.t.Context(), s.dir, grace) }()
		if revocable {
			s.says(holder, newsRevoked)
			s.leaves(holder)
		}
		eventstest.Check(s.t, <-revoked)
		if took := time.Since(began); (took >= grace+timeout) == revocable {
			s.t.Errorf("Revoke took %v, want that the node is removed: %v", took, !revocable)
		}
		s.passes(waiter)
	})
}
