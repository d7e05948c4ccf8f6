package coordinator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// The promises of the README, one test or more for each.

func TestGrantsFollowTheOrderOfTheQueueWithGrowingTokens(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		var all []*coordinator.Acquisition
		cs := []*coordinator.Coordinator{coordtest.Connect(t, srv), coordtest.Connect(t, srv), coordtest.Connect(t, srv)}
		for i := range 20 {
			all = append(all, coordtest.Queue(cs[i%len(cs)].Mutex(lockPath)))
		}
		var last int64
		for i, a := range all {
			grant, err := a.Wait(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for j, later := range all[i+1:] {
				if later.Valid() {
					t.Fatalf("%d holds beside %d", i+1+j, i)
				}
			}
			if grant.Token <= last || grant.Path != lockPath || grant.ID != a.ID() || !srv.Exists(grant.Node) {
				t.Errorf("grant %d = %+v after token %d", i, grant, last)
			}
			last = grant.Token
			a.Release()
			<-a.Done()
			if a.Err() != nil || srv.Exists(grant.Node) {
				t.Errorf("after the release: %v, node there: %v", a.Err(), srv.Exists(grant.Node))
			}
		}
	})
}

func TestTokensGrowWhenTheDirectoryIsRebornWithNumbersFromZero(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		a, before := coordtest.Hold(t, c.Mutex(lockPath))
		a.Release()
		<-a.Done()
		if err := srv.Delete(lockPath); err != nil {
			t.Fatal(err)
		}
		_, after := coordtest.Hold(t, c.Mutex(lockPath))
		if after.Node[len(after.Node)-10:] != "0000000000" || after.Token <= before.Token {
			t.Errorf("%+v after %+v", after, before)
		}
	})
}

// TestNoNodeIsLeftWhateverReplyIsLost cuts the connection at each request of an
// acquisition and its release, once before the server has executed it and once
// after, so that the reply is lost.
func TestNoNodeIsLeftWhateverReplyIsLost(t *testing.T) {
	const requests = 30 // more than the whole story takes
	for name, action := range map[string]zktest.Action{"request": zktest.CutBefore(), "reply": zktest.CutAfter()} {
		for nth := 1; nth <= requests; nth++ {
			t.Run(fmt.Sprintf("%s %d", name, nth), func(t *testing.T) {
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					c := coordtest.Connect(t, srv)
					count := 0
					srv.Intercept(func(r zktest.Request) zktest.Action {
						if r.Op == zktest.OpPing || r.Op == zktest.OpConnect {
							return zktest.Pass()
						}
						if count++; count == nth {
							return action
						}
						return zktest.Pass()
					})
					a, grant := coordtest.Hold(t, c.Mutex(lockPath))
					if got := srv.Children(lockPath); len(got) != 1 {
						t.Errorf("while holding: %v", got)
					}
					w := coordtest.Queue(c.Mutex(lockPath))
					time.Sleep(3 * time.Second)
					a.Release()
					next, err := w.Wait(t.Context())
					if err != nil || next.Token <= grant.Token {
						t.Fatalf("%+v, %v", next, err)
					}
					w.Release()
					<-a.Done()
					<-w.Done()
					time.Sleep(3 * time.Second)
					if got := srv.Children(lockPath); len(got) != 0 {
						t.Errorf("left behind: %v", got)
					}
					if a.Err() != nil || w.Err() != nil {
						t.Errorf("%v, %v", a.Err(), w.Err())
					}
				})
			})
		}
	}
}
