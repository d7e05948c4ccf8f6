package eventstest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Screen collects what a program prints. The zero Screen is empty. Its methods may be
// called from any goroutine.
type Screen struct {
	mu      sync.Mutex
	printed strings.Builder
	waiting []cue
}

// cue is a function to call once a text was printed count times.
type cue struct {
	text  string
	count int
	then  func()
}

// When calls then once, as soon as the text was printed count times. The program waits
// for then in its Write.
func (s *Screen) When(text string, count int, then func()) {
	s.change(func() { s.waiting = append(s.waiting, cue{text, count, then}) })
}

// Await returns once the text was printed count times. It fails the test if that never
// happens.
func (s *Screen) Await(tb testing.TB, text string, count int) {
	tb.Helper()
	come := make(chan struct{})
	s.When(text, count, func() { close(come) })
	Receive(tb, come, fmt.Sprintf("%q to be printed %d times", text, count))
}

// Write implements io.Writer for the program.
func (s *Screen) Write(p []byte) (int, error) {
	s.change(func() { s.printed.Write(p) })
	return len(p), nil
}

// change changes what was printed, or the cues. It removes the cues whose text was printed
// often enough, and calls their functions.
func (s *Screen) change(do func()) {
	s.mu.Lock()
	do()
	var due []func()
	text := s.printed.String()
	s.waiting = slices.DeleteFunc(s.waiting, func(c cue) bool {
		is := strings.Count(text, c.text) >= c.count
		if is {
			due = append(due, c.then)
		}
		return is
	})
	s.mu.Unlock()
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
		Contains(tb, s.String(), text, "what is printed")
	}
}

// Say prints a line.
func (s *Screen) Say(format string, args ...any) { fmt.Fprintf(s, format+"\n", args...) }
