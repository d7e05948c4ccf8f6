package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/top"
	"github.com/zkgrant/zkgrant/coordinator"
)

func newTop(s *settings) *cobra.Command {
	o := top.Options{Interval: time.Second, Grace: 10 * time.Second, Colors: os.Getenv("NO_COLOR") == "", Divert: s.divert}
	cmd := &cobra.Command{
		Use:   "top [ROOT]",
		Short: "Show the locks below a path, live",
		Long: `top shows every lock below a path that has a holder or a waiter, and every semaphore: its
holders, the number of waiters, and the longest wait. Below, it shows the queue of the selected
lock. It reads the tree every --interval, and the data of holders and new contenders only. For a
large tree it shows what it has found so far. Without a path it shows the locks below the chroot
of --servers, if there is one.

Keys: the arrows, or j and k, select a lock; w, h, n and p sort by longest wait, longest hold,
number of waiters or path; / filters; r revokes the selected lock, after a confirmation; q and
Ctrl-C quit. A revocation request stays in effect after top has quit: a revocable holder loses the
lock at the end of --grace. A holder that hangs, or that uses another library, is evicted only
while top runs.`,
		GroupID:           "look",
		Args:              arguments(0, 1, "give at most one path"),
		ValidArgsFunction: s.completePaths,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.Interval <= 0:
				return fmt.Errorf("--interval must be above 0, not %v", o.Interval)
			case o.Grace < 0:
				return errors.New("--grace must not be negative")
			case s.json || !isTerminal(os.Stdin) || !isTerminal(os.Stdout):
				return errors.New("top needs a terminal; zkgrant ls lists the locks once, for programs with --json")
			}
			var err error
			if o.Root, err = s.rootOf(args); err != nil {
				return err
			}
			ctx, cancel := interrupted(cmd)
			defer cancel()
			return s.ask(ctx, func(ctx context.Context, c *coordinator.Coordinator) error { return top.Run(ctx, c, o) })
		},
	}
	cmd.Flags().DurationVar(&o.Interval, "interval", o.Interval, "the time between two reads of the tree")
	cmd.Flags().DurationVar(&o.Grace, "grace", o.Grace, "how long the holders of a revoked lock have to release it")
	return cmd
}
