package zktest_test

import (
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// TestRealServer holds Apache ZooKeeper against what the double is held against, so that the double cannot drift. Two servers
// do for all of it. The files of the script that need no features are a smoke test, which runs wherever a server is found.
func TestRealServer(t *testing.T) {
	t.Parallel() // it waits most of the time
	plain := zktest.StartApache(t, false)
	t.Run("script", func(t *testing.T) {
		var featured *ensemble.Ensemble
		zktest.PlayOnApache(t, plain, func(file *testing.T) *ensemble.Ensemble {
			file.Helper()
			eventstest.NeedsServers(file)
			if featured == nil {
				featured = zktest.StartApache(t, true)
			}
			return featured
		})
	})
	t.Run("wire", func(t *testing.T) {
		eventstest.NeedsServers(t)
		zktest.TryWireOnApache(t, plain.Addr(0))
	})
	t.Run("behaviour", func(t *testing.T) {
		eventstest.NeedsServers(t)
		for _, b := range behaviours {
			t.Run(b.name, func(t *testing.T) { b.try(newWorld(t, plain.Addr(0), overTCP)) })
		}
	})
}
