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

// program is the path of the tested binary.
var program string

func TestMain(m *testing.M) {
	superviseIfAsked()
	// The programs that the tests start get the default, also if the tests run where Ctrl-Z is ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} { // the same in a script's background, or under nohup
		if signal.Ignored(sig) && (len(os.Args) < 2 || os.Args[1] != asCommand) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	if len(os.Args) > 2 && os.Args[1] == asCommand {
		os.Exit(play(os.Args[2], os.Args[3:]))
	}
	folder, err := os.MkdirTemp("", "zkgrant")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	program = filepath.Join(folder, "zkgrant")
	code := 1
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
	} else {
		code = m.Run()
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if err := os.RemoveAll(folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
