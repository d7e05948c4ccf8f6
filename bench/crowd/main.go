package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/zkgrant/zkgrant/bench/internal/figures"
)

// joinCommand, as the first argument, makes the program join the crowd.
const joinCommand = "join"

func main() { figures.Main("crowd", run) }

func run(ctx context.Context, args []string, input io.Reader, output io.Writer) error {
	if len(args) == 1 && args[0] == joinCommand {
		return join(ctx, input, output)
	}
	flags := flag.NewFlagSet("crowd", flag.ContinueOnError)
	flags.SetOutput(output)
	quick := flags.Bool("quick", false, "do less of everything, in less than two minutes")
	again := flags.Bool("draw", false, "write the page and the plot of crowd.json again, without measuring")
	processes := flags.Int("processes", 0, "in how many processes; 0 for as many as fit into half of the free memory")
	folder := flags.String("o", ".", "the `folder` of crowd.json, CROWD.md and crowd.svg")
	if over, err := figures.Parse(flags, args); over {
		return err
	}
	if *processes < 0 {
		return errors.New("-processes must not be negative")
	}
	e := effortOf(*quick)
	e.processes = *processes
	numbers := filepath.Join(*folder, "crowd.json")
	r := new(Results)
	if *again {
		if err := figures.Load(numbers, r); err != nil {
			return err
		}
	} else {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		if r, err = measure(ctx, e, *quick, func() *exec.Cmd { return exec.Command(self, joinCommand) }, output); err != nil {
			return err
		}
		if err := figures.Store(numbers, r); err != nil {
			return err
		}
	}
	return r.render(*folder, output)
}

func (r *Results) render(folder string, output io.Writer) error {
	page := r.page()
	if err := os.WriteFile(filepath.Join(folder, "CROWD.md"), []byte(page), 0o644); err != nil {
		return err
	}
	if err := r.draw(folder); err != nil {
		return err
	}
	_, err := io.WriteString(output, page)
	return err
}
