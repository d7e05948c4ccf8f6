//go:build unix

package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// asProgram in the environment makes the test binary the program that it tests.
const asProgram = "ZKGRANT_EXAMPLE_AS_PROGRAM"

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 2 && os.Args[1] == asCommand:
		os.Exit(play(os.Args[2], os.Args[3:]))
	case os.Getenv(asProgram) != "":
		main()
	default:
		goleak.VerifyTestMain(m)
	}
}
