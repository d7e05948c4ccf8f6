package program

import (
	"context"
	"errors"
	"net"
	"sync"
)

// Gate makes connections to the servers, and none while it is shut: whoever is behind
// it is to them like a process that is halted or has died. Its DialContext goes into
// coordinator.WithDialer, behind Options.
type Gate struct {
	zk *ZooKeeper

	mu     sync.Mutex
	closed bool
	conns  []net.Conn
}

// NewGate returns a gate that is open.
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

// Shut ends the connections, and lets no new ones come about.
func (g *Gate) Shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for _, conn := range g.conns {
		_ = conn.Close() // the one that is in use, and old ones, which are closed already
	}
	g.conns = nil
}

// Open lets new ones come about.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = false
}
