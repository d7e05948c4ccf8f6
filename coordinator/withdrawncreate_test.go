package coordinator_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestACreateThatIsWithdrawnUnderWayLeavesNothing withdraws an acquisition while its
// create is at the server. Only the answer tells what there is to delete, and it may
// be lost:
//
//  1. the create is sent;
//  2. Release is called; the name of the node is not known yet;
//  3. the server executes the create, or not, and answers, or not;
//  4. on the next connection the node has to be looked for, though nobody waits for
//     the lock any more.
func TestACreateThatIsWithdrawnUnderWayLeavesNothing(t *testing.T) {
	for name, action := range map[string]zktest.Action{
		"answered":      zktest.Pass(),
		"reply lost":    zktest.CutAfter(),
		"request lost":  zktest.CutBefore(),
		"answered late": zktest.Delay(time.Second),
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				_, _ = coordtest.Hold(t, c.Mutex(lockPath)) // the directory is there, and somebody stands in it
				id := c.SessionID()
				arrived, withdrawn := false, make(chan struct{})
				srv.Intercept(func(r zktest.Request) zktest.Action {
					if !coordtest.Creates(r) || arrived {
						return zktest.Pass()
					}
					arrived = true
					<-withdrawn
					return action
				})
				a := coordtest.Queue(c.Mutex(lockPath))
				if !arrived {
					t.Fatal("no create was sent")
				}
				a.Release()
				synctest.Wait()
				close(withdrawn)
				time.Sleep(4 * time.Second)
				synctest.Wait()
				if got := srv.Children(lockPath); len(got) != 1 {
					t.Errorf("beside the holder's node: %v", got)
				}
				if !coordtest.IsClosed(a.Done()) || c.SessionID() != id {
					t.Errorf("done %v, session 0x%x and before 0x%x", coordtest.IsClosed(a.Done()), c.SessionID(), id)
				}
				select {
				case grant := <-a.Granted():
					t.Errorf("granted after Release: %+v", grant)
				default:
				}
			})
		})
	}
}
