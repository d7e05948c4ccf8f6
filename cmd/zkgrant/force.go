package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"golang.org/x/term"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session"
)

// force is what revoke does with holders that have not agreed to a revocation.
type force struct {
	force, yes bool

	lock    *coordinator.Coordinator
	path    string
	until   time.Time
	holders []events.Contender // those that were confirmed
}

// confirm says what --force does, and asks whether to do it.
func (f *force) confirm(ctx context.Context, s *settings, grace time.Duration) error {
	if grace < 0 {
		return errors.New("--grace must not be negative")
	}
	if !f.force {
		if f.yes {
			return errors.New("--yes needs --force")
		}
		return nil
	}
	asks := term.IsTerminal(int(os.Stdin.Fd()))
	if !f.yes && !asks {
		return errors.New("--force cannot ask for confirmation, because standard input is not a terminal: add --yes")
	}
	var err error
	if f.holders, err = f.now(ctx); err != nil {
		return err
	}
	if len(f.holders) == 0 {
		return &exit{codeNotHeld, fmt.Errorf("%w: %s", coordinator.ErrNotHeld, f.path)}
	}
	for _, c := range f.holders {
		s.say(report{Event: "forcing", Path: f.path, Node: c.Node, Token: c.Token, Session: sessionID(c.Session), loud: true, always: true, bad: true},
			"--force deletes the node of %q, token %d, in %v, if that holder is not revocable: %s", c.Data, c.Token, grace, c.Node)
	}
	s.say(report{Event: "risk", Path: f.path, loud: true, always: true, bad: true},
		"A live holder keeps working until it notices, and the next holder starts at once. First make sure that its process has ended, or that its machine is off.")
	if f.yes {
		return nil
	}
	s.out.flush(time.Second)
	_, _ = fmt.Fprint(os.Stderr, "Delete them? Type yes: ")
	f.until = time.Now().Add(grace) // should the answer fail
	answer, err := line(ctx, os.Stdin)
	if err != nil {
		return err
	}
	if answer != "yes" {
		return errors.New("nothing was deleted")
	}
	f.until = time.Now().Add(grace)
	return nil
}

// line reads a line, until ctx ends.
func line(ctx context.Context, in io.Reader) (string, error) {
	read := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(in).ReadString('\n') // what ends without a line is no yes
		read <- strings.TrimSpace(text)
	}()
	select {
	case text := <-read:
		return text, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// revoke requests the lock from its holders. With --force, it requests it only from
// confirmed ones, and removes the nodes of those that take no request.
func (f *force) revoke(ctx context.Context, s *settings, grace time.Duration) error {
	if !f.force {
		return f.lock.Revoke(ctx, f.path, grace)
	}
	var asked, firm []events.Contender
	for _, c := range f.holders {
		if takesRequest(c) {
			asked = append(asked, c)
		} else {
			firm = append(firm, c)
		}
	}
	removed := make(chan error, 1)
	go func() { removed <- f.remove(ctx, s, firm) }()
	err := f.lock.Revoke(session.WithSeen(ctx, asked), f.path, grace)
	if errors.Is(err, coordinator.ErrNotHeld) || errors.Is(err, coordinator.ErrKind) {
		err = nil // none of those to ask is there now; ErrKind: the lock is an unfair one
	}
	return cmp.Or(<-removed, err)
}

// takesRequest reports whether a holder is revocable, or another library's, which is
// evicted in the end. A node without a session has no holder.
func takesRequest(c events.Contender) bool {
	marks, ours := events.MarksOf(c.Node)
	return c.Kind != events.KindUnfair && session.Ephemeral(&zk.Stat{EphemeralOwner: c.Session}) &&
		(!ours || marks&events.MarkRevocable != 0)
}

// now returns the holders.
func (f *force) now(ctx context.Context) (holders []events.Contender, err error) {
	lock, err := lockAt(ctx, f.lock.Poll(f.path), f.path)
	for _, c := range lock.Contenders {
		if c.Holding {
			holders = append(holders, c)
		}
	}
	return holders, err
}

// left returns those of the confirmed holders that still hold the lock.
func (f *force) left(ctx context.Context, among []events.Contender) (left []events.Contender, err error) {
	holders, err := f.now(ctx)
	for _, c := range holders {
		for _, confirmed := range among {
			if c.Node == confirmed.Node && c.Session == confirmed.Session && c.Token == confirmed.Token {
				left = append(left, c)
			}
		}
	}
	return left, err
}

// remove waits for the end of the grace, and removes the nodes of those confirmed holders
// that are left then.
func (f *force) remove(ctx context.Context, s *settings, confirmed []events.Contender) error {
	const every = time.Second
	for {
		left, err := f.left(ctx, confirmed)
		if err != nil || len(left) == 0 {
			return err
		}
		wait := time.Until(f.until)
		if wait <= 0 {
			return f.delete(ctx, s, left)
		}
		next := time.NewTimer(min(wait, every))
		select {
		case <-next.C:
		case <-ctx.Done():
			next.Stop()
			return context.Cause(ctx)
		}
	}
}

// delete removes the nodes of these holders. It looks at each one just before: to make a
// session takes a moment, and by then the node may be a later holder's that has the same
// name.
func (f *force) delete(ctx context.Context, s *settings, holders []events.Contender) error {
	return s.inSession(ctx, func(live *session.Session) error {
		for _, c := range holders {
			nodes, err := nodesOf(ctx, live, c)
			if err != nil {
				return fmt.Errorf("reading %s: %w", c.Node, err)
			}
			for _, node := range nodes {
				if err := live.Remove(ctx, node); err != nil {
					return fmt.Errorf("deleting %s: %w", node, err)
				}
				s.say(report{Event: "removed", Path: f.path, Node: node, Token: c.Token, loud: true, bad: true}, "deleted %s of %q", node, c.Data)
			}
		}
		return nil
	})
}

// nodesOf returns the nodes that a holder still has: its node, or all of its permits.
func nodesOf(ctx context.Context, live *session.Session, c events.Contender) (nodes []string, err error) {
	var found []session.Found
	if c.Permits > 0 {
		found, err = live.ReadQueue(ctx, path.Dir(c.Node), func(name string) bool { return session.AttemptOf(name) == session.AttemptOf(c.Node) })
	} else {
		found, err = live.Look(ctx, c.Node)
	}
	for _, node := range found {
		// The session may have released the node, and have made another one of the same
		// name. The token of a permit is not its zxid, and no later permit has its name.
		if node.Stat.EphemeralOwner == c.Session && (c.Permits > 0 || node.Stat.Czxid == c.Token) {
			nodes = append(nodes, path.Join(path.Dir(c.Node), node.Name))
		}
	}
	return nodes, err
}

// inSession calls f with a session of its own, for what the library does not offer.
func (s *settings) inSession(ctx context.Context, f func(*session.Session) error) error {
	servers, cfg, err := s.config()
	if err != nil {
		return err
	}
	return inSession(ctx, servers, cfg, f)
}

// config returns what makes a session.
func (s *settings) config() (servers session.Servers, cfg session.Config, err error) {
	options, err := s.options()
	if err != nil {
		return servers, cfg, err
	}
	all := make([]session.Option, len(options))
	for i, option := range options {
		all[i] = option
	}
	cfg = session.NewConfig(all...)
	if err := cfg.Check(); err != nil {
		return servers, cfg, err
	}
	servers, err = session.ParseConnectString(s.servers)
	return servers, cfg, err
}

// exists reports whether there is such a node.
func (s *settings) exists(ctx context.Context, node string) (there bool, err error) {
	err = s.inSession(ctx, func(live *session.Session) error {
		found, err := live.Look(ctx, node)
		there = len(found) > 0
		return err
	})
	return there, err
}
