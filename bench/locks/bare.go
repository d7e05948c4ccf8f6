package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-zookeeper/zk"
)

// chain knows the last contender at each path among all bare clients of a process. Each
// contender watches the one before it, which a real lock would have to find.
type chain struct {
	mu   sync.Mutex
	last map[string]string
}

// bare is not a lock. It sends the fewest requests that a lock could do with, on a client
// that does nothing else. Everything beyond that is the cost of the lock itself.
type bare struct {
	stock
	chain *chain
}

// lock enters with one transaction and leaves with a delete.
func (b bare) lock(path string) (mutex, error) {
	if err := makePath(b.conn, path); err != nil {
		return nil, err
	}
	return &bareMutex{conn: b.conn, path: path}, nil
}

type bareMutex struct {
	conn *zk.Conn
	path string
	own  string
}

func (m *bareMutex) acquire(context.Context) error {
	answers, err := m.conn.Multi(
		&zk.CreateRequest{
			Path: m.path + "/lock-", Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral | zk.FlagSequence,
		},
		&zk.SetDataRequest{Path: m.path, Data: []byte("marker"), Version: -1})
	if err != nil {
		return err
	}
	m.own = answers[0].String
	return nil
}

func (m *bareMutex) release() error { return m.conn.Delete(m.own, -1) }

// contender waits until the previous contender's node is deleted, and then checks that
// its own node exists.
func (b bare) contender(path string) (mutex, error) {
	if err := makePath(b.conn, path); err != nil {
		return nil, err
	}
	return &bareContender{bareMutex{conn: b.conn, path: path}, b.chain}, nil
}

type bareContender struct {
	bareMutex
	chain *chain
}

// enter creates the node and watches the previous one. The channel is nil if there is
// none.
func (m *bareContender) enter() (<-chan zk.Event, error) {
	m.chain.mu.Lock()
	defer m.chain.mu.Unlock()
	var err error
	m.own, err = m.conn.Create(m.path+"/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	if err != nil {
		return nil, err
	}
	before := m.chain.last[m.path]
	m.chain.last[m.path] = m.own
	if before == "" {
		return nil, nil
	}
	exists, _, gone, err := m.conn.ExistsW(before)
	if err == nil && !exists {
		return nil, nil
	}
	return gone, err
}

func (m *bareContender) acquire(ctx context.Context) error {
	gone, err := m.enter()
	if err != nil {
		return err
	}
	if gone == nil {
		return nil
	}
	select {
	case event := <-gone:
		if event.Err != nil {
			return fmt.Errorf("watching: %w", event.Err)
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	_, err = m.conn.Multi(&zk.CheckVersionRequest{Path: m.own, Version: -1})
	return err
}
