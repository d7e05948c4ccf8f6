package zktest

import (
	"maps"
	"math"
	"path"
	"slices"
	"strings"
)

// containerOwner marks a container node, as in a real server's storage. Clients never see
// it.
const containerOwner = math.MinInt64

// stat is what a client sees of a node in addition to its data.
type stat struct {
	czxid, mzxid, pzxid         int64
	ctime, mtime                int64 // milliseconds since 1970
	version, cversion, aversion int32
	owner                       int64
	dataLength, children        int32
}

// node is one entry of the tree.
type node struct {
	path                string
	parent              *node
	children            map[string]*node // by last path element
	data                []byte           // nil and empty are different, as on the wire
	acl                 []acl
	czxid, mzxid, pzxid int64
	ctime, mtime        int64
	version, aversion   int32
	owner               int64 // session of an ephemeral, containerOwner, or 0
	ttl                 int64 // how long it may exist without a change or a child, in milliseconds; or 0
	created             int32 // children created so far: the next sequence number
}

// stat computes the client's view. Deletions need not be counted: every created child was
// deleted unless it is still there.
func (n *node) stat() stat {
	children := int32(len(n.children))
	owner := n.owner
	if owner == containerOwner {
		owner = 0
	}
	return stat{
		czxid: n.czxid, mzxid: n.mzxid, pzxid: n.pzxid,
		ctime: n.ctime, mtime: n.mtime,
		version: n.version, cversion: n.created*2 - children, aversion: n.aversion,
		owner: owner, dataLength: int32(len(n.data)), children: children,
	}
}

func (n *node) ephemeral() bool { return n.owner != 0 && n.owner != containerOwner }

// names returns the children in alphabetical order. A real server returns them in no
// particular order; this one is a test double, and always returns the same.
func (n *node) names() []string {
	list := slices.AppendSeq(make([]string, 0, len(n.children)), maps.Keys(n.children))
	slices.Sort(list)
	return list
}

// tree has all nodes and three indexes.
type tree struct {
	nodes      map[string]*node
	ephemerals map[int64]map[*node]struct{} // by owner; a set ends with its session
	containers map[*node]struct{}
	mortals    map[*node]struct{} // nodes with a TTL
}

// newTree returns the tree of a server that was never written to. No client created the
// nodes below /zookeeper, and their parents do not count them. So the cversion of a new
// root is -1.
func newTree() *tree {
	t := &tree{
		nodes:      make(map[string]*node),
		ephemerals: make(map[int64]map[*node]struct{}),
		containers: make(map[*node]struct{}),
		mortals:    make(map[*node]struct{}),
	}
	root := &node{path: "/", children: make(map[string]*node), acl: openACL(), data: []byte{}}
	t.nodes["/"] = root
	for _, p := range []string{"/zookeeper", "/zookeeper/config", "/zookeeper/quota"} {
		t.attach(&node{path: p, parent: t.nodes[path.Dir(p)], acl: openACL(), data: []byte{}})
	}
	config := t.nodes["/zookeeper/config"]
	config.acl[0].perms, config.aversion = permRead, -1
	return t
}

// reserved reports whether the node cannot be deleted.
func reserved(p string) bool {
	return p == "/" || p == "/zookeeper" || p == "/zookeeper/config" || p == "/zookeeper/quota"
}

// attach adds n to the tree and its indexes.
func (t *tree) attach(n *node) {
	t.nodes[n.path] = n
	if n.parent.children == nil {
		n.parent.children = make(map[string]*node)
	}
	n.parent.children[path.Base(n.path)] = n
	switch {
	case n.ttl > 0:
		t.mortals[n] = struct{}{}
	case n.owner == containerOwner:
		t.containers[n] = struct{}{}
	case n.owner != 0:
		if t.ephemerals[n.owner] == nil {
			t.ephemerals[n.owner] = make(map[*node]struct{})
		}
		t.ephemerals[n.owner][n] = struct{}{}
	}
}

// detach removes n from the tree and its indexes.
func (t *tree) detach(n *node) {
	delete(t.nodes, n.path)
	delete(n.parent.children, path.Base(n.path))
	delete(t.containers, n)
	delete(t.mortals, n)
	delete(t.ephemerals[n.owner], n)
}

// reapable returns the containers that once had children and have none now, and the nodes
// without children whose latest change is older than their TTL.
func (t *tree) reapable(now int64) []string {
	due := make(map[*node]struct{})
	for n := range t.containers {
		if len(n.children) == 0 && n.created > 0 {
			due[n] = struct{}{}
		}
	}
	for n := range t.mortals {
		if len(n.children) == 0 && now-n.mtime > n.ttl {
			due[n] = struct{}{}
		}
	}
	return sortedPaths(due)
}

func sortedPaths(set map[*node]struct{}) []string {
	list := make([]string, 0, len(set))
	for n := range set {
		list = append(list, n.path)
	}
	slices.Sort(list)
	return list
}

// parentPath returns everything before the last slash, or "/" at the top. It returns
// false for a path that has no slash, or has a zero byte.
func parentPath(p string) (string, bool) {
	i := strings.LastIndexByte(p, '/')
	if i < 0 || strings.IndexByte(p, 0) >= 0 {
		return "", false
	}
	return max(p[:i], "/"), true
}

// validPath applies ZooKeeper's rules for the name of a node.
func validPath(p string) bool {
	if p == "/" {
		return true
	}
	if !strings.HasPrefix(p, "/") {
		return false
	}
	for element := range strings.SplitSeq(p[1:], "/") {
		if element == "" || element == "." || element == ".." {
			return false
		}
	}
	for _, r := range p {
		if r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 { // beyond U+FFFF, Java sees surrogates
			return false
		}
	}
	return true
}
