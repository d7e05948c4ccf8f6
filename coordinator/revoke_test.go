package coordinator_test

import (
	"context"
	"errors"
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
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

// TestARevokedHolderLosesTheLockAtTheDeadline: he is told by when, keeps the lock and his data until then, and hears of the loss before
// anybody else has the lock; then Revoke returns.
func TestARevokedHolderLosesTheLockAtTheDeadline(t *testing.T) {
	for name, lock := range revocableKinds() {
		for _, watched := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", watched"}[watched], func(t *testing.T) {
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					a, b, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv), coordtest.Connect(t, srv)
					stream := a.Events(t.Context())
					holder := lock(a).Acquire(t.Context(), coordinator.WithData([]byte("job 17")))
					grant := coordtest.Soon(t, holder)
					behind := lock(b)
					if name == "read" {
						behind = b.ReadWrite(lockPath).Write()
					}
					waiter := behind.Acquire(t.Context())
					if watched {
						time.Sleep(5 * time.Second)
					}
					asked := time.Now()
					done := revoking(t.Context(), operator, grace)
					time.Sleep(grace - time.Second + timeoutOfAll/10*9/10)
					if told := wishes(stream); len(told) != 1 || told[0].ID != holder.ID() || told[0].Path != lockPath || !around(told[0].Deadline.Sub(asked), grace) {
						t.Fatalf("told %+v at %v", told, asked)
					} else if !holder.Valid() || waiter.Valid() || len(done) > 0 {
						t.Fatalf("holder: %v, waiter: %v, revoked: %d", holder.Valid(), waiter.Valid(), len(done))
					} else {
						time.Sleep(time.Until(told[0].Deadline) - time.Millisecond)
					}
					if data, _ := srv.Data(grant.Node); !holder.Valid() || !strings.HasPrefix(string(data), "__REVOKE__ 3000\n") || !strings.HasSuffix(string(data), "\njob 17") {
						t.Errorf("at the deadline: %v, data %q", holder.Valid(), data)
					}
					if got := dataOfHolder(t, operator, name); got != "job 17" {
						t.Errorf("the queue shows %q", got)
					}
					coordtest.Soon(t, waiter)
					if holder.Valid() || len(holder.Lost()) != 1 { // it is there, and nobody has read it
						t.Fatal("somebody else has it, and the holder has not been told")
					}
					if lost := <-holder.Lost(); lost.Reason != events.ReasonRevoked || !errors.Is(lost.Err, coordinator.ErrRevoked) ||
						!around(lost.Held, time.Since(asked)) && !watched {
						t.Errorf("lost: %+v", lost)
					}
					if err := <-done; err != nil {
						t.Errorf("Revoke: %v", err)
					}
					if took := time.Since(asked); !around(took, grace) {
						t.Errorf("it took %v", took)
					}
					<-holder.Done()
					if err := holder.Err(); !errors.Is(err, coordinator.ErrRevoked) {
						t.Errorf("Err: %v", err)
					}
				})
			})
		}
	}
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

// TestAHolderWhoReleasesInTime has lost nothing, and ends the revocation.
func TestAHolderWhoReleasesInTime(t *testing.T) {
	for name, lock := range revocableKinds() {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				stream := c.Events(t.Context())
				holder := lock(c).Acquire(t.Context())
				coordtest.Soon(t, holder)
				asked := time.Now()
				done := revoking(t.Context(), coordtest.Connect(t, srv), grace)
				time.Sleep(2 * time.Second)
				if told := wishes(stream); len(told) != 1 {
					t.Fatalf("told %+v", told)
				}
				holder.Release()
				if err := <-done; err != nil || time.Since(asked) > grace {
					t.Errorf("Revoke: %v after %v", err, time.Since(asked))
				}
				time.Sleep(grace)
				if err := holder.Err(); err != nil || len(holder.Lost()) > 0 {
					t.Errorf("Err: %v", err)
				}
				again := lock(c).Acquire(t.Context()) // another node is another wish
				coordtest.Soon(t, again)
				time.Sleep(3 * grace)
				if !again.Valid() || len(wishes(stream)) > 0 {
					t.Error("the next one was asked, too")
				}
				if n := srv.Watches(); n > 1 {
					t.Errorf("%d watches are left", n)
				}
			})
		})
	}
}

// TestDoIsCancelledAtTheDeadlineAndKeepsTheNode: the context ends, the node goes when the function has returned; if it does not, somebody removes
// it a session timeout later.
func TestDoIsCancelledAtTheDeadlineAndKeepsTheNode(t *testing.T) {
	for _, c := range []struct {
		name    string
		lingers time.Duration
		took    time.Duration
	}{
		{"returns at once", 0, grace},
		{"returns late", 4 * time.Second, grace + 4*time.Second},
		{"does not return in time", time.Minute, grace + patience},
	} {
		t.Run(c.name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				holder, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
				ended := make(chan error, 1)
				began, cancelled := make(chan struct{}), make(chan error, 1)
				go func() {
					ended <- holder.Mutex(lockPath, coordinator.Revocable()).Do(t.Context(), func(ctx context.Context, _ events.Grant) error {
						close(began)
						<-ctx.Done()
						cancelled <- context.Cause(ctx)
						time.Sleep(c.lingers)
						return nil
					})
				}()
				<-began
				waiter := coordtest.Queue(other.Mutex(lockPath))
				asked := time.Now()
				done := revoking(t.Context(), other, grace)
				if err := <-cancelled; !errors.Is(err, coordinator.ErrRevoked) || !around(time.Since(asked), grace) {
					t.Errorf("cancelled with %v after %v", err, time.Since(asked))
				}
				if err := <-done; err != nil || !around(time.Since(asked), c.took) {
					t.Errorf("Revoke: %v after %v, want %v", err, time.Since(asked), c.took)
				}
				coordtest.Soon(t, waiter)
				if err := <-ended; !errors.Is(err, coordinator.ErrRevoked) {
					t.Errorf("Do: %v", err)
				}
			})
		})
	}
}

// TestAHolderWhoHearsNothingIsRemoved: its server lets it read nothing for the moment, whatever happens. It hears of the end of its node
// by its next write.
func TestAHolderWhoHearsNothingIsRemoved(t *testing.T) {
	for name, lock := range revocableKinds() {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
				stream := c.Events(t.Context())
				holder := lock(c).Acquire(t.Context())
				coordtest.Soon(t, holder)
				time.Sleep(5 * time.Second)
				deaf(srv, c.SessionID())
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				asked := time.Now()
				if err := operator.Revoke(ctx, lockPath, grace); err != nil || !around(time.Since(asked), grace+patience) {
					t.Fatalf("Revoke: %v after %v", err, time.Since(asked))
				}
				lost := <-holder.Lost()
				if lost.Reason != events.ReasonNodeRemoved || len(wishes(stream)) > 0 {
					t.Errorf("lost: %+v", lost)
				}
			})
		})
	}
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

// TestAllWhoHoldAreAsked: readers, and those who hold permits, in whatever process, and nobody else.
func TestAllWhoHoldAreAsked(t *testing.T) {
	t.Run("readers", func(t *testing.T) {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			cs := []*coordinator.Coordinator{coordtest.Connect(t, srv), coordtest.Connect(t, srv), coordtest.Connect(t, srv)}
			var readers []*coordinator.Acquisition
			for _, c := range cs {
				r, _ := coordtest.Hold(t, c.ReadWrite(lockPath, coordinator.Revocable()).Read())
				readers = append(readers, r)
			}
			writer := coordtest.Queue(cs[0].ReadWrite(lockPath).Write())
			late := coordtest.Queue(cs[1].ReadWrite(lockPath).Read())
			if err := cs[2].Revoke(t.Context(), lockPath, grace); err != nil {
				t.Error(err)
			}
			for _, r := range readers {
				if !errors.Is(r.Err(), coordinator.ErrRevoked) {
					t.Errorf("reader: %v", r.Err())
				}
			}
			coordtest.Soon(t, writer)
			time.Sleep(time.Minute)
			if !writer.Valid() {
				t.Error("who came to hold the lock later was asked, too")
			}
			writer.Release()
			coordtest.Soon(t, late)
		})
	})
	t.Run("permits", func(t *testing.T) {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
			stream := a.Events(t.Context())
			handle := func(c *coordinator.Coordinator) *coordinator.Semaphore {
				return c.Semaphore(lockPath, 5, coordinator.Revocable())
			}
			three := handle(a).Acquire(t.Context(), coordinator.WithPermits(3), coordinator.WithData([]byte("three")))
			two := handle(b).Acquire(t.Context(), coordinator.WithPermits(2))
			coordtest.Soon(t, three)
			coordtest.Soon(t, two)
			all := handle(b).Acquire(t.Context(), coordinator.WithPermits(5))
			done := revoking(t.Context(), b, grace)
			time.Sleep(2 * time.Second)
			if told := wishes(stream); len(told) != 1 || told[0].ID != three.ID() {
				t.Errorf("told %+v", told)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
			for _, h := range []*coordinator.Acquisition{three, two} {
				if !errors.Is(h.Err(), coordinator.ErrRevoked) {
					t.Errorf("holder: %v", h.Err())
				}
			}
			coordtest.Soon(t, all)
		})
	})
	t.Run("permits by force", func(t *testing.T) {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
			handle := a.Semaphore(lockPath, 5, coordinator.Revocable())
			began := make(chan struct{})
			ended := make(chan error, 1)
			go func() {
				ended <- handle.Do(t.Context(), func(context.Context, events.Grant) error {
					close(began)
					time.Sleep(time.Minute)
					return nil
				}, coordinator.WithPermits(4))
			}()
			<-began
			asked := time.Now()
			done := revoking(t.Context(), b, grace)
			time.Sleep(grace + 2*time.Second)
			for i, lease := range srv.Children(lockPath + "/leases") {
				if i%2 == 1 { // one by one then
					if err := srv.Delete(path.Join(lockPath, "leases", lease)); err != nil {
						t.Error(err)
					}
				}
			}
			if err := <-done; err != nil || !around(time.Since(asked), grace+patience) {
				t.Errorf("Revoke: %v after %v", err, time.Since(asked))
			}
			if left := srv.Children(lockPath + "/leases"); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			if err := <-ended; !errors.Is(err, coordinator.ErrRevoked) {
				t.Errorf("Do: %v", err)
			}
		})
	})
	t.Run("a writer who reads in its place", func(t *testing.T) {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			c := coordtest.Connect(t, srv)
			lock := c.ReadWrite(lockPath, coordinator.Revocable())
			writer, _ := coordtest.Hold(t, lock.Write())
			reader := lock.Read().Acquire(writer.Context(t.Context()))
			coordtest.Soon(t, reader)
			if err := coordtest.Connect(t, srv).Revoke(t.Context(), lockPath, grace); err != nil {
				t.Error(err)
			}
			for _, h := range []*coordinator.Acquisition{writer, reader} {
				if !errors.Is(h.Err(), coordinator.ErrRevoked) {
					t.Errorf("holder: %v", h.Err())
				}
			}
		})
	})
}

// TestTheWishThatLeavesTheLeastTimeCounts: the holder is told again of one that ends sooner, and not of the others.
func TestTheWishThatLeavesTheLeastTimeCounts(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, b, d := coordtest.Connect(t, srv), coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		stream := c.Events(t.Context())
		holder, grant := coordtest.Hold(t, c.Mutex(lockPath, coordinator.Revocable()))
		time.Sleep(5 * time.Second)
		if err := srv.SetData(grant.Node, []byte(curatorsWish)); err != nil {
			t.Fatal(err)
		}
		if told := wishes(stream); len(told) != 1 || !told[0].Deadline.IsZero() {
			t.Fatalf("told %+v", told)
		}
		began := time.Now()
		steps := []struct {
			grace time.Duration
			by    time.Duration // from began; 0: not told
		}{{30 * time.Second, 30 * time.Second}, {40 * time.Second, 0}, {time.Minute, 0}, {20 * time.Second, 23 * time.Second}, {19500 * time.Millisecond, 0}, {time.Second, 6 * time.Second}}
		var asked []<-chan error
		for i, s := range steps {
			asked = append(asked, revoking(t.Context(), []*coordinator.Coordinator{b, d}[i%2], s.grace))
			synctest.Wait()
			told := wishes(stream)
			switch {
			case s.by == 0 && len(told) > 0, s.by > 0 && (len(told) != 1 || told[0].Deadline.Sub(began) != s.by):
				t.Errorf("step %d: told %+v, began %v", i, told, began)
			}
			time.Sleep(time.Second)
		}
		<-holder.Done()
		if lost := <-holder.Lost(); lost.Reason != events.ReasonRevoked || time.Since(began) != 6*time.Second {
			t.Errorf("lost: %+v after %v", lost, time.Since(began))
		}
		for _, done := range asked {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
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

// TestThoseWhoEnterAgainLoseItTogether: each is told, also who enters while the wish stands, and it gives nobody more time.
func TestThoseWhoEnterAgainLoseItTogether(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		lock := c.Mutex(lockPath, coordinator.Reentrant(), coordinator.Revocable())
		stream := c.Events(t.Context())
		outer, _ := coordtest.Hold(t, lock)
		inner := c.Mutex(lockPath, coordinator.Reentrant()).Acquire(outer.Context(t.Context()))
		coordtest.Soon(t, inner)
		time.Sleep(5 * time.Second)
		asked := time.Now()
		done := revoking(t.Context(), operator, grace)
		time.Sleep(2 * time.Second)
		later := lock.Acquire(outer.Context(t.Context()))
		coordtest.Soon(t, later)
		told := wishes(stream)
		if len(told) != 3 {
			t.Errorf("told %+v", told)
		}
		for _, r := range told {
			if r.Deadline.Sub(asked) != grace {
				t.Errorf("told %+v, asked at %v", r, asked)
			}
		}
		if err := <-done; err != nil || time.Since(asked) != grace {
			t.Errorf("Revoke: %v after %v", err, time.Since(asked))
		}
		for _, a := range []*coordinator.Acquisition{outer, inner, later} {
			if lost := <-a.Lost(); lost.Reason != events.ReasonRevoked {
				t.Errorf("lost: %+v", lost)
			}
		}
	})
}

// TestAGraceOfNothing is at once for whoever watches his node.
func TestAGraceOfNothing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		holder, _ := coordtest.Hold(t, c.Mutex(lockPath, coordinator.Revocable()))
		time.Sleep(5 * time.Second)
		asked := time.Now()
		if err := coordtest.Connect(t, srv).Revoke(t.Context(), lockPath, 0); err != nil || time.Since(asked) > 100*time.Millisecond {
			t.Errorf("Revoke: %v after %v", err, time.Since(asked))
		}
		if lost := <-holder.Lost(); lost.Reason != events.ReasonRevoked {
			t.Errorf("lost: %+v", lost)
		}
	})
}

// TestAGrantThatNobodyTookIsRevoked: no loss is told of it, and the acquisition ends.
func TestAGrantThatNobodyTookIsRevoked(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		holder := coordtest.Queue(c.Mutex(lockPath, coordinator.Revocable()))
		if err := c.Revoke(t.Context(), lockPath, grace); err != nil {
			t.Error(err)
		}
		<-holder.Done()
		if !errors.Is(holder.Err(), coordinator.ErrRevoked) || len(holder.Lost()) > 0 || len(holder.Granted()) > 0 {
			t.Errorf("Err: %v", holder.Err())
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

// TestRevokeSeesWhoWasGrantedBefore, though the follower that it talks to lags behind.
func TestRevokeSeesWhoWasGrantedBefore(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		first, _ := coordtest.Hold(t, c.Mutex(lockPath))
		srv.Lag(operator.SessionID(), true)
		first.Release()
		<-first.Done()
		holder, _ := coordtest.Hold(t, c.Mutex(lockPath, coordinator.Revocable()))
		done := revoking(t.Context(), operator, 0)
		<-holder.Done()
		srv.Lag(operator.SessionID(), false)
		if err := <-done; err != nil || !errors.Is(holder.Err(), coordinator.ErrRevoked) {
			t.Errorf("Revoke: %v; the holder: %v", err, holder.Err())
		}
	})
}
