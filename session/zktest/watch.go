package zktest

import (
	"maps"
	"slices"
	"strings"
)

// eventKind is what a watch reports, with the numbers of the protocol.
type eventKind int32

const (
	nodeCreated eventKind = iota + 1
	nodeDeleted
	dataChanged
	childrenChanged
)

// event is one change of one path.
type event struct {
	kind eventKind
	path string
}

// change is an event before it is sent, with the access list of its node at that moment:
// a client that may not read the node does not receive it.
type change struct {
	event
	readers []acl
}

// watchTable has the armed watches of one kind. Arming a watch twice is the same as
// arming it once, as on a real server.
type watchTable struct {
	byPath map[string]map[*conn]struct{}
	byConn map[*conn]map[string]struct{}
}

func newWatchTable() *watchTable {
	return &watchTable{
		byPath: make(map[string]map[*conn]struct{}),
		byConn: make(map[*conn]map[string]struct{}),
	}
}

func (w *watchTable) add(path string, c *conn) {
	path = strings.Clone(path) // it may be part of a frame
	if w.byPath[path] == nil {
		w.byPath[path] = make(map[*conn]struct{})
	}
	w.byPath[path][c] = struct{}{}
	if w.byConn[c] == nil {
		w.byConn[c] = make(map[string]struct{})
	}
	w.byConn[c][path] = struct{}{}
}

// has reports whether a connection watches path.
func (w *watchTable) has(path string, c *conn) bool {
	_, armed := w.byPath[path][c]
	return armed
}

// remove disarms one watch.
func (w *watchTable) remove(path string, c *conn) {
	delete(w.byPath[path], c)
	if len(w.byPath[path]) == 0 {
		delete(w.byPath, path)
	}
	delete(w.byConn[c], path)
	if len(w.byConn[c]) == 0 {
		delete(w.byConn, c)
	}
}

// fire disarms the watches on path, and returns their connections, oldest first.
func (w *watchTable) fire(path string) []*conn {
	if len(w.byPath[path]) == 0 { // most changes have no watch, so allocate nothing
		return nil
	}
	list := slices.SortedFunc(maps.Keys(w.byPath[path]), byNumber)
	for _, c := range list {
		w.remove(path, c)
	}
	return list
}

// drop disarms all watches of a connection.
func (w *watchTable) drop(c *conn) {
	for path := range w.byConn[c] {
		w.remove(path, c)
	}
}

func (w *watchTable) size() int {
	n := 0
	for _, paths := range w.byConn {
		n += len(paths)
	}
	return n
}

// notify sends the events of a finished transaction to the watchers. The caller holds the
// server's lock and has not answered the writer yet, so no reply that reflects the change
// can precede its event. A connection with a replica receives the events later.
//
// A connection that watches both data and children receives a deletion once.
func (s *Server) notify(changes []change) {
	fire(changes, s.dataWatches, s.childWatches)
	for c := range s.replicas {
		c.replica.unheard = append(c.replica.unheard, changes...)
	}
}

// fire sends the changes to the connections that watch them in one of the tables.
func fire(changes []change, data, children *watchTable) {
	for _, e := range changes {
		if e.kind == childrenChanged {
			children.send(e, nil)
			continue
		}
		told := data.send(e, nil)
		if e.kind == nodeDeleted {
			children.send(e, told)
		}
	}
}

// send disarms the watches on the path of a change, and sends the event to their
// connections, except those in told, which have received it already. A connection that
// may not read the node loses its watch without an event. send returns all connections
// that had a watch.
func (w *watchTable) send(e change, told []*conn) []*conn {
	list := w.fire(e.path)
	if len(list) == 0 {
		return nil
	}
	f := eventFrame(e.event)
	for _, c := range list {
		if c.caller().may(e.readers, permRead) && !slices.Contains(told, c) {
			c.send(f)
		}
	}
	return list
}

// rearm answers setWatches. Changes since the client was last connected are reported at
// once, and all other watches are armed again. Existence is compared with the current
// state; only data and children are compared by zxid.
func (s *Server) rearm(c *conn, q call) {
	v := s.view(c)
	for _, p := range q.dataWatches {
		switch n := v.tree.nodes[p]; {
		case n == nil:
			c.send(eventFrame(event{nodeDeleted, p}))
		case n.mzxid > q.since:
			c.send(eventFrame(event{dataChanged, p}))
		default:
			v.dataWatches.add(p, c)
		}
	}
	for _, p := range q.existWatches {
		if v.tree.nodes[p] != nil {
			c.send(eventFrame(event{nodeCreated, p}))
		} else {
			v.dataWatches.add(p, c)
		}
	}
	for _, p := range q.childWatches {
		switch n := v.tree.nodes[p]; {
		case n == nil:
			c.send(eventFrame(event{nodeDeleted, p}))
		case n.pzxid > q.since:
			c.send(eventFrame(event{childrenChanged, p}))
		default:
			v.childWatches.add(p, c)
		}
	}
}

// The kinds of watches, as requests name them.
const (
	kindChildren = iota + 1
	kindData
	kindAny
)

// unwatch answers checkWatches, which asks whether a watch is armed, and removeWatches,
// which also disarms it. No event is sent for a watch that is removed.
func (s *Server) unwatch(c *conn, q call) answer {
	v := s.view(c)
	var tables []*watchTable
	switch q.kind {
	case kindChildren:
		tables = []*watchTable{v.childWatches}
	case kindData:
		tables = []*watchTable{v.dataWatches}
	case kindAny:
		tables = []*watchTable{v.dataWatches, v.childWatches}
	default:
		return answer{code: MarshallingError}
	}
	code := NoWatcher
	for _, w := range tables {
		if w.has(q.path, c) {
			code = ok
			if q.op == OpRemoveWatches {
				w.remove(q.path, c)
			}
		}
	}
	return answer{code: code}
}
