package schedules

import (
	"slices"

	"github.com/zkgrant/zkgrant/session/zktest"
)

// judgeRemoval checks a request to remove a directory. It must have been created, as a
// container, by this session, by an earlier one of the same client, or by one that has
// ended. The earlier one may be alive: the server may have received a request to resume
// it after its client had given that up. judgeRemoval runs before the request is
// executed, so of several sessions that request a directory at the same time, each may be
// the creator. A request of a session that has ended has no effect.
func (w *world) judgeRemoval(q zktest.Request) {
	if q.Op != zktest.OpCreateContainer && q.Op != zktest.OpDelete {
		return
	}
	alive := w.srv.Sessions()
	w.mu.Lock()
	there := w.srv.Exists(q.Path) // under the mutex, because an older result might say that the directory is gone
	d := w.containers[q.Path]
	if d.there && !there {
		d.askers = nil // it has been removed since
	}
	if d.there = there; q.Op == zktest.OpCreateContainer {
		d.askers = append(d.askers, q.Session)
	}
	w.containers[q.Path] = d
	w.mu.Unlock()
	if q.Op == zktest.OpCreateContainer || !there || w.srv.Owner(q.Path) != 0 || !slices.Contains(alive, q.Session) {
		return
	}
	w.count("directories removed", 1)
	earlier := func(asker int64) bool { return !slices.Contains(alive, asker) || w.oneClient(asker, q.Session) }
	w.expect(slices.Contains(d.askers, q.Session) || slices.ContainsFunc(d.askers, earlier),
		"session %x removes %s, which one of the sessions %x has made", q.Session, q.Path, d.askers)
	if !w.healed() {
		w.count("directories removed between faults", 1)
	}
}

// oneClient reports whether both sessions belong to one client.
func (w *world) oneClient(one, other int64) bool {
	return slices.ContainsFunc(w.clients, func(c *client) bool {
		ids := c.ids()
		return slices.Contains(ids, one) && slices.Contains(ids, other)
	})
}

// container records a directory and the requests to create it.
type container struct {
	askers []int64 // the sessions that have requested it since it was last gone
	there  bool    // whether it existed at the last request to create or remove it
}
