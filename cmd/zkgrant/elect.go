//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

func newElect(s *settings) *cobra.Command {
	w := &wanted{settings: s, kind: kindElection, permits: 1}
	flags := commandFlags{wanted: w}
	var watch bool
	cmd := &cobra.Command{
		Use:   "elect [flags] PATH -- COMMAND [ARGUMENT...]",
		Short: "Run a command while leading an election, or watch its leader",
		Long: `elect campaigns in an election, runs the command while it leads, and exits with the
command's exit code. With --again it campaigns again after a loss. With --watch it does not
campaign; it only prints the leader, and each change, until it is interrupted.
` + commandText + codesHelp(),
		Example:           "  zkgrant elect --again /elections/scheduler -- scheduler\n  zkgrant elect --watch /elections/scheduler",
		GroupID:           "hold",
		ValidArgsFunction: s.completePaths,
		RunE: func(cmd *cobra.Command, args []string) error {
			if watch {
				if len(args) != 1 {
					return errors.New("--watch takes one path and no command")
				}
				return s.observe(cmd, args[0])
			}
			command, err := flags.command(cmd, args)
			if err != nil {
				return err
			}
			if len(w.paths) > 1 {
				return errors.New("elect takes one path")
			}
			return w.work(command, flags.program(command))
		},
	}
	w.bindHolding(cmd)
	w.bindWait(cmd)
	flags.bind(cmd)
	cmd.Flags().BoolVar(&w.again, "again", false, "campaign again after a loss")
	cmd.Flags().BoolVar(&watch, "watch", false, "only print the leader, and each change; do not campaign")
	for _, other := range []string{"again", "try", "wait"} {
		cmd.MarkFlagsMutuallyExclusive("watch", other)
	}
	return cmd
}

// observe prints the leaders until it is interrupted.
func (s *settings) observe(cmd *cobra.Command, path string) error {
	ctx, cancel := interrupted(cmd)
	defer cancel()
	return s.ask(ctx, func(ctx context.Context, c *coordinator.Coordinator) error {
		return s.leaders(ctx, cmd.OutOrStdout(), c.Election(path, s.lockOptions()...))
	})
}

// leaders prints the leader, and each change.
func (s *settings) leaders(ctx context.Context, out io.Writer, election *coordinator.Election) error {
	for {
		for leader := range election.Observe(ctx) {
			if err := s.printLeader(out, leader); err != nil {
				return err
			}
		}
		_, err := election.Queue(ctx) // says why the observation has ended
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it was interrupted, perhaps during the look
		case err != nil:
			return err
		}
		// The reason is gone, perhaps with a node that may not be read.
	}
}

// withoutData replaces the data of a contender that has none.
const withoutData = "a contender without data"

func (s *settings) printLeader(out io.Writer, leader events.Leader) error {
	if s.json {
		return object(out, struct {
			Time  time.Time `json:"time"`
			Node  string    `json:"node,omitempty"`
			Token int64     `json:"token,omitempty"`
			Data  string    `json:"data,omitempty"`
		}{time.Now(), leader.Node, leader.Token, string(leader.Data)})
	}
	who := "no leader"
	if leader.Node != "" {
		who = fmt.Sprintf("%s leads, token %d", cmp.Or(printable(string(leader.Data)), withoutData), leader.Token)
	}
	_, err := fmt.Fprintf(out, "%s  %s\n", time.Now().Format(time.TimeOnly), who)
	return err
}
