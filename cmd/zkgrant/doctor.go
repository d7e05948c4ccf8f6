package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/doctor"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session"
)

func newDoctor(s *settings) *cobra.Command {
	patience := 3 * time.Second
	cmd := &cobra.Command{
		Use:   "doctor [PATH]",
		Short: "Look for trouble in the ensemble, and in the locks below a path",
		Long: `doctor asks each server of the connect string how it does, and looks at the locks at PATH and
below it. It prints a line for each finding: ok, note, warn or bad, where, what was seen, and what
to do. It opens sessions, and writes nothing else. The exit code is 1 if anything is bad, 125 if it
could not look.`,
		GroupID:           "look",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: s.completePaths,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := interrupted()
			defer cancel()
			root := ""
			if len(args) > 0 {
				root = args[0]
				if err := session.ValidatePath(root); err != nil {
					return err
				}
			}
			if patience <= 0 {
				return fmt.Errorf("--patience %v: want a time above 0", patience)
			}
			o, failure := s.diagnose(ctx, root, patience)
			switch {
			case ctx.Err() != nil: // what was not seen by then says nothing
				return context.Cause(ctx)
			case len(o.Servers) == 0: // there was nothing to see yet
				return failure
			}
			findings := doctor.Findings(o)
			if err := s.printFindings(cmd.OutOrStdout(), findings); err != nil {
				return err
			}
			if failure == nil && doctor.Worst(findings) == doctor.Bad {
				return &exit{code: codeBad}
			}
			return failure
		},
	}
	cmd.Flags().DurationVar(&patience, "patience", patience, "how long a server may take for an answer")
	return cmd
}

// diagnose looks at the servers, and at the tree if there is a root. It returns what it has seen with an error, too.
func (s *settings) diagnose(ctx context.Context, root string, patience time.Duration) (o doctor.Observation, _ error) {
	const defaultTick = 2 * time.Second
	o.Asked, o.Tick = s.timeout, cmp.Or(s.tick, min(defaultTick, s.timeout/2))
	options, err := s.options()
	if err != nil {
		return o, err
	}
	all := make([]session.Option, len(options))
	for i, option := range options {
		all[i] = option
	}
	cfg := session.NewConfig(all...)
	if err := cfg.Check(); err != nil {
		return o, err
	}
	servers, err := session.ParseConnectString(s.servers)
	if err != nil {
		return o, err
	}
	s.progress("asking %d servers", len(servers.Hosts))
	defer s.hide()
	p, begun := newProbe(cfg, patience), time.Now()
	o.Servers = each(servers.Hosts, func(addr string) doctor.Server { return p.examine(ctx, addr) })
	if !slices.ContainsFunc(o.Servers, doctor.Server.Serves) {
		return o, fmt.Errorf("no session with %s", s.servers)
	}
	err = inSession(ctx, servers, cfg, func(live *session.Session) (err error) {
		if o.Granted = live.Timeout(); root != "" {
			s.progress("looking at what is below %s", root)
			o.Tree, err = lookBelow(ctx, live, servers.Chroot, root)
		}
		return err
	})
	return o, errors.Join(err, p.askAgain(ctx, &o, begun))
}

// each calls the function for all of them at once, and returns the results in their order.
func each[T, R any](all []T, f func(T) R) []R {
	var calls sync.WaitGroup
	results := make([]R, len(all))
	for i, one := range all {
		calls.Go(func() { results[i] = f(one) })
	}
	calls.Wait()
	return results
}

// inSession calls the function with a session that a server has granted.
func inSession(ctx context.Context, servers session.Servers, cfg session.Config, f func(*session.Session) error) error {
	group := &actors.Group{}
	defer group.Close()
	live := session.Open(servers, cfg, group, func(events.Event) {})
	defer func() {
		parting, cancel := context.WithTimeout(context.WithoutCancel(ctx), live.Patience())
		defer cancel()
		live.Close(parting) // the session has made no nodes that could be left
	}()
	first, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	if err := live.Ready(first); err != nil {
		return err
	}
	return f(live)
}

// printFindings writes a line for each finding.
func (s *settings) printFindings(out io.Writer, findings []doctor.Finding) error {
	colors := map[doctor.Level]string{doctor.OK: green, doctor.Note: dim, doctor.Warn: yellow, doctor.Bad: red}
	end := plain
	if !newConsole(os.Stdout, s).color {
		colors, end = nil, ""
	}
	width := 0
	for _, f := range findings {
		width = max(width, utf8.RuneCountInString(f.Subject))
	}
	for _, f := range findings {
		var err error
		if s.json {
			err = object(out, f)
		} else {
			says := strings.TrimSpace(f.Seen + " " + f.Do)
			_, err = fmt.Fprintf(out, "%s%-4s%s  %-*s  %s\n", colors[f.Level], f.Level, end, width, printable(f.Subject), printable(says))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
