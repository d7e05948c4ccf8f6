//go:build unix

package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/examples/internal/stage"
)

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 2 && os.Args[1] == asCommand:
		os.Exit(play(os.Args[2], os.Args[3:]))
	case stage.AsProgram():
		main()
	default:
		goleak.VerifyTestMain(m)
	}
}
