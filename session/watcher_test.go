package session

import "testing"

// TestAWatcherLooksOutInOnePlace: it watches only the path and the client that it
// subscribed to last, and nothing after it has left. A call may continue, and subscribe,
// after its caller has stopped waiting.
func TestAWatcherLooksOutInOnePlace(t *testing.T) {
	clients := [2]*client{{}, {}}
	places := []struct {
		client int
		path   string
	}{{0, "/a"}, {0, "/b"}, {0, "/b"}, {1, "/b"}, {1, "/a"}}
	for leaves := range len(places) + 1 {
		w := newWatcher(&Session{})
		for i, p := range places {
			if i == leaves {
				w.leave()
			}
			if arm, ticket := w.subscribe(clients[p.client], ofChildren, p.path); arm {
				clients[p.client].looks.Answered(p.path, ticket, false)
			}
		}
		if leaves == len(places) {
			w.leave()
		}
		for c, client := range clients {
			if left := client.looks.Reset(); len(left) > 0 {
				t.Errorf("a watcher that has left before place %d subscribes to %v of client %d, want nothing", leaves, left, c)
			}
		}
	}
	w := newWatcher(&Session{})
	for i, p := range places {
		w.subscribe(clients[p.client], ofChildren, p.path)
		for c, client := range clients {
			for _, path := range []string{"/a", "/b"} {
				told := len(client.looks.Fired(path)) > 0
				equal(t, told, c == p.client && path == p.path, "place %d: client %d tells it of %s", i, c, path)
			}
		}
		w.subscribe(clients[p.client], ofChildren, p.path)
	}
}

// TestAWatcherKnowsThatItsNodeIsGone until it subscribes to the next one. A signal stays
// until the round that sees the change.
func TestAWatcherKnowsThatItsNodeIsGone(t *testing.T) {
	s := &Session{}
	s.view.renewed = make(chan struct{})
	c, w := &client{}, newWatcher(s)
	w.subscribe(c, ofChildren, "/a")
	w.lookAgain(c, true)
	w.lookAgain(c, false)
	expect(t, len(w.changed) == 1, "%d signals wait, want one", len(w.changed))
	expect(t, w.begin() && len(w.changed) == 0,
		"the turn begins with %d signals, want none and to know that the node is gone", len(w.changed))
	w.subscribe(c, ofChildren, "/b")
	expect(t, !w.begin(), "after another node the turn begins with one that is gone, want it there")
	s.renew()
	expect(t, w.wait(t.Context(), nil), "with another connection there is no turn, want one")
	s.view.closed = true
	w.begin()
	s.renew()
	w.begin() // a call that was in progress
	select {
	case <-w.renewed:
	default:
		t.Error("after the end of the session a watcher waits, want a turn that ends it")
	}
}
