package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// asProgram in the environment makes the test binary be the program, so that a
// test can run it in a process of its own.
const asProgram = "QUICKSTART_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}
