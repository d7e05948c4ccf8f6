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

// program is the path of the tested binary. Its folder comes first in PATH, and also has
// the test binary as `part`, see command_test.go.
var program string

func TestMain(m *testing.M) {
	superviseIfAsked()
	part := filepath.Base(os.Args[0]) == "part"
	// The programs that the tests start get the default actions, even if the tests
	// themselves run where Ctrl-Z is ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} { // or in the background of a script
		if signal.Ignored(sig) && !part {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	if part {
		os.Exit(play(os.Args[1], os.Args[2:]))
	}
	code := tested(m)
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// tested builds the program, and runs the tests.
func tested(m *testing.M) (code int) {
	folder, err := os.MkdirTemp("", "zkgrant")
	must(err)
	defer func() { _ = os.RemoveAll(folder) }()
	program = filepath.Join(folder, "zkgrant")
	out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput()
	fmt.Fprint(os.Stderr, string(out))
	must(err)
	self, err := os.Executable()
	must(err)
	must(os.Symlink(self, filepath.Join(folder, "part")))
	must(os.Setenv("PATH", folder+":"+os.Getenv("PATH")))
	return m.Run()
}
