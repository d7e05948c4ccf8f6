package faultnet

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Dial makes a connection, like [net.Dialer.DialContext] and zktest's Server.DialContext.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

// Rule decides about frames. It is called in order for the frames of one direction of a
// connection, and concurrently for others, before the frame is passed on. It may call the
// methods of the network. It must return at once, because the frame's writer waits for
// it.
type Rule func(Frame) Verdict

// Network is the network between clients and servers. Its methods are safe for concurrent
// use.
type Network struct {
	dial Dial
	rule Rule

	mu      sync.Mutex
	conns   map[*conn]struct{}
	made    int
	silent  [Down + 1]bool
	lag     [Down + 1]time.Duration
	refuses bool
	closed  bool
	healed  chan struct{} // closed by Heal, to make waiting dials look again
	late    []lingering
}

// lingering is a connection that the client has closed and the server still sees open.
type lingering struct {
	socket net.Conn
	left   []byte // what the client had sent before it closed
}

// New returns a network that only the rule breaks; a nil rule passes everything. Close
// the network if its connections are sockets.
func New(dial Dial, rule Rule) *Network {
	return &Network{dial: dial, rule: rule, conns: map[*conn]struct{}{}, healed: make(chan struct{})}
}

// Dial connects a client through the network. During a partition, it waits until the
// partition or ctx ends.
func (n *Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if err := n.pass(ctx, network); err != nil {
		return nil, err
	}
	socket, err := n.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		// Nothing was sent on it.
		_ = socket.Close()
		return nil, &net.OpError{Op: "dial", Net: network, Err: net.ErrClosed}
	}
	n.made++
	c := &conn{
		network: n, socket: socket, number: n.made, pending: asked{},
		up: newLane(n.silent[Up], n.lag[Up]), down: newLane(n.silent[Down], n.lag[Down]),
	}
	n.conns[c] = struct{}{}
	c.start()
	return c, nil
}

// pass waits until connections can be made.
func (n *Network) pass(ctx context.Context, network string) error {
	for {
		n.mu.Lock()
		refused, silent, healed := n.refuses || n.closed, n.silent[Up] || n.silent[Down], n.healed
		n.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			return &net.OpError{Op: "dial", Net: network, Err: ctx.Err()}
		case refused:
			return &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		case !silent:
			return nil
		}
		select {
		case <-ctx.Done():
		case <-healed:
		}
	}
}

func (n *Network) judge(f Frame) Verdict {
	if n.rule == nil {
		return Pass()
	}
	return n.rule(f)
}

// Open returns the number of open connections.
func (n *Network) Open() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.conns)
}

// Partition stops all delivery in the given directions, or in both if none is given, and
// prevents new connections. Neither side is notified. What is sent meanwhile arrives
// after [Network.Heal], as with TCP, even if the client has closed the connection by
// then: the server learns of that only later.
func (n *Network) Partition(directions ...Direction) {
	if len(directions) == 0 {
		directions = []Direction{Up, Down}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range directions {
		n.silent[d] = true
	}
	n.apply()
}

// Refuse makes servers refuse new connections at once, or accept them again. It also
// refuses connections that wait for a partition to end. Open connections continue.
func (n *Network) Refuse(refuse bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refuses = refuse
	n.wake()
}

// wake makes all waiting dials look again. It is called with mu held.
func (n *Network) wake() {
	close(n.healed)
	n.healed = make(chan struct{})
}

// Lag delays everything that is sent in the direction from now on. It keeps the order.
func (n *Network) Lag(d Direction, lag time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lag[d] = lag
	n.apply()
}

// apply is called with mu held.
func (n *Network) apply() {
	for c := range n.conns {
		for d, l := range map[Direction]*lane{Up: c.up, Down: c.down} {
			l.change(func() { l.silent, l.lag = n.silent[d], n.lag[d] })
		}
	}
}

// Heal ends a partition and a refusal, sets the lag to 0, also for frames in transit, and
// releases held frames, in order. A direction that the rule swallows stays swallowed.
func (n *Network) Heal() {
	n.mu.Lock()
	n.silent, n.lag, n.refuses = [Down + 1]bool{}, [Down + 1]time.Duration{}, false
	n.apply()
	for c := range n.conns {
		c.up.release()
		c.down.release()
	}
	n.wake()
	late := n.late
	n.late = nil
	n.mu.Unlock()
	for _, l := range late {
		l.arrive()
	}
}

// arrive delivers the remaining bytes, and then the end of the connection. It does not
// wait for a server that does not read.
func (l lingering) arrive() {
	if err := l.socket.SetWriteDeadline(time.Now().Add(time.Second)); err == nil && len(l.left) > 0 {
		// The server may have given up this connection long before.
		_, _ = l.socket.Write(l.left)
	}
	_ = l.socket.Close()
}

// Cut ends all open connections.
func (n *Network) Cut() {
	n.mu.Lock()
	open := slices.Collect(maps.Keys(n.conns))
	n.mu.Unlock()
	for _, c := range open {
		c.fail(errCut)
	}
}

// Close cuts all connections and refuses new ones.
func (n *Network) Close() {
	n.mu.Lock()
	n.closed = true
	n.wake()
	late := n.late
	n.late = nil
	n.mu.Unlock()
	n.Cut()
	for _, l := range late {
		_ = l.socket.Close() // the remaining bytes are lost
	}
}

func (n *Network) forget(c *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}

// linger keeps the socket of a connection that the client closes during a partition.
func (n *Network) linger(c *conn, left []byte) {
	l := lingering{c.socket, left}
	n.mu.Lock()
	delete(n.conns, c)
	again := n.silent[Up] && !n.closed
	if again {
		n.late = append(n.late, l)
	}
	n.mu.Unlock()
	if !again { // it was healed meanwhile
		l.arrive()
	}
}
