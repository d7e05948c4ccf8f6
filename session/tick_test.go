package session

import (
	"testing"
	"time"
)

func TestATimeoutThatServersChangeImpliesTheirTick(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, c := range []struct{ asked, granted, told, implied, long time.Duration }{
		{10 * s, 10 * s, 2 * s, 0, 0},
		{10 * s, 12 * s, 2 * s, 6 * s, 6 * s},    // HBASE-22700
		{10 * s, 12 * s, 6 * s, 6 * s, 0},        // it was told
		{1 * s, 4 * s, 2 * s, 2 * s, 0},          // the default tick of servers
		{1 * s, 4 * s, 500 * ms, 2 * s, 2 * s},   // less was told
		{time.Hour, 40 * s, 2 * s, 2 * s, 0},     // the longest that servers with the default grant
		{time.Hour, 60 * s, 2 * s, 3 * s, 3 * s}, // and others
		{60 * s, 10 * s, 2 * s, 500 * ms, 0},
	} {
		if got := longTick(c.asked, c.granted, 0); got != c.implied {
			t.Errorf("of %v, %v were granted: a tick of %v, want %v", c.asked, c.granted, got, c.implied)
		}
		if got := longTick(c.asked, c.granted, c.told); got != c.long {
			t.Errorf("of %v, %v were granted, and a tick of %v was told: too long is %v, want %v", c.asked, c.granted, c.told, got, c.long)
		}
	}
}
