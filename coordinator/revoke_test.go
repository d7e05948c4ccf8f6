package coordinator_test

import (
	"context"
	"path"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// grace is the time that holders are given here.
const grace = 3 * time.Second

// patience is how long after that a holder is removed: the session timeout, and a quarter of it.
const patience = timeoutOfAll + timeoutOfAll/4

// timeoutOfAll is the session timeout of everybody who does not say otherwise.
const timeoutOfAll = 10 * time.Second

// revocableKinds returns a handle for each kind of lock that can be asked for, at one path.
func revocableKinds() map[string]func(*coordinator.Coordinator) acquirer {
	r := coordinator.Revocable()
	return map[string]func(*coordinator.Coordinator) acquirer{
		"mutex":           func(c *coordinator.Coordinator) acquirer { return c.Mutex(lockPath, r) },
		"reentrant mutex": func(c *coordinator.Coordinator) acquirer { return c.Mutex(lockPath, r, coordinator.Reentrant()) },
		"read":            func(c *coordinator.Coordinator) acquirer { return c.ReadWrite(lockPath, r).Read() },
		"write":           func(c *coordinator.Coordinator) acquirer { return c.ReadWrite(lockPath, r).Write() },
		"semaphore":       func(c *coordinator.Coordinator) acquirer { return c.Semaphore(lockPath, 1, r) },
		"kazoo's names":   func(c *coordinator.Coordinator) acquirer { return c.Mutex(lockPath, r, coordinator.AsKazoo()) },
		"election":        func(c *coordinator.Coordinator) acquirer { return campaigner{c.Election(lockPath, r)} },
	}
}

// revoking has somebody ask for the lock.
func revoking(ctx context.Context, c *coordinator.Coordinator, grace time.Duration) <-chan error {
	result := make(chan error, 1)
	go func() { result <- c.Revoke(ctx, lockPath, grace) }()
	return result
}

// around tells whether a time has passed, give or take a tenth of the session timeout, in which a node may not be watched yet.
func around(got, want time.Duration) bool {
	return got >= want-10*time.Millisecond && got <= want+timeoutOfAll/10+100*time.Millisecond
}

// dataOfHolder returns what a queue shows of who holds.
func dataOfHolder(t *testing.T, c *coordinator.Coordinator, kind string) string {
	t.Helper()
	look := c.Mutex(lockPath).Queue
	switch kind {
	case "read", "write":
		look = c.ReadWrite(lockPath).Queue
	case "semaphore":
		look = c.Semaphore(lockPath, 1).Queue
	}
	queue, err := look(t.Context())
	if err != nil || len(queue) == 0 || !queue[0].Holding {
		t.Fatalf("queue: %+v, %v", queue, err)
	}
	return string(queue[0].Data)
}

// deaf has the session's reads be refused for the moment, again and again, so that it does not learn what its node says.
func deaf(srv *zktest.Server, session int64) {
	srv.Intercept(func(r zktest.Request) zktest.Action {
		if r.Session == session && r.Op == zktest.OpGetData {
			return zktest.Fail(zktest.Throttled)
		}
		return zktest.Pass()
	})
}

// TestAProclamationDoesNotOverruleAWish: the leader overwrites it, and hears of what is left of the time, which is no news.
func TestAProclamationDoesNotOverruleAWish(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		stream := c.Events(t.Context())
		seen := operator.Election(lockPath).Observe(t.Context())
		election := c.Election(lockPath, coordinator.Revocable())
		leader := election.Campaign(t.Context(), coordinator.WithData([]byte("one")))
		grant := coordtest.Soon(t, leader)
		time.Sleep(5 * time.Second)
		asked := time.Now()
		done := revoking(t.Context(), operator, grace)
		time.Sleep(time.Second)
		if err := election.Proclaim(t.Context(), leader, []byte("two")); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if data, _ := srv.Data(grant.Node); string(data) != "__REVOKE__ 2000\ntwo" {
			t.Errorf("data: %q", data)
		}
		if said := <-seen; string(said.Data) != "two" {
			t.Errorf("observed %+v", said)
		}
		if told := wishes(stream); len(told) != 1 {
			t.Errorf("told %+v", told)
		}
		if err := <-done; err != nil || time.Since(asked) != grace {
			t.Errorf("Revoke: %v after %v", err, time.Since(asked))
		}
	})
}

// stranger returns what makes nodes that go with the session of somebody who is none of ours.
func stranger(t *testing.T, srv *zktest.Server) (create func(node string, data []byte) error) {
	t.Helper()
	a, _ := coordtest.Hold(t, coordtest.Connect(t, srv).Mutex("/elsewhere"))
	return func(node string, data []byte) error {
		if dir := path.Dir(node); !srv.Exists(dir) {
			if err := srv.Create(dir, nil); err != nil {
				return err
			}
		}
		_, err := a.Txn(t.Context(), &zk.CreateRequest{Path: node, Data: data, Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral})
		return err
	}
}

// TestHoldersOfOtherLibrariesAreAskedInTheirWay, and removed if they do not hear it.
func TestHoldersOfOtherLibrariesAreAskedInTheirWay(t *testing.T) {
	for _, node := range []string{
		"_c_4f1c0a52-7c39-4a0e-9a3c-d2b1c5a7e9f0-lock-0000000007", "leases/_c_4f1c0a52-7c39-4a0e-9a3c-d2b1c5a7e9f0-lease-0000000007",
		"lock-0000000007", "4f1c0a527c394a0e9a3cd2b1c5a7e9f0__lock__0000000007", "x-72057594037927936-0000000007",
		"_c_4f1c0a52-7c39-4a0e-9a3c-d2b1c5a7e9f0-__READ__0000000007",
	} {
		for _, hears := range []bool{true, false} {
			t.Run(node+map[bool]string{true: ", which hears"}[hears], func(t *testing.T) {
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					c := coordtest.Connect(t, srv)
					node := path.Join(lockPath, node)
					if err := stranger(t, srv)(node, []byte("theirs")); err != nil {
						t.Fatal(err)
					}
					asked := time.Now()
					done := revoking(t.Context(), c, grace)
					time.Sleep(time.Second)
					if data, _ := srv.Data(node); string(data) != curatorsWish {
						t.Errorf("data: %q", data)
					}
					took := grace + patience
					if hears {
						took = 2 * time.Second
						time.Sleep(time.Second)
						if err := srv.Delete(node); err != nil {
							t.Error(err)
						}
					}
					if err := <-done; err != nil || !around(time.Since(asked), took) || srv.Exists(node) {
						t.Errorf("Revoke: %v after %v", err, time.Since(asked))
					}
				})
			})
		}
	}
}

// TestANodeThatBearsTheNameOfAnotherIsLeftAlone: names without a GUID come again.
func TestANodeThatBearsTheNameOfAnotherIsLeftAlone(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		node := lockPath + "/lock-0000000000"
		create := stranger(t, srv)
		if err := create(node, nil); err != nil {
			t.Fatal(err)
		}
		done := revoking(t.Context(), c, grace)
		time.Sleep(time.Second)
		srv.Lag(c.SessionID(), true)
		for _, err := range []error{srv.Delete(node), create(node, []byte("another"))} {
			if err != nil {
				t.Fatal(err)
			}
		}
		srv.Lag(c.SessionID(), false)
		if err := <-done; err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if data, ok := srv.Data(node); !ok || string(data) != "another" {
			t.Errorf("%q, %v", data, ok)
		}
	})
}
