package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/zkgrant/zkgrant/bench/internal/figures"
)

// contendCommand, as the first argument, makes the program a contender.
const contendCommand = "contend"

func main() { figures.Main("timeline", run) }

const (
	runs    = 3                // how often the script is played
	timeout = 6 * time.Second  // the session timeout of all libraries
	tick    = 2 * time.Second  // the server's tickTime: ZooKeeper's default
	heal    = 30 * time.Second // how long the partition lasts
)

func run(ctx context.Context, args []string, input io.Reader, output io.Writer) error {
	if len(args) > 0 && args[0] == contendCommand {
		library, at, err := parseSeat(args[1:])
		if err != nil {
			return err
		}
		return contend(ctx, library, at, input, output)
	}
	flags := flag.NewFlagSet("timeline", flag.ContinueOnError)
	folder := flags.String("o", ".", "the `folder` of timeline.json and timeline.svg")
	again := flags.Bool("draw", false, "draw timeline.json again, without measuring")
	if over, err := figures.Parse(flags, args); over {
		return err
	}
	f := new(Figures)
	var err error
	numbers := filepath.Join(*folder, "timeline.json")
	if *again {
		err = figures.Load(numbers, f)
	} else if f, err = measure(ctx, output); err == nil {
		err = figures.Store(numbers, f)
	}
	if err != nil {
		return err
	}
	var drawn bytes.Buffer
	if err := draw(&drawn, f); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(*folder, "timeline.svg"), drawn.Bytes(), 0o644); err != nil {
		return err
	}
	return f.print(output)
}

func formatSeat(library string, at seat) []string {
	return []string{library, at.addr, at.path, at.timeout.String(), at.tick.String()}
}

// parseSeat parses the arguments from formatSeat.
func parseSeat(args []string) (library string, at seat, err error) {
	if len(args) != 5 {
		return "", seat{}, fmt.Errorf("%s takes library, address, path, timeout and tick, not %q", contendCommand, args)
	}
	at = seat{addr: args[1], path: args[2]}
	var wrong error
	at.timeout, err = time.ParseDuration(args[3])
	at.tick, wrong = time.ParseDuration(args[4])
	return args[0], at, errors.Join(err, wrong)
}
