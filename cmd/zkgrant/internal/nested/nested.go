// Package nested finds out whether a contender waits for the very process that has
// started it.
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

// Node is one that an outer zkgrant holds while this process runs.
type Node struct {
	Node    string `json:"node"`
	Session string `json:"session"`
}

// Variable has the nodes of the locks further out than the innermost one, as JSON.
const Variable = "ZKGRANT_OUTER"

// most bounds how many nodes are passed on: a chain of processes may start its own
// successor. A multi-lock of more members is not cut for the command itself, which finds
// them as members.
const most = 32

// Outer returns the nodes that the variables of an environment name, the innermost ones
// last. They may be stale. What cannot be read is left out.
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

// Environment returns the variable with these nodes, the innermost ones if there are
// many, or nothing if there is no node.
func Environment(outer []Node) []string {
	if len(outer) == 0 {
		return nil
	}
	value, err := json.Marshal(outer[max(0, len(outer)-most):])
	if err != nil { // it has only strings
		panic(err)
	}
	return []string{Variable + "=" + string(value)}
}

// Contender is what requests the lock.
type Contender struct {
	Session int64 // its own
	Reads   bool
	Permits int // of a semaphore with so many of them:
	Size    int // 0: it is no semaphore
}

// InTheWay returns the node of the outer locks that has to go before the contender is
// granted the lock. The queue has each path's contenders in order, with the contender
// itself.
//
// A contender that does not have to wait for an outer lock itself may wait for another
// one that does: a reader for a writer, the last permit of a semaphore for two.
func (c Contender) InTheWay(queue []events.Contender, outer []Node) (node string, is bool) {
	free := c.Size
	found := map[string]string{} // by the directory: the first outer node
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
			delete(found, dir) // the rest of this queue is behind it
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

// named reports whether one of the nodes is the contender's.
func named(nodes []Node, c events.Contender) bool {
	return slices.ContainsFunc(nodes, func(n Node) bool {
		return n.Session == text.SessionID(c.Session) && session.AttemptOf(n.Node) == session.AttemptOf(c.Node)
	})
}
