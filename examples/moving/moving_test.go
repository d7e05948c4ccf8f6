package moving_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/examples/internal/stagetest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// chroot is the parent of all locks in these tests. It is part of our connect string, and
// of the paths in clients without a chroot.
const chroot = "/app"

func connect(t *testing.T, srv *zktest.Server) *coordinator.Coordinator {
	t.Helper()
	return stagetest.Connect(t, srv.Addr()+chroot, coordinator.WithSessionTimeout(10*time.Second))
}

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
	err = report() // it never learns that the lock is gone
	return errors.Join(err, lock.Unlock())
}

func insteadOfZkLock(ctx context.Context, servers string, data []byte, report func(context.Context, int64) error) error {
	// zkgrant
	c, err := coordinator.Connect(ctx, servers, coordinator.WithSessionTimeout(10*time.Second))
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Mutex("/locks/report").Do(ctx, func(ctx context.Context, g coordinator.Grant) error {
		return report(ctx, g.Token) // ctx ends if the lock is lost
	}, coordinator.Data(data))
}

// look lists a queue without joining it.
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

// A migrated service waits for services that have not been migrated, and vice versa.
func TestBesideZkLock(t *testing.T) {
	srv, ctx := zktest.Start(t), eventstest.Patiently(t, 5*time.Minute)
	c := connect(t, srv)
	hosts := []string{srv.Addr()}
	queued := func(want int) {
		t.Helper()
		eventstest.Eventually(t, "the next one is queued", func() bool {
			return len(srv.Children(chroot+"/locks/report")) == want
		})
	}
	entered, behind := make(chan string, 3), make(chan error, 2)
	note := func(what string) func() error { return func() error { entered <- what; return nil } }
	err := zkLock(hosts, []byte("old"), func() error {
		entered <- "theirs"
		go func() {
			behind <- insteadOfZkLock(ctx, srv.Addr()+chroot, []byte("new"), func(_ context.Context, token int64) error {
				eventstest.Expect(t, token != 0, "the grant has no token, want one")
				return note("ours")()
			})
		}()
		queued(2)
		go func() { behind <- zkLock(hosts, []byte("late"), note("theirs again")) }()
		queued(3)

		var lines []string
		eventstest.Check(t, look(ctx, c, func(_ string, args ...any) {
			lines = append(lines, string(args[1].([]byte)))
			eventstest.Equal(t, args[3].(bool), len(lines) == 1, "number %d in the queue holds", len(lines))
		}))
		eventstest.Equal(t, lines, []string{"old", "new", "late"}, "the queue")
		eventstest.Equal(t, len(entered), 1, "how many have entered")
		return nil
	})
	eventstest.Must(t, err)
	eventstest.Check(t, eventstest.Receive(t, behind, "the next one"))
	eventstest.Check(t, eventstest.Receive(t, behind, "the last one"))
	close(entered)
	for _, want := range []string{"theirs", "ours", "theirs again"} {
		eventstest.Equal(t, <-entered, want, "the next one that entered, in the order of the queue")
	}
}

// Processes drop AsKazoo one after another. Throughout, there is one holder at a time,
// and every process makes progress. A process that still has the option may be refused
// while it sees a contender without it.
func TestDropsAsKazoo(t *testing.T) {
	const processes, sections = 3, 20
	srv, ctx := zktest.Start(t), eventstest.Patiently(t, 5*time.Minute)
	inside := make(chan struct{}, 1) // full while a process holds
	entered := make(chan error)      // a result for each section
	var dropped [processes]atomic.Bool
	enough, stop := context.WithCancel(ctx)
	report := func(err error) {
		select {
		case entered <- err:
		case <-enough.Done():
		}
	}
	var all sync.WaitGroup
	for i := range processes {
		old, next := connect(t, srv), connect(t, srv) // a process before and after its redeployment
		all.Go(func() {
			for enough.Err() == nil {
				lock, refused := old.Mutex("/locks/mail", coordinator.AsKazoo()), coordinator.ErrKind
				if dropped[i].Load() {
					lock, refused = next.Mutex("/locks/mail"), context.Canceled
				}
				err := lock.Do(enough, func(ctx context.Context, _ coordinator.Grant) error {
					select {
					case inside <- struct{}{}:
					default:
						return errors.New("two at once")
					}
					defer func() { <-inside }()
					for range 5 { // round trips, in which another process might come in
						if _, err := lock.Queue(ctx); err != nil {
							return err
						}
					}
					report(nil)
					return nil
				})
				if err != nil && !errors.Is(err, refused) && enough.Err() == nil {
					report(err)
				}
			}
		})
	}
	for i := range processes + 1 {
		for range sections {
			eventstest.Check(t, eventstest.Receive(t, entered, "a section"))
		}
		if i < processes {
			dropped[i].Store(true)
		}
	}
	stop()
	all.Wait()
}
