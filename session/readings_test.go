package session

import (
	"testing"
	"time"
)

// TestWindow checks the room after answers of these sizes: n answers of the same size,
// one after another.
func TestWindow(t *testing.T) {
	type answers struct{ n, size int }
	const kB = 1 << 10
	for _, c := range []struct {
		what  string
		seen  []answers
		pause time.Duration // after them
		want  int
	}{
		{"nothing is known", nil, 0, 4},
		{"one is empty", []answers{{1, 0}}, 0, 8},
		{"each round trip of a look begins with short ones", []answers{{4, 100}}, 0, mostReadings},
		{"as many as are short", []answers{{1000, 4 * kB}}, 0, mostReadings},
		{"longer ones", []answers{{1000, 8 * kB}}, 0, 32},
		{"the bound", []answers{{1, mostBytes}}, 0, 1},
		{"half of it", []answers{{1, mostBytes / 2}}, 0, 2},
		{"beyond it", []answers{{1, 1000 * kB}}, 0, 1},
		{"a long one behind short ones", []answers{{1000, 0}, {1, 900 * kB}}, 0, 1},
		{"a short one behind a long one", []answers{{1, 900 * kB}, {1, 0}}, 0, 1},
		{"some behind a long one", []answers{{1, 900 * kB}, {3, 0}}, 0, 2},
		{"many behind a long one", []answers{{1, 900 * kB}, {8, 0}}, 0, mostReadings},
		{"short ones of the same look", []answers{{1000, 0}}, lull - 1, mostReadings},
		{"short ones of an earlier look", []answers{{1000, 0}}, lull, 4},
		{"long ones of an earlier look", []answers{{1000, 900 * kB}}, lull, 1},
	} {
		var w flow
		now := time.Unix(1, 0)
		w.resume(now)
		for _, a := range c.seen {
			for range a.n {
				w.answered(a.size, now)
			}
		}
		w.resume(now.Add(c.pause))
		equal(t, min(w.width(), mostReadings), c.want, "%s: readings that may be under way", c.what)
	}
}
