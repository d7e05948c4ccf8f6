// Package benchtest has helpers for the tests of the benchmark programs.
package benchtest

import (
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator/reliability/child"
)

// commandEnv, in its environment, makes the test binary the command itself.
const commandEnv = "ZKGRANT_TEST_COMMAND"

// Main runs the tests of a command or, in a process started by Command, the command
// itself. TestMain calls it.
func Main(m *testing.M, run func(ctx context.Context, args []string, input io.Reader, output io.Writer) error) {
	child.Job(commandEnv, func(string) error {
		return run(context.Background(), os.Args[1:], os.Stdin, os.Stdout)
	})
	goleak.VerifyTestMain(m)
}

// Command returns the test binary as the command.
func Command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), commandEnv+"=1")
	return cmd
}

// Refuses fails the test unless the command refuses each of the command lines.
func Refuses(t *testing.T, run func(ctx context.Context, args []string, input io.Reader, output io.Writer) error, bad ...[]string) {
	t.Helper()
	for _, args := range bad {
		var printed strings.Builder
		if err := run(t.Context(), args, strings.NewReader(""), &printed); err == nil {
			t.Errorf("%q is taken: %s", args, printed.String())
		}
	}
}

// Compare fails the test unless the file, which the command's flag -draw writes, has the
// content got. file is relative to the test's folder.
func Compare(tb testing.TB, file, got string) {
	tb.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	want := strings.SplitAfter(string(text), "\n")
	for i, line := range strings.SplitAfter(got, "\n") {
		if i >= len(want) || line != want[i] {
			tb.Fatalf("%s, line %d: %q was made now; want the committed line, or the file written again with -draw", file, i+1, line)
		}
	}
	if len(got) != len(text) {
		tb.Errorf("%s has %d bytes, want the %d that were made now", file, len(text), len(got))
	}
}
