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

// contendCommand, as the first argument, makes the program one of the contenders.
const contendCommand = "contend"

func main() { figures.Main("timeline", run) }

// settings are the command line.
type settings struct {
	runs    int
	timeout time.Duration
	tick    time.Duration
	heal    time.Duration
	folder  string
	draw    bool
}

func run(ctx context.Context, args []string, input io.Reader, output io.Writer) error {
	if len(args) > 0 && args[0] == contendCommand {
		library, at, err := parseSeat(args[1:])
		if err != nil {
			return err
		}
		return contend(ctx, library, at, input, output)
	}
	var s settings
	flags := flag.NewFlagSet("timeline", flag.ContinueOnError)
	flags.IntVar(&s.runs, "runs", 3, "how often the script is played")
	flags.DurationVar(&s.timeout, "timeout", 6*time.Second, "the session timeout of all libraries")
	flags.DurationVar(&s.tick, "tick", 2*time.Second, "the server's tickTime; ZooKeeper's default is 2s")
	flags.DurationVar(&s.heal, "heal", 30*time.Second, "how long the partition lasts")
	flags.StringVar(&s.folder, "o", ".", "the `folder` of timeline.json and timeline.svg")
	flags.BoolVar(&s.draw, "draw", false, "draw timeline.json again, without measuring")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("there is no argument %q", flags.Arg(0))
	}
	if s.runs < 1 || s.timeout < 2*s.tick || s.heal < 2*s.timeout {
		return errors.New("-runs must be at least 1, -timeout two ticks, which is the least a server grants, " +
			"and -heal two timeouts")
	}
	f := new(Figures)
	var err error
	numbers := filepath.Join(s.folder, "timeline.json")
	if s.draw {
		err = figures.Load(numbers, f)
	} else if f, err = measure(ctx, s, output); err == nil {
		err = figures.Store(numbers, f)
	}
	if err != nil {
		return err
	}
	var drawn bytes.Buffer
	if err := draw(&drawn, f); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.folder, "timeline.svg"), drawn.Bytes(), 0o644); err != nil {
		return err
	}
	return f.print(output)
}

func formatSeat(library string, at seat) []string {
	return []string{library, at.addr, at.path, at.timeout.String(), at.tick.String()}
}

// parseSeat reads the arguments of formatSeat.
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
