package eventstest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// TestTurns counts the commits for which a test runs: all of them at full length or if no
// commit is named, and about one in three in `make test`.
func TestTurns(t *testing.T) {
	const commits = 900
	runs := func(full string, named int) (n int) {
		t.Setenv("ZKGRANT_FULL", full)
		for i := range commits {
			t.Setenv("ZKGRANT_TURN", strings.Repeat(fmt.Sprintf("%040x", i), named))
			if eventstest.InTurn(t.Name()) {
				n++
			}
		}
		return n
	}
	unnamed, full, some := runs("", 0), runs("1", 1), runs("", 1)
	if unnamed != commits || full != commits || some < commits/4 || some > commits*2/5 {
		t.Errorf("of %d commits the test runs for %d if none is named, %d at full length, and %d; want all, all, and a third",
			commits, unnamed, full, some)
	}
}
