//go:build unix

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/textfile"
)

// holdingCommands returns the commands that hold a lock.
func holdingCommands(s *settings) []*cobra.Command {
	return []*cobra.Command{newRun(s), newElect(s), newHold(s)}
}

// commandFlags are the flags for how the command runs.
type commandFlags struct {
	*wanted

	grace  time.Duration // if the flag is given
	signal string
	shell  bool
	stdin  bool
}

func (f *commandFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.DurationVar(&f.grace, "grace", 0, "the `time` from the signal to KILL, before the lease runs out; 0 sends no signal; at most a quarter\nof the session timeout (default: a tenth of the session timeout)")
	flags.StringVar(&f.signal, "signal", "TERM", "the signal that asks the command to end")
	flags.BoolVar(&f.shell, "shell", false, "run the command, given as one argument, with sh -c")
	flags.BoolVar(&f.leaves, "release-on-exit", false, "release the lock when the command itself ends, and leave the processes that it started alone")
	flags.DurationVar(&f.minHold, "min-hold", 0, "hold the lock for at least this `time`, even if the command ends earlier")
	flags.StringVar(&f.file, "textfile", "", "at the end, write times and the exit code to this `file`, for the textfile collector of Prometheus' node_exporter")
	_ = cmd.MarkFlagFilename("textfile", "prom")
	flags.BoolVar(&f.stdin, "stdin", false, "let the command read from the terminal, if zkgrant is in the foreground")
}

// command splits the arguments at the two dashes into the paths and the command, and
// looks up the command's program.
func (f *commandFlags) command(cmd *cobra.Command, args []string) (*child, error) {
	dashes := cmd.ArgsLenAtDash()
	if dashes < 1 || dashes == len(args) {
		return nil, usageError{errors.New("give a path and a command, with -- between them"), cmd.UseLine()}
	}
	f.paths = args[:dashes]
	c := &child{console: f.console, orphans: &f.orphans, line: args[dashes:], terminal: f.stdin, job: standing()}
	if f.given("grace") {
		f.wanted.grace = &f.grace
	}
	if c.asks = signalNamed(f.signal); c.asks == 0 {
		return nil, fmt.Errorf("--signal %s: unknown signal", f.signal)
	}
	if err := within(toWrite, func() error { return textfile.Check(f.file) }); err != nil && !errors.Is(err, errSilent) {
		return nil, fmt.Errorf("--textfile %s: %w", f.file, err)
	}
	if f.shell {
		if len(c.line) != 1 {
			return nil, errors.New("--shell takes the command as one argument, in quotes")
		}
		c.line = []string{"sh", "-c", c.line[0]}
	}
	// Check this before queueing: a contender that cannot use the lock only delays
	// others.
	if _, err := exec.LookPath(c.line[0]); err != nil {
		f.last.Path = f.name()
		f.writeFigures(notStarted(err))
		return nil, notStarted(err)
	}
	return c, nil
}

// signalNamed returns the signal with that name, with or without SIG, or that number. It
// returns 0 if there is none.
func signalNamed(name string) syscall.Signal {
	if number, err := strconv.Atoi(name); err == nil {
		name = unix.SignalName(syscall.Signal(number))
	}
	return unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(name), "SIG"))
}

// program returns the name of the command's program. With --shell that is sh.
func (f *commandFlags) program(c *child) string { return filepath.Base(c.line[0]) }

// notStarted returns err with the exit code for a command that did not start.
func notStarted(err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return &exit{code: codeNotFound, err: err}
	}
	return &exit{code: codeNoStart, err: err}
}

const commandText = `
The command runs in its own process group. If the servers do not answer, the command and the
processes that it started get --signal when --grace is left of the lease, and KILL when it runs
out. INT, TERM, HUP, QUIT, USR1, USR2 and WINCH are passed on to them. The environment of the
command describes the lock: ZKGRANT_PATH, ZKGRANT_TOKEN (the fencing token), ZKGRANT_NODE,
ZKGRANT_SESSION, ZKGRANT_KIND, and where they apply, ZKGRANT_MEMBERS and ZKGRANT_ABANDONED, as
JSON.
`

func newRun(s *settings) *cobra.Command {
	w := &wanted{settings: s}
	flags := commandFlags{wanted: w}
	cmd := &cobra.Command{
		Use:   "run [flags] PATH... -- COMMAND [ARGUMENT...]",
		Short: "Hold a lock while a command runs",
		Long: `run waits for the lock, runs the command, releases the lock when the command has ended,
and exits with the command's exit code. Several paths are locked together, all or none.
` + commandText + codesHelp(),
		Example:           "  zkgrant run /locks/backup -- backup --all\n  zkgrant run --size 3 --try /locks/workers -- worker",
		GroupID:           "hold",
		ValidArgsFunction: s.completePaths,
		RunE: func(cmd *cobra.Command, args []string) error {
			command, err := flags.command(cmd, args)
			if err != nil {
				return err
			}
			return w.work(command, flags.program(command))
		},
	}
	w.bindKind(cmd)
	w.bindWait(cmd)
	flags.bind(cmd)
	return cmd
}
