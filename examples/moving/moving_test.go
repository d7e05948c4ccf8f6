package moving_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
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

// chroot is the parent of the examples' locks: in our connect string, and in the paths of clients without a chroot.
const chroot = "/app"

// connect returns a coordinator that the end of the test closes.
func connect(t *testing.T, srv *zktest.Server) *coordinator.Coordinator {
	t.Helper()
	return stagetest.Connect(t, srv.Addr()+chroot, coordinator.WithSessionTimeout(10*time.Second))
}

// start returns a coordinator on a server with a TCP port, as clients of other libraries need it, and a
// context that ends a hang before the test's time is over.
func start(t *testing.T) (*zktest.Server, *coordinator.Coordinator, context.Context) {
	t.Helper()
	srv, err := zktest.New()
	eventstest.Must(t, err)
	t.Cleanup(srv.Close)
	return srv, connect(t, srv), eventstest.Patiently(t, 5*time.Minute)
}

// happened takes out what was noted, in order.
func happened(notes chan string) string {
	var all []string
	for len(notes) > 0 {
		all = append(all, <-notes)
	}
	return strings.Join(all, ", ")
}

// Each function here that names a library in its first line is word for word on the page. The tests of
// docs compile and run every block of the page.
func TestPageShowsCodeThatRuns(t *testing.T) {
	words := func(file string) string {
		text, err := os.ReadFile(file)
		eventstest.Must(t, err)
		return strings.Join(strings.Fields(string(text)), " ")
	}
	page := words("../../docs/moving.md")
	function := regexp.MustCompile(`\{ (// (?:zkgrant|go-zookeeper) .*?) \} (?:func|//|type)`)
	blocks := function.FindAllStringSubmatch(words("moving_test.go"), -1)
	for _, block := range blocks {
		if !strings.Contains(page, strings.TrimSuffix(block[1], " return nil")) {
			t.Errorf("this runs here, and is not on the page:\n%s", block[1])
		}
	}
	if len(blocks) < 9 {
		t.Errorf("only %d blocks were looked at, want 9 or more", len(blocks))
	}
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
	return c.Mutex("/locks/report").Do(ctx, func(ctx context.Context, g coordinator.Grant) error {
		return report(ctx, g.Token) // ctx ends if the lock is lost
	}, coordinator.Data(data))
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
	srv, c, ctx := start(t)
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
				if token == 0 {
					t.Error("the grant has no token, want one")
				}
				return note("ours")()
			})
		}()
		queued(2)
		go func() { behind <- zkLock(hosts, []byte("late"), note("theirs again")) }()
		queued(3)

		var lines []string
		eventstest.Check(t, look(ctx, c, func(_ string, args ...any) {
			lines = append(lines, string(args[1].([]byte)))
			if holds := args[3].(bool); holds != (len(lines) == 1) {
				t.Errorf("number %d in the queue holds it: %v, want only the first", len(lines), holds)
			}
		}))
		if want := []string{"old", "new", "late"}; !slices.Equal(lines, want) || len(entered) != 1 {
			t.Errorf("queue %q, %d have entered; want %q, and the first", lines, len(entered), want)
		}
		return nil
	})
	eventstest.Must(t, err)
	eventstest.Check(t, eventstest.Receive(t, behind, "the next one"))
	eventstest.Check(t, eventstest.Receive(t, behind, "the last one"))
	if got := happened(entered); got != "theirs, ours, theirs again" {
		t.Errorf("entered have %s, want one after the other in the order of the queue", got)
	}
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
	srv, c, ctx := start(t)
	work, over := &starts{started: make(chan int64, 1)}, make(chan error, 1)
	go func() { over <- loop(ctx, c, work) }()
	eventstest.Receive(t, work.started, "the start of the job")
	eventstest.Must(t, srv.Expire(c.SessionID()))
	err := eventstest.Receive(t, over, "the end of the loop")
	if !errors.Is(err, coordinator.ErrSessionExpired) || work.stops == 0 {
		t.Errorf("the loop ended with %v, and its job was stopped %d times; want %v, and once or more",
			err, work.stops, coordinator.ErrSessionExpired)
	}
}

func insteadOfMutex(ctx context.Context, c *coordinator.Coordinator, rebuild func(context.Context) error) error {
	// zkgrant
	lock, err := c.Mutex("/locks/index", coordinator.Reentrant()).Hold(ctx, coordinator.MaxWait(10*time.Second))
	if err != nil {
		return err // coordinator.ErrTimeout after ten seconds
	}
	defer lock.Release()
	return rebuild(lock.Context(ctx)) // cancelled on a loss; a callee with this context may enter again
}

func insteadOfDowngrade(ctx context.Context, c *coordinator.Coordinator, change, check func(context.Context) error) error {
	// zkgrant
	prices := c.ReadWrite("/locks/prices")
	write, err := prices.Write().Hold(ctx)
	if err != nil {
		return err
	}
	defer write.Release()
	if err := change(write.Context(ctx)); err != nil {
		return err
	}
	read, err := prices.Read().Hold(write.Context(ctx)) // in the writer's own place
	if err != nil {
		return err
	}
	defer read.Release()
	write.Release() // other readers come in, and no writer
	return check(read.Context(ctx))
}

func insteadOfSemaphore(ctx context.Context, c *coordinator.Coordinator, export func(context.Context) error) error {
	// zkgrant
	exports := c.Semaphore("/limits/exports", 4)
	return exports.Do(ctx, func(ctx context.Context, _ coordinator.Grant) error {
		return export(ctx)
	}, coordinator.Permits(2)) // both at once, or none
}

// A function that is called under the lock enters it again.
func TestInsteadOfMutex(t *testing.T) {
	_, c, ctx := start(t)
	deep := 0
	var rebuild func(context.Context) error
	rebuild = func(ctx context.Context) error {
		if deep++; deep == 3 {
			return nil
		}
		return insteadOfMutex(ctx, c, rebuild)
	}
	if err := insteadOfMutex(ctx, c, rebuild); err != nil || deep != 3 {
		t.Errorf("entered %d times, %v; want 3", deep, err)
	}
}

// The writer goes on as a reader. The writer behind it is granted the lock when the reader has released.
func TestInsteadOfDowngrade(t *testing.T) {
	_, c, ctx := start(t)
	done, next := make(chan string, 3), make(chan error, 1)
	change := func(context.Context) error {
		done <- "changed"
		other := c.ReadWrite("/locks/prices").Write().Acquire(ctx)
		go func() {
			_, err := other.Wait(ctx)
			done <- "another writer"
			other.Release()
			next <- err
		}()
		return nil
	}
	check := func(ctx context.Context) error { done <- "checked"; return ctx.Err() }
	eventstest.Must(t, insteadOfDowngrade(ctx, c, change, check))
	eventstest.Must(t, eventstest.Receive(t, next, "the other writer"))
	if got := happened(done); got != "changed, checked, another writer" {
		t.Errorf("happened: %s", got)
	}
}

// Two permits of four, twice.
func TestInsteadOfSemaphore(t *testing.T) {
	_, c, ctx := start(t)
	err := insteadOfSemaphore(ctx, c, func(ctx context.Context) error {
		return insteadOfSemaphore(ctx, c, func(ctx context.Context) error {
			third := c.Semaphore("/limits/exports", 4).Acquire(context.WithoutCancel(ctx), coordinator.Try())
			<-third.Done()
			return third.Err()
		})
	})
	if !errors.Is(err, coordinator.ErrDeadlock) { // with five of four it would wait for itself
		t.Errorf("the third pair of four permits: %v, want %v", err, coordinator.ErrDeadlock)
	}
}

// Processes drop AsKazoo one after the other. Throughout, there is one holder at a time, and every process goes on. A process that
// still has the option may be refused while it sees a contender without it.
func TestDropsAsKazoo(t *testing.T) {
	const processes, sections = 3, 20
	srv, _, ctx := start(t)
	inside := make(chan struct{}, 1) // full while a process holds
	entered := make(chan error)      // of each section
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

func insteadOfIsOwner(ctx context.Context, c *coordinator.Coordinator, total func() []byte) error {
	// zkgrant
	lock := c.Mutex("/locks/total").Acquire(ctx)
	defer lock.Release()
	if _, err := lock.Wait(ctx); err != nil {
		return err
	}
	return lock.Update(ctx, "/total", func(old []byte, exists bool) ([]byte, error) {
		return total(), nil
	}) // a *coordinator.LostError if the lock is not held any more: nothing was written then
}

func insteadOfTryLock(ctx context.Context, c *coordinator.Coordinator, sweep func(context.Context) error) error {
	// zkgrant
	lock, err := c.Mutex("/locks/sweep").Hold(ctx, coordinator.Try())
	if errors.Is(err, coordinator.ErrNotAcquired) {
		return nil // another process does it
	}
	if err != nil {
		return err
	}
	defer lock.Release()
	return sweep(lock.Context(ctx))
}

func both(ctx context.Context, c *coordinator.Coordinator, old sync.Locker, report func(context.Context) error) error {
	// zkgrant
	old.Lock() // where every process has taken it so far
	defer old.Unlock()
	return c.Mutex("/locks/report").Do(ctx, func(ctx context.Context, _ coordinator.Grant) error {
		return report(ctx)
	})
}

// A write under the lock is the holder's, or is not made.
func TestInsteadOfIsOwner(t *testing.T) {
	srv, c, ctx := start(t)
	eventstest.Must(t, srv.Create(chroot+"/total", []byte("0")))
	eventstest.Must(t, insteadOfIsOwner(ctx, c, func() []byte { return []byte("1") }))
	err := insteadOfIsOwner(ctx, c, func() []byte {
		const dir = chroot + "/locks/total"
		eventstest.Check(t, srv.Delete(dir+"/"+srv.Children(dir)[0])) // an accident
		return []byte("2")
	})
	total, _ := srv.Data(chroot + "/total")
	if lost := new(coordinator.LostError); !errors.As(err, &lost) || string(total) != "1" {
		t.Errorf("a write under a lost lock ended with %v, and the total is %s; want a LostError, and 1", err, total)
	}
}

// One process sweeps, and another one that comes meanwhile goes on at once.
func TestInsteadOfTryLock(t *testing.T) {
	srv, c, ctx := start(t)
	other, sweeps := connect(t, srv), 0
	err := insteadOfTryLock(ctx, c, func(context.Context) error {
		sweeps++
		return insteadOfTryLock(ctx, other, func(context.Context) error { return errors.New("two processes sweep at once") })
	})
	if err != nil || sweeps != 1 {
		t.Errorf("%d sweeps, %v; want 1", sweeps, err)
	}
}

// Processes that take both locks exclude first those that know only the old lock, and then those that know only the new one.
func TestBothLocks(t *testing.T) {
	_, c, ctx := start(t)
	var old sync.Mutex
	eventstest.Check(t, both(ctx, c, &old, func(ctx context.Context) error {
		if old.TryLock() {
			t.Error("the old lock is free while both are held, want it taken")
		}
		try := c.Mutex("/locks/report").Acquire(context.WithoutCancel(ctx), coordinator.Try())
		<-try.Done()
		if err := try.Err(); !errors.Is(err, coordinator.ErrDeadlock) {
			t.Errorf("trying the new lock: %v, want %v", err, coordinator.ErrDeadlock)
		}
		return nil
	}))
}
