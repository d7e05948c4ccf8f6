package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// tone is how a line is meant.
type tone uint8

const (
	plain tone = iota + 1
	good
	warn
	bad
)

// timeline prints what happens, one line each, as it happens. Its methods may be
// called from any goroutine.
type timeline struct {
	colours bool
	begin   time.Time

	mu  sync.Mutex
	out io.Writer
}

func newTimeline(out io.Writer, colours bool) *timeline {
	return &timeline{colours: colours, begin: time.Now(), out: out}
}

// title prints a line between empty ones.
func (t *timeline) title(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.out, "\n"+format+"\n\n", args...)
}

// add prints one event.
func (t *timeline) add(tone tone, who, what, detail string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	elapsed := fmt.Sprintf("%7.3fs", time.Since(t.begin).Seconds())
	line := fmt.Sprintf("  %s  %-4s  %s  %s", elapsed, who, t.paint(tone, fmt.Sprintf("%-9s", what)), detail)
	fmt.Fprintln(t.out, strings.TrimRight(line, " "))
}

// summary prints how the promises were kept.
func (t *timeline) summary(book *ledger, left int, leftErr error) {
	var grants []string
	for _, g := range book.history() {
		grant := fmt.Sprintf("%s %#x", g.name, g.token)
		if g.lost {
			grant += " (lost)"
		}
		grants = append(grants, grant)
	}
	nodes := fmt.Sprint(left)
	if leftErr != nil {
		nodes = leftErr.Error()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintln(t.out)
	for _, row := range [][2]string{
		{"grants in order", strings.Join(grants, ", ")},
		{"first come, first served", yes(book.overtaken())},
		{"one at a time", yes(book.crowded())},
		{"tokens growing", yes(book.stale())},
		{"nodes left", nodes},
	} {
		fmt.Fprintf(t.out, "  %-24s  %s\n", row[0], row[1])
	}
	fmt.Fprintln(t.out)
}

// yes turns the outcome of a check into a word.
func yes(problems []string) string {
	if len(problems) == 0 {
		return "yes"
	}
	return "NO: " + strings.Join(problems, "; ")
}

// paint colours a word, where colours are wanted.
func (t *timeline) paint(tone tone, word string) string {
	if !t.colours {
		return word
	}
	const reset = "\x1b[0m"
	switch tone {
	case good:
		return "\x1b[32m" + word + reset
	case warn:
		return "\x1b[33m" + word + reset
	case bad:
		return "\x1b[1;31m" + word + reset
	default:
		return word
	}
}

// colourful tells whether a file wants colours: it is a terminal that knows them,
// and the user has not asked for none (https://no-color.org).
func colourful(f *os.File) bool {
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
