package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
)

// link is a TCP proxy on loopback between contenders and the server, which can be cut silently: sockets stay open, new
// connections are accepted, and nothing passes in either direction until it heals. Then what was held back is
// delivered, as TCP does that sends again. Its methods may be called by several goroutines.
type link struct {
	listener net.Listener
	server   string
	ctx      context.Context // ends with Close
	stop     context.CancelFunc
	running  sync.WaitGroup

	mu     sync.Mutex
	open   chan struct{} // closed while the link is whole
	closed bool
	conns  map[net.Conn]struct{} // that are not closed
}

// newLink starts a proxy in front of the server. The caller must Close it.
func newLink(server string) (*link, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("a proxy for %s: %w", server, err)
	}
	l := &link{listener: listener, server: server, open: make(chan struct{}), conns: make(map[net.Conn]struct{})}
	l.ctx, l.stop = context.WithCancel(context.Background())
	close(l.open)
	l.running.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return // closed
			}
			l.running.Go(func() { l.serve(near) })
		}
	})
	return l, nil
}

// addr is where contenders connect to.
func (l *link) addr() string { return l.listener.Addr().String() }

// cut begins the partition. When it has returned, no byte is passed on any more; one read before that may just be on
// its way.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = make(chan struct{})
}

// heal ends the partition, which must have begun.
func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.open)
}

// Close ends all connections and waits for every goroutine.
func (l *link) Close() error {
	err := l.listener.Close()
	l.stop()
	l.mu.Lock()
	l.closed = true
	for conn := range l.conns {
		err = errors.Join(err, conn.Close())
	}
	l.conns = nil
	l.mu.Unlock()
	l.running.Wait()
	return err
}

// whole waits until the link is not cut, and is false if it is closed first.
func (l *link) whole() bool {
	l.mu.Lock()
	open := l.open
	l.mu.Unlock()
	select {
	case <-open:
		return true
	case <-l.ctx.Done():
		return false
	}
}

// keep has Close close the connection, unless drop does; if the link is closed already, the connection is, too.
func (l *link) keep(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = conn.Close() // nothing was done with it
		return
	}
	l.conns[conn] = struct{}{}
}

// drop closes the connection.
func (l *link) drop(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, conn)
	_ = conn.Close() // the other end may have been quicker
}

// serve connects somebody to the server and passes on what they say to each other, until one of them ends it.
func (l *link) serve(near net.Conn) {
	l.keep(near)
	defer l.drop(near)
	// Not even the server's side of a handshake passes a partition.
	if !l.whole() {
		return
	}
	var dialer net.Dialer
	far, err := dialer.DialContext(l.ctx, "tcp4", l.server)
	if err != nil {
		return // near sees a connection that ends
	}
	l.keep(far)
	defer l.drop(far)
	var both sync.WaitGroup
	both.Go(func() { l.pass(far, near) })
	both.Go(func() { l.pass(near, far) })
	both.Wait()
}

// pass copies until one of the connections ends, the end itself included, and holds everything back in a partition.
func (l *link) pass(to, from net.Conn) {
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		if !l.whole() {
			return
		}
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			l.drop(to)
			return
		}
	}
}
