package main

import (
	"context"
	"errors"
	"net"
	"sync"
)

// gate makes connections, and none while it is shut: whoever is behind it is to the
// servers like a process that is halted.
type gate struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu     sync.Mutex
	closed bool
	conns  []net.Conn
}

// DialContext connects as the dial function does.
func (g *gate) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := g.dial(ctx, network, address)
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

// shut ends the connections, and lets no new ones come about.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for _, conn := range g.conns {
		_ = conn.Close() // the one that is in use, and old ones, which are closed already
	}
	g.conns = nil
}

// open lets new ones come about.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = false
}
