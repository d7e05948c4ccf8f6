package figures

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Main runs a command until it ends or is interrupted. main calls it.
func Main(name string, run func(ctx context.Context, args []string, input io.Reader, output io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Parse parses a command line that has only flags. over means that the command ends here:
// with the error, or after its help was printed.
func Parse(flags *flag.FlagSet, args []string) (over bool, err error) {
	err = flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return true, nil
	}
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("there is no argument %q", flags.Arg(0))
	}
	return err != nil, err
}
