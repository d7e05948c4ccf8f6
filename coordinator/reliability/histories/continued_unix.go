//go:build unix

package histories

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// holdJob holds the lock again and again, each time until it is lost.
func holdJob(ctx context.Context, j job, up *parent) error {
	c, err := coordinator.Connect(ctx, j.Servers,
		coordinator.WithSessionTimeout(j.Timeout), coordinator.WithTickTime(j.Tick))
	if err != nil {
		return err
	}
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	for {
		lock := c.Mutex(j.Path).Acquire(ctx)
		grant, err := lock.Wait(ctx)
		if err != nil {
			return goHome(ctx, c, err)
		}
		select {
		case <-continued: // the signal of the last time, if it came after the loss
		default:
		}
		if err := up.link.send(message{Kind: "granted", Token: grant.Token}); err != nil {
			return goHome(ctx, c, err)
		}
		// The goroutine that is awake first after the pause asks at once, and goes on asking until the loss is read.
		asking, enough := context.WithCancel(ctx)
		believed := make(chan belief, 1)
		go func() { believed <- believes(asking, lock, continued) }()
		var lost events.Lost
		select {
		case lost = <-lock.Lost():
		case <-up.said: // the parent has hung up
			enough()
			return goHome(ctx, c, nil)
		}
		at := machineTime()
		enough()
		last := <-believed
		if lock.Valid() {
			last.valid = at
		}
		<-lock.Done()
		told := message{Kind: "lost", Time: at, Awake: last.awake, Believed: last.valid, Reason: lost.Reason.String()}
		if _, err := up.ask(told); err != nil {
			return goHome(ctx, c, err)
		}
	}
}

// belief is what a process believed after it was continued.
type belief struct {
	awake int64 // when its first goroutine ran; 0 if this goroutine was not the first
	valid int64 // when Valid was last true
}

// believes asks Valid when the process is continued, and then until ctx ends.
func believes(ctx context.Context, lock *coordinator.Acquisition, continued <-chan os.Signal) (b belief) {
	select {
	case <-continued:
		b.awake = machineTime()
	case <-ctx.Done():
		return b
	}
	ticker := time.NewTicker(100 * time.Microsecond)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if at := machineTime(); lock.Valid() {
			b.valid = at
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	return b
}

// pause is one trial: a process was halted while it held a lock, the next contender got the lock, and the
// process went on.
type pause struct {
	halted, granted, continued time.Duration // since the machine was started
	awake, lost                time.Duration
	reason                     string
	believed                   time.Duration // when Valid was last true after the process had gone on
}

func percentiles(all []time.Duration) string {
	if len(all) == 0 {
		return "?"
	}
	slices.Sort(all)
	at := func(percent int) time.Duration {
		return all[min(len(all)*percent/100, len(all)-1)].Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %v, p99 %v, at most %v", at(50), at(99), at(100))
}

// resumption is the trials of all processes.
type resumption struct {
	next   *coordinator.Coordinator
	waking sync.Mutex // one process wakes up at a time: otherwise they would wait for each other and for the cores

	mu     sync.Mutex
	pauses []pause
	early  int // losses before the process was halted: a short timeout on a busy machine
}

func (r *resumption) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.pauses)
}

// trial has the child hold the lock, halts it until the next contender holds the lock, and waits until the
// child knows.
func (r *resumption) trial(t *testing.T, c *helper, path string) error {
	if _, err := c.hear(); err != nil { // the child reports its Grant
		return err
	}
	ctx, cancel := eventstest.Patient(realMax)
	defer cancel()
	wanted := r.next.Mutex(path).Acquire(ctx)
	var p pause
	p.halted = time.Duration(machineTime())
	if err := c.halt(); err != nil {
		return err
	}
	_, err := wanted.Wait(ctx)
	p.granted = time.Duration(machineTime())
	if err != nil {
		return errors.Join(fmt.Errorf("the lock of the halted child is not granted: %w", err), c.goOn())
	}

	r.waking.Lock()
	p.continued = time.Duration(machineTime())
	err = c.goOn()
	var lost message
	if err == nil {
		lost, err = c.hear()
	}
	r.waking.Unlock()
	if err != nil {
		return err
	}
	p.lost, p.reason = time.Duration(lost.Time), lost.Reason
	p.awake, p.believed = time.Duration(lost.Awake), time.Duration(lost.Believed)
	wanted.Release()
	select {
	case <-wanted.Done():
	case <-ctx.Done():
		return fmt.Errorf("the next holder has released, and is not done: %w", context.Cause(ctx))
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if p.lost < p.continued { // the loss came before the halt
		r.early++
	} else {
		r.pauses = append(r.pauses, p)
	}
	return c.send(message{Kind: "again"})
}
