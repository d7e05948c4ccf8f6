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
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var opt options
	flags.StringVar(&opt.servers, "zk", "", "`servers` to use, as host:port,host:port/chroot (default: one inside this program)")
	flags.DurationVar(&opt.hold, "hold", 600*time.Millisecond, "how long each contender works under the lock")
	flags.DurationVar(&opt.timeout, "timeout", 6*time.Second, "the session timeout to ask for")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil: // it has been printed
		return 2
	case flags.NArg() > 0 || opt.hold <= 0 || opt.timeout <= 0:
		fmt.Fprintln(stderr, "quickstart: no arguments, please, and only durations that last")
		return 2
	}
	opt.colours = colourful(stdout)

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks for an orderly end; with the handler gone, the second
	// ends the program whatever it waits for.
	context.AfterFunc(ctx, stop)

	err := run(ctx, stdout, opt)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errInterrupted):
		fmt.Fprintln(stderr, "quickstart:", err)
		return 130
	default:
		fmt.Fprintln(stderr, "quickstart:", err)
		return 1
	}
}
