package peers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// Watcher is a client near the servers that notices when nodes are deleted.
type Watcher struct {
	conn *zk.Conn
	news <-chan zk.Event
}

// Connect opens a session with the go-zookeeper client. If dial is nil, it uses
// net.DialTimeout. The caller must Close the connection.
func Connect(ctx context.Context, addr string, timeout time.Duration, dial zk.Dialer) (*zk.Conn, error) {
	if dial == nil {
		dial = net.DialTimeout
	}
	conn, news, err := zk.Connect([]string{addr}, timeout, zk.WithLogger(eventstest.Quiet{}), zk.WithLogInfo(false), zk.WithDialer(dial))
	if err != nil {
		return nil, fmt.Errorf("peers: connecting to %s: %w", addr, err)
	}
	for {
		select {
		case event, open := <-news:
			if !open {
				return nil, zk.ErrClosing
			}
			if event.State == zk.StateHasSession {
				return conn, nil
			}
		case <-ctx.Done():
			conn.Close()
			return nil, context.Cause(ctx)
		}
	}
}

// NewWatcher connects to one of the servers. The caller must Close the Watcher.
func NewWatcher(servers string) (*Watcher, error) {
	conn, news, err := zk.Connect(strings.Split(servers, ","), 10*time.Second, zk.WithLogger(eventstest.Quiet{}), zk.WithLogInfo(false))
	if err != nil {
		return nil, fmt.Errorf("peers: watching %s: %w", servers, err)
	}
	return &Watcher{conn: conn, news: news}, nil
}

// Close ends the session, and waits for the client's goroutines and for every watch.
func (w *Watcher) Close() {
	w.conn.Close()
	for range w.news { // until the client closes it, at its very end
	}
}

// Children returns the names below the path. The list is empty if the node does not
// exist.
func (w *Watcher) Children(path string) ([]string, error) {
	names, _, err := w.conn.Children(path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, fmt.Errorf("peers: looking at %s: %w", path, err)
	}
	return names, nil
}

// Guard calls gone in another goroutine when the node is deleted.
func (w *Watcher) Guard(node string, gone func(at time.Time)) error {
	_, _, deleted, err := w.conn.GetW(node)
	if err != nil {
		return fmt.Errorf("peers: watching %s: %w", node, err)
	}
	go func() {
		// If the session ends first, the event has another type.
		if event := <-deleted; event.Type == zk.EventNodeDeleted {
			gone(time.Now())
		}
	}()
	return nil
}
