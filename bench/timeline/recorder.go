package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// who is the source of a note.
type who int

const (
	holder   who = iota + 1 // has the lock, and is cut off
	next                    // waits for it, close to the server
	observer                // sees what the server does
)

// String is the word for it in messages and in the file of figures.
func (w who) String() string {
	switch w {
	case holder:
		return "holder"
	case next:
		return "next holder"
	case observer:
		return "server"
	default:
		return fmt.Sprintf("who(%d)", int(w))
	}
}

// note is one report.
type note struct {
	at      time.Time
	library string // its key
	who     who
	what    what
	own     string // in the words of the library
}

// recorder keeps the notes of one run. Any goroutine may call hear. One goroutine at a time may wait for a note.
type recorder struct {
	more chan struct{} // of size 1; hear writes it at each new note, the waiting goroutine reads it

	mu    sync.Mutex
	notes []note
}

func newRecorder() *recorder { return &recorder{more: make(chan struct{}, 1)} }

// hear adds a note. It never blocks.
func (r *recorder) hear(n note) {
	r.mu.Lock()
	r.notes = append(r.notes, n)
	r.mu.Unlock()
	select {
	case r.more <- struct{}{}:
	default: // the reader already knows that there is a new note
	}
}

// take returns the notes so far, and forgets them.
func (r *recorder) take() []note {
	r.mu.Lock()
	defer r.mu.Unlock()
	notes := r.notes
	r.notes = nil
	return notes
}

// look tells whether there is such a note. It fails if a contender cannot go on.
func (r *recorder) look(wanted func(note) bool) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := false
	for _, n := range r.notes {
		if n.what == toldFailed {
			return false, fmt.Errorf("%s, %v: %s", n.library, n.who, n.own)
		}
		found = found || wanted(n)
	}
	return found, nil
}

// until waits for such a note. It fails if ctx ends before, or a contender cannot go on.
func (r *recorder) until(ctx context.Context, wanted func(note) bool) error {
	for {
		if found, err := r.look(wanted); found || err != nil {
			return err
		}
		select {
		case <-r.more:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// during lets time pass. It fails if ctx ends before, or a contender cannot go on.
func (r *recorder) during(ctx context.Context, d time.Duration) error {
	passed := errors.New("passed")
	ctx, cancel := context.WithTimeoutCause(ctx, d, passed)
	defer cancel()
	err := r.until(ctx, func(note) bool { return false })
	if errors.Is(err, passed) {
		return nil
	}
	return err
}
