package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkgrant/zkgrant/coordinator"
)

func newRevoke(s *settings) *cobra.Command {
	var f force
	grace := 10 * time.Second
	cmd := &cobra.Command{
		Use:   "revoke PATH",
		Short: "Ask the holders of a lock to give it back",
		Long: `revoke asks every holder of a lock to give it back, and waits until all are gone: until they
have given it back or have lost it. A holder that has agreed to that loses the lock at the end
of --grace. If a holder of zkgrant has not agreed, no holder is asked. Holders of other libraries
are asked, too. Their nodes are removed later, and they may not notice. The request stands when
revoke is interrupted, but no node is removed then.

With --force the nodes of holders that have not agreed are removed by hand at the end of
--grace. A holder that is still alive works on until it notices, beside the next holder. revoke
says which nodes those are, and asks first; without a terminal --yes is the answer.`,
		GroupID:           "steer",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completePaths,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := interrupted()
			defer cancel()
			return s.ask(ctx, func(ctx context.Context, c *coordinator.Coordinator) error {
				f.lock, f.path, f.until = c, args[0], time.Now().Add(grace)
				if err := f.confirm(ctx, s, grace); err != nil {
					return err
				}
				s.say(report{Event: "asking", Path: args[0], Seconds: grace.Seconds(), loud: true},
					"asking for %s: a holder that has agreed loses it at %s at the latest", args[0], f.until.Format(time.TimeOnly))
				s.progress("waiting for the holders of %s, at most %s and five quarters of a session timeout", args[0], grace)
				defer s.hide()
				err := c.Revoke(ctx, args[0], grace)
				if f.force && errors.Is(err, coordinator.ErrNotRevocable) {
					err = f.remove(ctx, s)
				}
				switch {
				case errors.Is(err, coordinator.ErrNotHeld):
					return &exit{codeNotHeld, err}
				case err != nil:
					return err
				}
				s.say(report{Event: "revoked", Path: args[0], loud: true, good: true}, "%s is not held any more by the holders that were asked", args[0])
				return nil
			})
		},
	}
	cmd.Flags().DurationVar(&grace, "grace", grace, "how long the holders have")
	cmd.Flags().BoolVar(&f.force, "force", false, "remove the nodes of holders that have not agreed, which may work on beside the next holder")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask before that")
	return cmd
}

func newResize(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "resize PATH PERMITS",
		Short: "Set the number of a semaphore's permits",
		Long: `resize sets the number of permits of a semaphore. The waiters follow it, and no permit
is taken back. Programs that name another size are refused from then on.`,
		GroupID:           "steer",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: s.completePaths,
		RunE: func(cmd *cobra.Command, args []string) error {
			permits, err := strconv.Atoi(args[1])
			if err != nil || permits < 1 {
				return fmt.Errorf("%s: want a number of permits, 1 or more", args[1])
			}
			ctx, cancel := interrupted()
			defer cancel()
			return s.ask(ctx, func(ctx context.Context, c *coordinator.Coordinator) error {
				if err := c.Semaphore(args[0], permits, coordinator.AdoptSize()).Resize(ctx, permits); err != nil {
					return err
				}
				s.say(report{Event: "resized", Path: args[0], loud: true, good: true}, "%s has %d permits", args[0], permits)
				return nil
			})
		},
	}
}
