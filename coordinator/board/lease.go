package board

import (
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/coordinator/hooks"
)

// Lease records each new deadline of the session's lease. Pass one to
// [coordinator.WithHooks] and to [WithLease]. The zero value is ready to use.
type Lease struct {
	mu       sync.Mutex
	session  int64
	deadline time.Time
	length   time.Duration // the longest time to a deadline so far
}

// OnLease is called by the coordinator; see package hooks.
func (l *Lease) OnLease(info hooks.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if info.Session != l.session {
		l.session, l.length = info.Session, 0
	}
	l.deadline = info.Deadline
	l.length = max(l.length, time.Until(info.Deadline))
}

// leaseView is a lease in JSON, in milliseconds.
type leaseView struct {
	Left int64 `json:"left_ms"`
	Of   int64 `json:"of_ms"`
}

// view returns nil if there is no lease to show.
func (l *Lease) view() *leaseView {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.length <= 0 {
		return nil
	}
	return &leaseView{max(0, time.Until(l.deadline).Milliseconds()), l.length.Milliseconds()}
}
