package board

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
)

// rest is the minimum time between two updates of a page, however fast queues change.
const rest = 100 * time.Millisecond

// update is a message of the stream.
type update struct {
	Root     string     `json:"root"`
	Now      int64      `json:"now_ms"`
	State    string     `json:"state"` // the session's state
	Lease    *leaseView `json:"lease,omitempty"`
	Seen     int64      `json:"seen_ms,omitempty"` // when the locks were seen; missing before the first time
	Took     float64    `json:"took_ms"`
	Interval int64      `json:"interval_ms"`              // current time between the beginnings of two looks
	Nodes    int        `json:"searched_nodes,omitempty"` // until the first search of the tree has finished
	Failed   string     `json:"error,omitempty"`          // why the latest look failed
	Revoke   bool       `json:"revoke,omitempty"`
	news
}

// update returns the changes for a page that knows everything up to a version, and the
// latest version.
func (b *Board) update(version uint64) (u update, _ uint64) {
	u = update{
		Root: b.root, State: b.c.State().String(),
		Lease: b.lease.view(), Interval: b.pace().Milliseconds(),
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	u.Nodes = b.state.nodes
	u.Now, u.Failed, u.Took = time.Now().UnixMilli(), b.state.failed, float64(b.state.took.Microseconds())/1000
	if !b.state.blank {
		u.Seen = b.state.seen.UnixMilli()
	}
	u.news, version = b.state.since(version)
	return u, version
}

// stream sends updates until the page, the board or the coordinator ends. The first
// update shows a look as recent as if the page had been open before, or says why there is
// none. The board keeps nothing per page but its version: a slow page misses outdated
// changes, and delays no other page.
func (b *Board) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead {
		return
	}
	asked, out := time.Now(), patient(w)
	v, leave, ok := b.enter()
	if !ok {
		unavailable(w)
		return
	}
	defer leave()
	for !b.lookedSince(asked.Add(-b.pace())) && b.c.State() == coordinator.StateConnected {
		if !b.next(w, r, v) {
			return
		}
	}
	defer b.hurry(out)()
	mayRevoke := b.authorise != nil && b.authorise(r) == nil
	for version := uint64(0); ; {
		u, latest := b.update(version)
		u.Revoke, version = mayRevoke, latest
		if b.send(w, out, fmt.Appendf(nil, "data: %s\n\n", encode(u))) != nil {
			return
		}
		if !await(r.Context(), b.ctx, time.After(rest)) || !await(r.Context(), b.ctx, v.poke) {
			return
		}
	}
}

// await waits for a value, and reports whether it arrived before either context ended.
func await[T any](page, board context.Context, value <-chan T) bool {
	select {
	case <-value:
		return true
	case <-page.Done():
		return false
	case <-board.Done():
		return false
	}
}

// listing is the content of queues.json.
type listing struct {
	Root    string     `json:"root"`
	Seen    time.Time  `json:"seen"`
	State   string     `json:"state"`
	Session string     `json:"session"`
	Locks   []lockView `json:"locks"`
}

// queues answers with all contenders of all locks, or of the lock in the query. The look
// is no older than the interval.
func (b *Board) queues(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodHead {
		return
	}
	asked, out := time.Now(), patient(w)
	v, leave, ok := b.enter()
	if !ok {
		unavailable(w)
		return
	}
	for !b.lookedSince(asked.Add(-b.interval)) {
		if !b.next(w, r, v) {
			leave()
			return
		}
	}
	leave() // a slow reader needs no further looks
	id := r.URL.Query().Get("lock")
	b.mu.Lock()
	failed, own := b.state.failed, b.state.own
	l := listing{Root: b.root, Seen: b.state.seen.UTC(), Session: sessionText(own), Locks: []lockView{}}
	var chosen []known
	for _, k := range b.state.order {
		if id == "" || id == placeOf(k.info).id() {
			chosen = append(chosen, *k)
		}
	}
	b.mu.Unlock()
	switch {
	case failed != "":
		http.Error(w, failed, http.StatusServiceUnavailable)
		return
	case id != "" && len(chosen) == 0:
		b.missing(w)
		return
	}
	l.State = b.c.State().String()
	for _, k := range chosen {
		l.Locks = append(l.Locks, k.view(own, len(k.info.Contenders)))
	}
	defer b.hurry(out)()
	_ = b.send(w, out, encode(l)) // a client that is gone gets no answer
}

// next waits until there is something new for a viewer. If the request must end first, it
// answers the request and returns false.
func (b *Board) next(w http.ResponseWriter, r *http.Request, v *viewer) bool {
	select {
	case <-v.poke:
		return true
	case <-r.Context().Done():
		return false
	case <-b.ctx.Done():
		unavailable(w)
		return false
	}
}

// patient removes the server's deadline from an answer that waits: send sets its own.
func patient(w http.ResponseWriter) *http.ResponseController {
	out := http.NewResponseController(w)
	_ = out.SetWriteDeadline(time.Time{}) // a wrapper may lack deadlines
	return out
}

// send writes the text, and waits for a slow reader no longer than sending. hurry ends
// the write with the board.
func (b *Board) send(w http.ResponseWriter, out *http.ResponseController, text []byte) error {
	_ = out.SetWriteDeadline(time.Now().Add(sending))
	if b.ctx.Err() != nil {
		return coordinator.ErrClosed
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_ = out.SetWriteDeadline(time.Time{}) // HTTP/2 would end a stream that has nothing to write
	return nil
}

// pace returns the time between the beginnings of two looks.
func (b *Board) pace() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(b.interval, b.state.pace)
}

func (b *Board) lookedSince(t time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state.looked.After(t)
}

// missing answers a request for a lock that the board does not know. Only the end of a
// search proves that a lock is gone.
func (b *Board) missing(w http.ResponseWriter) {
	b.mu.Lock()
	searched := !b.state.blank && b.state.nodes == 0
	b.mu.Unlock()
	if searched {
		http.Error(w, "this lock is gone: look again", http.StatusNotFound)
	} else {
		http.Error(w, "this lock is not found yet: the board searches while a page is open", http.StatusServiceUnavailable)
	}
}

func unavailable(w http.ResponseWriter) {
	http.Error(w, "the board is closed", http.StatusServiceUnavailable)
}

// hurry makes a pending write end with the board, until the returned function is called.
func (b *Board) hurry(out *http.ResponseController) func() {
	hurried := make(chan struct{})
	stop := context.AfterFunc(b.ctx, func() {
		defer close(hurried)
		_ = out.SetWriteDeadline(time.Now())
	})
	return func() {
		if !stop() {
			<-hurried
		}
		_ = out.SetWriteDeadline(time.Time{}) // for the next request on the connection
	}
}
