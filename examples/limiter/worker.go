package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/examples/internal/program"
)

// worker does jobs of one size, one after the other.
type worker struct {
	name string
	size int // permits
	use  *usage
	say  func(string, ...any)
}

// run works until ctx ends.
func (w *worker) run(ctx context.Context, permits *coordinator.Semaphore) error {
	for ctx.Err() == nil {
		err := permits.Do(ctx, w.job, coordinator.WithPermits(w.size))
		var lost *coordinator.LostError
		switch {
		case errors.As(err, new(*exceededError)):
			return err
		case errors.As(err, &lost): // the job is to be done again
			w.say("%s  LOST its permits: %v", w.name, lost.Reason)
		case err != nil:
			if err = program.UnlessEnded(ctx, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// job is what takes permits. It heeds its context, which ends when they are lost.
func (w *worker) job(ctx context.Context, grant events.Grant) error {
	done, err := w.use.begin(w.size)
	if err != nil {
		return err
	}
	defer done()
	if w.size > 1 {
		w.say("%s  a big job begins, after %v; %d permits in use", w.name, grant.Waited.Round(time.Millisecond), w.use.now())
	}
	select {
	case <-time.After(time.Duration(w.size) * 40 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// usage counts the permits that are in use. It is for the show: no service needs it.
type usage struct {
	limit int

	mu         sync.Mutex
	used, most int
	small, big int
}

// begin counts a job, and done that it has ended. It is an error if there are more
// than there may be.
func (u *usage) begin(size int) (done func(), err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.used+size > u.limit {
		return nil, &exceededError{u.used + size, u.limit}
	}
	u.used += size
	u.most = max(u.most, u.used)
	if size == 1 {
		u.small++
	} else {
		u.big++
	}
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.used -= size
	}, nil
}

func (u *usage) now() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.used
}

func (u *usage) counts() (small, big, most int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.small, u.big, u.most
}

// exceededError says that the semaphore did not keep its promise.
type exceededError struct{ used, limit int }

func (e *exceededError) Error() string {
	return fmt.Sprintf("%d permits are in use, and there are %d", e.used, e.limit)
}
