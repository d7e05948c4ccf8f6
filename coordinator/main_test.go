package coordinator_test

import (
	"testing"

	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
)

func TestMain(m *testing.M) { coordtest.Main(m) }

// lockPath is the lock that most tests fight for.
const lockPath = coordtest.LockPath
