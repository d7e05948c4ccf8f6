//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// crontab returns the variables and the commands of the crontab in docs/cron.md.
func crontab(t *testing.T) (variables, commands []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/cron.md")
	eventstest.Must(t, err)
	block := regexp.MustCompile("(?s)```crontab\n(.*?)```").FindStringSubmatch(string(page))
	if block == nil {
		t.Fatal("the page has no crontab")
	}
	for line := range strings.Lines(block[1]) {
		line = strings.TrimSpace(line)
		if fields := regexp.MustCompile(`^(?:\S+\s+){5}root\s+(.*)$`).FindStringSubmatch(line); fields != nil {
			commands = append(commands, fields[1])
		} else if line != "" {
			variables = append(variables, line)
		}
	}
	if len(commands) != 3 || len(variables) != 4 {
		t.Fatalf("the crontab has the commands %q and the variables %q, want 3 and 4", commands, variables)
	}
	return variables, commands
}

// TestCron runs each line of the page's crontab as cron does: with sh and few variables.
// Two machines run each line at once. All durations are shortened.
func TestCron(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("timeout"); err != nil {
		t.Skip(err)
	}
	variables, commands := crontab(t)
	for _, command := range commands {
		for _, hangs := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, hangs %t", command, hangs), func(t *testing.T) {
				t.Parallel()
				testCron(t, variables, command, hangs)
			})
		}
	}
}

func testCron(t *testing.T, variables []string, command string, hangs bool) {
	t.Helper()
	g, bin := double(t), t.TempDir()
	eventstest.Must(t, os.Symlink(program, filepath.Join(bin, "zkgrant")))
	log := filepath.Join(bin, "log")
	job := "echo begins >> " + log + "\nread -r end < " + bin + "/gate || true\necho ends >> " + log + "\n"
	if hangs {
		job = "trap '' TERM\necho begins >> " + log + "\nwhile :; do sleep 1; done\n"
	}
	name := regexp.MustCompile(`timeout -k \S+ \S+ (\w+)`).FindStringSubmatch(command)[1]
	writeProgram(t, filepath.Join(bin, name), []byte("#!/bin/sh\n"+job))
	eventstest.Must(t, exec.Command("mkfifo", filepath.Join(bin, "gate")).Run())
	// A job that hangs has begun before its time is up, and the lock of one that has ended
	// is still held when another run tries it.
	enough := g.enough(time.Second)
	line := regexp.MustCompile(`--min-hold \S+`).ReplaceAllString(command, fmt.Sprint("--min-hold ", enough))
	if hangs {
		line = regexp.MustCompile(`timeout -k \S+ \S+`).ReplaceAllString(line, fmt.Sprintf("timeout -k 0.1 %.1f", enough.Seconds()))
	}
	ours := strings.NewReplacer("zk1:2181,zk2:2181,zk3:2181", g.servers, "PATH=", "PATH="+bin+":")
	var all []*eventstest.Process
	fires := func() *eventstest.Process {
		cmd := exec.Command("/bin/sh", "-c", line)
		for _, v := range variables {
			cmd.Env = append(cmd.Env, ours.Replace(v))
		}
		all = append(all, eventstest.Begin(t, cmd))
		return all[len(all)-1]
	}
	logged := func(what string, n int) {
		t.Helper()
		eventstest.Eventually(t, fmt.Sprint(line, " ", what, " ", n), func() bool { return count(t, log, what) == n })
	}
	finish := func() { // end the job
		t.Helper()
		if !hangs {
			eventstest.Must(t, os.WriteFile(filepath.Join(bin, "gate"), []byte("end\n"), 0))
		}
	}
	code := map[bool]int{true: codeSignal + int(syscall.SIGKILL)}[hangs]
	first := fires()
	logged("begins", 1)
	if strings.Contains(line, "--wait") {
		second := fires()
		finish()
		first.Exits(code)
		logged("begins", 2)
		finish()
		second.Exits(code)
	} else {
		if !hangs { // a hanging job has little time here
			fires().Exits(0)
			finish()
			if strings.Contains(line, "--min-hold") {
				logged("ends", 1)
				fires().Exits(0) // a machine whose clock is slow
			}
		}
		first.Exits(code)
		logged("begins", 1)
	}
	for _, p := range all {
		matches(t, "cron's mail", p, `^$`) // timeout also reports when it kills itself
	}
	left := g.Children("/locks/" + name)
	eventstest.Expect(t, len(left) == 0, "%s: the nodes %v are left, want none", line, left)
}

func count(t *testing.T, file, line string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(text), line+"\n")
}
