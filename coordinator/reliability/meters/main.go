// Meters prints how much code a lock passes through, and how much code the library has.
// It does not judge: a change that makes a figure grow says why.
//
// A Grant, a release, a handoff and a loss are played on the in-process server. Coverage
// counters are cleared before each and written after it, so a function is counted if it
// ran in that phase, whether or not the phase needed it.
//
//	go run ./coordinator/reliability/meters
package main

import (
	"context"
	"fmt"
	"go/scanner"
	"go/token"
	"log"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime/coverage"
	"strings"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// self is the path of this package.
const self = "github.com/zkgrant/zkgrant/coordinator/reliability/meters"

// phases are the steps that are measured. Each writes its counters to a folder with its
// name.
var phases = []struct{ name, title string }{
	{"grant", "Acquire, Grant"},
	{"release", "Release, Done"},
	{"handoff", "Release, next Grant"},
	{"loss", "expiry, Lost, Done"},
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("meters: ")
	if len(os.Args) == 3 && os.Args[1] == "walk" {
		walk(os.Args[2])
		return
	}
	must(os.Chdir(strings.TrimSpace(command("go", "list", "-m", "-f", "{{.Dir}}"))))
	folder := made(os.MkdirTemp("", "meters"))
	defer os.RemoveAll(folder)
	// This program is built once more, with counters, for the walk. A program can clear
	// its counters only if its own package has some; ran leaves those out. Packages that
	// only tests import do not count.
	library := []string{self}
	for name := range strings.Lines(command("go", "list", "./events", "./recipes", "./actors/...", "./session", "./session/internal/...",
		"./coordinator", "./coordinator/internal/...")) {
		if name = strings.TrimSpace(name); !strings.HasSuffix(name, "test") {
			library = append(library, name)
		}
	}
	program := filepath.Join(folder, "walk")
	command("go", "build", "-cover", "-covermode=atomic", "-coverpkg="+strings.Join(library, ","), "-o", program, self)
	command(program, "walk", folder)
	for _, p := range phases {
		functions, files := ran(filepath.Join(folder, p.name))
		fmt.Printf("meters: %-20s %5d functions in %2d files\n", p.title, functions, files)
	}
	printRooms()
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func made[T any](v T, err error) T {
	must(err)
	return v
}

// command runs a program, with a time limit, and returns its output.
func command(name string, arguments ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, name, arguments...)
	c.Env, c.Stderr = append(os.Environ(), "GOWORK=off"), os.Stderr
	return string(made(c.Output()))
}

// ran returns how many functions, in how many files, have run according to the counters
// in a folder.
func ran(folder string) (functions, files int) {
	profile := folder + ".txt"
	command("go", "tool", "covdata", "textfmt", "-i="+folder, "-o", profile)
	seen := make(map[string]bool)
	for line := range strings.Lines(command("go", "tool", "cover", "-func="+profile)) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] == "total:" || fields[2] == "0.0%" {
			continue
		}
		if file, _, _ := strings.Cut(fields[0], ":"); path.Dir(file) != self {
			seen[file] = true
			functions++
		}
	}
	return functions, len(seen)
}

// walk plays the phases and writes their counters to folders below out.
func walk(out string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server := made(zktest.New())
	defer server.Close()
	connect := func() *coordinator.Coordinator {
		// The timeout is long enough that no probe falls into a phase.
		return made(coordinator.Connect(ctx, server.Addr(), server.Option(), coordinator.WithSessionTimeout(40*time.Second)))
	}
	c, d := connect(), connect()
	defer c.Close()
	defer d.Close()
	here, there := c.Mutex("/locks/a"), d.Mutex("/locks/a")
	acquire := func(l *coordinator.Lock) *coordinator.Acquisition {
		a := l.Acquire(ctx)
		<-a.Granted()
		return a
	}
	release := func(a *coordinator.Acquisition) {
		a.Release()
		<-a.Done()
	}
	for range 3 { // warm
		release(acquire(here))
	}
	time.Sleep(300 * time.Millisecond)
	var a *coordinator.Acquisition
	count(out, "grant", 20*time.Millisecond, func() { a = acquire(here) })
	count(out, "release", 50*time.Millisecond, func() { release(a) })
	a = acquire(here)
	b := there.Acquire(ctx)
	time.Sleep(300 * time.Millisecond)
	count(out, "handoff", 50*time.Millisecond, func() {
		a.Release()
		<-b.Granted()
	})
	time.Sleep(6 * time.Second) // the node of a lock that is held this long is watched
	count(out, "loss", 50*time.Millisecond, func() {
		must(server.Expire(d.SessionID()))
		<-b.Lost()
		<-b.Done()
	})
}

// count clears the counters, runs a phase, waits for its effects, and writes the
// counters.
func count(out, name string, settle time.Duration, phase func()) {
	must(coverage.ClearCounters())
	phase()
	time.Sleep(settle)
	folder := filepath.Join(out, name)
	must(os.MkdirAll(folder, 0o755))
	must(coverage.WriteMetaDir(folder))
	must(coverage.WriteCountersDir(folder))
}

// printRooms prints the lines of code and the files of each room, without comments, blank
// lines and tests. Of a room's subfolders, only the internal ones count, and
// coordinator's are included in coordinator.
func printRooms() {
	var lines, files int
	for _, room := range [][]string{
		{"events", "events/*.go"}, {"recipes", "recipes/*.go"}, {"actors", "actors/*.go"}, {"session", "session/*.go"},
		{"session/internal", "session/internal/*/*.go"}, {"coordinator", "coordinator/*.go", "coordinator/internal/*/*.go"},
	} {
		l, f := 0, 0
		for _, pattern := range room[1:] {
			for _, name := range made(filepath.Glob(pattern)) {
				if !strings.HasSuffix(name, "_test.go") && !strings.HasSuffix(filepath.Dir(name), "test") {
					l, f = l+codeLines(made(os.ReadFile(name))), f+1
				}
			}
		}
		fmt.Printf("meters: %-20s %5d lines of code in %2d files\n", room[0], l, f)
		lines, files = lines+l, files+f
	}
	fmt.Printf("meters: %-20s %5d lines of code in %2d files\n", "together", lines, files)
}

// codeLines counts the lines that contain a token.
func codeLines(source []byte) int {
	file := token.NewFileSet().AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, 0)
	held := map[int]bool{}
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return len(held)
		}
		if tok == token.SEMICOLON && literal == "\n" {
			continue // inserted by the scanner
		}
		for line := range strings.Count(literal, "\n") + 1 {
			held[file.Line(pos)+line] = true
		}
	}
}
