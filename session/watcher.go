package session

import (
	"context"
	"sync"
	"time"
)

var _ subscriber = (*watcher)(nil)

// watcher is for a goroutine that reads a node again whenever something may have happened to it. That is when its watch has fired, and when
// there is another connection: events between the two connections may be lost. In each round the goroutine has a [call] made, which begins
// with begin and watches one path with ask, and then waits.
//
// A signal that comes while the call is under way stays for the next round.
type watcher struct {
	session *Session
	changed chan struct{} // size 1
	renewed <-chan struct{}

	mu     sync.Mutex
	client *client // with path: what it subscribes to; nil: nothing
	path   string
	gone   bool // the path's node was deleted
	left   bool
}

func newWatcher(s *Session) *watcher { return &watcher{session: s, changed: make(chan struct{}, 1)} }

// begin comes before the first request of a round, which sees what has happened so far. It reports whether the node that was watched is
// known to be deleted.
func (w *watcher) begin() (gone bool) {
	w.renewed = w.session.nextConnection()
	select {
	case <-w.changed:
	default:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone
}

// ask subscribes the watcher to the path, and to no other. It reports whether the caller has to arm the watch, as [watch.Set.Ask] does.
// A call that goes on after its caller has gone subscribes nothing.
func (w *watcher) ask(c *client, path string) (arm bool, fires uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.client != nil && (w.client != c || w.path != path) {
		w.client.looks.Drop(w.path, w)
	}
	w.gone = false
	if w.left {
		return c.looks.Ask(path, nil)
	}
	w.client, w.path = c, path
	return c.looks.Ask(path, w)
}

// leave ends the subscription, for good.
func (w *watcher) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = true
	if w.client != nil {
		w.client.looks.Drop(w.path, w)
	}
}

func (w *watcher) lookAgain(_ *client, gone bool) {
	w.mu.Lock()
	w.gone = w.gone || gone
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// wait returns true when it is time for another round, at the given time at the latest, and false when ctx has ended. A nil channel is no
// time.
func (w *watcher) wait(ctx context.Context, last <-chan time.Time) bool {
	select {
	case <-w.changed:
	case <-w.renewed:
	case <-last:
	case <-ctx.Done():
		return false
	}
	return true
}

// nextConnection returns a channel. It is closed when there is another connection that requests may be made on, or when the session is
// closed.
func (s *Session) nextConnection() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.renewed
}

// renew has all watchers look again. Once the session is closed the channel stays closed, because a call that is under way by then may have
// begun since.
func (s *Session) renew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.view.renewed)
	if !s.view.closed {
		s.view.renewed = make(chan struct{})
	}
}
