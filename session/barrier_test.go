package session_test

import (
	"slices"
	"testing"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestABarrierIsAWrite: what comes before the reading has to go through the quorum. A
// sync does not: a leader that has been deposed, and has not noticed, answers it.
func TestABarrierIsAWrite(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		s := r.Seat()
		s.Want("Opened")
		s.CreateNode(1)
		var asked []zktest.Op
		r.Server.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op != zktest.OpPing {
				asked = append(asked, q.Op)
			}
			return zktest.Pass()
		})
		s.List(recipes.List{Epoch: 1, Attempt: 1, Barrier: true})
		if _, ok := s.Answer().(recipes.Listed); !ok {
			t.Error("not listed")
		}
		read := slices.IndexFunc(asked, func(op zktest.Op) bool {
			return op == zktest.OpGetChildren || op == zktest.OpGetChildren2
		})
		if read < 1 || asked[read-1] != zktest.OpMulti {
			t.Errorf("the server was asked %v", asked)
		}
	})
}
