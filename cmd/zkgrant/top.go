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
		Long: `top shows every lock below a path that has a holder or a waiter, and every semaphore: who
holds it, how many wait, and the oldest of them. Below is the queue of the selected lock.
It looks every --interval, and reads the data of holders and newcomers only. Of a large
tree it shows what it has found so far. Without a path it shows the locks below the
chroot of --servers, if there is one.

Keys: arrows or j and k select, w h n p sort by the oldest wait, the oldest hold, the
number of waiters or the path, / filters, r asks the holders for the selected lock, after
a question, q and Ctrl-C quit. A request stands when top has quit: a holder that has agreed
loses the lock at the end of --grace. A holder that hangs, or is of another
library, is evicted only while top runs.`,
		GroupID:           "look",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: s.completePaths,
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case o.Interval <= 0:
				return fmt.Errorf("--interval %v: want a time above 0", o.Interval)
			case o.Grace < 0:
				return errors.New("--grace: want a time of 0 or more")
			case s.json || !isTerminal(os.Stdin) || !isTerminal(os.Stdout):
				return errors.New("top needs a terminal; zkgrant ls lists the locks once, for programs with --json")
			}
			var err error
			if o.Root, err = s.rootOf(args); err != nil {
				return err
			}
			ctx, cancel := interrupted()
			defer cancel()
			return s.ask(ctx, func(ctx context.Context, c *coordinator.Coordinator) error { return top.Run(ctx, c, o) })
		},
	}
	cmd.Flags().DurationVar(&o.Interval, "interval", o.Interval, "the time between two looks")
	cmd.Flags().DurationVar(&o.Grace, "grace", o.Grace, "how long the holders of a lock that is asked back have")
	return cmd
}
