package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// table is what the lock is for. It guards itself against data races, and against
// nothing else; it notices who is there at the same time.
type table struct {
	mu            sync.Mutex
	number        int // of the version
	reading       int
	writing       bool
	written, read int
	most          int // readers at a time
}

// open begins to read, and returns the version; done ends that.
func (t *table) open() (version int, done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reading++
	t.read++
	t.most = max(t.most, t.reading)
	return t.number, func() {
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
		return 0, broken("%d read while it was written", t.reading)
	}
	t.number++
	t.written++
	return t.number, nil
}

func (t *table) enter() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reading > 0 || t.writing {
		return broken("writing is to begin, with %d who read, and another writer: %t", t.reading, t.writing)
	}
	t.writing = true
	return nil
}

// brokenError says that a lock did not keep its promise.
type brokenError struct{ what string }

func (e *brokenError) Error() string { return e.what }

func broken(format string, args ...any) error { return &brokenError{fmt.Sprintf(format, args...)} }

func isBroken(err error) bool { return errors.As(err, new(*brokenError)) }
