package zktest_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// once acts on the first request of a kind only.
func once(op zktest.Op, act zktest.Action) func(zktest.Request) zktest.Action {
	var used sync.Once
	return func(r zktest.Request) zktest.Action {
		got := zktest.Pass()
		if r.Op == op {
			used.Do(func() { got = act })
		}
		return got
	}
}

func TestInterceptSeesEachRequest(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := zktest.Start(t)
		var mu sync.Mutex
		var seen []zktest.Request
		s.Intercept(func(r zktest.Request) zktest.Action {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, r)
			return zktest.Pass()
		})
		c := memoryClient(t, s, 10*time.Second)
		c.make("/x", 0)
		c.make("/y", 0)
		if _, err := c.Multi(&zk.CheckVersionRequest{Path: "/x", Version: -1}, &zk.DeleteRequest{Path: "/y", Version: -1}); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(seen) != 4 {
			t.Fatalf("the hook saw %v, want 4 requests", seen)
		}
		if r := seen[0]; r.Op != zktest.OpConnect || r.Session != 0 {
			t.Errorf("the first request is %+v, want the handshake", r)
		}
		if r := seen[2]; r.Op != zktest.OpCreate || r.Path != "/y" || r.Count != 2 || r.Session != c.SessionID() {
			t.Errorf("the third request is %+v, want the session's second create, of /y", r)
		}
		want := []zktest.Part{{Op: zktest.OpCheck, Path: "/x"}, {Op: zktest.OpDelete, Path: "/y"}}
		if r := seen[3]; r.Op != zktest.OpMulti || r.Path != "/x" || !slices.Equal(r.Parts, want) {
			t.Errorf("the fourth request is %+v, want a multi of %v", r, want)
		}
	})
}

func TestInterceptDelaysTheAnswerOnly(t *testing.T) {
	withClient(t, func(t *testing.T, s *zktest.Server, c *client) {
		s.Intercept(once(zktest.OpCreate, zktest.Delay(3*time.Second)))
		var work sync.WaitGroup
		work.Go(func() {
			if _, err := c.Create("/x", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
				t.Errorf("a create with a late answer: %v, want success", err)
			}
		})
		synctest.Wait()
		if !s.Exists("/x") {
			t.Error("while the answer is held back the node is missing, want the request executed")
		}
		start := time.Now()
		c.settle() // on the same connection, so behind the answer held back
		took(t, "a later answer", start, 3*time.Second)
		work.Wait()
	})
}

func TestInterceptFailAndSwallow(t *testing.T) {
	withClient(t, func(t *testing.T, s *zktest.Server, c *client) {
		s.Intercept(once(zktest.OpCreate, zktest.Fail(zktest.NoAuth)))
		if _, err := c.Create("/x", nil, 0, zk.WorldACL(zk.PermAll)); !errors.Is(err, zk.ErrNoAuth) || s.Exists("/x") {
			t.Errorf("a create that fails by hand: %v, want %v and no node", err, zk.ErrNoAuth)
		}
		s.Intercept(once(zktest.OpCreate, zktest.Swallow()))
		var work sync.WaitGroup
		work.Go(func() {
			c.isCut("/y")
		})
		synctest.Wait()
		if !s.Exists("/y") {
			t.Error("the answer is swallowed and the node is missing, want the request executed")
		}
		c.settle() // the connection lives
		s.Cut(c.SessionID())
		work.Wait()
	})
}

func TestInterceptMayUseTheServer(t *testing.T) {
	withClient(t, func(t *testing.T, s *zktest.Server, c *client) {
		id := c.SessionID()
		s.Intercept(func(r zktest.Request) zktest.Action {
			if r.Op == zktest.OpCreate && r.Session == id {
				if err := s.Expire(id); err != nil {
					t.Errorf("expire: %v", err)
				}
			}
			return zktest.Pass()
		})
		c.isCut("/x")
		if s.Exists("/x") {
			t.Error("the node of a session that expired before the request is there, want it missing")
		}
	})
}
