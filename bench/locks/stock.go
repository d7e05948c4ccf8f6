package main

import (
	"context"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/bench/peers"
)

// stock is a client with go-zookeeper's own lock.
type stock struct{ conn *zk.Conn }

func openStock(ctx context.Context, addr string, m *meter) (stock, error) {
	conn, err := peers.Connect(ctx, addr, sessionTimeout, m.dialWithin)
	return stock{conn}, err
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

// makePath creates the missing nodes of the path.
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
