// Package nested detects a contender that would wait for the process that has started it.
package nested

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/text"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session"
)

// Node is a node that an outer zkgrant holds while this process runs.
type Node struct {
	Node    string `json:"node"`
	Session string `json:"session"`
}

// Variable is the environment variable with the nodes of all outer locks except the
// innermost one, as JSON.
const Variable = "ZKGRANT_OUTER"

// most limits how many nodes are passed on, because a chain of processes may keep
// starting its own successors. The members of a multi-lock are passed separately, and are
// not limited.
const most = 32

// Outer returns the nodes of the outer locks according to the environment, the innermost
// ones last. They may be stale. Malformed values are ignored.
func Outer(environ []string) (all []Node) {
	set := map[string]string{}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		set[name] = value
	}
	_ = json.Unmarshal([]byte(set[Variable]), &all)
	var members []Node
	_ = json.Unmarshal([]byte(set["ZKGRANT_MEMBERS"]), &members)
	for _, m := range append(members, Node{Node: set["ZKGRANT_NODE"]}) {
		m.Session = set["ZKGRANT_SESSION"]
		if m.Node != "" && m.Session != "" && !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	return all
}

// Environment returns the variable with these nodes, or only the innermost ones if there
// are many. It returns nil if there is no node.
func Environment(outer []Node) []string {
	if len(outer) == 0 {
		return nil
	}
	value, err := json.Marshal(outer[max(0, len(outer)-most):])
	if err != nil { // strings always marshal
		panic(err)
	}
	return []string{Variable + "=" + string(value)}
}

// Contender describes the request for the lock.
type Contender struct {
	Session int64 // the contender's own
	Reads   bool
	Permits int // requested from a semaphore with Size permits
	Size    int // 0: not a semaphore
}

// InTheWay returns the node of an outer lock that would have to be deleted before the
// contender is granted the lock. queue has the contenders of each path in order,
// including this one.
//
// The contender may also wait for an outer lock indirectly: a reader for a writer that
// waits for it, or one permit after a request for two.
func (c Contender) InTheWay(queue []events.Contender, outer []Node) (node string, is bool) {
	free := c.Size
	found := map[string]string{} // the first outer node in each directory
	for _, other := range queue {
		dir := path.Dir(other.Node)
		if c.Size > 0 {
			dir = ""
		}
		first, behind := found[dir]
		switch ours := named(outer, other); {
		case other.Session == c.Session:
			if behind && c.Size > 0 && c.Permits > free {
				return first, true
			}
			delete(found, dir) // the rest of this queue comes after the contender
		case ours:
			if !behind {
				first, found[dir] = other.Node, other.Node
			}
			if free -= other.Permits; c.Size == 0 && !(c.Reads && other.Kind.Reads()) {
				return first, true
			}
		case !behind:
		case c.Size == 0 && !other.Kind.Reads(), c.Size > 0 && !other.Holding && other.Permits > free:
			return first, true
		}
	}
	return "", false
}

// named reports whether one of the nodes belongs to the contender.
func named(nodes []Node, c events.Contender) bool {
	return slices.ContainsFunc(nodes, func(n Node) bool {
		return n.Session == text.SessionID(c.Session) && session.AttemptOf(n.Node) == session.AttemptOf(c.Node)
	})
}
