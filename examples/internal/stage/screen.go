package stage

import (
	"context"
	"strings"
	"sync"
	"time"
)

// TB is the part of testing.TB that is used here: only tests may link package
// testing.
type TB interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// patience is how long tests wait for what has to happen.
const patience = 30 * time.Second

// Screen takes what a program prints. The zero Screen is empty. Its methods may be
// called from any goroutine.
type Screen struct {
	mu      sync.Mutex
	printed strings.Builder
	waiting []cue
}

// cue is what to do when a text has come so many times.
type cue struct {
	text  string
	count int
	then  func()
}

// When has then called once, as soon as the text has come so many times. Whoever
// prints waits for it.
func (s *Screen) When(text string, count int, then func()) {
	s.mu.Lock()
	s.waiting = append(s.waiting, cue{text, count, then})
	due := s.due()
	s.mu.Unlock()
	run(due)
}

// Await returns when the text has come so many times, and fails the test if that
// takes too long.
func (s *Screen) Await(tb TB, text string, count int) {
	tb.Helper()
	come := make(chan struct{})
	s.When(text, count, func() { close(come) })
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-come:
	case <-timer.C:
		tb.Fatalf("%q has not come %d times in\n%s", text, count, s)
	}
}

// Write is for the program.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	s.printed.Write(p)
	due := s.due()
	s.mu.Unlock()
	run(due)
	return len(p), nil
}

// due takes out the cues whose time has come; s.mu is held.
func (s *Screen) due() (due []func()) {
	text := s.printed.String()
	kept := s.waiting[:0]
	for _, c := range s.waiting {
		if strings.Count(text, c.text) >= c.count {
			due = append(due, c.then)
		} else {
			kept = append(kept, c)
		}
	}
	s.waiting = kept
	return due
}

func run(due []func()) {
	for _, then := range due {
		then()
	}
}

// String returns what was printed so far.
func (s *Screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.printed.String()
}

// Count tells how many times the text has come.
func (s *Screen) Count(text string) int { return strings.Count(s.String(), text) }

// Must fails the test for each text that has not come.
func (s *Screen) Must(tb TB, texts ...string) {
	tb.Helper()
	for _, text := range texts {
		if s.Count(text) == 0 {
			tb.Errorf("nothing says %q in\n%s", text, s)
		}
	}
}
