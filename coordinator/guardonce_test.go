package coordinator_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// The guard makes a transaction harmless that is made too late, or once more: it
// finds no node, or the caller's own check a newer version. What these tests hold is
// that neither is sent.

// TestTxnOfASessionThatIsOverIsNotSent has a transaction wait for a connection until
// the session is over. Another session of the same coordinator comes with that
// connection.
func TestTxnOfASessionThatIsOverIsNotSent(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, a, grant := holder(t, srv, srv.Addr())
		sent := 0
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if writesLedger(r) {
				sent++
			}
			return zktest.Pass()
		})
		srv.Down(true)
		synctest.Wait()
		ended := make(chan error, 1)
		go func() {
			_, err := a.Txn(t.Context(), write("late"))
			ended <- err
		}()
		synctest.Wait()
		if err := srv.Expire(grant.Session); err != nil {
			t.Fatal(err)
		}
		srv.Down(false)
		if err := <-ended; !errors.Is(err, coordinator.ErrSessionExpired) {
			t.Errorf("%v", err)
		}
		coordtest.Hold(t, c.Mutex(lockPath)) // the next session is in use
		synctest.Wait()
		if sent > 0 || c.SessionID() == grant.Session {
			t.Errorf("sent %d times, session 0x%x after 0x%x", sent, c.SessionID(), grant.Session)
		}
	})
}

// TestTxnOfUnknownOutcomeIsSentOnce: whether it was executed is for the caller to find
// out, and whether it may be executed twice for him to know.
func TestTxnOfUnknownOutcomeIsSentOnce(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		_, a, _ := holder(t, srv, srv.Addr())
		sent := 0
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if !writesLedger(r) {
				return zktest.Pass()
			}
			if sent++; sent == 1 {
				return zktest.CutAfter()
			}
			return zktest.Pass()
		})
		if _, err := a.Txn(t.Context(), write("one")); !errors.Is(err, coordinator.ErrOutcomeUnknown) {
			t.Errorf("%v", err)
		}
		if _, err := a.Txn(t.Context(), write("two")); err != nil { // behind whatever waits for the connection
			t.Error(err)
		}
		synctest.Wait()
		if sent != 2 || written(srv) != "two" {
			t.Errorf("two transactions were sent %d times, and left %q", sent, written(srv))
		}
	})
}
