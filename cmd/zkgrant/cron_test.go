//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// crontab is the one on the page: its variables, and the commands of its lines.
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

// TestCron runs each line of the page's crontab as cron does: by sh, with few variables. Each is
// run on two machines at once. Each time that it says is a fraction here.
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
	server := zktest.Start(t)
	bin := t.TempDir()
	eventstest.Must(t, os.Symlink(program, filepath.Join(bin, "zkgrant")))
	log := filepath.Join(bin, "log")
	job := "echo begins >> " + log + "\nread -r end < " + bin + "/gate || true\necho ends >> " + log + "\n"
	if hangs {
		job = "trap '' TERM\necho begins >> " + log + "\nwhile :; do sleep 1; done\n"
	}
	name := regexp.MustCompile(`timeout -k \S+ \S+ (\w+)`).FindStringSubmatch(command)[1]
	writeProgram(t, filepath.Join(bin, name), []byte("#!/bin/sh\n"+job))
	eventstest.Must(t, exec.Command("mkfifo", filepath.Join(bin, "gate")).Run())
	line := regexp.MustCompile(`--min-hold \S+`).ReplaceAllString(command, "--min-hold 500ms")
	if hangs {
		line = regexp.MustCompile(`timeout -k \S+ \S+`).ReplaceAllString(line, "timeout -k 0.1 0.3")
	}
	environment := slices.Clone(variables)
	for i, v := range environment {
		environment[i] = strings.NewReplacer("zk1:2181,zk2:2181,zk3:2181", server.Addr(), "PATH=", "PATH="+bin+":").Replace(v)
	}
	fires := func() *eventstest.Process {
		cmd := exec.Command("/bin/sh", "-c", line)
		cmd.Env = environment
		return eventstest.Begin(t, cmd)
	}
	begun := func(n int) {
		eventstest.Eventually(t, line, func() bool { return count(t, log, "begins") == n })
	}
	first := fires()
	begun(1)
	waits := strings.Contains(line, "--wait")
	var second *eventstest.Process
	if waits || !hangs { // a job that hangs has little time here
		second = fires()
	}
	if !waits && !hangs {
		second.Exits(0)
	}
	code := codeSignal + int(syscall.SIGKILL)
	if !hangs {
		code = 0
		open(t, bin)
	}
	if !waits && !hangs && strings.Contains(line, "--min-hold") {
		eventstest.Eventually(t, "the job ends", func() bool { return count(t, log, "ends") == 1 })
		late := fires() // its clock is late
		late.Exits(0)
		mailed(t, late)
	}
	first.Exits(code)
	for _, p := range []*eventstest.Process{first, second} {
		mailed(t, p)
	}
	if waits {
		begun(2)
		if !hangs {
			open(t, bin)
		}
		second.Exits(code)
	}
	if n := count(t, log, "begins"); waits != (n == 2) {
		t.Errorf("%s: the job has run %d times", line, n)
	}
	if left := server.Children("/locks/" + name); len(left) > 0 {
		t.Errorf("%s: the nodes %v are left, want none", line, left)
	}
}

// mailed checks that cron has nothing to mail. timeout says when it kills itself, too.
func mailed(t *testing.T, p *eventstest.Process) {
	t.Helper()
	if p != nil && p.String() != "" {
		t.Errorf("cron mails %q, want nothing", p)
	}
}

// count counts lines of a file.
func count(t *testing.T, file, line string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(text), line+"\n")
}

// open lets the job end.
func open(t *testing.T, folder string) {
	t.Helper()
	gate, err := os.OpenFile(filepath.Join(folder, "gate"), os.O_WRONLY, 0)
	eventstest.Must(t, err)
	_, err = io.WriteString(gate, "end\n")
	eventstest.Check(t, err)
	eventstest.Check(t, gate.Close())
}
