package schedules

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
)

// sideBySide calls play with 0, 1, 2 and so on, for as many numbers at a time as there are processors, until it returns false.
func sideBySide(t *testing.T, play func(t *testing.T, i int) (more bool)) {
	t.Helper()
	var next atomic.Int64
	t.Run("all", func(t *testing.T) {
		for player := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(player), func(t *testing.T) {
				t.Parallel()
				for play(t, int(next.Add(1)-1)) {
				}
			})
		}
	})
}

// sample returns every so many-th of some trials that differ little, and one at least. The first depends on start, so that the
// samples of several lists differ.
func sample[T any](all []T, start, every int) (some []T) {
	if len(all) == 0 {
		return nil
	}
	for i := start % min(every, len(all)); i < len(all); i += every {
		some = append(some, all[i])
	}
	return some
}
