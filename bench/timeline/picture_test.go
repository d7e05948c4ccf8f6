package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"path/filepath"
	"strings"
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

// TestOddFigures has what the committed figures do not: a library left out for a reason with special characters, a holder that hears
// nothing, no grant, and a partition too short for a break in the axis.
func TestOddFigures(t *testing.T) {
	t.Parallel()
	measured := func(key, name string, runs ...Run) Measured {
		return Measured{Key: key, Name: name, Runs: runs, Summary: summarize(runs)}
	}
	f := &Figures{
		Timeout: 4500, Tick: 500, Healed: 9500, LeftOut: map[string]string{keyCurator: `no "Curator" <5 & none to run`},
		Measured: []Measured{
			measured(keyStock, "go-zookeeper", Run{Suspended: at(2500), Expired: at(5100), Granted: at(5101)}),
			measured(keyOurs, "zkgrant", Run{
				Suspended: at(2900), Invalid: at(3900), Lost: at(3902),
				Told: []Told{{At: 3902, Who: holder.String(), What: toldLost.String(), Own: "Lost: <lease> & co"}},
			}),
		},
	}
	p := newPicture(f)
	mute, ours := p.Groups[0], p.Groups[1]
	if granted := between(p.Cut+5101*(p.Healed-p.Cut)/9500, axisRight); p.Broken || mute.Lost != nil || !near(mute.Wrong, granted) || !near(mute.Nexts, granted) {
		t.Errorf("broken: %v; of a holder that hears nothing: %+v; want it wrong from the grant to the end, %+v", p.Broken, mute, granted)
	}
	if held := between(axisLeft, ours.Lost.X); ours.Holds != held || ours.Wrong.Width > 0 || ours.Nexts.Width > 0 {
		t.Errorf("without a grant: %+v, want that it holds, %+v, and nothing after it", ours, held)
	}
	picture := string(drawn(t, f))
	var printed bytes.Buffer
	if err := f.print(&printed); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(printed.String()), " ")
	for in, wants := range map[string][]string{
		picture: {
			">two holders, and never told<", ">nobody was granted<", ">Lost: &lt;lease&gt; &amp; co 3.9 s<", "cut, one run<",
			">Left out: Apache Curator. no &#34;Curator&#34; &lt;5 &amp; none to run<",
		},
		text: {
			"go-zookeeper 1 2500 - - 5100 5101 - zkgrant 1 2900 3900 3902 - - - go-zookeeper: two holders, and never told zkgrant: nobody was granted",
			`Apache Curator IS LEFT OUT: no "Curator" <5 & none to run`,
		},
	} {
		for _, want := range wants {
			if !strings.Contains(in, want) {
				t.Errorf("want %q in\n%s", want, in)
			}
		}
	}
	for runs, want := range map[int]string{3: "2900 (2300–3600)", 4: "2900 (2300–3600), never in 1"} {
		if got := (Spread{Median: 2900, Min: 2300, Max: 3600, Came: 3}).cell(runs); got != want {
			t.Errorf("of %d runs: %q, want %q", runs, got, want)
		}
	}
}

// near reports whether two spans differ by less than a pixel.
func near(a, b span) bool { return math.Abs(a.X-b.X) < 1 && math.Abs(a.Width-b.Width) < 1 }

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
