//go:build unix

package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
)

// The exit codes that are not the command's; signals aside, which are 128 and their
// number.
const (
	codeLost     = 123
	codeTaken    = 124
	codeFailed   = 125
	codeNoStart  = 126
	codeNotFound = 127
	codeSignal   = 128
)

type options struct {
	servers string
	timeout time.Duration // of the session
	try     bool
	maxWait time.Duration // 0: as long as it takes
	grace   time.Duration // between TERM and KILL; 0: no TERM
	verbose bool
	path    string   // of the lock
	command []string // and its arguments
}

func main() {
	opt, code := parse(os.Args[1:])
	if code < 0 {
		code = run(opt)
	}
	os.Exit(code)
}

// parse reads the command line. The code is negative if there is something to run.
func parse(args []string) (opt options, code int) {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.StringVar(&opt.servers, "zk", "", "`servers` to use, as host:port,host:port/chroot; there is no default")
	flags.DurationVar(&opt.timeout, "timeout", 10*time.Second, "the session timeout to ask for")
	flags.BoolVar(&opt.try, "try", false, "do not wait for the lock")
	flags.DurationVar(&opt.maxWait, "max-wait", 0, "how long to wait for the lock; 0 is as long as it takes")
	flags.DurationVar(&opt.grace, "grace", 2*time.Second, "when the lock is lost, the time between TERM and KILL; 0 is KILL at once")
	flags.BoolVar(&opt.verbose, "v", false, "say on standard error what happens to the lock")
	flags.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: run -zk servers [flags] PATH -- command [argument ...]")
		flags.PrintDefaults()
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return opt, 0
	case err != nil: // it has been printed
		return opt, codeFailed
	case flags.NArg() < 3 || flags.Arg(1) != "--" || opt.timeout <= 0 || opt.maxWait < 0 || opt.grace < 0:
		flags.Usage()
		return opt, codeFailed
	case opt.servers == "":
		say("name the ZooKeeper servers with -zk host:port,...: without them nobody else sees the lock")
		return opt, codeFailed
	}
	opt.path, opt.command = flags.Arg(0), flags.Args()[2:]
	return opt, -1
}

// run looks for the command, holds the lock while the command runs, and returns the exit code.
func run(opt options) int {
	// First: to wait for a lock for nothing is a nuisance to others, too.
	if _, err := exec.LookPath(opt.command[0]); err != nil {
		return notStarted(err)
	}
	signals := listen()
	defer signals.stop()
	c, err := coordinator.Open(opt.servers, coordinator.WithSessionTimeout(opt.timeout))
	if err != nil {
		say("%v", err)
		return codeFailed
	}
	defer func() {
		if err := c.Close(); err != nil { // the servers will end the session by themselves
			say("giving back: %v", err)
		}
	}()
	return hold(c, opt, signals)
}

// notStarted says why the command does not run, and returns the code for that.
func notStarted(err error) int {
	say("%v", err)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return codeNotFound
	}
	return codeNoStart
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "run: "+format+"\n", args...)
}
