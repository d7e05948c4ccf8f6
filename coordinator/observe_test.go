package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// said is what an observer has heard that it has not read yet.
func said(seen <-chan events.Leader) (l events.Leader, ok, closed bool) {
	synctest.Wait()
	return heardSoFar(seen)
}

func heardSoFar(seen <-chan events.Leader) (l events.Leader, ok, closed bool) {
	select {
	case l, open := <-seen:
		return l, open, !open
	default:
		return events.Leader{}, false, false
	}
}

// wantLeader fails the test unless the observer was told just now that this one leads, by what it says. An empty text: nobody.
func wantLeader(t *testing.T, srv *zktest.Server, seen <-chan events.Leader, data string) (l events.Leader) {
	t.Helper()
	l, ok, closed := said(seen)
	switch {
	case !ok || closed:
		t.Fatalf("nothing was said (closed: %v), and %q leads", closed, data)
	case string(l.Data) != data || (data == "") != (l.Node == "") || (data == "") != (l.Token == 0):
		t.Fatalf("%+v leads, and not %q", l, data)
	case data != "" && !srv.Exists(l.Node):
		t.Fatalf("%+v leads, who is gone", l)
	}
	return l
}

// wantQuiet fails the test if something was said.
func wantQuiet(t *testing.T, seen <-chan events.Leader) {
	t.Helper()
	if l, ok, closed := said(seen); ok || closed {
		t.Fatalf("said %+v, closed: %v", l, closed)
	}
}

// TestObserve sees an election through, from before there is a path.
func TestObserve(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		seen := b.Election(electionPath).Observe(t.Context())
		wantLeader(t, srv, seen, "")
		if srv.Exists(path.Dir(electionPath)) {
			t.Error("to observe makes a path")
		}
		ann := campaign(a, "ann")
		first := wantLeader(t, srv, seen, "ann")
		if grant := coordtest.Soon(t, ann); grant.Token != first.Token || grant.Node != first.Node {
			t.Errorf("%+v, and %+v leads", grant, first)
		}
		bob, cleo, dan := campaign(b, "bob"), campaign(a, "cleo"), campaign(b, "dan")
		cleo.Release()
		wantQuiet(t, seen)
		if err := a.Election(electionPath).Proclaim(t.Context(), ann, []byte("ann again")); err != nil {
			t.Fatal(err)
		}
		if l := wantLeader(t, srv, seen, "ann again"); l.Node != first.Node || l.Token != first.Token {
			t.Errorf("%+v, and before %+v", l, first)
		}
		second := b.Election(electionPath).Observe(t.Context())
		wantLeader(t, srv, second, "ann again")
		ann.Release()
		if l := wantLeader(t, srv, seen, "bob"); l.Token <= first.Token {
			t.Errorf("%+v behind %+v", l, first)
		}
		wantLeader(t, srv, second, "bob")
		coordtest.Soon(t, bob)
		bob.Release()
		wantLeader(t, srv, seen, "dan")
		coordtest.Soon(t, dan)
		dan.Release()
		wantLeader(t, srv, seen, "")
		if err := srv.Delete(electionPath); err != nil {
			t.Fatal(err)
		}
		if err := srv.Delete(path.Dir(electionPath)); err != nil {
			t.Fatal(err)
		}
		wantQuiet(t, seen)
		eve := campaign(a, "eve")
		wantLeader(t, srv, seen, "eve")
		eve.Release()
		wantLeader(t, srv, seen, "")
		wantLeader(t, srv, second, "")
	})
}

// TestASlowObserverHearsTheLatest, of each of two, who do not wait for each other.
func TestASlowObserverHearsTheLatest(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		e := c.Election(electionPath)
		slow, quick := e.Observe(t.Context()), e.Observe(t.Context())
		wantLeader(t, srv, quick, "")
		var last *coordinator.Acquisition
		for _, name := range []string{"ann", "bob", "cleo"} {
			if last != nil {
				last.Release()
				wantLeader(t, srv, quick, "")
			}
			last = campaign(c, name)
			l := wantLeader(t, srv, quick, name)
			l.Data[0] = 'x' // the reader's own
		}
		wantLeader(t, srv, slow, "cleo")
		wantQuiet(t, slow)
	})
}

// TestObserversEnd with their contexts, with the coordinator, and where nothing can be seen: the channel is closed.
func TestObserversEnd(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		core, logs := observer.New(zap.WarnLevel)
		c := coordtest.Connect(t, srv, coordinator.WithLogger(zap.New(core)))
		e := c.Election(electionPath)
		over, end := context.WithCancel(t.Context())
		end()
		isOver := func(what string, seen <-chan events.Leader) {
			t.Helper()
			if _, ok, _ := said(seen); ok {
				said(seen) // what was not read yet comes before
			}
			if _, _, closed := said(seen); !closed {
				t.Errorf("%s: not closed", what)
			}
		}
		isOver("a context that is over", e.Observe(over))
		some, end := context.WithCancel(t.Context())
		ends, stays := e.Observe(some), e.Observe(t.Context())
		wantLeader(t, srv, ends, "")
		wantLeader(t, srv, stays, "")
		end()
		isOver("a context that ends", ends)
		ann := campaign(c, "ann")
		wantLeader(t, srv, stays, "ann")
		for i := range 100 { // before, while and after it is first looked
			short, end := context.WithCancel(t.Context())
			seen := e.Observe(short)
			if i%2 == 0 {
				synctest.Wait()
			}
			end()
			isOver("one of many", seen)
		}
		if n := logs.Len(); n != 0 {
			t.Errorf("%d warnings", n)
		}
		isOver("no path", c.Election("service").Observe(t.Context()))

		adm := coordtest.Admin(t, srv.Addr(), srv.DialContext)
		if _, err := adm.Create("/closed", nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll&^zk.PermRead)); err != nil {
			t.Fatal(err)
		}
		isOver("a path that may not be read", c.Election("/closed").Observe(t.Context()))
		if _, err := c.Election("/closed").Queue(t.Context()); !errors.Is(err, coordinator.ErrNoAuth) {
			t.Errorf("Queue says %v", err)
		}
		if _, err := adm.Create("/hidden", nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		hidden := c.Election("/hidden").Observe(t.Context())
		wantLeader(t, srv, hidden, "")
		if _, err := adm.Create("/hidden/lock-0000000000", nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll&^zk.PermRead)); err != nil {
			t.Fatal(err)
		}
		isOver("a leader who may not be read", hidden)
		if n := logs.FilterMessage("cannot see who leads").Len(); n != 3 {
			t.Errorf("%d warnings", n)
		}
		wantQuiet(t, stays)
		if !ann.Valid() {
			t.Error("the leader does not lead any more")
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		isOver("a coordinator that was closed", stays)
		isOver("a coordinator that is closed", e.Observe(t.Context()))
	})
}

// TestObserversOutliveConnections, and sessions: what was said last stands until there is something else to say.
func TestObserversOutliveConnections(t *testing.T) {
	for name, outage := range map[string]func(srv *zktest.Server, c *coordinator.Coordinator, change func()){
		"cut": func(srv *zktest.Server, c *coordinator.Coordinator, change func()) { srv.Cut(c.SessionID()); change() },
		"muted": func(srv *zktest.Server, c *coordinator.Coordinator, change func()) {
			id := c.SessionID()
			srv.Mute(id, true)
			change()
			time.Sleep(8 * time.Second)
			srv.Mute(id, false)
		},
		"expired": func(srv *zktest.Server, c *coordinator.Coordinator, change func()) {
			_ = srv.Expire(c.SessionID())
			change()
		},
		"lost": func(srv *zktest.Server, c *coordinator.Coordinator, change func()) {
			id := c.SessionID()
			srv.Mute(id, true)
			change()
			time.Sleep(time.Minute)
			srv.Mute(id, false)
		},
		"on a follower that lags": func(srv *zktest.Server, c *coordinator.Coordinator, change func()) {
			id := c.SessionID()
			srv.Lag(id, true)
			change()
			time.Sleep(time.Minute)
			srv.Lag(id, false)
		},
	} {
		for what, change := range map[string]func(srv *zktest.Server, ann, bob *coordinator.Acquisition) string{
			"nothing":        func(*zktest.Server, *coordinator.Acquisition, *coordinator.Acquisition) string { return "" },
			"another leader": func(_ *zktest.Server, ann, _ *coordinator.Acquisition) string { ann.Release(); return "bob" },
			"another word": func(srv *zktest.Server, ann, _ *coordinator.Acquisition) string {
				_ = srv.SetData(ann.Grant().Node, []byte("ann again"))
				return "ann again"
			},
			"nobody": func(_ *zktest.Server, ann, bob *coordinator.Acquisition) string {
				bob.Release()
				ann.Release()
				return "nobody"
			},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
					ann, bob := campaign(c, "ann"), campaign(c, "bob")
					coordtest.Soon(t, ann)
					seen := other.Election(electionPath).Observe(t.Context())
					wantLeader(t, srv, seen, "ann")
					want := ""
					outage(srv, other, func() {
						synctest.Wait()
						want = change(srv, ann, bob)
						wantQuiet(t, seen)
					})
					time.Sleep(time.Minute)
					switch want {
					case "":
						wantQuiet(t, seen)
						want = "ann"
					case "nobody":
						want = ""
						fallthrough
					default:
						wantLeader(t, srv, seen, want)
					}
					if want == "ann" || want == "ann again" { // and it hears of what comes behind
						ann.Release()
						wantLeader(t, srv, seen, "bob")
					}
					bob.Release()
					if want != "" {
						wantLeader(t, srv, seen, "")
					}
					campaign(c, "cleo")
					wantLeader(t, srv, seen, "cleo")
				})
			})
		}
	}
}

// TestObserveBeforeThereIsAConnection: it begins with the first one, and a coordinator that is closed meanwhile closes the channel.
func TestObserveBeforeThereIsAConnection(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		campaign(c, "ann")
		srv.Down(true)
		other := c.Election(electionPath)
		seen := other.Observe(t.Context())
		wantQuiet(t, seen)
		srv.Down(false)
		time.Sleep(10 * time.Second)
		wantLeader(t, srv, seen, "ann")
		srv.Down(true)
		time.Sleep(time.Second)
		late := c.Election("/elsewhere").Observe(t.Context())
		wantQuiet(t, late)
		if err := c.Close(); err == nil {
			t.Error("closed in order without a server")
		}
		if _, _, closed := said(late); !closed {
			t.Error("not closed")
		}
	})
}

// TestAChangeRightBehindAReading: its event comes together with the answer, and whichever is heeded first, it is not overlooked.
func TestAChangeRightBehindAReading(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		ann := campaign(c, "ann")
		grant := coordtest.Soon(t, ann)
		session := other.SessionID()
		srv.Intercept(func(q zktest.Request) zktest.Action {
			if q.Session == session && q.Op == zktest.OpGetData {
				return zktest.Delay(time.Second) // it is executed, and the watch armed
			}
			return zktest.Pass()
		})
		for round := range 50 {
			ctx, end := context.WithCancel(t.Context())
			seen := other.Election(electionPath).Observe(ctx)
			wantQuiet(t, seen)
			word := fmt.Sprint("word ", round)
			if err := srv.SetData(grant.Node, []byte(word)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			wantLeader(t, srv, seen, word)
			end()
			synctest.Wait()
			if err := srv.SetData(grant.Node, []byte("nothing is armed any more")); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
	})
}

// TestObserveWhereASemaphoreStands: both look out for changes of one directory, and neither takes the other's watch for what it is
// not.
func TestObserveWhereASemaphoreStands(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		leases := c.Election("/permits/leases").Observe(t.Context())
		wantLeader(t, srv, leases, "")
		s := c.Semaphore("/permits", 1)
		last := s.Acquire(t.Context())
		coordtest.Soon(t, last)
		for range 5 {
			next := s.Acquire(t.Context())
			synctest.Wait()
			last.Release()
			coordtest.Soon(t, next)
			last = next
		}
		last.Release()
		<-last.Done()
		for _, name := range []string{"ann", "bob"} {
			node := "/permits/leases/lock-0000000000"
			if err := srv.Create(node, []byte(name)); err != nil {
				t.Fatal(err)
			}
			wantLeader(t, srv, leases, name)
			if err := srv.Delete(node); err != nil {
				t.Fatal(err)
			}
			wantLeader(t, srv, leases, "")
		}
	})
}
