package zktest_test

import (
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// TestRealServer plays the script to Apache ZooKeeper, so that the double cannot drift. All of it takes two servers. The files
// that need no features are a smoke test, which runs if a server is found.
func TestRealServer(t *testing.T) {
	t.Parallel() // it waits for servers most of the time
	all := t
	var featured *ensemble.Ensemble
	zktest.PlayOnApache(t, zktest.StartApache(t, false), func(t *testing.T) *ensemble.Ensemble {
		t.Helper()
		eventstest.NeedsServersEachTime(t)
		if featured == nil {
			featured = zktest.StartApache(all, true)
		}
		return featured
	})
}
