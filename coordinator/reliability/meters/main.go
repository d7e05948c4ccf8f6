// Meters prints how much code a lock passes on its way, and how much code the library has. It
// judges nothing: a change that makes a figure grow says why.
//
// A Grant, a Release, a handoff and a loss are walked on the in-process server. Coverage counters
// are cleared before each and written out after it, so a function is counted if it ran in that
// phase, whether the phase needed it or not.
//
//	go run ./coordinator/reliability/meters
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// self is this package.
const self = "github.com/zkgrant/zkgrant/coordinator/reliability/meters"

func main() {
	log.SetFlags(0)
	log.SetPrefix("meters: ")
	var err error
	if len(os.Args) == 3 && os.Args[1] == "walk" {
		err = walk(os.Args[2])
	} else {
		err = measure()
	}
	if err != nil {
		log.Fatal(err)
	}
}

// measure prints all figures. It builds this program once more, with counters, for the walk.
func measure() error {
	root, err := command("go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return err
	}
	if err := os.Chdir(strings.TrimSpace(root)); err != nil {
		return fmt.Errorf("going to the module's folder: %w", err)
	}
	folder, err := os.MkdirTemp("", "meters")
	if err != nil {
		return fmt.Errorf("making a folder for the counters: %w", err)
	}
	defer os.RemoveAll(folder)

	library, err := instrumented()
	if err != nil {
		return err
	}
	program := filepath.Join(folder, "walk")
	// A program may clear its counters only if its own package has some; ran leaves those out.
	if _, err := command("go", "build", "-cover", "-covermode=atomic", "-coverpkg="+self+","+strings.Join(library, ","),
		"-o", program, self); err != nil {
		return err
	}
	if _, err := command(program, "walk", folder); err != nil {
		return err
	}
	for _, p := range phases {
		functions, files, err := ran(filepath.Join(folder, p.name))
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stdout, "meters: %-20s %5d functions in %2d files\n", p.title, functions, files)
	}
	return printRooms()
}

// instrumented lists the packages whose functions count: the rooms of the library, without those
// that only tests import.
func instrumented() ([]string, error) {
	listed, err := command("go", "list", "./events", "./recipes", "./actors/...", "./session", "./session/internal/...",
		"./coordinator", "./coordinator/internal/...")
	if err != nil {
		return nil, err
	}
	var library []string
	for name := range strings.Lines(listed) {
		if name = strings.TrimSpace(name); !strings.HasSuffix(name, "test") {
			library = append(library, name)
		}
	}
	return library, nil
}

// ran counts the functions, and their files, that the counters in a folder show to have run.
func ran(folder string) (functions, files int, err error) {
	profile := folder + ".txt"
	if _, err := command("go", "tool", "covdata", "textfmt", "-i="+folder, "-o", profile); err != nil {
		return 0, 0, err
	}
	report, err := command("go", "tool", "cover", "-func="+profile)
	if err != nil {
		return 0, 0, err
	}
	seen := make(map[string]bool)
	for line := range strings.Lines(report) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] == "total:" || fields[2] == "0.0%" {
			continue
		}
		file, _, _ := strings.Cut(fields[0], ":")
		if path.Dir(file) == self {
			continue
		}
		seen[file] = true
		functions++
	}
	return functions, len(seen), nil
}

// command runs a program and returns what it printed. None may hold up a run of tests for ever.
func command(name string, arguments ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, name, arguments...)
	c.Env = append(os.Environ(), "GOWORK=off")
	var complaint strings.Builder
	c.Stderr = &complaint
	output, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(c.Args, " "), err, complaint.String())
	}
	return string(output), nil
}
