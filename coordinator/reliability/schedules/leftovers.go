package schedules

import (
	"slices"

	"github.com/zkgrant/zkgrant/session/zktest"
)

// judgeRemoval checks a request to remove a directory: this session has made it, as a container, or an earlier session of the same
// coordinator, which has ended. It is called before the request is executed.
func (w *world) judgeRemoval(q zktest.Request) {
	switch q.Op {
	case zktest.OpCreateContainer:
		if !w.srv.Exists(q.Path) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.containers[q.Path] = q.Session
		}
	case zktest.OpDelete:
		if !w.srv.Exists(q.Path) || w.srv.Owner(q.Path) != 0 {
			return
		}
		w.mu.Lock()
		maker := w.containers[q.Path]
		w.mu.Unlock()
		w.count("directories removed", 1)
		if maker == 0 || maker != q.Session && slices.Contains(w.srv.Sessions(), maker) {
			w.failf("session %x removes %s, which session %x has made", q.Session, q.Path, maker)
		}
		if !w.healed() {
			w.count("directories removed between faults", 1)
		}
	default:
	}
}
