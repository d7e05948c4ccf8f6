package schedules

import (
	"sync/atomic"
	"testing"

	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// TestNoNodeIsLeftWhateverFrameIsLost lets each mishap strike each frame of a few cycles
// of each track in turn, in both directions. In some trials, the connection also ends
// soon after. The quick test plays a sample.
func TestNoNodeIsLeftWhateverFrameIsLost(t *testing.T) {
	play := func(t *testing.T, l *laps) {
		t.Helper()
		eventstest.Bubble(t, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Errorf("in: %s; frame %d %v, and another one %d later: %s", l.track, l.nth, l.direction, l.again, l.name)
				}
			}()
			l.run(t)
		})
	}
	most, every := reliability.Trials(12, 12, 60), reliability.Trials(37, 3, 1)
	if eventstest.Raced {
		most, every = 4, 37
	}
	var trials []*laps
	for name, runners := range tracks() {
		healthy, all := &laps{track: name}, []*laps(nil)
		play(t, healthy)
		for _, m := range mishaps() {
			directions, last := []faultnet.Direction{faultnet.Up, faultnet.Down}, healthy.frames
			if m.server != nil {
				directions, last[faultnet.Up] = directions[:1], healthy.asked
			}
			twice := 1
			if runners[0].waits && m.server == nil {
				twice = reliability.Trials(2, 2, 4)
			}
			for _, d := range directions {
				for nth := 1; nth <= min(last[d], most); nth++ {
					for again := range twice {
						all = append(all, &laps{track: name, mishap: m, direction: d, nth: nth, again: again})
					}
				}
			}
		}
		for i := len(trials) % every; i < len(all); i += every {
			trials = append(trials, all[i])
		}
	}
	var struck atomic.Int64
	failed := t.Failed
	sideBySide(t, func(t *testing.T, i int) bool {
		if i >= len(trials) || failed() {
			return false
		}
		if play(t, trials[i]); trials[i].struck {
			struck.Add(1)
		}
		trials[i] = nil // release its server
		return true
	})
	n := struck.Load()
	eventstest.Expect(t, n >= int64(len(trials)*3/4) || t.Failed(),
		"in %d trials only %d frames met with a mishap, want three in four at least", len(trials), n)
	reliability.Report(t, reliability.RowOrphans, "0 left and 0 doubled in %d trials: %d tracks, %d mishaps at each frame of %d cycles, "+
		"some with another one soon after", struck.Load(), len(tracks()), len(mishaps()), undisturbed)
}
