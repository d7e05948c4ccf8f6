package main

import (
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"
)

func at(ms Millis) *Millis { return &ms }

func TestFiguresOfARun(t *testing.T) {
	t.Parallel()
	cut := time.Now()
	heard := func(ms int, library string, w who, told what, own string) note {
		return note{at: cut.Add(time.Duration(ms) * time.Millisecond), library: library, who: w, what: told, own: own}
	}
	notes := []note{
		heard(1000, "other", holder, toldSuspended, "not ours"),
		heard(2000, "lib", holder, toldSuspended, "DOWN"),
		heard(2500, "lib", holder, toldSuspended, "DOWN"), // the first one counts
		heard(6801, "lib", next, toldGranted, ""),
		heard(6800, "lib", observer, toldLost, ""), // reported later, and seen earlier
		heard(6900, "lib", next, toldSuspended, "not the holder's"),
		heard(7000, "lib", next, toldLost, "not the holder's"),
		heard(9100, "lib", holder, toldLost, "GONE"),
		heard(9050, "lib", holder, toldInvalid, ""),
		heard(30000, "lib", holder, toldConnected, "UP"),
	}
	r := newRun("lib", notes, cut)
	told := r.Told
	r.Told = nil
	want := Run{
		Suspended: at(2000), Invalid: at(9050), Lost: at(9100), Expired: at(6800), Granted: at(6801), Lead: at(-2299),
	}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("the run is %+v, want %+v", r, want)
	}
	if len(told) != len(notes)-1 || !slices.IsSortedFunc(told, func(a, b Told) int { return int(a.At - b.At) }) {
		t.Errorf("told: %+v; want %d notes in order", told, len(notes)-1)
	}
	if want := (Told{At: 2000, Who: "holder", What: "suspended", Own: "DOWN"}); told[0] != want {
		t.Errorf("told first: %+v, want %+v", told[0], want)
	}
	if r := newRun("nosuch", notes, cut); !reflect.DeepEqual(r, Run{}) {
		t.Errorf("the run of an unknown library is %+v, want nothing", r)
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	s := summarize([]Run{
		{Lost: at(9000), Granted: at(6000), Lead: at(-3000)},
		{Lost: at(8000), Granted: at(6500), Lead: at(-1500)},
		{Granted: at(7000)},
	})
	want := Summary{
		Lost:    Spread{Median: 8500, Min: 8000, Max: 9000, Came: 2},
		Granted: Spread{Median: 6500, Min: 6000, Max: 7000, Came: 3},
		Lead:    Spread{Median: -2250, Min: -3000, Max: -1500, Came: 2},
	}
	if s != want {
		t.Errorf("the summary is %+v, want %+v", s, want)
	}
	if s := summarize(nil); s != (Summary{}) {
		t.Errorf("the summary of no runs is %+v, want a zero one", s)
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	before := Run{Lost: at(4000), Granted: at(6000), Lead: at(2000)}
	after := Run{Lost: at(9000), Granted: at(6000), Lead: at(-3000)}
	together := Run{Lost: at(6000), Granted: at(6000), Lead: at(0)}
	never := Run{Granted: at(6000)}
	for _, c := range []struct {
		runs   []Run
		words  string
		extent string
		harm   bool
	}{
		{nil, "nobody was granted", "", false},
		{[]Run{{Lost: at(4000)}}, "nobody was granted", "", false},
		{[]Run{before}, "told 2.0 s before", "", false},
		{[]Run{before, {Granted: at(6500), Lead: at(2500)}}, "told 2.2 s before", "2.0–2.5", false},
		{[]Run{after}, "two holders for 3.0 s", "", true},
		{[]Run{after, {Granted: at(6500), Lead: at(-2500)}}, "two holders for 2.8 s", "2.5–3.0", true},
		{[]Run{before, after, before}, "two holders in 1 of 3 runs", "", true},
		{[]Run{before, together}, "two holders in 1 of 2 runs", "", true},
		{[]Run{never}, "two holders, and never told", "", true},
	} {
		words, extent, harm := Measured{Runs: c.runs, Summary: summarize(c.runs)}.verdict()
		if words != c.words || extent != c.extent || harm != c.harm {
			t.Errorf("the verdict on %+v is %q, %q, %v; want %q, %q, %v", c.runs, words, extent, harm, c.words, c.extent, c.harm)
		}
	}
}

func TestAHolderThatTakesSuspendedForALossIsInTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		run  Run
		want bool
	}{
		{Run{Suspended: at(4000), Granted: at(6000)}, true},
		{Run{Suspended: at(6000), Granted: at(6000)}, false},
		{Run{Granted: at(6000)}, false},
		{Run{}, true}, // no contender was granted the lock
	} {
		f := &Figures{Measured: []Measured{{Runs: []Run{{Suspended: at(1), Granted: at(2)}, c.run}}}}
		if got := f.suspendedInTime(); got != c.want {
			t.Errorf("%+v is in time: %v, want %v", c.run, got, c.want)
		}
	}
}

func TestFiguresAreSavedAsTheyAre(t *testing.T) {
	t.Parallel()
	f, err := load(filepath.Join("..", "timeline.json"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "again.json")
	if err := f.save(file); err != nil {
		t.Fatal(err)
	}
	again, err := load(file)
	if err != nil || !reflect.DeepEqual(again, f) {
		t.Errorf("saved and loaded again: %v\n%+v\nwant\n%+v", err, again, f)
	}
	if _, err := load(t.TempDir()); err == nil {
		t.Error("loading a folder: no error")
	}
}
