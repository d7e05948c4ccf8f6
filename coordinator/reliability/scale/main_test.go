package scale

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	runServer() // and return if this process is none
	goleak.VerifyTestMain(m)
}
