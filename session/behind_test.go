package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// The end of the session is asked for when everything under way has been answered, and not before: the client answers a
// request twice that is under way when it is closed, and has not always room for both answers.
func TestTheEndOfASessionIsAskedForBehindItsRequests(t *testing.T) {
	const late, grace = time.Second, 2 * time.Second
	sessiontest.Bubble(t, func(r *sessiontest.Rig) {
		r.Open("")
		s := r.Seat()
		s.Want("Opened")
		var asked time.Time
		r.Server.Intercept(func(q zktest.Request) zktest.Action {
			switch q.Op {
			case zktest.OpClose:
				asked = time.Now()
			case zktest.OpMulti:
				return zktest.Delay(late)
			default: // at once
			}
			return zktest.Pass()
		})
		s.Claim(recipes.Claim{Epoch: 1, Node: "none"})
		synctest.Wait()
		start := time.Now()
		r.Session.Close(grace)
		if after := asked.Sub(start); after != late {
			t.Errorf("asked for after %v, and the answer came after %v", after, late)
		}
	})
}
