package coordinator_test

import (
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

func TestMain(m *testing.M) { coordtest.Main(m) }

// lockPath is the lock that most tests fight for.
const lockPath = coordtest.LockPath

// largeServer starts a real server that holds a hundred thousand locks. A shared one runs out of memory.
func largeServer(t *testing.T) *ensemble.Ensemble {
	t.Helper()
	return ensemble.Start(t, 1, ensemble.Tick(500*time.Millisecond), ensemble.Heap("768m"), ensemble.Property("znode.container.checkIntervalMs", "60000"))
}
