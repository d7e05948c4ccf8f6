package histories

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	runChild() // and return if this process is none
	goleak.VerifyTestMain(m)
}
