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
	if got := c.ordinary(deadline).Sub(deadline); got != 0 {
		t.Errorf("before any suspend the clocks differ by %v, want 0", got)
	}
	slept = 30 * time.Minute
	if passed := c.now().Sub(before); passed < slept || passed > slept+time.Minute {
		t.Errorf("in a suspend of %v the clock has gone on by %v, want as much", slept, passed)
	}
	if left := time.Until(c.ordinary(deadline)); left > 30*time.Minute || left < 29*time.Minute {
		t.Errorf("after half an hour's suspend %v are left of an hour, want the other half", left)
	}
	if !c.ordinary(time.Time{}).IsZero() {
		t.Error("the zero time has become another one, want it to stay zero")
	}
}

// In a bubble time is virtual, and the kernel's clocks are not.
func TestTheSystemsClockIsExactInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := systemClock(t)
		start := c.now()
		for range 1000 {
			time.Sleep(time.Minute)
		}
		if got := c.now().Sub(start); got != 1000*time.Minute || !c.now().Equal(time.Now()) {
			t.Errorf("%v have passed, and the clock is %v off; want 1000 min and 0, if the machine was not suspended meanwhile", got, time.Since(c.now()))
		}
	})
}

func TestReadingTheClockAllocatesNothing(t *testing.T) {
	c := systemClock(t)
	if n := testing.AllocsPerRun(1000, func() { _ = c.now() }); n > 0 {
		t.Errorf("reading the clock takes %v allocations, want none", n)
	}
}

// The wall clock can be set. If a lease were counted on it, the lease would grow by as much as the clock is set back. A time knows whether
// it has a reading of the monotonic clock, and says so at the end of its text. A time without such a reading makes every difference and
// every comparison one of wall clocks.
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
		if !strings.Contains(at.String(), " m=") {
			t.Errorf("%s is %v, which is the wall clock's; want a monotonic reading", what, at)
		}
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
