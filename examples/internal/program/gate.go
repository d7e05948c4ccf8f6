package program

import (
	"context"
	"errors"
	"net"
	"sync"
)

// Gate dials the servers, unless it is shut. To the servers, a process behind a shut gate
// looks paused or dead. Pass its DialContext to coordinator.WithDialer, after Options.
type Gate struct {
	zk *ZooKeeper

	mu     sync.Mutex
	closed bool
	conns  []net.Conn
}

// NewGate returns an open gate.
func (z *ZooKeeper) NewGate() *Gate { return &Gate{zk: z} }

// DialContext connects to one of the servers.
func (g *Gate) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := g.zk.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, errors.Join(errors.New("the gate is shut"), conn.Close())
	}
	g.conns = append(g.conns, conn)
	return conn, nil
}

// Shut closes the connections and refuses new ones.
func (g *Gate) Shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for _, conn := range g.conns {
		_ = conn.Close() // an old connection is already closed
	}
	g.conns = nil
}

// Open allows new connections.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = false
}
