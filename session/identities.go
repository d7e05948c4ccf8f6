package session

import (
	"slices"
	"sync"
)

// This file is about the identities of a session, for servers that know clients by a
// digest or the like.

// identities decides which identities a session's connections use, if their source may
// return different ones over time.
//
// A node may be accessible only to the identity that created it. So a change waits until
// the session has no nodes, because with another identity it might not be able to delete
// its own. From then on, the old identities are not sent again: they may have been
// stolen, and revoked.
type identities struct {
	used   []Auth // those of the latest connection
	latest []Auth // what the source last returned
	over   bool   // the session had no nodes after latest changed: used is not sent again
}

// dial returns the state for the next connection, given what the source returns now.
// nodes reports whether the session may have nodes.
func (i identities) dial(now []Auth, nodes bool) identities {
	i.latest = now
	if !nodes || i.over {
		i.used, i.over = now, false
	}
	return i
}

// waits reports whether the source returned other identities than those in use.
func (i identities) waits() bool { return !slices.EqualFunc(i.used, i.latest, sameIdentity) }

// empty notes that the session has no nodes.
func (i identities) empty() identities {
	i.over = i.over || i.waits()
	return i
}

func sameIdentity(a, b Auth) bool { return a.Scheme == b.Scheme && string(a.Auth) == string(b.Auth) }

// credentials are the identities of a session, if they may change. Its loop and the
// dialing goroutine share them.
type credentials struct {
	source func() []Auth

	mu    sync.Mutex
	now   identities
	nodes bool // the session may have nodes
}

// dial returns the identities for the client's next connection.
func (w *credentials) dial(c *client) []Auth {
	said := w.source()
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.now
	w.now = before.dial(said, w.nodes && c.link.Session() != 0) // a new session has no nodes
	if w.now.waits() && !slices.EqualFunc(before.latest, said, sameIdentity) {
		c.logger.Warn("the identities have changed; the old ones are used until the session has no nodes",
			zapSession(c))
	}
	return w.now.used
}

// isOver reports whether the latest connection's identities must no longer be used.
func (w *credentials) isOver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now.over
}

// note notes whether the session may have nodes. It reports whether the connection's
// identities must therefore no longer be used.
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

// noteNodes is for a session whose identities may change. It hangs up if the connection
// has old identities and the session no longer has nodes. Each seat may have a node, and
// so may whatever is counted in the budget.
func (s *Session) noteNodes() {
	c := s.client
	if s.whoWeAre.note(len(s.seats) > 0 || s.budget.Used.Nodes > 0) && c != nil && !c.isOver() {
		c.logger.Info("reconnecting because the identities have changed", zapSession(c))
		c.hangUp() // the next connection uses the new ones
	}
}
