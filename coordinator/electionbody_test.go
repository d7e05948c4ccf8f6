package coordinator_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestABodyEndsBeforeTheNextLeads: the term is lost while the session lives, and the body takes its time to stop. The node
// stays until it has, as with a function in Do.
func TestABodyEndsBeforeTheNextLeads(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv, coordinator.WithLossOnSuspend()), coordtest.Connect(t, srv)
		begun, done := make(chan struct{}), make(chan struct{})
		var ended time.Time
		go func() {
			defer close(done)
			for term, err := range c.Election(electionPath).Terms(t.Context()) {
				if err != nil {
					t.Error(err)
					return
				}
				ctx := term.Context(t.Context())
				close(begun)
				<-ctx.Done()
				time.Sleep(3 * time.Second) // it winds down
				ended = time.Now()
				break
			}
		}()
		<-begun
		next := campaign(other, "next")
		synctest.Wait()
		srv.Cut(c.SessionID())
		coordtest.Soon(t, next)
		if at := time.Now(); ended.IsZero() || at.Before(ended) {
			t.Errorf("the next one leads, and the body has not ended")
		}
		<-done
	})
}

// TestAWishIsNoProclamation: what Curator's Revoker writes into the leader's node is not the leader's word.
func TestAWishIsNoProclamation(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		e := c.Election(electionPath)
		seen := e.Observe(t.Context())
		wantLeader(t, srv, seen, "")
		a := campaign(c, "ann:80")
		grant := coordtest.Soon(t, a)
		wantLeader(t, srv, seen, "ann:80")
		if err := srv.SetData(grant.Node, []byte(curatorsWish)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if l, said, _ := said(seen); said {
			t.Errorf("told %q", l.Data)
		}
		if err := e.Proclaim(t.Context(), a, []byte("ann:81")); err != nil {
			t.Fatal(err)
		}
		wantLeader(t, srv, seen, "ann:81")
	})
}

// TestAPastObserverLeavesTheNextAlone: names that have no GUID come again. An observer that has ended hears of a node that
// it had looked at, and takes nothing from the one that has begun since.
func TestAPastObserverLeavesTheNextAlone(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		const dir, zero, one = "/e", "/e/lock-0000000000", "/e/lock-0000000001"
		must(srv.Create(dir, nil))
		must(srv.Create(one, []byte("x")))
		c := coordtest.Connect(t, srv)
		id, step := c.SessionID(), 0
		srv.Intercept(func(q zktest.Request) zktest.Action {
			if q.Session != id || q.Op != zktest.OpGetData && q.Op != zktest.OpGetChildren2 {
				return zktest.Pass()
			}
			switch step++; step {
			case 2: // the leader that was listed is about to be read
				for _, node := range []string{one, dir} {
					must(srv.Delete(node))
				}
				must(srv.Create(dir, nil))
				must(srv.Create(zero, []byte("first")))
				must(srv.Create(one, []byte("second")))
			case 3: // the listing that follows
				return zktest.CutBefore()
			}
			return zktest.Pass()
		})
		ctx, end := context.WithCancel(t.Context())
		seen := c.Election(dir).Observe(ctx)
		time.Sleep(time.Minute)
		wantLeader(t, srv, seen, "first")
		end()
		synctest.Wait()
		stays := c.Election(dir).Observe(t.Context())
		wantLeader(t, srv, stays, "first")
		must(srv.Delete(one))
		time.Sleep(time.Minute)
		must(c.Close())
		if _, _, closed := said(stays); !closed {
			t.Error("the coordinator is closed and the channel is not")
		}
	})
}
