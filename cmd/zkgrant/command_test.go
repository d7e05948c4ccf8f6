//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// leaders are the parts of commands that another process outlives. Where no orphan is
// adopted, that has to be in the group.
func leaders() []string {
	if runtime.GOOS != "linux" {
		return []string{"leader"}
	}
	return []string{"leader", "script"}
}

// long is what a command does at most, whatever the test does.
const long = 5 * time.Minute

// play is the command `part`, which run runs in the tests. It does what the part says,
// and returns the exit code.
func play(part string, args []string) int {
	ends := map[os.Signal]int{syscall.SIGTERM: 0, syscall.SIGUSR2: 5}
	switch part {
	case "exit": // with the code in the argument
		return toInt(args[0])

	case "wait": // for signals, and print each; TERM ends the command, and USR2 with 5
		return wait("command", ends)

	case "stubborn": // the same, but TERM does not end the command
		delete(ends, syscall.SIGTERM)
		return wait(append(args, "command")[0], ends)

	case "family": // waits, with a stubborn child, for which no process waits
		begin(nil, "stubborn", "child")
		return wait("command", ends)

	case "work": // on a file: append a line every millisecond; "deaf" ignores every signal that it can
		if args[1] == "deaf" {
			signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		}
		appendTo(args[0], "work", 1)
		ready("command") // with a line in the file, whatever comes
		appendTo(args[0], "work", long/time.Millisecond)

	case "player": // works on the file, prints the signals that come, and ends with 5 at the end of its input
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(5)
		}()
		appendTo(args[0], "work", 1)
		go wait("command", nil)
		appendTo(args[0], "work", long/time.Millisecond)

	// Each starts the work above, and ends: with the code in the third argument, or by
	// TERM. The script's work has a group of its own, as after `set -m`.
	case "leader", "script":
		begin(&syscall.SysProcAttr{Setpgid: part == "script"}, "work", args[:2]...)
		if len(args) > 2 {
			return toInt(args[2])
		}
		end := make(chan os.Signal, 1)
		signal.Notify(end, syscall.SIGTERM)
		<-end

	case "climber": // works on the file as root, to which its file's owner makes it
		must(syscall.Setuid(0))
		ready("climber")
		appendTo(args[0], "work", long/time.Millisecond)

	case "climbers": // starts a climber in its group, and is one itself; USR1 ends it
		end := make(chan os.Signal, 1)
		signal.Notify(end, syscall.SIGUSR1)
		must(syscall.Setuid(0))
		begin(nil, "climber", args[0])
		ready("command")
		<-end

	case "headless": // works on the file without its first thread
		ready("headless")
		go appendTo(args[0], "work", long/time.Millisecond)
		endFirstThread()

	case "windows": // that change all the time; TERM comes after them
		s, seen := listen(), make(chan os.Signal, 1)
		signal.Notify(seen, syscall.SIGWINCH, syscall.SIGTERM)
		for _, sig := range append(slices.Repeat([]syscall.Signal{syscall.SIGWINCH}, 49), syscall.SIGTERM) {
			must(syscall.Kill(os.Getpid(), sig))
			<-seen
		}
		time.AfterFunc(10*time.Second, func() { os.Exit(1) })
		for sig := range s.c {
			if sig == syscall.SIGTERM {
				break
			}
		}

	case "mark": // the same file
		appendTo(args[0], "next", 1)

	default:
		return 99
	}
	return 0
}

// must ends the command if something fails that cannot fail.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func toInt(text string) int {
	n, err := strconv.Atoi(text)
	must(err)
	return n
}

func ready(name string) { fmt.Printf("%s %d ready\n", name, os.Getpid()) }

func begin(attr *syscall.SysProcAttr, part string, args ...string) int {
	child := exec.Command(os.Args[0], append([]string{part}, args...)...)
	child.Stdout, child.Stderr, child.SysProcAttr = os.Stdout, os.Stderr, attr
	must(child.Start())
	return child.Process.Pid
}

// appendTo appends the line to the file so often, once a millisecond.
func appendTo(name, line string, times time.Duration) {
	file, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	must(err)
	for range times {
		_, err := fmt.Fprintln(file, line)
		must(err)
		time.Sleep(time.Millisecond)
	}
}

// wait prints the signals that come, until one of them is in ends, and returns its code.
func wait(name string, ends map[os.Signal]int) int {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1,
		syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGQUIT, syscall.SIGWINCH)
	ready(name)
	for {
		select {
		case sig := <-signals:
			fmt.Printf("%s got %v\n", name, sig)
			if code, ok := ends[sig]; ok {
				return code
			}
		case <-time.After(long):
			return 98
		}
	}
}
