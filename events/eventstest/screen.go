package eventstest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// Screen takes what a program prints. The zero Screen is empty. Its methods may be
// called from any goroutine.
type Screen struct {
	mu      sync.Mutex
	printed strings.Builder
	waiting []cue
}

// cue is a function to call when a text was printed so many times.
type cue struct {
	text  string
	count int
	then  func()
}

// When has then called once, as soon as the text was printed so many times. The program
// waits for then in its Write.
func (s *Screen) When(text string, count int, then func()) {
	s.mu.Lock()
	s.waiting = append(s.waiting, cue{text, count, then})
	due := s.due()
	s.mu.Unlock()
	run(due)
}

// Await returns when the text was printed so many times. It fails the test if that does
// not happen.
func (s *Screen) Await(tb testing.TB, text string, count int) {
	tb.Helper()
	come := make(chan struct{})
	s.When(text, count, func() { close(come) })
	Receive(tb, come, fmt.Sprintf("%q to be printed %d times", text, count))
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

// due takes out the cues whose text was printed often enough; s.mu is held.
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

// Count returns how many times the text was printed.
func (s *Screen) Count(text string) int { return strings.Count(s.String(), text) }

// Must fails the test for each text that was not printed.
func (s *Screen) Must(tb testing.TB, texts ...string) {
	tb.Helper()
	for _, text := range texts {
		if s.Count(text) == 0 {
			tb.Errorf("printed %s\nwant a line with %q", s, text)
		}
	}
}

// Say prints a line.
func (s *Screen) Say(format string, args ...any) { fmt.Fprintf(s, format+"\n", args...) }
