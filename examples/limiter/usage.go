package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// job returns a job of a size that takes its time. It fails the program if more permits are in use than there are.
func (u *usage) job(name string, size int, say func(string, ...any)) func(context.Context, events.Grant) error {
	return func(ctx context.Context, grant events.Grant) error {
		done, err := u.begin(size)
		if err != nil {
			u.fail(err)
			return err
		}
		defer done()
		if size > 1 {
			say("%s  a big job begins, after %v; %d permits in use", name, grant.Waited.Round(time.Millisecond), u.now())
		}
		select {
		case <-time.After(time.Duration(size) * 40 * time.Millisecond):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// usage counts the permits that are in use. It is for the show: no service needs it.
type usage struct {
	limit int
	fail  func(error) // ends the program

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
