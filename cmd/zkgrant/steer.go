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
		Short: "Request a lock from its holders",
		Long: `revoke requests a lock from all of its holders, and waits until each one has released or lost it.
A revocable holder (see run --revocable) loses the lock at the end of --grace. If a holder that
uses zkgrant is not revocable, revoke sends no request and fails. Holders of other libraries get
the request, too; their nodes are deleted later, which they may not notice. If revoke is
interrupted, the request stays in effect, but no node is deleted.

With --force, revoke itself deletes the nodes of holders that are not revocable, at the end of
--grace: also an unfair lock, and a node that belongs to no session. The other holders get the
request as usual. A holder whose node is deleted, if it is alive, keeps working until it notices,
while the next holder has the lock. revoke lists the holders and asks for confirmation; without a
terminal, give --yes.`,
		GroupID:           "steer",
		Args:              arguments(1, 1, "give one path"),
		ValidArgsFunction: s.completePaths,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := interrupted(cmd)
			defer cancel()
			return s.ask(ctx, func(ctx context.Context, c *coordinator.Coordinator) error {
				f.lock, f.path = c, args[0]
				if err := f.confirm(ctx, s, grace); err != nil {
					return err
				}
				f.until = time.Now().Add(grace)
				s.say(report{Event: "asking", Path: args[0], Seconds: grace.Seconds(), loud: true},
					"revoking %s: a revocable holder loses it at about %s", args[0], f.until.Format(time.TimeOnly))
				s.progress("waiting for the holders of %s, for at most %s plus 1.25 session timeouts", args[0], grace)
				defer s.hide()
				err := f.revoke(ctx, s, grace)
				switch {
				case errors.Is(err, coordinator.ErrNotHeld):
					return &exit{code: codeNotHeld, err: err}
				case err != nil:
					return err
				}
				s.say(report{Event: "revoked", Path: args[0], loud: true, good: true}, "all holders that were asked have released or lost %s", args[0])
				return nil
			})
		},
	}
	cmd.Flags().DurationVar(&grace, "grace", grace, "how long the holders have to release the lock")
	cmd.Flags().BoolVar(&f.force, "force", false, "delete the nodes of holders that are not revocable, which may keep working at the same time as the next holder")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "with --force: do not ask for confirmation")
	return cmd
}

func newResize(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "resize PATH PERMITS",
		Short: "Set the number of a semaphore's permits",
		Long: `resize sets the number of permits of a semaphore. Waiters adapt to it, and no permit is
revoked. From then on, programs that use another size fail, unless they adopt the size.`,
		GroupID:           "steer",
		Args:              arguments(2, 2, "give a path and a number of permits"),
		ValidArgsFunction: s.completePaths,
		RunE: func(cmd *cobra.Command, args []string) error {
			permits, err := strconv.Atoi(args[1])
			if err != nil || permits < 1 {
				return fmt.Errorf("%s is not a number of permits: give 1 or more", args[1])
			}
			ctx, cancel := interrupted(cmd)
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
