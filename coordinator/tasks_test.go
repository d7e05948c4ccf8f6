package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

const (
	tasks   = 1000
	workers = 8
	// lastOfVictim is which of its tasks one worker does not come to the end of.
	lastOfVictim = 20
)

// shop is where the workers note what they do. The end of a task is noted in ZooKeeper as well, in a transaction
// that only the holder can make, so no worker that has lost a claim ends a task.
type shop struct {
	*testing.T
	ctx  context.Context
	kill func() // cuts the victim off for good

	mu       sync.Mutex
	begun    [tasks]int
	ended    [tasks]int
	lost     int // the task that the victim had; -1: none
	ofVictim int // tasks that it has begun
	busy     int // claims that another worker had
	tokens   [tasks]int64
}

// TestTaskClaims: eight workers claim a thousand tasks with Try, and one of them is cut off in the middle of
// a task. Each task is done once, and that one is done again, by another worker.
func TestTaskClaims(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		workTasks(t, srv.Addr(), srv.DialContext)
	})
}

// TestRealTaskClaims is the same on a real server.
func TestRealTaskClaims(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel()
	e := ensemble.Start(t, 1)
	dialer := &net.Dialer{}
	workTasks(t, e.Connect(), dialer.DialContext)
}

func workTasks(t *testing.T, servers string, dial faultnet.Dial) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	network := faultnet.New(dial, nil)
	s := &shop{T: t, ctx: ctx, kill: func() { network.Partition() }, lost: -1}
	var wait sync.WaitGroup
	for i := range workers {
		through := dial
		if i == 0 {
			through = network.Dial
		}
		c, err := coordinator.Connect(ctx, servers, coordinator.WithDialer(through), coordinator.WithSessionTimeout(5*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Close(); err != nil && i != 0 {
				t.Error(err)
			}
		})
		wait.Go(func() { s.work(i, c) })
	}
	wait.Wait()
	for i := range tasks {
		again := 0
		if i == s.lost {
			again = 1
		}
		if s.ended[i] != 1 || s.begun[i] != 1+again {
			t.Errorf("task %d was begun %d times and done %d times, want %d and once", i, s.begun[i], s.ended[i], 1+again)
		}
	}
	if s.lost < 0 {
		t.Error("no worker was cut off in the middle of a task")
	}
	t.Logf("%d tasks, %d claims that another worker had; task %d done again", tasks, s.busy, s.lost)
	network.Close() // before the victim's Close, which has nobody to talk to
}

// work does tasks until all are done.
func (s *shop) work(worker int, c *coordinator.Coordinator) {
	for s.ctx.Err() == nil {
		left := s.left()
		if len(left) == 0 {
			return
		}
		progress := false
		for _, task := range left {
			if s.isDone(task) {
				continue
			}
			done, over := s.claim(worker, c, task)
			if over {
				return
			}
			progress = progress || done
		}
		if !progress { // what is left is another worker's, as long as that one lives
			timer := time.NewTimer(100 * time.Millisecond)
			select {
			case <-timer.C:
			case <-s.ctx.Done():
				timer.Stop()
			}
		}
	}
	s.Error("a worker gives up: not all tasks were done in time")
}

// claim does the task if nobody else has it. It reports whether that was the worker's last.
func (s *shop) claim(worker int, c *coordinator.Coordinator, task int) (done, over bool) {
	a := c.Unfair(fmt.Sprintf("/tasks/%d", task)).Acquire(s.ctx, coordinator.Try(), coordinator.WithData(fmt.Appendf(nil, "worker %d", worker)))
	defer a.Release()
	grant, err := a.Wait(s.ctx)
	var held *coordinator.HeldError
	switch {
	case errors.As(err, &held):
		s.mu.Lock()
		s.busy++
		s.mu.Unlock()
		if held.Holder.Session == c.SessionID() {
			s.Errorf("worker %d tries task %d, which it has", worker, task)
		}
		return false, false
	case err != nil:
		s.Errorf("worker %d, task %d: %v", worker, task, err)
		return false, true
	case s.isDone(task): // between the look at the list and the claim
		return false, false
	}
	s.mu.Lock()
	s.begun[task]++
	if grant.Token <= s.tokens[task] {
		s.Errorf("task %d is granted with the token %x behind %x, want a greater one", task, grant.Token, s.tokens[task])
	}
	s.tokens[task] = grant.Token
	ends := worker == 0
	if ends {
		s.ofVictim++
		ends = s.ofVictim == lastOfVictim
	}
	if ends {
		s.lost = task
	}
	s.mu.Unlock()
	if ends {
		s.kill()
		<-a.Lost() // and does nothing any more
		return false, true
	}
	_, err = a.Txn(s.ctx, &zk.CreateRequest{Path: fmt.Sprintf("/done-%d", task), Acl: zk.WorldACL(zk.PermAll)})
	if err != nil {
		s.Errorf("worker %d, end of task %d: %v", worker, task, err)
		return false, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended[task]++
	return true, false
}

// isDone tells whether the task was done.
func (s *shop) isDone(task int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended[task] > 0
}

// left returns the tasks that are not done, in any order.
func (s *shop) left() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	var left []int
	for i, n := range s.ended {
		if n == 0 {
			left = append(left, i)
		}
	}
	rand.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
	return left
}
