package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/examples/internal/program"
)

// lockRoot is the parent of all locks.
const lockRoot = "/zkgrant/eventloop"

// command runs the program and returns its exit code.
func command(args []string, stdout, stderr io.Writer) int {
	p := program.New("eventloop", stderr)
	locks := p.Flags.Int("locks", 500, "how many locks")
	hold := p.Flags.Duration("hold", 500*time.Millisecond, "how long each is held")
	return p.Run(args, func(ctx context.Context, zk *program.ZooKeeper) error {
		return run(ctx, stdout, zk, *locks, *hold)
	})
}

// run lets two loops compete, and prints their progress.
func run(ctx context.Context, out io.Writer, zk *program.ZooKeeper, locks int, hold time.Duration) error {
	s := &show{out: out, holders: map[string]*coordinator.Acquisition{}, counts: map[string]*count{}}
	s.say("two loops, %d locks, on %s", locks, zk)
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	// One loop requests the odd locks first, the other one the even locks, so that each
	// of them waits for about half of its locks.
	var odd, even []string
	for i := range locks {
		path := fmt.Sprintf("%s/lock-%04d", lockRoot, i)
		if i%2 == 0 {
			even = append(even, path)
		} else {
			odd = append(odd, path)
		}
	}
	began := time.Now()
	var crew sync.WaitGroup
	for name, paths := range map[string][]string{"left": slices.Concat(even, odd), "right": slices.Concat(odd, even)} {
		crew.Go(func() {
			if err := zk.Process(ctx, func(c *coordinator.Coordinator) error {
				return s.newLoop(name, c, hold).run(ctx, paths)
			}); err != nil {
				abort(err)
			}
		})
	}
	crew.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	for _, name := range []string{"left", "right"} {
		n := s.counts[name]
		s.say("%-5s  granted %d, lost %d, waited %v on average", name, n.grants, n.losses, (n.waited / time.Duration(n.grants)).Round(time.Millisecond))
	}
	s.say("%d grants in %v, never both at a time", s.counts["left"].grants+s.counts["right"].grants, time.Since(began).Round(time.Millisecond))
	return nil
}

// show is shared by the two loops: it prints, counts, and checks that they never hold a
// lock at the same time.
type show struct {
	mu      sync.Mutex
	out     io.Writer
	holders map[string]*coordinator.Acquisition // the latest holder of each path
	counts  map[string]*count                   // by a loop's name
}

type count struct {
	grants, losses int
	waited         time.Duration // of all grants together
}

func (s *show) newLoop(name string, c *coordinator.Coordinator, hold time.Duration) *loop {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[name] = &count{}
	return &loop{
		name: name, c: c, group: coordinator.NewGroup(), hold: hold, show: s,
		under: map[uint64]*coordinator.Acquisition{}, held: map[string]*coordinator.Acquisition{},
	}
}

// granted counts a Grant. It returns an error if the other loop holds the lock.
func (s *show) granted(l *loop, grant events.Grant, lock *coordinator.Acquisition) error {
	s.mu.Lock()
	other := s.holders[grant.Path]
	s.holders[grant.Path] = lock
	n := s.counts[l.name]
	n.grants++
	n.waited += grant.Waited
	grants := n.grants
	s.mu.Unlock()
	if grants%100 == 0 {
		s.say("%s has had %d, and holds %d", l.name, grants, len(l.held))
	}
	if other != nil && other.Valid() && lock.Valid() {
		return fmt.Errorf("left and right both held %s", grant.Path)
	}
	return nil
}

// lost counts a loss.
func (s *show) lost(l *loop) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[l.name].losses++
}

func (s *show) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, format+"\n", args...)
}
