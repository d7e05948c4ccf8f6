package recipes_test

import (
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
)

// TestThePauseAfterAShortTerm tries every sequence of six short, long and lost terms.
func TestThePauseAfterAShortTerm(t *testing.T) {
	type term struct {
		lasted time.Duration
		lost   bool
	}
	kinds := []term{{0, false}, {recipes.ShortTerm - 1, false}, {recipes.ShortTerm, false}, {0, true}, {time.Hour, true}}
	for row := range 5 * 5 * 5 * 5 * 5 * 5 {
		for _, luck := range []float64{0, 0.5, 1} {
			var terms recipes.Terms
			short := 0
			for i, n := 0, row; i < 6; i, n = i+1, n/len(kinds) {
				k := kinds[n%len(kinds)]
				want := time.Duration(0)
				switch {
				case k.lost:
				case k.lasted >= recipes.ShortTerm:
					short = 0
				default:
					want = 100 * time.Millisecond << short
					want -= time.Duration(luck * float64(want/2))
					short++
				}
				if got := terms.Ended(k.lasted, k.lost, luck); got != want {
					t.Fatalf("row %d, term %d, luck %v: %+v is followed by a pause of %v, want %v", row, i, luck, k, got, want)
				}
			}
		}
	}
	var terms recipes.Terms
	for i := range 1000 {
		got, most := terms.Ended(0, false, 0), 10*time.Second
		if want := 100 * time.Millisecond << min(i, 7); got != min(want, most) {
			t.Fatalf("short term %d is followed by %v, want %v", i, got, min(want, most))
		}
	}
}
