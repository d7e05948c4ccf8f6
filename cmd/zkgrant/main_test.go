//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// program is the path of the tested binary. Its folder comes first in PATH, and has the parts of
// command_test.go under the name of part.
var program string

func TestMain(m *testing.M) {
	superviseIfAsked()
	part := filepath.Base(os.Args[0]) == "part"
	// The programs that the tests start get the default, also if the tests run where Ctrl-Z is ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} { // or in a script's background
		if signal.Ignored(sig) && !part {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	if part {
		os.Exit(play(os.Args[1], os.Args[2:]))
	}
	code, err := tested(m)
	if err == nil {
		err = goleak.Find()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// tested builds the program, and runs the tests.
func tested(m *testing.M) (code int, err error) {
	folder, err := os.MkdirTemp("", "zkgrant")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	program = filepath.Join(folder, "zkgrant")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		return 1, fmt.Errorf("%w\n%s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	if err := os.Symlink(self, filepath.Join(folder, "part")); err != nil {
		return 1, err
	}
	if err := os.Setenv("PATH", folder+":"+os.Getenv("PATH")); err != nil {
		return 1, err
	}
	return m.Run(), nil
}
