package moving_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

func zkLock(hosts []string, data []byte, report func() error) error {
	// go-zookeeper
	conn, _, err := zk.Connect(hosts, 10*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	lock := zk.NewLock(conn, "/app/locks/report", zk.WorldACL(zk.PermAll))
	if err := lock.LockWithData(data); err != nil { // waits for as long as it takes
		return err
	}
	err = report() // nothing tells it that the lock is gone
	return errors.Join(err, lock.Unlock())
}

func insteadOfZkLock(ctx context.Context, servers string, data []byte, report func(context.Context, int64) error) error {
	// zkgrant
	c, err := coordinator.Connect(ctx, servers, coordinator.WithSessionTimeout(10*time.Second))
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Mutex("/locks/report").Do(ctx, func(ctx context.Context, g events.Grant) error {
		return report(ctx, g.Token) // ctx ends if the lock is lost
	}, coordinator.WithData(data))
}

// job is what a service does while it has the lock.
type job interface {
	Start(token int64)
	Stop()
}

func loop(ctx context.Context, c *coordinator.Coordinator, job job) error {
	// zkgrant
	lock := c.Mutex("/locks/report").Acquire(ctx) // returns at once
	defer lock.Release()
	defer job.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx) // ctx bounds the wait only
		case grant := <-lock.Granted():
			job.Start(grant.Token)
		case <-lock.Lost():
			job.Stop() // from here on another contender may hold it
		case <-lock.Done():
			return lock.Err()
		}
	}
}

// look shows a queue before one of our contenders stands in it.
func look(ctx context.Context, c *coordinator.Coordinator, printf func(string, ...any)) error {
	// zkgrant
	queue, err := c.Mutex("/locks/report").Queue(ctx)
	if err != nil {
		return err
	}
	for _, who := range queue {
		printf("%s  %s  since %s, holds it: %v", who.Node, who.Data, who.Since.Format(time.DateTime), who.Holding)
	}
	return nil
}

// A service that has moved waits for those that have not, and the other way round.
func TestBesideZkLock(t *testing.T) {
	srv := server(t)
	c, ctx := connect(t, srv), bounded(t)
	hosts := []string{srv.Addr()}
	// queued waits until there are that many contenders, by a look at the server itself.
	queued := func(want int) {
		t.Helper()
		for len(srv.Children(chroot+"/locks/report")) < want {
			if err := ctx.Err(); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Mutex("/locks/report").Queue(ctx); err != nil { // a round trip between two looks
				t.Fatal(err)
			}
		}
	}

	var entered record
	behind := make(chan error, 2)
	err := zkLock(hosts, []byte("old"), func() error {
		entered.note("theirs")
		go func() {
			behind <- insteadOfZkLock(ctx, srv.Addr()+chroot, []byte("new"), func(_ context.Context, token int64) error {
				if token == 0 {
					t.Error("the grant has no token, want one")
				}
				entered.note("ours")
				return nil
			})
		}()
		queued(2)
		go func() {
			behind <- zkLock(hosts, []byte("late"), func() error {
				entered.note("theirs again")
				return nil
			})
		}()
		queued(3)

		var lines []string
		if err := look(ctx, c, func(_ string, args ...any) {
			lines = append(lines, string(args[1].([]byte)))
			if holds := args[3].(bool); holds != (len(lines) == 1) {
				t.Errorf("number %d in the queue holds it: %v, want only the first", len(lines), holds)
			}
		}); err != nil {
			t.Error(err)
		}
		if want := []string{"old", "new", "late"}; !slices.Equal(lines, want) {
			t.Errorf("queue %q, want %q", lines, want)
		}
		entered.must(t, "theirs")
		return nil
	})
	if err = errors.Join(err, eventstest.Receive(t, behind, "the next one"), eventstest.Receive(t, behind, "the last one")); err != nil {
		t.Fatal(err)
	}
	entered.must(t, "theirs", "ours", "theirs again")
}

// starts counts the starts and stops of a job.
type starts struct {
	started chan int64
	stops   int
}

func (s *starts) Start(token int64) { s.started <- token }
func (s *starts) Stop()             { s.stops++ }

// The loop stops its job on a loss, and returns the reason.
func TestTheLoopStopsItsJobOnALoss(t *testing.T) {
	srv := server(t)
	c := connect(t, srv)
	work := &starts{started: make(chan int64, 1)}
	over := make(chan error, 1)
	go func() { over <- loop(bounded(t), c, work) }()
	eventstest.Receive(t, work.started, "the start of the job")
	if err := srv.Expire(c.SessionID()); err != nil {
		t.Fatal(err)
	}
	if err := eventstest.Receive(t, over, "the end of the loop"); !errors.Is(err, coordinator.ErrSessionExpired) {
		t.Errorf("the loop ended with %v, want %v", err, coordinator.ErrSessionExpired)
	}
	if work.stops == 0 {
		t.Error("the job goes on after the loss, want it stopped")
	}
}
