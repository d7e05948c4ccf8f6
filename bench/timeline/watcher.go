package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
)

// pollInterval is between two looks at a queue that is not complete yet.
const pollInterval = 20 * time.Millisecond

// watcher is a client close to the server, which sees the queues and when a holder's node goes.
type watcher struct {
	conn *zk.Conn
	news <-chan zk.Event
}

// newWatcher connects to the server. The caller must Close it.
func newWatcher(server string) (*watcher, error) {
	conn, news, err := zk.Connect([]string{server}, 10*time.Second, zk.WithLogger(quiet{}), zk.WithLogInfo(false))
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", server, err)
	}
	return &watcher{conn: conn, news: news}, nil
}

// Close ends the session and waits for the client's goroutines, and with them every watch.
func (w *watcher) Close() {
	w.conn.Close()
	for range w.news { // until it is closed, which is the last thing the client does
	}
}

// queue waits until two stand at the path, and has gone called, from another goroutine, when the first one's node is
// deleted.
func (w *watcher) queue(ctx context.Context, path string, gone func(at time.Time)) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		names, _, err := w.conn.Children(path)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return fmt.Errorf("looking at %s: %w", path, err)
		}
		if len(names) == 2 {
			return w.guard(path+"/"+first(names), gone)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%d instead of 2 stand at %s: %w", len(names), path, context.Cause(ctx))
		}
	}
}

// first is the name with the lowest number.
func first(names []string) string {
	return slices.MinFunc(names, func(a, b string) int {
		na, _ := events.ParseName(a)
		nb, _ := events.ParseName(b)
		return events.CompareNames(na, nb)
	})
}

// guard has gone called when the node is deleted.
func (w *watcher) guard(node string, gone func(at time.Time)) error {
	_, _, deleted, err := w.conn.GetW(node)
	if err != nil {
		return fmt.Errorf("watching %s: %w", node, err)
	}
	go func() {
		// With the session, an event that is none ends this.
		if event := <-deleted; event.Type == zk.EventNodeDeleted {
			gone(time.Now())
		}
	}()
	return nil
}
