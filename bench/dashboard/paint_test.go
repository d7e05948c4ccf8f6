package main

import (
	"bytes"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator/telemetry/zkprom/promtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func at(seconds float64) time.Time {
	return time.Unix(0, 0).Add(time.Duration(seconds * float64(time.Second)))
}

// TestEachPanelIsDrawn: a picture of the dashboard with lines in each panel differs from a picture without.
func TestEachPanelIsDrawn(t *testing.T) {
	text, err := os.ReadFile("../../coordinator/telemetry/zkprom/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	d, err := promtest.ParseDashboard(text)
	if err != nil {
		t.Fatal(err)
	}
	drawn := func(lines ...line) []byte {
		var panels []panel
		for _, p := range d.Panels {
			panels = append(panels, panel{Panel: p, from: at(0), to: at(10), lines: lines})
		}
		file := filepath.Join(t.TempDir(), "picture.png")
		if err := paint(file, d.Title, panels); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if image, err := png.Decode(bytes.NewReader(text)); err != nil || image.Bounds().Dx() < 1000 {
			t.Fatalf("the picture: %v, want a PNG of 1000 pixels or more", err)
		}
		return text
	}
	some := line{"a", []promtest.Point{{At: at(1), Value: 1}, {At: at(1.5), Value: math.NaN()}, {At: at(2), Value: 3}, {At: at(2.5), Value: 2}}}
	if bytes.Equal(drawn(), drawn(some)) {
		t.Error("a line leaves no trace in the picture")
	}
}

func TestBandsAreWhereAValueIsAbove0(t *testing.T) {
	got := bandsOf([]promtest.Point{
		{At: at(0), Value: 1}, {At: at(0.5), Value: 1}, {At: at(1)}, {At: at(1.5), Value: 2}, {At: at(5), Value: 1},
	})
	if want := [][2]time.Time{{at(0), at(1)}, {at(1.5), at(2)}, {at(5), at(5.5)}}; !reflect.DeepEqual(got, want) {
		t.Errorf("bands %v, want %v", got, want)
	}
}

func TestLinesEndWherePointsAreMissing(t *testing.T) {
	got := parts([]promtest.Point{{At: at(0)}, {At: at(0.5)}, {At: at(1), Value: math.NaN()}, {At: at(1.5)}, {At: at(2)}, {At: at(9)}})
	if len(got) != 3 || len(got[0]) != 2 || len(got[1]) != 2 || len(got[2]) != 1 {
		t.Errorf("parts %v, want 2, 2 and 1 points", got)
	}
}

func TestTicksAreFewAndRound(t *testing.T) {
	for most, want := range map[float64][]string{
		4.2: {"0", "1 s", "2 s", "3 s", "4 s"}, 70: {"0", "20 s", "40 s", "60 s"}, 0.1: {"0", "50 ms", "100 ms"},
	} {
		var got []string
		for _, tick := range ticks(0, most, "s") {
			got = append(got, tick.Label)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("up to %v the ticks are %q, want %q", most, got, want)
		}
	}
}
