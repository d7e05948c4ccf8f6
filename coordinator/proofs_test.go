package coordinator_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestNoGrantWithoutAnAnswerFromTheQuorum has everything come but the answer to a write:
// the news that the node ahead is gone, a listing in which nobody stands ahead, a floor.
// Each of them may be old, and none says that the session lives.
func TestNoGrantWithoutAnAnswerFromTheQuorum(t *testing.T) {
	const late = time.Second
	for name, prepare := range map[string]func(t *testing.T, srv *zktest.Server, c, other *coordinator.Coordinator) func() *coordinator.Acquisition{
		"alone in our directory": func(t *testing.T, _ *zktest.Server, c, other *coordinator.Coordinator) func() *coordinator.Acquisition {
			coordtest.Warm(t, c, other)
			return func() *coordinator.Acquisition { return coordtest.Queue(c.Mutex(lockPath)) }
		},
		"first in a listing": func(t *testing.T, srv *zktest.Server, c, _ *coordinator.Coordinator) func() *coordinator.Acquisition {
			if err := srv.Create(lockPath+"/stranger", nil); err != nil {
				t.Fatal(err)
			}
			return func() *coordinator.Acquisition { return coordtest.Queue(c.Mutex(lockPath)) }
		},
		"the only one ahead leaves": func(t *testing.T, _ *zktest.Server, c, other *coordinator.Coordinator) func() *coordinator.Acquisition {
			coordtest.Warm(t, c, other)
			holder, _ := coordtest.Hold(t, other.Mutex(lockPath))
			a := coordtest.Queue(c.Mutex(lockPath))
			return func() *coordinator.Acquisition { holder.Release(); return a }
		},
		"the nearest leaves as a holder": func(t *testing.T, _ *zktest.Server, c, other *coordinator.Coordinator) func() *coordinator.Acquisition {
			coordtest.Warm(t, c, other)
			first, _ := coordtest.Hold(t, other.Mutex(lockPath))
			second, a := coordtest.Queue(other.Mutex(lockPath)), coordtest.Queue(c.Mutex(lockPath))
			first.Release()
			if _, err := second.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			return func() *coordinator.Acquisition { second.Release(); return a }
		},
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
				happens := prepare(t, srv, c, other)
				srv.Intercept(func(r zktest.Request) zktest.Action {
					if r.Session == c.SessionID() && r.Op == zktest.OpMulti {
						return zktest.Delay(late)
					}
					return zktest.Pass()
				})
				a := happens()
				time.Sleep(late - time.Millisecond)
				synctest.Wait()
				if a.Valid() || len(a.Granted()) != 0 {
					t.Error("granted before the write was answered")
				}
				time.Sleep(time.Millisecond)
				synctest.Wait()
				if !a.Valid() || len(a.Granted()) != 1 {
					t.Errorf("not granted when the write was answered")
				}
			})
		})
	}
}
