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

// force implements revoke --force, for holders that have not agreed to a revocation.
type force struct {
	force, yes bool

	lock    *coordinator.Coordinator
	path    string
	until   time.Time
	holders []events.Contender // the confirmed ones
}

// confirm says what --force will do, and asks for confirmation.
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
	if !f.yes && !term.IsTerminal(int(os.Stdin.Fd())) {
		return errors.New("--force cannot ask for confirmation, because standard input is not a terminal: add --yes")
	}
	var err error
	if f.holders, err = f.now(ctx); err != nil {
		return err
	}
	if len(f.holders) == 0 {
		return &exit{code: codeNotHeld, err: fmt.Errorf("%w: %s", coordinator.ErrNotHeld, f.path)}
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
	answer, err := line(ctx, os.Stdin)
	if err != nil {
		return err
	}
	if answer != "yes" {
		return errors.New("nothing was deleted")
	}
	return nil
}

// line reads a line, until ctx ends.
func line(ctx context.Context, in io.Reader) (string, error) {
	read := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(in).ReadString('\n') // an incomplete line does not count as yes
		read <- strings.TrimSpace(text)
	}()
	select {
	case text := <-read:
		return text, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// revoke requests the lock from its holders. With --force, it requests it only from the
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
		err = nil // none of the holders to ask is left; ErrKind: an unfair lock
	}
	return cmp.Or(<-removed, err)
}

// takesRequest reports whether a holder is revocable, or belongs to another library, in
// which case it is evicted in the end. A node without a session has no holder.
func takesRequest(c events.Contender) bool {
	marks, ours := events.MarksOf(c.Node)
	return c.Kind != events.KindUnfair && session.Ephemeral(&zk.Stat{EphemeralOwner: c.Session}) &&
		(!ours || marks&events.MarkRevocable != 0)
}

// now returns the current holders.
func (f *force) now(ctx context.Context) ([]events.Contender, error) {
	all, err := contendersAt(ctx, f.lock, f.path)
	return holdersAmong(all), err
}

// left returns the confirmed holders that still hold the lock.
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

// remove waits until the grace is over, and removes the nodes of the confirmed holders
// that are still there.
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

// delete removes the nodes of these holders. It looks at each node right before, because
// opening a session takes a moment, and a later holder's node may have the same name.
func (f *force) delete(ctx context.Context, s *settings, holders []events.Contender) error {
	return s.inSession(ctx, func(live *session.Session) error {
		for _, c := range holders {
			nodes, err := nodesOf(ctx, live, c)
			if err != nil {
				return fmt.Errorf("reading %s: %w", c.Node, err)
			}
			for _, found := range nodes {
				node := path.Join(path.Dir(c.Node), found.Name)
				if err := live.Remove(ctx, path.Dir(node), found); err != nil {
					return fmt.Errorf("deleting %s: %w", node, err)
				}
				s.say(report{Event: "removed", Path: f.path, Node: node, Token: c.Token, loud: true, bad: true}, "deleted %s of %q", node, c.Data)
			}
		}
		return nil
	})
}

// nodesOf returns the nodes that a holder still has: its own node, or all of its permits.
func nodesOf(ctx context.Context, live *session.Session, c events.Contender) (nodes []session.Found, err error) {
	var found []session.Found
	if c.Permits > 0 {
		found, err = live.ReadQueue(ctx, path.Dir(c.Node), func(name string) bool { return session.AttemptOf(name) == session.AttemptOf(c.Node) })
	} else {
		found, err = live.Look(ctx, c.Node)
	}
	for _, node := range found {
		// The session may have released the node and created another one with the same
		// name. A permit's token is not its zxid, but no later permit has its name.
		if node.Stat.EphemeralOwner == c.Session && (c.Permits > 0 || node.Stat.Czxid == c.Token) {
			nodes = append(nodes, node)
		}
	}
	return nodes, err
}

// inSession calls f with a new session, for operations that coordinator does not offer.
func (s *settings) inSession(ctx context.Context, f func(*session.Session) error) error {
	servers, cfg, err := s.config()
	if err != nil {
		return err
	}
	return inSession(ctx, servers, cfg, f)
}

// config returns the servers and the configuration of a session.
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

// exists reports whether the node exists.
func (s *settings) exists(ctx context.Context, node string) (there bool, err error) {
	err = s.inSession(ctx, func(live *session.Session) error {
		found, err := live.Look(ctx, node)
		there = len(found) > 0
		return err
	})
	return there, err
}
