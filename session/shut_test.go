package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestTheLastFlightIsSent: what was asked for right before the end goes out, and what is asked for behind that does not.
func TestTheLastFlightIsSent(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		s := r.Seated()
		node := s.CreateNode(1)
		asked := r.Asked()
		r.Together(func() {
			s.Delete(recipes.Delete{Epoch: 1, Node: node.Text})
			go r.Session.Quiesce(r.Context())
			synctest.Wait()
		})
		s.WantAnswer(recipes.Deleted{Epoch: 1})
		s.List(recipes.List{Epoch: 1})
		synctest.Wait()
		r.WantAsked(asked(), zktest.OpDelete)
		if gone := r.Close(time.Second); !gone {
			t.Error("Close says that something may be left, want nothing: the server has answered")
		}
	})
}
