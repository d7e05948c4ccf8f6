package eventstest_test

import (
	"fmt"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// TestTurns counts for how many commits a test runs: for each at full length and where no
// commit is named, and for about one in three in `make test`.
func TestTurns(t *testing.T) {
	const commits = 900
	for _, c := range []struct {
		full        string
		named       bool
		least, most int
	}{
		{full: "", named: true, least: commits / 4, most: commits * 2 / 5},
		{full: "1", named: true, least: commits, most: commits},
		{full: "", named: false, least: commits, most: commits},
	} {
		t.Setenv("ZKGRANT_FULL", c.full)
		t.Setenv("ZKGRANT_TURN", "")
		runs := 0
		for i := range commits {
			if c.named {
				t.Setenv("ZKGRANT_TURN", fmt.Sprintf("%040x", i))
			}
			if eventstest.InTurn(t.Name(), 3) {
				runs++
			}
		}
		if runs < c.least || runs > c.most {
			t.Errorf("at full length %q, commit named %v: the test runs for %d of %d commits, want %d to %d",
				c.full, c.named, runs, commits, c.least, c.most)
		}
	}
}
