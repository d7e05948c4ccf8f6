package eventstest

import (
	"testing"
	"time"
)

const (
	// Limit is how much virtual time a test may take. No promise of the library takes
	// hours.
	Limit = 48 * time.Hour
	// round is the interval at which the watchdog of a bubble looks.
	round = 10 * time.Minute
	// patience is how much virtual time a test waits for one thing.
	patience = round - time.Minute
	// polls is how often a test looks before it gives up. Outside of virtual time, 6,000
	// polls take a minute or more.
	polls = 6000
	// interval is the time between two looks, outside of virtual time.
	interval = 10 * time.Millisecond
	// quick is the time between the first looks: most conditions become true within
	// microseconds.
	quick = time.Millisecond
)

// step returns the time between two looks. A clock in a testing/synctest bubble starts in
// the year 2000.
func step() time.Duration {
	if time.Now().Year() < 2020 {
		return patience / polls
	}
	return interval
}

// Receive returns the next value of the channel, or the zero value once it is closed. It
// fails the test if nothing arrives. what names the awaited value: "a Grant of the second
// waiter".
func Receive[T any](tb testing.TB, from <-chan T, what string) T {
	tb.Helper()
	began, tick := time.Now(), time.NewTicker(step())
	defer tick.Stop()
	for range polls {
		select {
		case v := <-from:
			return v
		case <-tick.C:
		}
	}
	tb.Fatalf("still waiting for %s after %v, and nothing came", what, time.Since(began).Round(time.Millisecond))
	panic("unreachable")
}

// Eventually returns as soon as the condition holds, and fails the test if it never does.
// what names the condition: "the waiter is queued". The failure message ends with the
// last state, as the functions in state return it.
func Eventually(tb testing.TB, what string, holds func() bool, state ...func() string) {
	tb.Helper()
	began := time.Now()
	if holds() {
		return
	}
	pause := step()
	tick := time.NewTicker(min(pause, quick))
	defer tick.Stop()
	for n := range polls {
		<-tick.C
		if holds() {
			return
		}
		if n == 100 {
			tick.Reset(pause)
		}
	}
	seen := ""
	for _, tell := range state {
		seen += "; " + tell()
	}
	tb.Fatalf("still not after %v and %d looks: %s%s", time.Since(began).Round(time.Millisecond), polls+1, what, seen)
}
