package zkotel

import (
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	mostChildren = 50  // of one parent that have names of their own
	mostNames    = 500 // paths that have names of their own
	mostBytes    = 256 // of a name; a longer one is rest
	rest         = "*" // the name of every lock that has no other
)

// names give locks the names that metrics have for them, and bound how many there are.
type names struct {
	most int

	mu      sync.Mutex
	parents map[string]map[string]bool // the named children of each; nil once one name stands for all of them
	count   int
}

func newNames(most int) *names { return &names{most: most, parents: map[string]map[string]bool{}} }

// of returns the name of the lock at a path.
func (n *names) of(path string) string {
	at := strings.LastIndexByte(path, '/')
	if at < 0 || len(path) > mostBytes || !utf8.ValidString(path) {
		return rest
	}
	parent, child := path[:at], path[at+1:]
	n.mu.Lock()
	defer n.mu.Unlock()
	children, seen := n.parents[parent]
	switch {
	case seen && children == nil:
		return parent + "/" + rest
	case children[child]:
		return path
	case len(children) >= n.most:
		n.parents[parent] = nil // what was counted keeps its name, so the names count on
		return parent + "/" + rest
	case n.count >= mostNames:
		return rest
	case !seen:
		children = map[string]bool{}
		n.parents[parent] = children
	}
	children[child] = true
	n.count++
	return path
}
