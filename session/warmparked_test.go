package session_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// crowd leaves no room for another urgent request: nothing is answered.
func crowd(r *sessiontest.Rig) {
	r.Helper()
	r.Server.Intercept(func(q zktest.Request) zktest.Action {
		if q.Op == zktest.OpDelete || q.Op == zktest.OpMulti {
			return zktest.Swallow()
		}
		return zktest.Pass()
	})
	s := r.Seated()
	for range 256 {
		s.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: "none"}})
	}
	synctest.Wait()
}

// TestAWarmAdvanceThatHasWaitedForAnotherConnection finds that the own node is gone, though no event tells that.
func TestAWarmAdvanceThatHasWaitedForAnotherConnection(t *testing.T) {
	const other = "lock-0000000000"
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Warm()
		r.Plant(other)
		pred := r.Seated()
		node := pred.CreateNode(1).Text
		token := pred.ListNodes(1).Own.Token
		waiter := r.Seated()
		own := waiter.CreateNode(1).Text
		waiter.ListNodes(1)
		waiter.WatchNode(node)
		waiter.Want("")
		pred.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: node}})
		r.Must(r.Server.SetData(sessiontest.Dir, []byte(floorOf(token))))
		waiter.WantGone(node)
		crowd(r)
		waiter.Do(recipes.Advance{Epoch: 1, Node: events.Name{Text: own}, Past: events.Name{Text: node}, Next: events.Name{Text: other}}) // it waits for room
		waiter.Want("")
		r.On(zktest.OpSetWatches, zktest.Fail(zktest.MarshallingError)) // so that nothing is told before requests are made
		r.Server.Cut(r.Only())
		r.DeleteNode(own)
		r.Settle()
		told := waiter.Fresh()
		if !slices.Contains(told, recipes.Input(recipes.Refused{Epoch: 1, Op: recipes.OpAdvance, Missing: true})) {
			r.Errorf("the waiter is told %+v, want to hear that its node is missing", told)
		}
	})
}
