package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
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
	quick := flags.Bool("quick", false, "do less of everything, in less than three minutes")
	again := flags.Bool("draw", false, "write the table and the plots of results.json again, without measuring")
	folder := flags.String("o", ".", "the `folder` of results.json, RESULTS.md and the plots")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("there is no argument %q", flags.Arg(0))
	}
	numbers := filepath.Join(*folder, "results.json")
	var r *Results
	var err error
	if *again {
		r, err = load(numbers)
	} else if r, err = measure(ctx, *quick, output); err == nil {
		err = r.save(numbers)
	}
	if err != nil {
		return err
	}
	var table bytes.Buffer
	if err := r.write(&table); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(*folder, "RESULTS.md"), table.Bytes(), 0o644); err != nil {
		return err
	}
	if err := drawAll(*folder, r); err != nil {
		return err
	}
	_, err = table.WriteTo(output)
	return err
}
