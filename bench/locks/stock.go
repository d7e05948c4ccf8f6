package main

import (
	"context"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// quiet drops the client's log.
type quiet struct{}

// Printf does nothing.
func (quiet) Printf(string, ...any) {}

// connectStock opens a session with the go-zookeeper client.
func connectStock(ctx context.Context, addr string, m *meter) (*zk.Conn, error) {
	conn, news, err := zk.Connect([]string{addr}, sessionTimeout,
		zk.WithLogger(quiet{}), zk.WithLogInfo(false), zk.WithDialer(m.dialWithin))
	if err != nil {
		return nil, err
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

// stock is a client with the lock that comes with go-zookeeper.
type stock struct{ conn *zk.Conn }

func openStock(ctx context.Context, addr string, m *meter) (client, error) {
	conn, err := connectStock(ctx, addr, m)
	if err != nil {
		return nil, err
	}
	return stock{conn}, nil
}

func (s stock) lock(path string) (mutex, error) {
	return stockMutex{zk.NewLock(s.conn, path, zk.WorldACL(zk.PermAll))}, nil
}
func (s stock) contender(path string) (mutex, error) { return s.lock(path) }

func (s stock) close() error {
	s.conn.Close()
	return nil
}

type stockMutex struct{ lock *zk.Lock }

func (m stockMutex) acquire(context.Context) error { return m.lock.Lock() }
func (m stockMutex) release() error                { return m.lock.Unlock() }

// makePath creates the nodes of the path that are missing.
func makePath(conn *zk.Conn, path string) error {
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		_, err := conn.Create(path[:i], nil, 0, zk.WorldACL(zk.PermAll))
		if err != nil && err != zk.ErrNodeExists { //nolint:errorlint // the client does not wrap it
			return fmt.Errorf("creating %s: %w", path[:i], err)
		}
	}
	return nil
}
