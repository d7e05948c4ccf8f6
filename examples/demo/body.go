package main

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// body is what a contender has for any kind of lock: its network, and the channels for
// faults. Only the contender's goroutine calls the methods in this file.
type body struct {
	side, name string
	log        *recorder
	network    *faultnet.Network
	shake      handshake
	pause      chan (<-chan struct{}) // pauses it until the other channel is closed
	handOn     chan struct{}          // makes it release the lock, if it holds it
	careful    *atomic.Bool           // a naive contender treats a disconnect as a loss
	killed     atomic.Bool            // its reports are ignored

	state state
	alone bool
	note  string

	inDoubt bool // it has lost its lock, and its session may still be alive
}

// is sets what the contender believes, and reports it.
func (b *body) is(s state, note string) {
	b.state, b.note = s, note
	b.tell(s)
}

// connected reports whether the client has a connection.
func (b *body) connected(yes bool) {
	b.alone = !yes
	b.tell(b.state)
}

func (b *body) tell(s state) {
	b.report(told{side: b.side, who: b.name, state: s, alone: b.alone, note: b.note})
}

// gaveUpNeedlessly reports that the session of a lock that was given up has survived.
func (b *body) gaveUpNeedlessly() { b.report(told{side: b.side, who: b.name, needless: true}) }

func (b *body) report(t told) {
	b.log.tell(b, func(p *picture, at time.Duration) { p.tell(t, at) })
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
