package wire

import (
	"testing"
	"time"
)

// TestPausesGrowWhileRequestsAreTurnedAway: they start over after a calm time.
func TestPausesGrowWhileRequestsAreTurnedAway(t *testing.T) {
	const T, ms = 10 * time.Second, time.Millisecond
	now := time.Unix(1000, 0)
	var th Throttle
	want := func(when string, full time.Duration) {
		t.Helper()
		least, most := time.Hour, time.Duration(0)
		for range 1000 {
			pause := th.Pause(now, T)
			least, most = min(least, pause), max(most, pause)
		}
		expect(t, least >= full/2 && least <= full*6/10 && most >= full*9/10 && most <= full,
			"%s pauses take %v to %v, want from half of %v to all of it", when, least, most, full)
	}
	want("before any is turned away", 100*ms)
	for _, full := range []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, T / 4, T / 4, T / 4} {
		for range 50 { // one round
			th.TurnedAway(now, T)
			now = now.Add(full / 100)
			th.TurnedAway(now, T)
		}
		want("in a round", full)
		now = now.Add(full / 2)
	}
	now = now.Add(T - 2*T/8)
	want("a while after the latest", T/4)
	now = now.Add(T)
	want("after a calm", 100*ms)
	th.TurnedAway(now, T)
	want("in the first round after a calm", 100*ms)
	for range 100 {
		now = now.Add(time.Second)
		th.TurnedAway(now, time.Second)
		if pause := th.Pause(now, 100*ms); pause > 100*ms {
			t.Fatalf("with a very short timeout a pause takes %v, want 100 ms at most", pause)
		}
	}
}
