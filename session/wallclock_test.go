package session

import (
	"strings"
	"testing"
	"time"
)

// The wall clock can be set, and a lease that is counted on it would grow by as much
// as the clock is set back. A time knows whether it has a reading of the other clock,
// and says so at the end of its text; one that has none makes every difference and
// every comparison one of wall clocks.
func TestTheClockIsNotTheWallClock(t *testing.T) {
	c := clock{asleep()}
	now := c.now()
	l := newLease(time.Second)
	l.answered(frame{now, now}, opConnect, codeNone, 10*time.Second)
	for what, at := range map[string]time.Time{
		"the time":                  now,
		"a deadline":                l.deadline(),
		"a deadline for the caller": c.ordinary(l.deadline()),
		"the time of an answer":     newLink(linkEvents{}).events.now(),
	} {
		if !strings.Contains(at.String(), " m=") {
			t.Errorf("%s is %v, which is the wall clock's", what, at)
		}
	}
}
