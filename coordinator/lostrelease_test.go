package coordinator_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestAReleaseThatGotLostIsMadeAgain loses the delete of a release, or its answer,
// and not the session: the node has to go at once, and not with the session.
func TestAReleaseThatGotLostIsMadeAgain(t *testing.T) {
	for name, action := range map[string]zktest.Action{
		"reply lost":   zktest.CutAfter(),
		"request lost": zktest.CutBefore(),
		"throttled":    zktest.Fail(zktest.Throttled),
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				a, grant := coordtest.Hold(t, c.Mutex(lockPath))
				id, lost := c.SessionID(), false
				srv.Intercept(func(r zktest.Request) zktest.Action {
					if r.Op != zktest.OpDelete || lost {
						return zktest.Pass()
					}
					lost = true
					return action
				})
				a.Release()
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if !lost || srv.Exists(grant.Node) {
					t.Errorf("a delete got lost: %v; the node is there: %v", lost, srv.Exists(grant.Node))
				}
				if !coordtest.IsClosed(a.Done()) || a.Err() != nil || c.SessionID() != id {
					t.Errorf("done %v with %v, session 0x%x and before 0x%x", coordtest.IsClosed(a.Done()), a.Err(), c.SessionID(), id)
				}
			})
		})
	}
}
