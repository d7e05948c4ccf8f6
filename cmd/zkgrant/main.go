package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// The exit codes that do not come from the command. A signal adds its number to
// codeSignal.
const (
	codeNotHeld  = 1 // of queue --held, and of revoke
	codeNotThere = 1 // of ls
	codeBad      = 1 // of doctor
	codeLost     = 123
	codeTaken    = 124
	codeFailed   = 125
	codeNoStart  = 126
	codeNotFound = 127
	codeSignal   = 128
)

// exit is an exit code as an error. If err is nil, there is nothing to print.
type exit struct {
	code        int
	err         error
	interrupted bool // INT has ended the command, or the wait
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// usageError reports a wrong command line, with the usage line to show.
type usageError struct {
	error

	usage string
}

// arguments checks how many arguments a command has.
func arguments(least, most int, want string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return usageError{errors.New(want), cmd.UseLine()}
		}
		return nil
	}
}

func main() {
	superviseIfAsked()
	var s settings
	code, interrupted := execute(newRoot(&s), &s)
	s.out.flush(time.Second) // do not wait longer for a slow reader
	if interrupted {
		dieOfInterrupt()
	}
	os.Exit(code)
}

// execute runs the command line, prints the error, and returns the exit code, and whether
// it is due to INT.
func execute(root *cobra.Command, s *settings) (code int, interrupted bool) {
	err := root.Execute()
	if err == nil {
		return 0, false
	}
	code = codeOf(err)
	if end := new(exit); errors.As(err, &end) {
		if err = end.err; err == nil {
			return code, end.interrupted
		}
	}
	_ = fromEnvironment(root.PersistentFlags()) // cobra refuses a wrong command line before the environment is read
	r := report{Event: "failed", Error: err.Error(), loud: true, bad: true}
	if wrong := new(usageError); errors.As(err, wrong) {
		r.usage = wrong.usage
	}
	s.say(r, "%s", plainly(err))
	return code, false
}

// codeOf returns the exit code of an error.
func codeOf(err error) int {
	var end *exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &end):
		return end.code
	}
	return codeFailed
}

// plainly returns the text of an error, without the prefix that the library's errors
// share with our lines.
func plainly(err error) string {
	var parts []string
	for line := range strings.Lines(strings.ReplaceAll(err.Error(), "zkgrant: ", "")) { // joined errors have one line each
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, "; ")
}

func newRoot(s *settings) *cobra.Command {
	root := &cobra.Command{
		Use:   "zkgrant",
		Short: "Distributed locks on ZooKeeper, from the command line",
		Long: `zkgrant takes locks on ZooKeeper, and shows who holds them.

Programs that use the Go library zkgrant, Apache Curator, kazoo or go-zookeeper can share them.
Give the servers with --servers or in ZKGRANT_SERVERS; there is no default. Each global flag can
also be set by a variable, such as ZKGRANT_SESSION_TIMEOUT for --session-timeout.
` + codesHelp(),
		Version:       version(debug.ReadBuildInfo()),
		SilenceErrors: true, // execute prints them
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("zkgrant {{.Version}}\n")
	s.bind(root)
	root.AddCommand(holdingCommands(s)...)
	root.AddCommand(
		newQueue(s),
		newList(s),
		newWatch(s),
		newTop(s),
		newBoard(s),
		newDoctor(s),
		newExporter(s),
		newRevoke(s),
		newResize(s),
		newVersion(),
	)
	root.SetHelpCommandGroupID("other")
	root.SetCompletionCommandGroupID("other")
	root.AddGroup(&cobra.Group{ID: "hold", Title: "Hold a lock:"}, &cobra.Group{ID: "look", Title: "Inspect locks:"},
		&cobra.Group{ID: "steer", Title: "Control locks:"}, &cobra.Group{ID: "other", Title: "Other:"})
	return root
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs, GroupID: "other",
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "zkgrant", cmd.Root().Version)
			return err
		},
	}
}

// version returns the version of the build, or else its commit.
func version(info *debug.BuildInfo, ok bool) string {
	switch {
	case !ok:
		return "unknown"
	case info.Main.Version != "" && info.Main.Version != "(devel)":
		return info.Main.Version
	}
	set := map[string]string{}
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	built := "(devel)"
	if revision := set["vcs.revision"]; revision != "" {
		built += " " + revision
	}
	if set["vcs.modified"] == "true" {
		built += " with uncommitted changes"
	}
	return built
}
