package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/examples/internal/stage"
)

func TestMain(m *testing.M) {
	if stage.AsProgram() {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}
