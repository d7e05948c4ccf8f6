package ensemble

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Direction is a direction through a [Proxy], or both.
type Direction uint8

// The directions through a proxy.
const (
	ToServer Direction = 1 << iota // from the side that dialed
	ToClient                       // from the side that was dialed
	BothWays = ToServer | ToClient
)

// String returns the name of the direction.
func (d Direction) String() string {
	return [...]string{"no way", "to the server", "to the client", "both ways"}[d&BothWays]
}

const (
	parcelSize = 16 << 10
	// backlog is how many parcels one direction of a connection holds before the sender
	// must wait. A lagging or silent direction then behaves like one with full socket
	// buffers.
	backlog = 4096
	// coarse is more than a timer can be late. The last part of a lag is slept precisely,
	// and changes during it go unnoticed.
	coarse = 2 * time.Millisecond
)

// Proxy listens on 127.0.0.1 between its clients and one server, and forwards what they
// send. It can silence a direction, delay it, end connections, and refuse new ones.
// Nothing on a connection is lost or reordered. What a silent direction holds, including
// the end of the connection, is delivered after Heal, as by a network that was down for a
// while. Its methods are safe for concurrent use.
type Proxy struct {
	listener net.Listener
	server   string
	running  sync.WaitGroup // all goroutines of the proxy

	mu       sync.Mutex
	held     Direction
	lag      map[Direction]time.Duration // of each single direction
	refusing bool
	closed   bool
	accepted int
	conns    map[net.Conn]struct{}
	changed  chan struct{} // closed, and replaced, whenever held, lag or closed change
}

// NewProxy returns a proxy for the server at the address. The caller must Close it.
func NewProxy(server string) (*Proxy, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("ensemble: proxy for %s: %w", server, err)
	}
	p := &Proxy{
		listener: listener, server: server,
		lag: map[Direction]time.Duration{}, conns: map[net.Conn]struct{}{}, changed: make(chan struct{}),
	}
	p.running.Go(p.accept)
	return p, nil
}

// StartProxy is [NewProxy] for a test. The proxy is closed when the test ends.
func StartProxy(tb testing.TB, server string) *Proxy {
	tb.Helper()
	p, err := NewProxy(server)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := p.Close(); err != nil {
			tb.Error(err)
		}
	})
	return p
}

// Addr returns the address to dial instead of the server, as host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Accepted returns how many connections were accepted so far, not counting refused ones.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Hold silences exactly the given directions. Connections stay open and new ones are
// accepted, but nothing passes, not even the end of a connection. The other direction is
// not affected.
func (p *Proxy) Hold(ways Direction) {
	p.change(func() { p.held = ways })
}

// Lag delays everything in the given directions, including what is in transit. 0 ends the
// lag.
func (p *Proxy) Lag(ways Direction, by time.Duration) {
	p.change(func() {
		for _, way := range []Direction{ToServer, ToClient} {
			if ways&way != 0 {
				p.lag[way] = by
			}
		}
	})
}

// Refuse ends each new connection at once (true), or accepts new ones again (false).
func (p *Proxy) Refuse(refuse bool) {
	p.change(func() { p.refusing = refuse })
}

// Heal undoes Hold, Lag and Refuse.
func (p *Proxy) Heal() {
	p.change(func() {
		p.held, p.refusing = 0, false
		clear(p.lag)
	})
}

// Cut ends every connection at once, on both sides; what is in transit is lost. New
// connections are accepted.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut()
}

// Close ends the proxy and its connections, and returns when its goroutines have ended.
// It is idempotent.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	p.change(func() {
		p.closed = true
		p.cut()
	})
	p.running.Wait()
	return err
}

func (p *Proxy) change(set func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	set()
	close(p.changed)
	p.changed = make(chan struct{})
}

// cut is called with mu held.
func (p *Proxy) cut() {
	for c := range p.conns {
		_ = c.Close() // the other direction may have closed it already
	}
}

func (p *Proxy) accept() {
	for {
		front, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.running.Go(func() { p.serve(front) })
	}
}

// serve forwards one connection until both directions have ended.
func (p *Proxy) serve(front net.Conn) {
	defer front.Close()
	p.mu.Lock()
	refusing := p.refusing
	if !refusing {
		p.accepted++
	}
	p.mu.Unlock()
	if refusing {
		return
	}
	back, err := net.Dial("tcp", p.server)
	if err != nil {
		return // the client sees its connection end
	}
	defer back.Close()
	if !p.enter(front, back) {
		return
	}
	defer p.leave(front, back)
	var ways sync.WaitGroup
	ways.Go(func() { p.pass(ToServer, front, back) })
	ways.Go(func() { p.pass(ToClient, back, front) })
	ways.Wait()
}

// enter registers the connections for Cut and Close, unless the proxy is closed.
func (p *Proxy) enter(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	for _, c := range conns {
		p.conns[c] = struct{}{}
	}
	return true
}

func (p *Proxy) leave(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.conns, c)
	}
}

// parcel is the result of one read. The last one of a connection has the error that ended
// the reading.
type parcel struct {
	data []byte
	at   time.Time
	err  error
}

// pass is one direction of a connection. It reads without pausing, so the lag of each
// parcel counts from its own arrival.
func (p *Proxy) pass(way Direction, from, to net.Conn) {
	parcels, gone := make(chan parcel, backlog), make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			buf := make([]byte, parcelSize)
			n, err := from.Read(buf)
			select {
			case parcels <- parcel{buf[:n], time.Now(), err}:
			case <-gone:
				return
			}
			if err != nil {
				return
			}
		}
	})
	orderly := p.deliver(way, parcels, to)
	if half, ok := to.(interface{ CloseWrite() error }); orderly && ok {
		// Only this direction is over; the other side may still be answering.
		orderly = half.CloseWrite() == nil
	}
	if !orderly {
		_, _ = from.Close(), to.Close() // the other direction may have closed them already
	}
	close(gone)
	reading.Wait()
}

// deliver writes the parcels when they are due. It returns true after an orderly end of
// the connection, and false if the connection can no longer be used.
func (p *Proxy) deliver(way Direction, parcels <-chan parcel, to net.Conn) bool {
	for {
		next := <-parcels // the reader always sends a last parcel
		if !p.due(way, next.at) {
			return false
		}
		if _, err := to.Write(next.data); err != nil {
			return false
		}
		if next.err != nil {
			return errors.Is(next.err, io.EOF)
		}
	}
}

// due waits until data read at the given time may pass. It returns false if the proxy was
// closed.
func (p *Proxy) due(way Direction, read time.Time) bool {
	for {
		p.mu.Lock()
		held, closed, changed := p.held&way != 0, p.closed, p.changed
		wait := time.Until(read.Add(p.lag[way]))
		p.mu.Unlock()
		switch {
		case closed:
			return false
		case held:
			<-changed
		case wait <= 0:
			return true
		case wait <= coarse:
			sleepExactly(wait)
		default:
			timer := time.NewTimer(wait - coarse)
			select {
			case <-changed:
			case <-timer.C:
			}
			timer.Stop()
		}
	}
}
