package eventstest

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Bubble runs the test in virtual time, as synctest.Test does, with a watchdog. The watchdog panics with the lines that the test's
// goroutines wait in if the test is not over after Limit of virtual time, or waits for the same thing from one round of
// the watchdog to the next while nothing sleeps. A test cannot be ended in another way while it waits for a channel.
func Bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		defer close(over)
		go watch(t.Name(), over)
		test(t)
	})
}

// watch panics if the test hangs, and returns once it is over.
func watch(name string, over <-chan struct{}) {
	tick := time.NewTicker(round)
	defer tick.Stop()
	began, wait := time.Now(), ""
	for {
		select {
		case <-tick.C:
		case <-over:
			return
		}
		all, before := bubble(stacks()), wait
		wait = awaited(all)
		if after := time.Since(began); after >= Limit || wait != "" && wait == before {
			panic(fmt.Sprintf("%s is not over after %v of virtual time; it waits in\n%s", name, after, waiting(all)))
		}
	}
}

// bubble keeps the stacks of the caller's bubble. The caller's own stack comes first.
func bubble(stacks string) (of []string) {
	name := regexp.MustCompile(`synctest bubble \d+`).FindString(stacks)
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		if head, _, _ := strings.Cut(stack, "\n"); strings.HasSuffix(head, name+"]:") {
			of = append(of, stack)
		}
	}
	return of
}

// awaited returns the calls of the test that a bubble runs, or nothing while one of its goroutines sleeps.
func awaited(bubble []string) (test string) {
	for _, stack := range bubble {
		head, calls, _ := strings.Cut(stack, "\n")
		if strings.Contains(head, "[sleep") {
			return ""
		}
		if strings.Contains(calls, "eventstest.Bubble.func1(") {
			test = calls
		}
	}
	return test
}

// stacks returns the stacks of all goroutines.
func stacks() string {
	for buffer := make([]byte, 1<<20); ; buffer = make([]byte, 2*len(buffer)) {
		if n := runtime.Stack(buffer, true); n < len(buffer) {
			return string(buffer[:n])
		}
	}
}

var frame = regexp.MustCompile(`(?m)^\t(\S+_test\.go):(\d+)`)

// waiting names the innermost line of a test file in each stack, and the text of that line.
func waiting(bubble []string) string {
	var lines []string
	for _, stack := range bubble {
		if at := frame.FindStringSubmatch(stack); at != nil {
			lines = append(lines, fmt.Sprintf("\t%s:%s: %s", at[1], at[2], source(at[1], at[2])))
		}
	}
	return strings.Join(lines, "\n")
}

// source returns a line of a file, or nothing if the file is not there.
func source(file, line string) string {
	text, err := os.ReadFile(file)
	n, wrong := strconv.Atoi(line)
	lines := strings.Split(string(text), "\n")
	if err != nil || wrong != nil || n < 1 || n > len(lines) {
		return ""
	}
	return strings.TrimSpace(lines[n-1])
}
