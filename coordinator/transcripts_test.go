package coordinator_test

import (
	"testing"

	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
)

func TestAcquire(t *testing.T) { coordtest.Play(t, "testdata/acquire") }
