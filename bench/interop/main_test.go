package interop

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(playEnv); role != "" {
		if err := playRole(context.Background(), role, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(closing{m})
}

// closing ends what the tests share, before the check for what is left.
type closing struct{ *testing.M }

// Run runs the tests.
func (c closing) Run() int {
	status := c.M.Run()
	if err := theArena.close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	return status
}
