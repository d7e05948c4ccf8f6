package stage

import (
	"context"
	"os"
	"os/exec"
	"syscall"
)

// asProgram in the environment makes a test binary be the program that it tests.
const asProgram = "ZKGRANT_EXAMPLE_AS_PROGRAM"

// AsProgram tells whether this process of a test binary is to be the program. Each
// TestMain asks, and then calls main instead of the tests.
func AsProgram() bool { return os.Getenv(asProgram) != "" }

// Command returns a process of the program with these arguments. It is killed when
// ctx ends; it must not outlive the test.
func Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

// ControlC runs the program in a process, sends it SIGINT when the function when
// returns, and expects it to give everything back: exit code 130, and no ephemeral
// node below root. It returns what was printed.
func ControlC(tb TB, servers, root string, when func(*Screen), args ...string) *Screen {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 2*patience)
	defer cancel()
	process := Command(ctx, append([]string{"-zk", servers}, args...)...)
	screen := &Screen{}
	process.Stdout, process.Stderr = screen, screen
	if err := process.Start(); err != nil {
		tb.Fatalf("%v", err)
		return nil
	}
	// However when returns: it may end the test's goroutine. The process that is
	// still there then is killed.
	var err error // for whom ended is closed
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = process.Wait()
	}()
	defer func() {
		cancel()
		<-ended
	}()
	when(screen)
	if err := process.Process.Signal(syscall.SIGINT); err != nil {
		tb.Errorf("%v", err)
	}
	<-ended
	tb.Logf("%s", screen)
	if code := process.ProcessState.ExitCode(); code != 130 {
		tb.Errorf("exit code %d (%v), want 130", code, err)
	}
	screen.Must(tb, "interrupted")
	if left := Ephemerals(tb, servers, root); len(left) > 0 {
		tb.Errorf("left behind: %v", left)
	}
	return screen
}
