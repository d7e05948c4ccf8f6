package session_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestACreateIsTakenBackUnlessItWasSent: behind a Cancel it is answered Canceled if it waits, and as ever if it does not.
func TestACreateIsTakenBackUnlessItWasSent(t *testing.T) {
	for name, c := range map[string]struct {
		down   bool
		cancel recipes.Epoch
		want   string
		nodes  int
	}{
		"it waits for a connection": {true, 1, "Canceled", 0},
		"of another epoch":          {true, 2, "", 1},
		"it is at the server":       {false, 1, "", 1},
	} {
		sessiontest.Run(t, name, func(r *sessiontest.Rig) {
			s := r.Seated()
			r.Server.Intercept(func(zktest.Request) zktest.Action { return zktest.Delay(time.Second) })
			if c.down {
				r.Server.Down(true)
				s.Want("Suspended")
			}
			s.Create(recipes.Create{Epoch: 1, Attempt: 1})
			synctest.Wait()
			s.Cancel(recipes.Cancel{Epoch: c.cancel})
			s.Cancel(recipes.Cancel{Epoch: c.cancel}) // which says nothing new
			s.Want(c.want)
			r.Server.Down(false)
			r.Settle()
			time.Sleep(10 * time.Second)
			if got := len(r.Server.Children(sessiontest.Dir)); got != c.nodes {
				r.Errorf("%d nodes are made, want %d", got, c.nodes)
			}
		})
	}
}

// TestWhatNobodyWantsIsNotSent: what a seat has asked for goes with the seat, a delete excepted, and so do a look and a size with those who
// have given up.
func TestWhatNobodyWantsIsNotSent(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		leaves, lists := r.Seated(), r.Seated()
		node := leaves.Makes(1).Node.Text
		r.Server.Down(true)
		leaves.Want("Suspended")
		lists.Want("Suspended")
		leaves.Delete(recipes.Delete{Epoch: 1, Node: node, Floor: true})
		lists.List(recipes.List{Epoch: 1})
		leaves.Close()
		lists.Close()
		ctx, cancel := context.WithCancel(r.Context())
		words := r.Session.Observe(ctx, "/locks/election")
		resized := make(chan error, 1)
		go func() { resized <- r.Session.Resize(ctx, "/locks/permits", 3, nil) }()
		synctest.Wait()
		cancel()
		if err := <-resized; !errors.Is(err, context.Canceled) {
			r.Errorf("the size: %v, want %v", err, context.Canceled)
		}
		if word, told := <-words; told {
			r.Errorf("the observer is told %+v, want nothing", word)
		}
		synctest.Wait()
		asked := r.Asked()
		r.Server.Down(false)
		r.Settle()
		got := asked()
		delete(got, zktest.OpConnect)
		delete(got, zktest.OpSetWatches)
		if len(got) != 1 || got[zktest.OpDelete] != 1 {
			r.Errorf("the server is asked for %v, want one delete", got)
		}
	})
}
