package zktest

import "slices"

// replica is what one connection sees of a server that has fallen behind: the old tree,
// and the changes that have not reached the server. Meanwhile it has the watches of the
// connection, because they fire only when a change arrives.
type replica struct {
	tree         *tree
	zxid         int64
	dataWatches  *watchTable
	childWatches *watchTable
	unheard      []change
}

// Lag makes the current connection of a session, if there is one, talk to a follower that
// lags, or lets that follower catch up. While it lags, reads are answered from the old
// tree, and watch events are held back and delivered later, in order. A write or sync by
// the session itself brings the follower up to date for a moment, because its answer
// requires that. A new connection does not lag.
func (s *Server) Lag(session int64, lag bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.connectionsOf(session) {
		if lag && c.replica == nil {
			s.freeze(c)
		}
		if !lag && !c.stranded {
			s.thaw(c)
		}
		c.lagging = lag
	}
}

// Strand makes the current connection of a session, if there is one, talk to a follower
// that has lost its leader, or has found it again. Such a follower does not know that it
// has lost contact. It answers pings, and reads from the old tree. No sign of life
// reaches the leader, and a write or a sync waits, with everything after it. If the
// session expires, the client is not notified before the follower has found its leader. A
// new connection is not stranded.
func (s *Server) Strand(session int64, strand bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.connectionsOf(session) {
		if strand && c.replica == nil {
			s.freeze(c)
		}
		c.stranded = strand
		if !strand && c.asked && s.sessions[session] == c.session {
			s.report(c) // the question was in transit all the time
		}
		if !strand && !c.lagging {
			s.thaw(c)
		}
		c.hold(strand)
		if !strand && s.sessions[session] != c.session {
			s.thaw(c)
			s.leave(c)
			c.hangUp()
		}
	}
}

// connectionsOf searches the connections of a session, because a stranded one may outlive
// the session.
func (s *Server) connectionsOf(session int64) []*conn {
	return slices.DeleteFunc(s.connections(), func(c *conn) bool {
		return c.session == nil || c.session.id != session || c.gone
	})
}

// freeze preserves the current state for a connection.
func (s *Server) freeze(c *conn) {
	c.replica = &replica{
		tree: s.tree.snapshot(), zxid: s.zxid,
		dataWatches: newWatchTable(), childWatches: newWatchTable(),
	}
	s.replicas[c] = struct{}{}
	s.dataWatches.move(c, c.replica.dataWatches)
	s.childWatches.move(c, c.replica.childWatches)
}

// thaw delivers to a connection what it has missed, and lets it see the current state
// again.
func (s *Server) thaw(c *conn) {
	r := c.replica
	if r == nil {
		return
	}
	fire(r.unheard, r.dataWatches, r.childWatches)
	r.dataWatches.move(c, s.dataWatches)
	r.childWatches.move(c, s.childWatches)
	c.replica = nil
	delete(s.replicas, c)
}

// view returns what a connection reads from: the current state, or its replica.
func (s *Server) view(c *conn) replica {
	if c.replica != nil {
		return *c.replica
	}
	return replica{tree: s.tree, zxid: s.zxid, dataWatches: s.dataWatches, childWatches: s.childWatches}
}

// needsLeader reports whether a follower cannot answer the request by itself.
func needsLeader(op Op) bool {
	switch op {
	case OpExists, OpGetData, OpGetChildren, OpGetChildren2, OpGetACL, OpSetWatches, OpCheckWatches, OpRemoveWatches, OpPing, OpAuth:
		return false
	}
	return true
}

// snapshot copies the nodes. Their contents are replaced and never modified, so both
// trees share them. The indexes by owner are omitted, because nothing writes to a
// snapshot.
func (t *tree) snapshot() *tree {
	copied := &tree{nodes: make(map[string]*node, len(t.nodes))}
	for p, n := range t.nodes {
		twin := *n
		copied.nodes[p] = &twin
	}
	for _, n := range copied.nodes {
		children := make(map[string]*node, len(n.children))
		for name, child := range n.children {
			children[name] = copied.nodes[child.path]
		}
		n.children = children
		if n.parent != nil {
			n.parent = copied.nodes[n.parent.path]
		}
	}
	return copied
}

// move transfers the watches of a connection.
func (w *watchTable) move(c *conn, to *watchTable) {
	for path := range w.byConn[c] {
		to.add(path, c)
	}
	w.drop(c)
}
