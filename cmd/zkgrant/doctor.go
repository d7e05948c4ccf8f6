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
	var limit rate
	cmd := &cobra.Command{
		Use:   "doctor [PATH]",
		Short: "Check the ensemble, and the locks below a path",
		Long: `doctor checks each server of the connect string, and the locks at PATH and below it. It prints
one line per finding: its level (ok, note, warn or bad), its place, what was seen, and what to
do. Without PATH it checks the locks below the chroot of --servers, or else the servers only. It
opens sessions, and writes nothing else. The exit code is 1 if a finding is bad, and 125 if
doctor could not check.`,
		GroupID:           "look",
		Args:              arguments(0, 1, "give at most one path"),
		ValidArgsFunction: s.completePaths,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := interrupted(cmd)
			defer cancel()
			root := ""
			if len(args) > 0 {
				root = args[0]
				if err := session.ValidatePath(root); err != nil {
					return err
				}
			} else if servers, err := session.ParseConnectString(s.servers); err == nil && servers.Chroot != "" {
				root = "/"
			}
			if patience <= 0 {
				return fmt.Errorf("--patience must be above 0, not %v", patience)
			}
			if err := limit.set(); err != nil {
				return err
			}
			r := &record{settings: s, out: cmd.OutOrStdout(), printed: map[doctor.Finding]bool{}}
			failure := s.diagnose(ctx, root, patience, r)
			if ctx.Err() != nil { // what was not seen by then proves nothing
				return context.Cause(ctx)
			}
			if failure = errors.Join(failure, r.err); failure == nil && r.bad {
				return &exit{code: codeBad}
			}
			return failure
		},
	}
	limit.bind(cmd)
	cmd.Flags().DurationVar(&patience, "patience", patience, "how long to wait for a connection to a server, and for each answer")
	return cmd
}

// diagnose examines the servers, and the tree below root unless root is empty. It prints
// its findings even if it then fails.
func (s *settings) diagnose(ctx context.Context, root string, patience time.Duration, found *record) error {
	const defaultTick = 2 * time.Second
	assumed := func(timeout time.Duration) time.Duration { return cmp.Or(s.tick, min(defaultTick, timeout/2)) }
	var o doctor.Observation
	o.Asked, o.Tick = s.timeout, assumed(s.timeout)
	servers, cfg, err := s.config()
	if err != nil {
		return err
	}
	s.progress("checking %d servers", len(servers.Hosts))
	defer s.hide()
	p := newProbe(cfg, patience)
	o.Servers = each(servers.Hosts, func(addr string) doctor.Server { return p.examine(ctx, addr) })
	begun := time.Now() // by now, each server has answered
	if !slices.ContainsFunc(o.Servers, doctor.Server.Serves) {
		found.print(ctx, doctor.Findings(o))
		return fmt.Errorf("no session with %s", s.servers)
	}
	err = inSession(ctx, servers, cfg, func(live *session.Session) (err error) {
		o.Granted = live.Timeout()
		o.Tick = assumed(o.Granted)
		if err = p.askAgain(ctx, &o, begun); err != nil || root == "" {
			return err
		}
		found.print(ctx, doctor.Findings(o)) // the walk below may take long
		looking := session.WithProgress(ctx, func(p session.Progress) {
			s.progress("reading the tree below %s, %d nodes so far", root, p.Nodes)
		})
		o.Tree, err = lookBelow(looking, paced{live}, servers.Chroot, root, func(n doctor.Node) {
			found.print(ctx, n.Findings())
		})
		return err
	})
	found.print(ctx, doctor.Findings(o))
	return err
}

// record prints each finding once.
type record struct {
	*settings

	out     io.Writer
	printed map[doctor.Finding]bool
	bad     bool
	err     error
}

func (r *record) print(ctx context.Context, all []doctor.Finding) {
	fresh := slices.DeleteFunc(slices.Clone(all), func(f doctor.Finding) bool { return r.printed[f] })
	if len(fresh) == 0 || ctx.Err() != nil || r.err != nil {
		return
	}
	r.give()
	for _, f := range fresh {
		r.printed[f] = true
	}
	r.bad = r.bad || doctor.Worst(fresh) == doctor.Bad
	r.err = r.printFindings(r.out, fresh)
}

// paced is a session whose Look is rate-limited, as Inspect already is.
type paced struct{ *session.Session }

func (p paced) Look(ctx context.Context, node string) ([]session.Found, error) {
	if err := session.AwaitRead(ctx); err != nil {
		return nil, err
	}
	return p.Session.Look(ctx, node)
}

// each calls f for all elements concurrently, and returns the results in order.
func each[T, R any](all []T, f func(T) R) []R {
	var calls sync.WaitGroup
	results := make([]R, len(all))
	for i, one := range all {
		calls.Go(func() { results[i] = f(one) })
	}
	calls.Wait()
	return results
}

// inSession calls f with a session that a server has granted.
func inSession(ctx context.Context, servers session.Servers, cfg session.Config, f func(*session.Session) error) error {
	group := &actors.Group{}
	defer group.Close()
	live := session.Open(servers, cfg, group, func(events.Event) {})
	defer func() {
		parting, cancel := context.WithTimeout(context.WithoutCancel(ctx), live.Patience())
		defer cancel()
		live.Close(parting) // the session has created no nodes that could be left behind
	}()
	first, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	if err := live.Ready(first); err != nil {
		return err
	}
	return f(live)
}

// printFindings writes the findings, aligned in columns.
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
