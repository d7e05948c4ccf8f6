//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// asCommand as the first argument of a test binary makes it the command that run
// runs; the next argument is its part.
const asCommand = "as-command"

// command is the part of a command line behind the path, for a command with a part
// to play.
func commandLine(part string, args ...string) []string {
	return append([]string{"--", os.Args[0], asCommand, part}, args...)
}

// play is what the command does. The result is its exit code.
func play(part string, args []string) int {
	switch part {
	case "exit": // with the code
		code, err := strconv.Atoi(args[0])
		if err != nil {
			return 99
		}
		return code

	case "echo": // what it was given
		in, err := io.ReadAll(os.Stdin)
		if err != nil {
			return 99
		}
		fmt.Printf("arguments %s, input %s, path %s, token %s\n",
			strings.Join(args, "+"), in, os.Getenv("ZKGRANT_PATH"), os.Getenv("ZKGRANT_TOKEN"))
		return 0

	case "environment": // what begins with ZKGRANT_, sorted
		all := slices.DeleteFunc(os.Environ(), func(v string) bool { return !strings.HasPrefix(v, "ZKGRANT_") })
		slices.Sort(all)
		fmt.Println(strings.Join(all, "\n"))
		return 0

	case "wait": // for signals, and say which; TERM ends it, and USR2 with 5
		return wait(map[os.Signal]int{syscall.SIGTERM: 0, syscall.SIGUSR2: 5})

	case "stubborn": // the same, and TERM does not end it
		return wait(map[os.Signal]int{syscall.SIGUSR2: 5})

	case "family": // with a child that is stubborn, and nobody waits for
		child := exec.Command(os.Args[0], asCommand, "stubborn")
		child.Env = append(os.Environ(), "ZKGRANT_TEST_NAME=child")
		child.Stdout = os.Stdout
		if err := child.Start(); err != nil {
			return 99
		}
		return wait(map[os.Signal]int{syscall.SIGTERM: 0, syscall.SIGUSR2: 5})

	default:
		return 99
	}
}

// wait says what signals come, until one that is an end, whose code it returns.
func wait(ends map[os.Signal]int) int {
	name := os.Getenv("ZKGRANT_TEST_NAME")
	if name == "" {
		name = "command"
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGQUIT, syscall.SIGWINCH)
	fmt.Printf("%s %d ready\n", name, os.Getpid())
	tooLong := time.After(5 * time.Minute) // whatever the test does, nothing is left
	for {
		select {
		case sig := <-signals:
			fmt.Printf("%s got %v\n", name, sig)
			if code, ok := ends[sig]; ok {
				return code
			}
		case <-tooLong:
			return 98
		}
	}
}
