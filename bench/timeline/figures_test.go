package main

import (
	"bytes"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/bench/internal/benchtest"
	"github.com/zkgrant/zkgrant/bench/internal/figures"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// TestTheCommittedPictureIsOfTheCommittedFigures: the docs show the picture, which go run
// ./timeline -draw writes.
func TestTheCommittedPictureIsOfTheCommittedFigures(t *testing.T) {
	t.Parallel()
	f, b := new(Figures), new(bytes.Buffer)
	eventstest.Must(t, figures.Load(filepath.Join("..", "timeline.json"), f))
	eventstest.Must(t, draw(b, f))
	benchtest.Compare(t, filepath.Join("..", "timeline.svg"), b.String())
}

func TestFiguresOfARun(t *testing.T) {
	t.Parallel()
	cut := time.Now()
	var notes []note
	for _, n := range []struct {
		ms      int
		library string
		who     who
		what    what
	}{
		{1000, "other", holder, toldSuspended},
		{2000, "lib", holder, toldSuspended},
		{2500, "lib", holder, toldSuspended}, // the first one counts
		{6801, "lib", next, toldGranted},
		{6800, "lib", observer, toldLost}, // reported later than it was seen
		{6900, "lib", next, toldSuspended},
		{7000, "lib", next, toldLost},
		{9100, "lib", holder, toldLost},
		{9050, "lib", holder, toldInvalid},
		{30000, "lib", holder, toldConnected},
	} {
		notes = append(notes, note{at: cut.Add(time.Duration(n.ms) * time.Millisecond), library: n.library, who: n.who, what: n.what})
	}
	r := newRun("lib", notes, cut)
	want := map[moment]Millis{suspended: 2000, invalid: 9050, lost: 9100, expired: 6800, granted: 6801, lead: -2299}
	if !maps.Equal(r.Moments, want) || len(r.Told) != len(notes)-1 || r.Told[1].At != 2500 || r.Told[2].At != 6800 {
		t.Errorf("the run is %+v, want the moments %v and each note in order", r, want)
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	run := func(told, let Millis) Run {
		return Run{Moments: map[moment]Millis{lost: told, granted: let, lead: let - told}}
	}
	before, after, never := run(4000, 6000), run(9000, 6000), Run{Moments: map[moment]Millis{granted: 6000}}
	for _, c := range []struct {
		runs   []Run
		words  string
		extent string
		harm   bool
	}{
		{nil, "nobody was granted", "", false},
		{[]Run{{Moments: map[moment]Millis{lost: 4000}}}, "nobody was granted", "", false},
		{[]Run{before}, "told 2.0 s before", "", false},
		{[]Run{before, run(4000, 6500)}, "told 2.2 s before", "2.0–2.5", false},
		{[]Run{after}, "two holders for 3.0 s", "", true},
		{[]Run{after, run(9000, 6500)}, "two holders for 2.8 s", "2.5–3.0", true},
		{[]Run{before, after, before}, "two holders in 1 of 3 runs", "", true},
		{[]Run{before, run(6000, 6000)}, "two holders in 1 of 2 runs", "", true},
		{[]Run{never}, "two holders, and never told", "", true},
	} {
		words, extent, harm := Measured{Runs: c.runs}.verdict()
		if words != c.words || extent != c.extent || harm != c.harm {
			t.Errorf("the verdict on %+v is %q, %q, %v; want %q, %q, %v", c.runs, words, extent, harm, c.words, c.extent, c.harm)
		}
	}
}

func TestAHolderThatTakesSuspendedForALossIsInTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		moments map[moment]Millis
		want    bool
	}{
		{map[moment]Millis{suspended: 4000, granted: 6000}, true},
		{map[moment]Millis{suspended: 6000, granted: 6000}, false},
		{map[moment]Millis{granted: 6000}, false},
		{nil, true}, // no contender was granted the lock
	} {
		if got := (&Figures{Measured: []Measured{{Runs: []Run{{Moments: c.moments}}}}}).suspendedInTime(); got != c.want {
			t.Errorf("%v is in time: %v, want %v", c.moments, got, c.want)
		}
	}
}
