package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// command runs the program and returns its exit code.
func command(args []string, stdout *os.File, stderr io.Writer) int {
	flags := flag.NewFlagSet("eventloop", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var opt options
	flags.StringVar(&opt.servers, "zk", "", "`servers` to use, as host:port,host:port/chroot (default: one inside this program)")
	flags.IntVar(&opt.locks, "locks", 500, "how many locks")
	flags.DurationVar(&opt.hold, "hold", 500*time.Millisecond, "how long each is held")
	flags.DurationVar(&opt.timeout, "timeout", 6*time.Second, "the session timeout to ask for")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil: // it has been printed
		return 2
	case flags.NArg() > 0 || opt.locks <= 0 || opt.hold <= 0 || opt.timeout <= 0:
		fmt.Fprintln(stderr, "eventloop: no arguments, please, and only numbers above 0")
		return 2
	}
	info, err := stdout.Stat()
	opt.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once

	err = run(ctx, stdout, opt)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errInterrupted):
		fmt.Fprintln(stderr, "eventloop:", err)
		return 130
	default:
		fmt.Fprintln(stderr, "eventloop:", err)
		return 1
	}
}
