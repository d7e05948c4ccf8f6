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

// leaders returns the parts that are outlived by another process. On systems where the
// supervisor cannot adopt orphans, that process must be in the command's group.
func leaders() []string {
	if runtime.GOOS != "linux" {
		return []string{"leader"}
	}
	return []string{"leader", "script"}
}

// long bounds how long a command runs, whatever the test does.
const long = 5 * time.Minute

// play is the command `part`, which zkgrant runs in the tests. It plays the named part
// and returns the exit code.
func play(part string, args []string) int {
	ends := map[os.Signal]int{syscall.SIGTERM: 0, syscall.SIGUSR2: 5}
	switch part {
	case "exit": // exits with the code in the argument
		return toInt(args[0])

	case "wait": // waits for signals and prints each; TERM ends it with 0, USR2 with 5
		return wait("command", ends)

	case "stubborn": // the same, but TERM does not end it
		delete(ends, syscall.SIGTERM)
		return wait(append(args, "command")[0], ends)

	case "family": // waits, with a stubborn child that it never reaps
		begin(nil, "stubborn", "child")
		return wait("command", ends)

	case "work": // appends a line to the file every millisecond; "deaf" ignores every signal that it can
		if args[1] == "deaf" {
			signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		}
		appendTo(args[0], "work", 1)
		ready("command") // the file has a line by now, whatever happens
		appendTo(args[0], "work", long/time.Millisecond)

	case "player": // works on the file, prints the signals that it gets, and exits with 5 at the end of its input
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(5)
		}()
		appendTo(args[0], "work", 1)
		go wait("command", nil)
		appendTo(args[0], "work", long/time.Millisecond)

	// These start the work above and exit: with the code in the third argument, or on
	// TERM. The script's work has its own group, as after `set -m`.
	case "leader", "script":
		begin(&syscall.SysProcAttr{Setpgid: part == "script"}, "work", args[:2]...)
		if len(args) > 2 {
			return toInt(args[2])
		}
		end := make(chan os.Signal, 1)
		signal.Notify(end, syscall.SIGTERM)
		<-end

	case "climber": // works on the file as root: its binary is set-user-ID
		must(syscall.Setuid(0))
		ready("climber")
		appendTo(args[0], "work", long/time.Millisecond)

	case "climbers": // becomes root and starts a climber in its group; USR1 ends it
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

	case "windows": // sends itself many WINCH and then TERM, which must arrive
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

	case "supervise": // a supervisor after a slow start: its lease has run out, and a newer one is known
		sleep := exec.Command("sleep", "600")
		must(sleep.Start())
		s := &supervisor{orders: orders{timeout: time.Minute}, family: familyOf(sleep.Process.Pid, os.Getpid(), false), reports: make(chan string, 16)}
		s.duty.Timeout, s.duty.Lease = time.Minute, sinceBoot().Add(-time.Second)
		told := make(chan int64, 1)
		told <- sinceBoot().Add(time.Hour).UnixNano()
		go func() { told <- dismissed }()
		s.watch(nil, told)
		fmt.Printf("killed: %v\n", s.killed)
		must(syscall.Kill(sleep.Process.Pid, syscall.SIGKILL))

	case "mark": // marks the file
		appendTo(args[0], "next", 1)

	default:
		return 99
	}
	return 0
}

// must panics on an error that cannot happen.
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

func begin(attr *syscall.SysProcAttr, part string, args ...string) {
	child := exec.Command(os.Args[0], append([]string{part}, args...)...)
	child.Stdout, child.Stderr, child.SysProcAttr = os.Stdout, os.Stderr, attr
	must(child.Start())
}

// appendTo appends the line to the file that many times, once per millisecond.
func appendTo(name, line string, times time.Duration) {
	file, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	must(err)
	for range times {
		_, err := fmt.Fprintln(file, line)
		must(err)
		time.Sleep(time.Millisecond)
	}
}

// wait prints the signals that arrive until one of them is in ends, and returns its code.
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
