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

// Bubble runs the test in virtual time, as synctest.Test does, with a watchdog. If the test is not over after Limit of
// virtual time, the watchdog panics with the lines that its goroutines wait in. A test cannot be ended in another way
// while it waits for a channel.
func Bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		watchdog := time.AfterFunc(Limit, func() {
			panic(fmt.Sprintf("%s is not over after %v of virtual time; it waits in\n%s", t.Name(), Limit, waiting(stacks())))
		})
		defer watchdog.Stop()
		test(t)
	})
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

// waiting names the innermost line of a test file in each stack of a bubble, and the text of that line.
func waiting(stacks string) string {
	var lines []string
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		head, _, _ := strings.Cut(stack, "\n")
		at := frame.FindStringSubmatch(stack)
		if at == nil || !strings.Contains(head, "synctest bubble") {
			continue
		}
		lines = append(lines, fmt.Sprintf("\t%s:%s: %s", at[1], at[2], source(at[1], at[2])))
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
