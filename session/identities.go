package session

import (
	"slices"
	"sync"
)

// This file is about who the session is, for servers that know it by a digest or the
// like.

// identities decides which identities the connections of a session get, when those that
// its source returns may change.
//
// What was made with an identity may belong to that one alone. So a change waits until
// the session has no node: with another identity it might not be able to delete its own.
// From then on the former identities are not sent again. They may have been revoked
// because a stranger has them.
type identities struct {
	used []Auth // those of the latest connection
	told []Auth // what the source said last
	over bool   // the session had no node after told had changed: used is not sent again
}

// dial returns what to use for the next connection, with what the source says now. nodes
// says whether the session may have a node.
func (i identities) dial(now []Auth, nodes bool) identities {
	i.told = now
	if !nodes || i.over {
		i.used, i.over = now, false
	}
	return i
}

// waits reports whether the source has other identities than those in use.
func (i identities) waits() bool { return !slices.EqualFunc(i.used, i.told, sameIdentity) }

// empty takes the news that the session has no node.
func (i identities) empty() identities {
	i.over = i.over || i.waits()
	return i
}

func sameIdentity(a, b Auth) bool { return a.Scheme == b.Scheme && string(a.Auth) == string(b.Auth) }

// credentials are the identities of a session, if they may change, for its loop and the
// goroutine that dials.
type credentials struct {
	source func() []Auth

	mu    sync.Mutex
	now   identities
	nodes bool // the session may have nodes
}

// dial returns the identities of the next connection of the client.
func (w *credentials) dial(c *client) []Auth {
	said := w.source()
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.now
	w.now = before.dial(said, w.nodes && c.link.Session() != 0) // a session that is to begin has no node
	if w.now.waits() && !slices.EqualFunc(before.told, said, sameIdentity) {
		c.logger.Warn("the identities have changed; the old ones are used until the session has no nodes",
			zapSession(c))
	}
	return w.now.used
}

// isOver reports whether the identities of the latest connection must not be used any
// more.
func (w *credentials) isOver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now.over
}

// note notes whether the session may have nodes. It reports whether the connection has
// identities that are over by that.
func (w *credentials) note(nodes bool) (over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.nodes == nodes {
		return false
	}
	if w.nodes = nodes; !nodes {
		w.now = w.now.empty()
	}
	return w.now.over
}

// noteNodes is for a session whose identities may change. It hangs up when the session has
// no node any more, and the connection has former identities. Each seat may have a node,
// and what counts in the budget is another one that may be there.
func (s *Session) noteNodes() {
	c := s.client
	if s.whoWeAre.note(len(s.seats) > 0 || s.budget.Used.Nodes > 0) && c != nil && !c.isOver() {
		c.logger.Info("reconnecting because the identities have changed", zapSession(c))
		c.hangUp() // the next connection gets the present ones
	}
}
