package main

import (
	"context"
	"net"
	"time"

	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// body is what a contender has besides its lock: its network, and the channels for faults. Only the contender's goroutine calls the
// methods of this file.
// methods of this file.
type body struct {
	side, name string
	log        *recorder
	network    *faultnet.Network
	shake      handshake
	pause      chan (<-chan struct{}) // makes it stand still until the other channel is closed
	handOn     chan struct{}          // makes it give the lock back, if it holds it

	state state
	alone bool
	note  string
}

// is reports what the contender believes from now on.
func (b *body) is(s state, note string) {
	b.state, b.note = s, note
	b.tell(s)
}

// connected reports what the client says of the connection.
func (b *body) connected(yes bool) {
	b.alone = !yes
	b.tell(b.state)
}

func (b *body) tell(s state) {
	b.log.tell(told{side: b.side, who: b.name, state: s, alone: b.alone, note: b.note})
}

// standStill does nothing until wake is closed or ctx ends.
func (b *body) standStill(ctx context.Context, wake <-chan struct{}) {
	b.tell(still)
	select {
	case <-wake:
	case <-ctx.Done():
	}
}

// dial returns a dial function for the client of package zk, which knows no context.
func (b *body) dial(ctx context.Context) func(network, address string, timeout time.Duration) (net.Conn, error) {
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return b.network.Dial(ctx, network, address)
	}
}
