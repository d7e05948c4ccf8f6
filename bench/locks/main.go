package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/zkgrant/zkgrant/bench/internal/figures"
)

// playCommand, as the first argument, makes the program one of the contestants.
const playCommand = "play"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "locks:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, input io.Reader, output io.Writer) error {
	if len(args) > 0 && args[0] == playCommand {
		if len(args) != 3 {
			return fmt.Errorf("%s takes library and address, not %q", playCommand, args[1:])
		}
		return play(ctx, args[1], args[2], input, output)
	}
	flags := flag.NewFlagSet("locks", flag.ContinueOnError)
	flags.SetOutput(output)
	quick := flags.Bool("quick", false, "do less of everything, in less than four minutes")
	again := flags.Bool("draw", false, "write the tables and the plots of the results again, without measuring")
	far := flags.Bool("distance", false, "measure by distance only, and keep the other results")
	folder := flags.String("o", ".", "the `folder` of results.json, distance.json, RESULTS.md and the plots")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("there is no argument %q", flags.Arg(0))
	}
	if !*again && !*far {
		r, err := measure(ctx, *quick, output)
		if err == nil {
			err = figures.Store(filepath.Join(*folder, nearFile), r)
		}
		if err != nil {
			return err
		}
	}
	if !*again {
		s, err := survey(ctx, *quick, output)
		if err == nil {
			err = figures.Store(filepath.Join(*folder, farFile), s)
		}
		if err != nil {
			return err
		}
	}
	return render(*folder, output)
}

// Where the numbers are kept.
const (
	nearFile = "results.json"
	farFile  = "distance.json"
)

// part is a part of the results.
type part interface {
	write(page io.Writer) error
	draw(folder string) error
}

// render writes the page and the plots of the numbers in the folder, of which a part may be missing.
func render(folder string, output io.Writer) error {
	var page bytes.Buffer
	page.WriteString(title)
	var missing []error
	for _, p := range []struct {
		file string
		part
	}{{nearFile, new(Results)}, {farFile, new(Distance)}} {
		err := figures.Load(filepath.Join(folder, p.file), p.part)
		if errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, err)
			continue
		}
		if err == nil {
			err = errors.Join(p.write(&page), p.draw(folder))
		}
		if err != nil {
			return err
		}
	}
	if len(missing) == 2 {
		return errors.Join(missing...)
	}
	if err := os.WriteFile(filepath.Join(folder, "RESULTS.md"), page.Bytes(), 0o644); err != nil {
		return err
	}
	_, err := page.WriteTo(output)
	return err
}
