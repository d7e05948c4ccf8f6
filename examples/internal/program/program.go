package program

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

// ErrInterrupted means that a signal stopped the program before its end.
var ErrInterrupted = errors.New("interrupted")

// Program is an example's command line.
type Program struct {
	// Flags is the program's flag set, which already has the flags common to all
	// examples. Run refuses durations and ints that are not positive.
	Flags *flag.FlagSet

	name    string
	stderr  io.Writer
	servers string
	timeout time.Duration
}

// New returns the command line of the named example, with the flags -zk and -timeout.
func New(name string, stderr io.Writer) *Program {
	p := &Program{Flags: flag.NewFlagSet(name, flag.ContinueOnError), name: name, stderr: stderr}
	p.Flags.SetOutput(stderr)
	p.Flags.StringVar(&p.servers, "zk", "", "`servers` to use, as host:port,host:port/chroot (default: one inside this program)")
	p.Flags.DurationVar(&p.timeout, "timeout", 6*time.Second, "the session timeout to ask for")
	return p
}

// Timeout changes the default of -timeout.
func (p *Program) Timeout(d time.Duration) {
	p.timeout, p.Flags.Lookup("timeout").DefValue = d, d.String()
}

// Run parses the command line, calls f and returns the exit code. The context ends on a
// signal. f should then release what it holds and return nil, or the cause. A server
// inside the program is closed after f has returned.
func (p *Program) Run(args []string, f func(context.Context, *ZooKeeper) error) int {
	switch err := p.Flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil: // the error has been printed
		return 2
	case p.Flags.NArg() > 0 || !p.positive():
		p.say("no arguments, please, and only numbers above 0")
		return 2
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks for an orderly end. Stopping the handler lets the second one
	// kill the program, whatever it waits for.
	context.AfterFunc(ctx, stop)
	zk, err := Open(p.servers, p.timeout)
	if err != nil {
		p.say("%v", err)
		return 1
	}
	defer zk.Close()
	err = f(ctx, zk)
	switch {
	case ctx.Err() != nil:
		p.say("%v", interrupted(err))
		return 130
	case err == nil:
		return 0
	default:
		p.say("%v", err)
		return 1
	}
}

// interrupted returns the error to print after a signal, if the program returned err.
func interrupted(err error) error {
	switch {
	case err == nil || errors.Is(err, context.Canceled):
		return ErrInterrupted
	case errors.Is(err, ErrInterrupted):
		return err
	default:
		return fmt.Errorf("%w: %w", ErrInterrupted, err)
	}
}

// positive reports whether all durations and counts are positive.
func (p *Program) positive() bool {
	good := true
	p.Flags.VisitAll(func(f *flag.Flag) {
		getter, ok := f.Value.(flag.Getter)
		if !ok {
			return
		}
		switch v := getter.Get().(type) {
		case time.Duration:
			good = good && v > 0
		case int:
			good = good && v > 0
		}
	})
	return good
}

func (p *Program) say(format string, args ...any) {
	fmt.Fprintf(p.stderr, p.name+": "+format+"\n", args...)
}
