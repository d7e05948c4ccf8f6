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
	"strings"
	"syscall"
	"time"
)

// asCommand, as the first argument of a test binary, makes it the command that run runs. The next argument is its part.
const asCommand = "as-command"

// commandLine returns what follows the path on a command line, for a command with a part to play.
func commandLine(part string, args ...string) []string {
	return append([]string{"--", os.Args[0], asCommand, part}, args...)
}

// leaders are the parts of commands that another process outlives. Where no orphan is adopted,
// that has to be in the group.
func leaders() []string {
	if runtime.GOOS != "linux" {
		return []string{"leader"}
	}
	return []string{"leader", "script"}
}

// play does what the part says, and returns the exit code.
func play(part string, args []string) int {
	switch part {
	case "exit": // with the code in the argument
		code, err := strconv.Atoi(args[0])
		if err != nil {
			return 99
		}
		return code

	case "echo": // the arguments
		in, err := io.ReadAll(os.Stdin)
		if err != nil {
			return 99
		}
		fmt.Printf("arguments %s, input %s, path %s, token %s\n",
			strings.Join(args, "+"), in, os.Getenv("ZKGRANT_PATH"), os.Getenv("ZKGRANT_TOKEN"))
		return 0

	case "environment": // the variables that begin with ZKGRANT_, sorted
		all := slices.DeleteFunc(os.Environ(), func(v string) bool { return !strings.HasPrefix(v, "ZKGRANT_") })
		slices.Sort(all)
		fmt.Println(strings.Join(all, "\n"))
		return 0

	case "wait": // for signals, and print each; TERM ends the command, and USR2 with 5
		return wait(map[os.Signal]int{syscall.SIGTERM: 0, syscall.SIGUSR2: 5})

	case "stubborn": // the same, but TERM does not end the command
		return wait(map[os.Signal]int{syscall.SIGUSR2: 5})

	case "family": // with a stubborn child, for which no process waits
		child := exec.Command(os.Args[0], asCommand, "stubborn")
		child.Env = append(os.Environ(), "ZKGRANT_TEST_NAME=child")
		child.Stdout = os.Stdout
		if err := child.Start(); err != nil {
			return 99
		}
		return wait(map[os.Signal]int{syscall.SIGTERM: 0, syscall.SIGUSR2: 5})

	case "work": // on a file: append a line every millisecond; "deaf" in the second argument ignores every signal that it can
		if len(args) > 1 && args[1] == "deaf" {
			signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		}
		if code := appendTo(args[0], "work", 1); code != 0 {
			return code
		}
		fmt.Printf("command %d ready\n", os.Getpid()) // with a line in the file, whatever comes
		return appendTo(args[0], "work", 5*60*1000)   // whatever the test does, the process ends

	case "player": // works on the file, prints the signals that come, and ends with 5 at the end of its input
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(5)
		}()
		if code := appendTo(args[0], "work", 1); code != 0 {
			return code
		}
		go wait(nil)
		return appendTo(args[0], "work", 5*60*1000)

	// Each starts the work above, and ends: with the code in the third argument, or by TERM. The
	// script's work has a group of its own, as after `set -m`.
	case "leader", "script":
		child := exec.Command(os.Args[0], asCommand, "work", args[0], args[1])
		child.Stdout = os.Stdout
		child.SysProcAttr = &syscall.SysProcAttr{Setpgid: part == "script"}
		if err := child.Start(); err != nil {
			return 99
		}
		if len(args) > 2 {
			code, err := strconv.Atoi(args[2])
			if err != nil {
				return 99
			}
			return code
		}
		end := make(chan os.Signal, 1)
		signal.Notify(end, syscall.SIGTERM)
		<-end
		return 0

	case "zombie": // leaves one in its group, whose parent has left the group
		child := exec.Command(os.Args[0], asCommand, "deserter")
		said, err := child.StdoutPipe()
		if err != nil || child.Start() != nil {
			return 99
		}
		if _, err := io.CopyN(os.Stdout, said, int64(len("left "))); err != nil {
			return 99
		}
		_, _ = fmt.Printf("%d ready\n", child.Process.Pid)
		if len(args) > 0 { // it waits for a TERM
			return wait(map[os.Signal]int{syscall.SIGTERM: 0})
		}
		return 0

	case "deserter":
		child := exec.Command(os.Args[0], asCommand, "exit", "0")
		if child.Start() != nil {
			return 99
		}
		for state := ""; !strings.HasPrefix(state, "Z"); {
			var err error
			if state, err = processState(child.Process.Pid); err != nil {
				return 99
			}
		}
		if _, err := syscall.Setsid(); err != nil {
			return 99
		}
		fmt.Print("left ")
		time.Sleep(time.Minute)
		return 0

	case "climber": // works on the file as root, to which its file's owner makes it
		if err := syscall.Setuid(0); err != nil {
			return 99
		}
		fmt.Printf("climber %d ready\n", os.Getpid())
		return appendTo(args[0], "work", 5*60*1000)

	case "climbing leader": // starts a climber in its group, and is one itself; USR1 ends it
		end := make(chan os.Signal, 1)
		signal.Notify(end, syscall.SIGUSR1)
		if err := syscall.Setuid(0); err != nil {
			return 99
		}
		child := exec.Command(os.Args[0], asCommand, "climber", args[0])
		child.Stdout = os.Stdout
		if err := child.Start(); err != nil {
			return 99
		}
		fmt.Printf("command %d ready\n", os.Getpid())
		<-end
		return 0

	case "headless": // works on the file without its first thread
		fmt.Printf("headless %d ready\n", os.Getpid())
		go appendTo(args[0], "work", 5*60*1000)
		endFirstThread()
		return 99

	case "mark": // the same file
		return appendTo(args[0], "next", 1)

	default:
		return 99
	}
}

// appendTo appends the line to the file so often, once a millisecond.
func appendTo(name, line string, times int) int {
	file, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return 99
	}
	for range times {
		if _, err := fmt.Fprintln(file, line); err != nil {
			return 99
		}
		time.Sleep(time.Millisecond)
	}
	return 0
}

// wait prints the signals that come, until one of them is in ends, and returns its code.
func wait(ends map[os.Signal]int) int {
	name := os.Getenv("ZKGRANT_TEST_NAME")
	if name == "" {
		name = "command"
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGQUIT, syscall.SIGWINCH)
	fmt.Printf("%s %d ready\n", name, os.Getpid())
	tooLong := time.After(5 * time.Minute) // whatever the test does, the process ends
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
