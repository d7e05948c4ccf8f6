package coordinator_test

import (
	"testing"

	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// What callers of each kind of lock see of each other is told in the scenes of testdata/scenes.

func TestSemaphoreScenes(t *testing.T) { coordtest.Scenes(t, "semaphore") }
func TestReadWriteScenes(t *testing.T) { coordtest.Scenes(t, "readwrite") }
func TestMultiScenes(t *testing.T)     { coordtest.Scenes(t, "multi") }
func TestUnfairScenes(t *testing.T)    { coordtest.Scenes(t, "unfair") }
func TestElectionScenes(t *testing.T)  { coordtest.Scenes(t, "election") }
func TestKazooScenes(t *testing.T)     { coordtest.Scenes(t, "kazoo") }

// TestRealScenes plays the same on a real server, as far as it can be had to do such things.
func TestRealScenes(t *testing.T) {
	eventstest.NeedsServers(t)
	e := ensemble.Start(t, 1)
	for _, file := range []string{"semaphore", "readwrite", "multi", "unfair", "election", "kazoo"} {
		t.Run(file, func(t *testing.T) { coordtest.RealScenes(t, e, file) })
	}
}
