package zktest

import "time"

// scheduleReap sets the time of the next check for containers and nodes with a TTL, if
// there are any and no time is set. Checks are at multiples of the interval since the
// start.
func (s *Server) scheduleReap() {
	if len(s.tree.containers)+len(s.tree.mortals) == 0 || !s.nextReap.IsZero() {
		return
	}
	s.nextReap = s.started.Add((time.Since(s.started)/s.checkInterval + 1) * s.checkInterval)
	s.wakeClock(s.nextReap)
}

// reap deletes the containers that have become empty and the childless nodes whose TTL is
// over, each in its own transaction, and returns how many.
func (s *Server) reap() int {
	list := s.tree.reapable(time.Now().UnixMilli())
	for _, p := range list {
		t := s.begin(caller{trusted: true})
		t.remove(s.tree.nodes[p])
		s.notify(t.changes)
	}
	return len(list)
}
