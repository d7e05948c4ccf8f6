package zktest

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Sessions returns the IDs of the live sessions in the order of their creation.
func (s *Server) Sessions() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.sessions))
}

// Connections returns the number of open client connections.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Dead reports whether the server has died of a transaction that it could not read; see
// [JuteMaxBuffer].
func (s *Server) Dead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

// Requests returns how many requests of a kind the server has received, including those
// that failed or were intercepted.
func (s *Server) Requests(op Op) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[op]
}

// Watches returns how many watches are armed. A data watch and an exists watch of one
// connection on one path count once, because they fire once.
func (s *Server) Watches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watches()
}

func (s *Server) watches() int {
	n := s.dataWatches.size() + s.childWatches.size()
	for c := range s.replicas {
		n += c.replica.dataWatches.size() + c.replica.childWatches.size()
	}
	return n
}

// Tree returns the paths of all nodes in alphabetical order, without the root and the
// server's own nodes under /zookeeper.
func (s *Server) Tree() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for p := range s.tree.nodes {
		if p != "/" && p != "/zookeeper" && !strings.HasPrefix(p, "/zookeeper/") {
			list = append(list, p)
		}
	}
	slices.Sort(list)
	return list
}

// Children returns the names of a node's children in alphabetical order, or nil if the
// node does not exist.
func (s *Server) Children(path string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.tree.nodes[path]; n != nil {
		return n.names()
	}
	return nil
}

// Exists reports whether the node exists.
func (s *Server) Exists(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tree.nodes[path] != nil
}

// Data returns a copy of a node's data, or false if the node does not exist.
func (s *Server) Data(path string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.tree.nodes[path]
	if n == nil {
		return nil, false
	}
	return slices.Clone(n.data), true
}

// Owner returns the session that owns an ephemeral node, or 0 if the node is not
// ephemeral or does not exist.
func (s *Server) Owner(path string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.tree.nodes[path]; n != nil && n.ephemeral() {
		return n.owner
	}
	return 0
}

// Create creates a persistent node that every client may use, and any missing parents.
// Watches fire as if a client had created them. The error wraps a [Code].
func (s *Server) Create(p string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !validPath(p) {
		return fmt.Errorf("create %s: %w", p, BadArguments)
	}
	if dir := path.Dir(p); dir != "/" {
		if err := s.createParents(dir); err != nil {
			return err
		}
	}
	return s.createNode(p, slices.Clone(data))
}

func (s *Server) createParents(dir string) error {
	for i := 1; i <= len(dir); i++ {
		if i < len(dir) && dir[i] != '/' || s.tree.nodes[dir[:i]] != nil {
			continue
		}
		if err := s.createNode(dir[:i], nil); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) createNode(p string, data []byte) error {
	t := s.begin(caller{trusted: true})
	if _, code := t.create(creation{path: p, data: data, acls: openACL()}); code != ok {
		return fmt.Errorf("create %s: %w", p, code)
	}
	s.notify(t.changes)
	return nil
}

// SetData replaces a node's data, as a client would. The error wraps a [Code].
func (s *Server) SetData(path string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replaceData(path, slices.Clone(data))
}

func (s *Server) replaceData(path string, data []byte) error {
	t := s.begin(caller{trusted: true})
	if _, code := t.setData(path, data, -1); code != ok {
		return fmt.Errorf("set %s: %w", path, code)
	}
	s.notify(t.changes)
	return nil
}

// Delete deletes a node without children, regardless of its access list and its owner.
// Watches fire as if a client had deleted it. The error wraps a [Code].
func (s *Server) Delete(path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.begin(caller{trusted: true})
	if code := t.delete(path, -1); code != ok {
		return fmt.Errorf("delete %s: %w", path, code)
	}
	s.notify(t.changes)
	return nil
}

// SetSequence sets the number of the next sequential child of a node. The error wraps a
// [Code].
func (s *Server) SetSequence(path string, next int32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.tree.nodes[path]
	if n == nil {
		return fmt.Errorf("set sequence of %s: %w", path, NoNode)
	}
	n.created = next
	return nil
}

// Reap deletes the container nodes that once had children and have none now, and the
// nodes whose TTL is over. It returns how many there were. The server does the same every
// minute; see [CheckInterval].
func (s *Server) Reap() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reap()
}
