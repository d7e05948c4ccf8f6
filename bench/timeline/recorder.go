package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// what is the kind of a report. The kinds are the same for all libraries.
type what string

const (
	toldGranted   what = "granted"   // the lock is held
	toldSuspended what = "suspended" // the connection is in trouble. It says nothing about the lock
	toldInvalid   what = "invalid"   // the library, polled every millisecond, answers that the lock is no longer held
	toldLost      what = "lost"      // the lock, or the session that held it, is gone
	toldConnected what = "connected" // there is a connection with a session again, or for the first time
	toldOther     what = "other"     // anything else worth writing down
	toldFailed    what = "failed"    // the contender cannot go on
)

// prefix begins every report. A virtual machine may print other lines.
const prefix = "told "

// formatTold returns the line for a report. own is the library's own wording.
func formatTold(w what, own string) string {
	return strings.TrimRight(prefix+string(w)+" "+strings.ReplaceAll(own, "\n", " "), " ")
}

// parseTold parses such a line. It returns false for lines without the prefix. A
// malformed line with the prefix becomes toldFailed.
func parseTold(line string) (w what, own string, ok bool) {
	rest, ok := strings.CutPrefix(line, prefix)
	if !ok {
		return "", "", false
	}
	word, own, _ := strings.Cut(rest, " ")
	all := []what{toldGranted, toldSuspended, toldInvalid, toldLost, toldConnected, toldOther, toldFailed}
	if !slices.Contains(all, what(word)) {
		return toldFailed, fmt.Sprintf("it says %q, and %q is not known", line, word), true
	}
	return what(word), strings.TrimSpace(own), true
}

// who is the source of a note.
type who string

const (
	holder   who = "holder"      // has the lock, and is cut off
	next     who = "next holder" // waits for it, close to the server
	observer who = "server"      // observes the server
)

// note is one report.
type note struct {
	at      time.Time
	library string // its key
	who     who
	what    what
	own     string // in the library's own words
}

// recorder keeps the notes of one run. hear may be called from any goroutine. Only one
// goroutine at a time may wait for a note.
type recorder struct {
	more chan struct{} // of size 1; hear signals each new note to the waiting goroutine

	mu    sync.Mutex
	notes []note
}

// hear adds a note. It never blocks.
func (r *recorder) hear(n note) {
	r.mu.Lock()
	r.notes = append(r.notes, n)
	r.mu.Unlock()
	select {
	case r.more <- struct{}{}:
	default: // the reader has already been notified
	}
}

func (r *recorder) take() []note {
	r.mu.Lock()
	defer r.mu.Unlock()
	notes := r.notes
	r.notes = nil
	return notes
}

// look reports whether a note matches wanted. It returns an error if a contender has
// failed.
func (r *recorder) look(wanted func(note) bool) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.notes {
		if n.what == toldFailed {
			return false, fmt.Errorf("%s, %v: %s", n.library, n.who, n.own)
		}
	}
	return slices.ContainsFunc(r.notes, wanted), nil
}

// until waits for a note that matches wanted. It returns an error if ctx ends first, or a
// contender has failed.
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

// during waits for d. It returns an error if ctx ends first, or a contender has failed.
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
