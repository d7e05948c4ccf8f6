package coordinator_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lockPath is the lock that most tests fight for.
const lockPath = coordtest.LockPath
