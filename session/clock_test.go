package session

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/session/internal/lease"
	"github.com/zkgrant/zkgrant/session/internal/opcode"
	"github.com/zkgrant/zkgrant/session/internal/wire"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

func TestTheClockGoesOnWhileTheMachineIsSuspended(t *testing.T) {
	slept := time.Duration(0)
	c := clock{func() time.Duration { return slept }}
	before := c.now()
	deadline := before.Add(time.Hour)
	equal(t, c.ordinary(deadline).Sub(deadline), 0, "before any suspend the clocks differ by")
	slept = 30 * time.Minute
	if passed := c.now().Sub(before); passed < slept || passed > slept+time.Minute {
		t.Errorf("in a suspend of %v the clock has gone on by %v, want as much", slept, passed)
	}
	if left := time.Until(c.ordinary(deadline)); left > 30*time.Minute || left < 29*time.Minute {
		t.Errorf("after half an hour's suspend %v are left of an hour, want the other half", left)
	}
	expect(t, c.ordinary(time.Time{}).IsZero(), "the zero time has become another one, want it to stay zero")
}

// In a bubble, time is virtual, but the kernel's clocks are not.
func TestTheSystemsClockIsExactInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := systemClock(t)
		start := c.now()
		for range 1000 {
			time.Sleep(time.Minute)
		}
		if got := c.now().Sub(start); got != 1000*time.Minute || !c.now().Equal(time.Now()) {
			t.Errorf("%v have passed, and the clock is %v off; want 1000 min and 0, unless the machine was suspended",
				got, time.Since(c.now()))
		}
	})
}

func TestReadingTheClockAllocatesNothing(t *testing.T) {
	c := systemClock(t)
	n := testing.AllocsPerRun(1000, func() { _ = c.now() })
	expect(t, n <= 0, "reading the clock takes %v allocations, want none", n)
}

// The wall clock can be set. A lease counted on it would grow by as much as the clock is
// set back. A time with a monotonic reading shows it at the end of its text. A difference
// with a time without one is that of the wall clocks.
func TestTheClockIsNotTheWallClock(t *testing.T) {
	c := systemClock(t)
	now := c.now()
	l := lease.New(time.Second)
	l.Answered(now, now, opcode.Connect, zkerr.CodeNone, 10*time.Second)
	for what, at := range map[string]time.Time{
		"the time":                  now,
		"a deadline":                l.Deadline(),
		"a deadline for the caller": c.ordinary(l.Deadline()),
		"the time of an answer":     wire.NewLink(wire.Events{}).Events.Now(),
	} {
		expect(t, strings.Contains(at.String(), " m="),
			"%s is %v, which is the wall clock's; want a monotonic reading", what, at)
	}
}

func systemClock(t *testing.T) clock {
	t.Helper()
	slept, err := asleep()
	if err != nil {
		t.Fatal(err)
	}
	return clock{slept}
}

func TestATimeoutThatServersChangeImpliesTheirTick(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, c := range []struct{ asked, granted, assumed, implied, long time.Duration }{
		{10 * s, 10 * s, 2 * s, 0, 0},
		{10 * s, 12 * s, 2 * s, 6 * s, 6 * s},    // HBASE-22700
		{10 * s, 12 * s, 6 * s, 6 * s, 0},        // the tick is configured
		{1 * s, 4 * s, 2 * s, 2 * s, 0},          // the default tick of servers
		{1 * s, 4 * s, 500 * ms, 2 * s, 2 * s},   // the configured tick is shorter
		{time.Hour, 40 * s, 2 * s, 2 * s, 0},     // the longest timeout that servers grant by default
		{time.Hour, 60 * s, 2 * s, 3 * s, 3 * s}, // longer than that
		{60 * s, 10 * s, 2 * s, 500 * ms, 0},
	} {
		equal(t, longTick(c.asked, c.granted, 0), c.implied,
			"of %v, %v were granted: a tick of", c.asked, c.granted)
		equal(t, longTick(c.asked, c.granted, c.assumed), c.long,
			"of %v, %v were granted, and a tick of %v was assumed: too long is", c.asked, c.granted, c.assumed)
	}
}
