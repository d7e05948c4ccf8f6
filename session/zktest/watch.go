package zktest

import (
	"cmp"
	"slices"
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

// watchTable is the armed watches of one sort. Being armed twice is the same as
// being armed once, as on a real server.
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
	if w.byPath[path] == nil {
		w.byPath[path] = make(map[*conn]struct{})
	}
	w.byPath[path][c] = struct{}{}
	if w.byConn[c] == nil {
		w.byConn[c] = make(map[string]struct{})
	}
	w.byConn[c][path] = struct{}{}
}

// fire disarms the watches on path and returns who had them, oldest connection
// first.
func (w *watchTable) fire(path string) []*conn {
	armed := w.byPath[path]
	if len(armed) == 0 {
		return nil
	}
	delete(w.byPath, path)
	list := make([]*conn, 0, len(armed))
	for c := range armed {
		list = append(list, c)
		delete(w.byConn[c], path)
		if len(w.byConn[c]) == 0 {
			delete(w.byConn, c)
		}
	}
	slices.SortFunc(list, func(a, b *conn) int { return cmp.Compare(a.number, b.number) })
	return list
}

// drop disarms everything a connection has.
func (w *watchTable) drop(c *conn) {
	for path := range w.byConn[c] {
		delete(w.byPath[path], c)
		if len(w.byPath[path]) == 0 {
			delete(w.byPath, path)
		}
	}
	delete(w.byConn, c)
}

func (w *watchTable) size() int {
	n := 0
	for _, paths := range w.byConn {
		n += len(paths)
	}
	return n
}

// notify sends the events of a finished transaction to whoever watches. The
// caller holds the server's lock and has not answered the writer yet, so that no
// reply which reflects the change can come before its event. Who talks to a replica
// hears of them later.
//
// A deletion goes once to a connection that watches both data and children.
func (s *Server) notify(events []event) {
	fire(events, s.dataWatches, s.childWatches)
	for c := range s.replicas {
		c.replica.unheard = append(c.replica.unheard, events...)
	}
}

// fire sends events to those who have armed a watch in one of the tables.
func fire(events []event, data, children *watchTable) {
	for _, e := range events {
		if e.kind == childrenChanged {
			children.send(e)
			continue
		}
		told := data.send(e)
		if e.kind == nodeDeleted {
			for _, c := range children.fire(e.path) {
				if !slices.Contains(told, c) {
					c.send(eventFrame(e))
				}
			}
		}
	}
}

// send fires the watches an event is about and returns who was told.
func (w *watchTable) send(e event) []*conn {
	list := w.fire(e.path)
	if len(list) > 0 {
		f := eventFrame(e)
		for _, c := range list {
			c.send(f)
		}
	}
	return list
}

// rearm answers setWatches: what changed while the client was away is reported
// at once, what did not is watched again. Existence is compared as it is now; only
// data and children are compared by zxid.
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
