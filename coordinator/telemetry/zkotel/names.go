package zkotel

import (
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	mostChildren = 50  // of one parent that have names of their own
	manyParents  = 10  // the limit of all names, in times the limit of one parent
	fewNames     = 100 // the least limit of all names
	mostBytes    = 256 // of a name; a longer one is rest
	rest         = "*" // the name of every lock that has no other
)

// names give locks their names in metrics, and bound how many there are.
type names struct {
	choose func(path string) string // the user's function, or nil
	most   int

	mu      sync.Mutex
	parents map[string]map[string]bool // the named children of each; nil once one name stands for all of them
	count   int
	chosen  map[string]bool
}

func newNames(choose func(path string) string, most int) *names {
	return &names{choose: choose, most: most, parents: map[string]map[string]bool{}, chosen: map[string]bool{}}
}

// total bounds the names of all parents together.
func (n *names) total() int { return max(fewNames, manyParents*n.most) }

// of returns the name of the lock at a path.
func (n *names) of(path string) string {
	if n.choose != nil {
		return n.given(n.choose(path))
	}
	at := strings.LastIndexByte(path, '/')
	if at < 0 || !fits(path) {
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
	case !seen && n.count >= n.total():
		return rest
	case len(children) >= n.most:
		if !seen { // the children of the parent have no names
			n.count++
		}
		n.parents[parent] = nil // what was counted keeps its name, so the names count on
		return parent + "/" + rest
	case n.count >= n.total():
		return rest
	case !seen:
		children = map[string]bool{}
		n.parents[parent] = children
	}
	children[child] = true
	n.count++
	return path
}

// given returns the name that a user's function has chosen, or rest if there are too many.
func (n *names) given(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.chosen[name]:
		return name
	case len(n.chosen) >= n.total() || !fits(name):
		return rest
	}
	n.chosen[name] = true
	return name
}

func fits(text string) bool { return len(text) <= mostBytes && utf8.ValidString(text) }
