package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/zkgrant/zkgrant/bench/internal/goldentest"
)

// largest is what a picture may weigh, in bytes.
const largest = 60 << 10

func drawn(t *testing.T, f *Figures) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := draw(&b, f); err != nil {
		t.Fatal(err)
	}
	if b.Len() > largest {
		t.Errorf("the picture has %d bytes, want at most %d", b.Len(), largest)
	}
	for tokens := xml.NewDecoder(bytes.NewReader(b.Bytes())); ; {
		if _, err := tokens.Token(); errors.Is(err, io.EOF) {
			return b.Bytes()
		} else if err != nil {
			t.Fatalf("what is drawn is no XML: %v", err)
		}
	}
}

// The files hold invented figures. all.json has usual ones. odd.json has unusual ones: a library left out for a reason with special
// characters, a holder that hears nothing, no grant, and a partition too short for a break in the axis.
func TestPicture(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"all", "odd"} {
		f, err := load(filepath.Join("testdata", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		goldentest.Compare(t, filepath.Join("testdata", name+".svg"), string(drawn(t, f)))
		var printed bytes.Buffer
		if err := f.print(&printed); err != nil {
			t.Fatal(err)
		}
		goldentest.Compare(t, filepath.Join("testdata", name+".txt"), printed.String())
	}
}

// The README shows the committed figures.
func TestTheCommittedPictureIsOfTheCommittedFigures(t *testing.T) {
	t.Parallel()
	f, err := load(filepath.Join("..", "timeline.json"))
	if err != nil {
		t.Fatal(err)
	}
	goldentest.Compare(t, filepath.Join("..", "timeline.svg"), string(drawn(t, f))) // go run ./timeline -draw writes it, too
	for _, m := range f.Measured {
		if s := summarize(m.Runs); s != m.Summary || len(m.Runs) == 0 {
			t.Errorf("%s: the summary is not that of its %d runs", m.Key, len(m.Runs))
		}
	}
}

func TestAxis(t *testing.T) {
	t.Parallel()
	measured := func(times ...Millis) []Measured {
		var m []Measured
		for _, at := range times {
			m = append(m, Measured{Summary: Summary{Lost: Spread{Median: at, Min: at, Max: at, Came: 1}}})
		}
		return m
	}
	for name, c := range map[string]struct {
		f      Figures
		broken bool
	}{
		"usual":             {Figures{Healed: 30_000, Measured: measured(4_000, 9_999, 30_500)}, true},
		"late":              {Figures{Healed: 30_000, Measured: measured(25_000, 70_000)}, true},
		"healed soon":       {Figures{Healed: 12_000, Measured: measured(10_500, 12_100)}, false},
		"nothing was heard": {Figures{Healed: 12_000}, true},
	} {
		a := newAxis(&c.f)
		if a.broken() != c.broken {
			t.Errorf("%s: the axis %+v is broken: %v, want %v", name, a, a.broken(), c.broken)
		}
		last := axisLeft
		for at := a.first; at <= a.last; at += 10 {
			x := a.x(at)
			if x < last || x > axisRight+1e-6 {
				t.Fatalf("%s: %d is at %v, after %v", name, at, x, last)
			}
			last = x
		}
		if last < axisRight-1 {
			t.Errorf("%s: the axis ends at %v, want %v", name, last, axisRight)
		}
		for _, m := range c.f.Measured {
			lost := m.Summary.Lost.Median
			if c.broken && lost > a.early && lost < a.late {
				t.Errorf("%s: %d is left out", name, lost)
			}
			if a.x(lost+1) <= a.x(lost-1) {
				t.Errorf("%s: no difference around %d", name, lost)
			}
		}
		for _, tick := range a.ticks() {
			if tick.X < axisLeft || tick.X > axisRight {
				t.Errorf("%s: the tick of %s s is at %v, want it on the axis", name, tick.Text, tick.X)
			}
		}
	}
}
