package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
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
	if len(args) == 3 && args[0] == contendCommand {
		var at seat
		if err := json.Unmarshal([]byte(args[2]), &at); err != nil {
			return err
		}
		return contend(ctx, args[1], at, input, output)
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
