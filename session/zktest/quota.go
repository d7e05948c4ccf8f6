package zktest

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// quotaRoot is where quotas are stored: that of /a in /zookeeper/quota/a. One node there
// has the limits, and another one, which this server does not update, has the usage.
const (
	quotaRoot   = "/zookeeper/quota"
	quotaLimits = "zookeeper_limits"
	quotaStats  = "zookeeper_stats"
)

// LimitNodes limits the number of nodes at and below path. A client that creates one more
// gets [QuotaExceeded]. A negative number removes the limit. LimitNodes creates the same
// nodes as the command setquota -N, including parents, and implies [EnforceQuotas]. Nodes
// created by the test itself are not limited. The error wraps a [Code].
func (s *Server) LimitNodes(path string, nodes int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !validPath(path) || path == "/" {
		return fmt.Errorf("limit nodes of %s: %w", path, BadArguments)
	}
	s.quotas = true
	dir := quotaRoot + path
	if err := s.createParents(dir); err != nil {
		return err
	}
	limits := fmt.Appendf(nil, "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=%d", max(nodes, -1))
	if s.tree.nodes[dir+"/"+quotaLimits] == nil {
		if err := s.createNode(dir+"/"+quotaLimits, limits); err != nil {
			return err
		}
		return s.createNode(dir+"/"+quotaStats, []byte("count=0,bytes=0"))
	}
	return s.replaceData(dir+"/"+quotaLimits, limits)
}

// hasRoom reports whether the nearest quota above p leaves room for one more node. Like a
// real server, it counts the nodes from before the transaction. So within a multi, no
// creation takes room from another one, and no deletion makes room.
func (t *txn) hasRoom(p string) bool {
	for dir := p; dir != "/"; dir = path.Dir(dir) {
		limits := t.tree.nodes[quotaRoot+dir+"/"+quotaLimits]
		if limits == nil {
			continue
		}
		limit, limited := hardLimit(string(limits.data))
		return !limited || t.tree.nodes[dir].size()-t.grown(dir) < limit
	}
	return true
}

// grown returns the number of nodes that the transaction has added to a subtree.
func (t *txn) grown(dir string) int {
	n := 0
	for _, e := range t.changes {
		if e.path != dir && !strings.HasPrefix(e.path, dir+"/") {
			continue
		}
		switch e.kind {
		case nodeCreated:
			n++
		case nodeDeleted:
			n--
		}
	}
	return n
}

// hardLimit returns the limit on the number of nodes among the limits.
func hardLimit(limits string) (int, bool) {
	for field := range strings.FieldsFuncSeq(limits, func(r rune) bool { return r == ',' || r == ';' }) {
		if v, found := strings.CutPrefix(field, "countHardLimit="); found {
			n, err := strconv.Atoi(v)
			return n, err == nil && n >= 0
		}
	}
	return 0, false
}

// size returns the number of nodes at and below a node, or 0 for a missing node.
func (n *node) size() int {
	if n == nil {
		return 0
	}
	total := 1
	for _, child := range n.children {
		total += child.size()
	}
	return total
}
