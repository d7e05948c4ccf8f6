package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/session/sasl"
)

// DialFunc connects to one address. It must give up when ctx ends.
type DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

const (
	backoffMin = 25 * time.Millisecond
	backoffMax = time.Second
	// lifeMax bounds how long a connection must carry the session to count as a good one.
	lifeMax = time.Second
)

var _ zk.Dialer = (*Dialer)(nil).Dial

// Dialer makes the connections of one client, one at a time, each wrapped in a wire.
//
// It is also where the client waits between attempts, because the client itself does not: it would dial servers that grant a session and
// drop the connection at once thousands of times a second.
//
//   - The attempt after a connection that has carried the session for a while is made at once.
//   - The n-th attempt after that waits for a random time between a half and all of 25 ms * 2^(n-1), at most 1 s.
//   - If an exchange of SASL was denied in the last attempt, that bound is half the session timeout: each exchange is a write at the
//     servers, and only a person can help.
//
// A connection counts only if it lived for a tenth of the session timeout or 1 s, whichever is less.
//
// An attempt, from its start to the complete answer to the handshake (TCP, TLS and ZooKeeper), takes at most three tenths of the session
// timeout. It waits for a lookup as long, which then goes on for a later attempt ([Names]). The client notices a dead connection after two thirds, and with the back-off a mute server costs no more than what
// is left.
type Dialer struct {
	link  *Link
	hosts *Hosts
	dial  DialFunc
	names *Names             // nil: names are dialled as they are
	began uint64             // how many lookups had ended then
	tls   func() *tls.Config // nil: no TLS
	sasl  sasl.Mechanism
	who   func() []Identity // nil: nobody
	asked time.Duration     // session timeout to go by until one is negotiated
	rng   *rand.Rand        // used by Dial only, which the client calls from one goroutine

	ctx    context.Context // ends with Stop; held here because the client's call has no room for one
	cancel context.CancelFunc

	mu       sync.Mutex
	current  *wire
	failures int
	err      error
}

// Dialing is what a dialer is made of. Asked and Rng have no default. Hosts has none if names are resolved.
type Dialing struct {
	Hosts *Hosts
	Dial  DialFunc       // nil: net.Dialer
	Names *Names         // nil: Dial gets the names
	SASL  sasl.Mechanism // nil: none

	// These are asked at each dial. TLS: nil is none; an empty ServerName becomes the name of the host. Identities: nil is none.
	TLS        func() *tls.Config
	Identities func() []Identity

	Asked time.Duration // session timeout the client asks for
	Rng   *rand.Rand

	Failures int // of the client before this one: a session that ends as soon as it is made is a failure, too
}

// NewDialer returns a dialer for one client. It stops when ctx ends, or when Stop is called.
func NewDialer(ctx context.Context, l *Link, cfg Dialing) *Dialer {
	d := &Dialer{link: l, hosts: cfg.Hosts, dial: cfg.Dial, names: cfg.Names, tls: cfg.TLS, sasl: cfg.SASL, who: cfg.Identities, asked: cfg.Asked, rng: cfg.Rng, failures: cfg.Failures}
	if d.dial == nil {
		d.dial = new(net.Dialer).DialContext
	}
	if d.names != nil {
		d.began = d.names.count()
	}
	d.ctx, d.cancel = context.WithCancel(ctx)
	return d
}

// Dial connects to addr. It has the form that the client wants; the timeout that the client asks for (always 1 s) is ignored. It closes the
// connection that it made before, which the client forgets to do after a session has expired. After Stop it returns a [farewell].
func (d *Dialer) Dial(network, addr string, _ time.Duration) (net.Conn, error) {
	d.retire()
	d.wait()
	if d.stopped() {
		return newFarewell(d.Timeout()), nil
	}
	w, err := d.connect(network, addr)
	if err != nil {
		if d.stopped() {
			return newFarewell(d.Timeout()), nil
		}
		d.note(addr, err)
		d.mu.Lock()
		d.failures++
		d.mu.Unlock()
		if errors.Is(err, ErrDenied) {
			d.link.denied(err)
		}
		return nil, err
	}
	d.mu.Lock()
	d.current = w
	d.mu.Unlock()
	// Stop may have come while the connection was made. A caller of Stop and then HardClose expects that nothing is open afterwards. Either
	// HardClose sees current, or it came before and Stop is seen here.
	if d.stopped() {
		_ = w.Close() // it was not handed out
		return newFarewell(d.Timeout()), nil
	}
	return w, nil
}

// connect makes one connection, up to but without the ZooKeeper handshake. An exchange begins before that: what fails here does not renew the
// session at the server.
func (d *Dialer) connect(network, addr string) (w *wire, err error) {
	deadline := time.Now().Add(d.Timeout() * 3 / 10)
	ctx, cancel := context.WithDeadline(d.ctx, deadline)
	defer cancel()
	socket, err := d.reach(ctx, network, addr)
	if err != nil {
		return nil, endedAtOnce(err)
	}
	hangUp := func() {}
	defer func() {
		if err != nil {
			hangUp()
			_ = socket.Close() // it may be closed already: that is how a TLS handshake is interrupted
		}
	}()
	conn := socket
	if d.tls != nil {
		if conn, err = secure(ctx, socket, addr, d.tls()); err != nil {
			return nil, err
		}
	}
	var identities []Identity
	if d.who != nil {
		identities = d.who()
	}
	if d.sasl != nil || len(identities) > 0 {
		var life context.Context
		life, hangUp = context.WithDeadline(context.Background(), deadline)
		watch := context.AfterFunc(d.ctx, hangUp) // later, Stop leaves the exchange alone, as it does the connection
		conn, err = begin(life, conn, d.sasl, addr, identities)
		watch()
		if err != nil {
			return nil, err
		}
	}
	if w, err = newWire(conn, socket, d.link, deadline, func(err error) { d.note(addr, err) }); err != nil {
		return nil, err
	}
	w.server, w.secured, w.cancel = addr, d.tls != nil, hangUp
	return w, nil
}

// Timeout returns the session timeout to go by.
func (d *Dialer) Timeout() time.Duration {
	if t := d.link.Timeout(); t > 0 {
		return t
	}
	return d.asked
}

// retire closes the previous connection and judges it.
func (d *Dialer) retire() {
	d.mu.Lock()
	w := d.current
	d.current = nil
	d.mu.Unlock()
	if w == nil {
		return
	}
	// If a socket does not close, nothing can be done about it.
	_ = w.Close()
	life := w.lifetime()
	d.mu.Lock()
	defer d.mu.Unlock()
	if life > 0 && life >= min(d.Timeout()/10, lifeMax) {
		d.failures = 0
	} else {
		d.failures++
	}
}

// wait sits out the back-off, until Stop at most.
func (d *Dialer) wait() {
	d.mu.Lock()
	failures, most := d.failures, backoffMax
	if failed := new(exchangeError); errors.As(d.err, &failed) && failed.denial {
		most = max(most, d.Timeout()/2)
	}
	d.mu.Unlock()
	if failures > 0 && !d.stopped() {
		timer := time.NewTimer(backoff(failures, most, d.rng))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-d.ctx.Done():
		}
	}
}

// backoff returns how long to wait before the next attempt after so many failed ones.
func backoff(failures int, most time.Duration, rng *rand.Rand) time.Duration {
	const doublings = 17 // 25 ms * 2^17 is nearly an hour, and shifting much further would overflow one day
	full := min(backoffMin<<min(failures-1, doublings), most)
	return full/2 + time.Duration(rng.Int64N(int64(full/2)+1))
}

// Failed returns how many attempts in a row have failed.
func (d *Dialer) Failed() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current != nil {
		if life := d.current.lifetime(); life > 0 && life < min(d.Timeout()/10, lifeMax) {
			return d.failures + 1
		}
	}
	return d.failures
}

// note remembers why a connection failed; nil clears it.
func (d *Dialer) note(addr string, err error) {
	if err != nil {
		err = fmt.Errorf("%s: %w", addr, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

// LastError returns why the latest connection could not be made or ended; nil while one is up. It is safe for concurrent use, as are Stop
// and HardClose.
func (d *Dialer) LastError() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// Stop makes a Dial under way, and every later one, return a farewell at once. It leaves the current connection alone, so
// that the client can still say goodbye on it.
func (d *Dialer) Stop() { d.cancel() }

func (d *Dialer) stopped() bool { return d.ctx.Err() != nil }

// Owing returns the current connection, and since when its server owes an answer. The time is zero if it owes none.
func (d *Dialer) Owing() (w *wire, since time.Time) {
	d.mu.Lock()
	w = d.current
	d.mu.Unlock()
	if w != nil {
		since = w.owing()
	}
	return w, since
}

// Peer returns the address of the current connection if its server was dialled by a name that was resolved here. Otherwise it returns
// nothing.
func (d *Dialer) Peer() string {
	d.mu.Lock()
	w := d.current
	d.mu.Unlock()
	if w == nil || d.names == nil {
		return ""
	}
	if addr := addressOf(w.socket); addr != w.server {
		return addr
	}
	return ""
}

// HardClose closes the socket of the current connection. Without Stop the client dials the next server.
func (d *Dialer) HardClose() error {
	d.mu.Lock()
	w := d.current
	d.mu.Unlock()
	if w == nil {
		return nil
	}
	return w.hangUp()
}

// Leave prepares the current connection for a client that has to end, is stopped, and has no request under way. It reports whether the
// client can end on it. If not, another connection is to come, a farewell at the latest.
func (d *Dialer) Leave() bool {
	d.mu.Lock()
	w := d.current
	d.mu.Unlock()
	return w == nil || w.leave()
}

// addressOf returns the address of the server's end. The connection of a user's dialer may have none.
func addressOf(conn net.Conn) string {
	if addr := conn.RemoteAddr(); addr != nil {
		return addr.String()
	}
	return ""
}
