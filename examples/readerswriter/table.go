package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// table is what the lock is for, and the referee. It guards itself against data races, and against nothing else; it notices
// who is there at the same time.
type table struct {
	fail func(error) // ends the program

	mu            sync.Mutex
	number        int // of the version
	reading       int
	writing       bool
	written, read int
	most          int // readers at a time
}

// open begins to read; done ends that.
func (t *table) open() (done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reading++
	t.read++
	t.most = max(t.most, t.reading)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.reading--
	}
}

// version returns the present version.
func (t *table) version() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.number
}

// change makes a new version, which takes a while, unless ctx ends. It is an error
// if there is anybody else.
func (t *table) change(ctx context.Context) (version int, err error) {
	if err := t.enter(); err != nil {
		return 0, err
	}
	err = pause(ctx, 50*time.Millisecond)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.writing = false
	if err != nil {
		return 0, err
	}
	if t.reading > 0 {
		return 0, t.broken("%d read while it was written", t.reading)
	}
	t.number++
	t.written++
	return t.number, nil
}

func (t *table) enter() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reading > 0 || t.writing {
		return t.broken("writing is to begin, with %d who read, and another writer: %t", t.reading, t.writing)
	}
	t.writing = true
	return nil
}

// look reads for a while, and checks that nobody writes meanwhile.
func (t *table) look(ctx context.Context) error { return t.lookAt(ctx, t.version()) }

// lookAt is look, and checks that the version is this one.
func (t *table) lookAt(ctx context.Context, version int) error {
	defer t.open()()
	if err := pause(ctx, 50*time.Millisecond); err != nil {
		return err
	}
	if after := t.version(); after != version && ctx.Err() == nil { // else it was lost, and may be changed
		return t.broken("version %d became %d while it was read", version, after)
	}
	return nil
}

// pause returns when the time is over, or with the cause of ctx.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// broken ends the program, for a lock did not keep its promise.
func (t *table) broken(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	t.fail(err)
	return err
}
