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
	toldInvalid   what = "invalid"   // the library, asked every millisecond, answers that the lock is not held any more
	toldLost      what = "lost"      // the lock, or the session that held it, is gone
	toldConnected what = "connected" // there is a connection with a session again, or for the first time
	toldOther     what = "other"     // anything else worth writing down
	toldFailed    what = "failed"    // the contender cannot go on
)

// prefix begins every report. A virtual machine may print other lines.
const prefix = "told "

// formatTold is the line of a report, in the library's own words.
func formatTold(w what, own string) string {
	return strings.TrimRight(prefix+string(w)+" "+strings.ReplaceAll(own, "\n", " "), " ")
}

// parseTold reads such a line. Any other line is not ok. A line with the prefix that
// cannot be read is a failure.
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
	observer who = "server"      // sees what the server does
)

// note is one report.
type note struct {
	at      time.Time
	library string // its key
	who     who
	what    what
	own     string // in the words of the library
}

// recorder keeps the notes of one run. Any goroutine may call hear. One goroutine at a
// time may wait for a note.
type recorder struct {
	more chan struct{} // of size 1; hear writes it at each new note, the waiting goroutine reads it

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
	default: // the reader already knows that there is a new note
	}
}

func (r *recorder) take() []note {
	r.mu.Lock()
	defer r.mu.Unlock()
	notes := r.notes
	r.notes = nil
	return notes
}

// look reports whether there is such a note. It fails if a contender cannot go on.
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
