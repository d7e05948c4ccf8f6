package coordinator_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
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

func TestLostComesBeforeTheServerExpiresTheSession(t *testing.T) {
	for name, cut := range map[string]func(srv *zktest.Server, id int64){
		"server unreachable": func(srv *zktest.Server, id int64) { srv.Mute(id, true); srv.Cut(id) },
		"server mute":        func(srv *zktest.Server, id int64) { srv.Mute(id, true) },
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				victim, next := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
				a, _ := coordtest.Hold(t, victim.Mutex(lockPath))
				waiting := coordtest.Queue(next.Mutex(lockPath))
				start := time.Now()
				cut(srv, victim.SessionID())
				lost := <-a.Lost()
				told := time.Since(start)
				if lost.Reason != events.ReasonLeaseRanOut || !errors.Is(lost.Err, coordinator.ErrLeaseRanOut) || a.Valid() {
					t.Errorf("lost = %+v, valid %v", lost, a.Valid())
				}
				if _, err := waiting.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				if granted := time.Since(start); granted <= told {
					t.Errorf("told after %v, the next holder was granted after %v", told, granted)
				} else {
					t.Logf("told after %v, next holder after %v", told, granted)
				}
				srv.Mute(victim.SessionID(), false)
			})
		})
	}
}

func TestAShortOutageCostsNobodyALock(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		stream := c.Events(t.Context())
		a, grant := coordtest.Hold(t, c.Mutex(lockPath))
		w := coordtest.Queue(c.Mutex(lockPath))
		srv.Down(true)
		time.Sleep(4 * time.Second)
		if !a.Valid() || c.State() != coordinator.StateSuspended {
			t.Errorf("valid %v in state %v", a.Valid(), c.State())
		}
		srv.Down(false)
		time.Sleep(4 * time.Second)
		if !a.Valid() || c.State() != coordinator.StateConnected || c.SessionID() != grant.Session {
			t.Errorf("valid %v in state %v", a.Valid(), c.State())
		}
		a.Release()
		if next, err := w.Wait(t.Context()); err != nil || next.Token <= grant.Token {
			t.Errorf("%+v, %v", next, err)
		}
		var said []string
		for range 4 {
			said = append(said, fmt.Sprintf("%T", <-stream))
		}
		// The waiter's Queued is outdated by its Grant; whether that comes before
		// the Ended of the one who released is nobody's promise.
		if want := []string{"events.Grant", "events.Suspended", "events.Resumed"}; !slices.Equal(said[:3], want) {
			t.Errorf("the stream said %v", said)
		}
	})
}

func TestAWaiterWhoseSessionExpiresQueuesAgain(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		holder, _ := coordtest.Hold(t, other.Mutex(lockPath))
		stream := c.Events(t.Context())
		w := coordtest.Queue(c.Mutex(lockPath))
		first := c.SessionID()
		if err := srv.Expire(first); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(time.Second)
		holder.Release()
		grant, err := w.Wait(t.Context())
		if err != nil || grant.Session == first || grant.Session != c.SessionID() {
			t.Errorf("%+v, %v", grant, err)
		}
		for {
			switch ev := (<-stream).(type) {
			case events.Requeued:
				if ev.ID != w.ID() {
					t.Errorf("%+v", ev)
				}
				return
			case events.Grant:
				t.Fatal("granted without a word about the lost place")
			}
		}
	})
}

func TestNodesRemovedByHand(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		a, grant := coordtest.Hold(t, c.Mutex(lockPath))
		w := coordtest.Queue(c.Mutex(lockPath))
		for _, child := range srv.Children(lockPath) { // both of them
			if err := srv.Delete(lockPath + "/" + child); err != nil {
				t.Fatal(err)
			}
		}
		if lost := <-a.Lost(); lost.Reason != events.ReasonNodeRemoved || lost.Token != grant.Token {
			t.Errorf("%+v", lost)
		}
		<-a.Done()
		if next, err := w.Wait(t.Context()); err != nil || next.Token <= grant.Token {
			t.Errorf("%+v, %v", next, err)
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

func TestWithdrawnWhileTheServerIsAway(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		holder, _ := coordtest.Hold(t, c.Mutex(lockPath))
		waiter := coordtest.Queue(c.Mutex(lockPath))
		srv.Down(true)
		time.Sleep(time.Second)
		fresh := c.Mutex(lockPath).Acquire(t.Context(), coordinator.WithMaxWait(time.Second))
		waiter.Release()
		holder.Release()
		start := time.Now()
		<-waiter.Done()
		<-holder.Done()
		if waited := time.Since(start); waited > 0 {
			t.Errorf("waited %v for servers that are away", waited)
		}
		<-fresh.Done()
		if !errors.Is(fresh.Err(), coordinator.ErrTimeout) || !errors.Is(waiter.Err(), coordinator.ErrNotAcquired) || holder.Err() != nil {
			t.Errorf("%v, %v, %v", fresh.Err(), waiter.Err(), holder.Err())
		}
		if got := srv.Children(lockPath); len(got) != 2 {
			t.Errorf("children while away: %v", got)
		}
		srv.Down(false)
		time.Sleep(2 * time.Second)
		if got := srv.Children(lockPath); len(got) != 0 {
			t.Errorf("left behind: %v", got)
		}
	})
}
