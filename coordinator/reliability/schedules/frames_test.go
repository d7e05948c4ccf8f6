package schedules

import (
	"sync/atomic"
	"testing"

	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// oneIn returns n if one of n trials is played, and 1 at full length.
func oneIn(quick int) int {
	if noSample {
		return reliability.Trials(quick, 1, 1)
	}
	return quick
}

// TestNoNodeIsLeftWhateverFrameIsLost loses each frame of each story in turn, in both directions, and in some trials another one
// soon after. The quick test takes a sample: each way of losing a frame of each story at least once in each direction.
func TestNoNodeIsLeftWhateverFrameIsLost(t *testing.T) {
	every := oneIn(12)
	var trials []*scene
	blocks := 0
	for _, st := range uses() {
		frames := play(t, &scene{use: st}).frames
		for _, how := range losses() {
			for _, direction := range []faultnet.Direction{faultnet.Up, faultnet.Down} {
				var block []*scene
				last := frames[direction]
				if every == 1 {
					last++ // one more may be there
				}
				for nth := 1; nth <= last; nth++ {
					for again := range reliability.Trials(st.often(), st.often(), 8) {
						block = append(block, &scene{use: st, loss: how, direction: direction, nth: nth, again: again})
					}
				}
				blocks++
				trials = append(trials, sample(block, blocks, every)...)
			}
		}
	}
	var lost, doubled, left atomic.Int64
	failed := t.Failed
	sideBySide(t, func(t *testing.T, i int) bool {
		if i >= len(trials) || failed() {
			return false
		}
		s := play(t, trials[i])
		trials[i] = nil // it holds a server
		if s.lost.Load() {
			lost.Add(1)
		}
		if s.most.Load() > int64(max(1, s.nodes)) {
			doubled.Add(1)
		}
		if s.remain > 0 {
			left.Add(1)
		}
		return true
	})
	if n, want := lost.Load(), int64(blocks/2); n < want && !t.Failed() {
		t.Errorf("in %d trials only %d frames were lost, want %d at least", len(trials), n, want)
	}
	reliability.Report(t, reliability.RowOrphans, "%d left and %d doubled in %d trials: %d stories, "+
		"each frame lost up and down, %d ways, some with a second one soon after",
		left.Load(), doubled.Load(), lost.Load(), len(uses()), len(losses()))
}

// play plays a scene in a bubble of its own. Without a frame to lose it counts the frames.
func play(t *testing.T, s *scene) *scene {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) {
		s.stage = newStage(t, s.rule)
		defer func() {
			if t.Failed() {
				t.Errorf("in: %s; frame %d %s is lost %s, and another one %d later", s.use.name, s.nth, s.direction, s.loss.name, s.again)
			}
		}()
		s.run()
	})
	return s
}

// TestLoopsWithEachFrameLost has each frame of a few cycles meet with each mishap in turn, upwards and downwards. The quick test
// takes a sample: each mishap of each track at least once in each direction.
func TestLoopsWithEachFrameLost(t *testing.T) {
	every := oneIn(7)
	type trial struct {
		*laps
		track string
	}
	run := func(t *testing.T, one trial) *laps {
		eventstest.Bubble(t, func(t *testing.T) {
			one.stage = newStage(t, one.rule)
			defer func() {
				if t.Failed() {
					t.Errorf("in: %s; frame %d %v: %s", one.track, one.nth, one.direction, one.name)
				}
			}()
			one.run(tracks()[one.track])
		})
		return one.laps
	}
	var trials []trial
	blocks := 0
	for name := range tracks() {
		healthy := run(t, trial{&laps{mishap: mishap{name: "nothing happens"}}, name})
		for _, m := range mishaps() {
			directions, last := []faultnet.Direction{faultnet.Up, faultnet.Down}, healthy.frames
			if m.server != nil {
				directions, last[faultnet.Up] = directions[:1], healthy.asked
			}
			for _, d := range directions {
				var block []trial
				for nth := 1; nth <= min(last[d], reliability.Trials(frames, frames, 60)); nth++ {
					block = append(block, trial{&laps{mishap: m, direction: d, nth: nth}, name})
				}
				blocks++
				trials = append(trials, sample(block, blocks, every)...)
			}
		}
	}
	var struck atomic.Int64
	failed := t.Failed
	sideBySide(t, func(t *testing.T, i int) bool {
		if i >= len(trials) || failed() {
			return false
		}
		if run(t, trials[i]).struck {
			struck.Add(1)
		}
		trials[i] = trial{} // it holds a server
		return true
	})
	if n, want := struck.Load(), int64(max(blocks, len(trials))*3/4); n < want && !t.Failed() {
		t.Errorf("in %d trials only %d frames met with a mishap, want %d at least", len(trials), n, want)
	}
	reliability.Report(t, reliability.RowOrphans, "0 left in %d trials of loops: %d tracks, %d mishaps at each frame of %d cycles",
		struck.Load(), len(tracks()), len(mishaps()), undisturbed)
}
