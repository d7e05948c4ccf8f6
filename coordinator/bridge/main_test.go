package bridge_test

import (
	"testing"

	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
)

func TestMain(m *testing.M) { coordtest.Main(m) }
