package eventstest

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Bubble runs the test in virtual time, as synctest.Test does, with a watchdog. The
// watchdog panics if the test is not over after Limit of virtual time. It also panics if
// the test waits in the same line from one round to the next, while no goroutine is in
// time.Sleep. The panic shows the lines that the test's goroutines wait in; nothing else
// can end a test that waits for a channel. A test that lets more time than a round pass
// must call time.Sleep, because a timer or ticker looks like any other channel.
func Bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		defer close(over)
		defer doing.Delete(t.Name())
		go watch(t.Name(), over)
		test(t)
	})
}

// Case runs a subtest in virtual time, as Bubble does.
func Case(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { Bubble(t, test) })
}

// doing maps the name of a test in virtual time to what it last passed to Doing.
var doing sync.Map

// Doing notes for the watchdog what the test is doing, for a test whose source line does
// not show that.
func Doing(tb testing.TB, what string) {
	tb.Helper()
	doing.Store(tb.Name(), what)
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
		var why string
		after := time.Since(began)
		switch {
		case after >= Limit:
			why = fmt.Sprintf("the limit is %v", Limit)
		case wait != "" && wait == before:
			why = fmt.Sprintf("for %v it has waited in the same line, with no goroutine in time.Sleep", round)
		default:
			continue
		}
		at := ""
		if what, said := doing.Load(name); said {
			at = fmt.Sprintf("\t%v\n", what)
		}
		panic(fmt.Sprintf("%s is not over after %v of virtual time; %s; it waits in\n%s%s", name, after, why, at, waiting(all)))
	}
}

// bubble returns the stacks of the caller's bubble. The caller's own stack must come
// first.
func bubble(stacks string) (of []string) {
	name := regexp.MustCompile(`synctest bubble \d+`).FindString(stacks)
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		if head, _, _ := strings.Cut(stack, "\n"); strings.HasSuffix(head, name+"]:") {
			of = append(of, stack)
		}
	}
	return of
}

// awaited returns the calls of the test that runs in the bubble, or nothing while one of
// the bubble's goroutines sleeps.
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

var frame = regexp.MustCompile(`(?m)^\t((?:\S+_test|\S+/internal/[a-z]+test/\w+)\.go:\d+)`)

// waiting returns, for each stack, the innermost line in a test or a test-support
// package.
func waiting(bubble []string) string {
	var lines []string
	for _, stack := range bubble {
		if at := frame.FindStringSubmatch(stack); at != nil {
			lines = append(lines, "\t"+at[1])
		}
	}
	return strings.Join(lines, "\n")
}
