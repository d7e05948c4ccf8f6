package wire

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/session/sasl"
)

// DialFunc connects to one address. It must give up when ctx ends.
type DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

const (
	backoffMin = 25 * time.Millisecond
	backoffMax = time.Second
	// lifeMax is the maximum time that a connection must carry the session to count as
	// good.
	lifeMax = time.Second
	// mostStagger is how long an address may stay silent before the next one is dialed in
	// parallel. [net.Dialer] waits as long before it tries the other address family.
	mostStagger = 300 * time.Millisecond
)

var _ zk.Dialer = (*Dialer)(nil).Dial

// Dialer makes the connections of one client, one at a time, each wrapped in a wire.
//
// Dial also has the back-off between attempts, because the client has none: it would dial
// a server that grants a session and then drops the connection thousands of times per
// second.
//
//   - After a connection that has carried the session for a while, the next attempt is
//     made at once.
//   - The first attempt after that waits for a random time between half and all of 25 ms.
//     The bound doubles with each attempt, up to 1 s.
//   - If SASL or another identity was denied in the last attempt, the limit is half the
//     session timeout, because the handshake before it may be a write at the servers, and
//     only an operator can fix the cause.
//
// A connection counts only if it lived for a tenth of the session timeout or 1 s,
// whichever is shorter.
//
// An attempt, from its start to the complete answer to the handshake (TCP, TLS and
// ZooKeeper), takes at most three tenths of the session timeout. That includes the wait
// for a lookup, which then continues for a later attempt ([Names]). The client notices a
// dead connection after two thirds of the timeout, and a silent server, including the
// back-off, costs no more than what is left.
type Dialer struct {
	link  *Link
	cfg   Dialing
	began uint64 // how many lookups had ended before

	ctx    context.Context // ends with Stop; the client passes none to Dial
	cancel context.CancelFunc

	attempts atomic.Int64

	mu       sync.Mutex
	current  *wire
	failures int
	err      error
}

// Dialing configures a dialer. Asked and Rng are required, and so is Hosts if names are
// resolved.
type Dialing struct {
	Hosts *Hosts
	Dial  DialFunc       // nil: net.Dialer
	Names *Names         // nil: Dial gets host names
	SASL  sasl.Mechanism // nil: none

	// These are called at each dial. nil means no TLS, or no identities. An empty
	// ServerName becomes the host's name.
	TLS        func() *tls.Config
	Identities func() []Identity

	Asked time.Duration // session timeout that the client requests
	Rng   *rand.Rand    // used by Dial only, which the client calls from one goroutine

	// Failures of the previous client: a session that ends right away is a failure, too.
	Failures int
}

// NewDialer returns a dialer for one client, until Stop.
func NewDialer(l *Link, cfg Dialing) *Dialer {
	d := &Dialer{link: l, cfg: cfg, failures: cfg.Failures}
	l.timeout = cmp.Or(l.timeout, cfg.Asked)
	if cfg.Dial == nil {
		d.cfg.Dial = new(net.Dialer).DialContext
	}
	if cfg.Names != nil {
		d.began = cfg.Names.count()
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// Dial connects to addr. It has the signature that the client needs, but ignores the
// client's timeout (always 1 s). After Stop, it returns a [farewell].
func (d *Dialer) Dial(network, addr string, _ time.Duration) (net.Conn, error) {
	d.attempts.Add(1)
	d.mu.Lock()
	w := d.current
	d.current = nil
	// The back-off. d.err shows a denial only until the next attempt.
	if w != nil {
		if _, good := w.lifetime(); good {
			d.failures = 0
		} else {
			d.failures++
		}
	}
	failures, most := d.failures, backoffMax
	if failed := new(exchangeError); errors.As(d.err, &failed) && failed.denial {
		most = max(most, d.link.Timeout()/2)
	}
	d.mu.Unlock()
	// The client does not close its connection after the session has expired.
	if w != nil {
		_ = w.Close() // if closing a socket fails, nothing can be done about it
	}
	if failures > 0 && d.ctx.Err() == nil {
		timer := time.NewTimer(backoff(failures, most, d.cfg.Rng))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-d.ctx.Done():
		}
	}

	w, err := d.connect(network, addr)
	d.mu.Lock()
	if err == nil {
		d.current = w
	} else if d.ctx.Err() == nil {
		d.failures++
	}
	d.mu.Unlock()
	// Stop may have been called while the connection was being made. A caller of Stop and
	// then HardClose expects nothing to be open afterwards: either HardClose sees
	// current, or it came earlier and Stop is seen here.
	switch {
	case d.ctx.Err() != nil:
		if err == nil {
			_ = w.Close() // the client never got it
		}
		return newFarewell(d.link.Timeout()), nil
	case err != nil:
		d.note(addr, err)
		return nil, err
	}
	return w, nil
}

// Attempts returns how many attempts have begun.
func (d *Dialer) Attempts() int { return int(d.attempts.Load()) }

// backoff returns how long to wait before the next attempt, after this many failures.
func backoff(failures int, most time.Duration, rng *rand.Rand) time.Duration {
	// 25 ms * 2^17 is nearly an hour; shifting much further would eventually overflow.
	const doublings = 17
	full := min(backoffMin<<min(failures-1, doublings), most)
	return full/2 + time.Duration(rng.Int64N(int64(full/2)+1))
}

// connect makes one connection, up to but not including the ZooKeeper handshake. A SASL
// exchange starts before that, so that what fails here does not renew the session at the
// server.
func (d *Dialer) connect(network, addr string) (w *wire, err error) {
	if err := d.ctx.Err(); err != nil {
		return nil, err
	}
	deadline := time.Now().Add(d.link.Timeout() * 3 / 10)
	ctx, cancel := context.WithDeadline(d.ctx, deadline)
	defer cancel()
	dial := d.cfg.Dial
	if d.cfg.Names != nil {
		dial = d.reach
	}
	socket, err := dial(ctx, network, addr)
	if err != nil {
		return nil, endedAtOnce(err)
	}
	var who *login
	defer func() {
		if err != nil {
			if who != nil {
				who.cancel()
			}
			_ = socket.Close() // it may be closed already, which is how a TLS handshake is interrupted
		}
	}()
	conn := socket
	if d.cfg.TLS != nil {
		if conn, err = secure(ctx, socket, addr, d.cfg.TLS()); err != nil {
			return nil, err
		}
	}
	var identities []Identity
	if d.cfg.Identities != nil {
		identities = d.cfg.Identities()
	}
	if d.cfg.SASL != nil || len(identities) > 0 {
		// After begin, Stop leaves the exchange alone, as it does the connection.
		who = newLogin(deadline, identities)
		stopped := context.AfterFunc(d.ctx, who.cancel)
		err = who.begin(d.cfg.SASL, addr)
		if stopped(); err != nil {
			return nil, err
		}
	}
	w, err = newWire(conn, socket, d.link, deadline, func(err error) { d.note(addr, err) })
	if err != nil {
		return nil, err
	}
	w.server, w.secured, w.login = addr, d.cfg.TLS != nil, who
	return w, nil
}

// errSlow reports a lookup that is still in progress.
var errSlow = errors.New("name not resolved yet")

// reach connects to a server of the connect string, after a lookup of its name. Earlier
// addresses are used while the lookup continues, or if it fails.
func (d *Dialer) reach(ctx context.Context, network, server string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(server)
	if _, noLiteral := netip.ParseAddr(host); err != nil || noLiteral == nil {
		return d.cfg.Dial(ctx, network, server)
	}
	// With earlier addresses, a slow resolver costs a tenth of the session timeout;
	// without them, the whole attempt.
	lookup := d.cfg.Names.find(host) //nolint:contextcheck // a lookup outlasts the attempt
	var slow <-chan time.Time
	standIns, _ := d.addresses(server, host, port)
	if len(standIns) > 0 {
		slow = time.After(d.link.Timeout() / 10)
	}
	var failed error // why no earlier address could be reached
	select {
	case <-lookup.done:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", errSlow, context.Cause(ctx))
	case <-slow:
		d.link.Events.OnUnresolved(server, errSlow)
		conn, err := d.race(ctx, network, server, standIns)
		if err == nil {
			return conn, nil
		}
		failed = fmt.Errorf("%w; earlier addresses: %w", errSlow, err)
		select {
		case <-lookup.done:
		case <-ctx.Done():
			return nil, failed
		}
	}
	// The lookup is over. If it failed, earlier addresses are better than none.
	addrs, err := d.addresses(server, host, port)
	switch {
	case err == nil:
		return d.race(ctx, network, server, addrs)
	case failed != nil:
		return nil, fmt.Errorf("%w; %w", err, failed)
	case len(addrs) == 0:
		return nil, err
	}
	d.link.Events.OnUnresolved(server, err)
	conn, failed := d.race(ctx, network, server, addrs)
	if failed != nil {
		failed = fmt.Errorf("%w; earlier addresses: %w", err, failed)
	}
	return conn, failed
}

// addresses returns the addresses of a name that may be dialed, in order, and why the
// latest lookup failed, if it did. A new session begins only at addresses from a lookup
// that ended after the previous session, and only if no later lookup has failed. An
// earlier address may now belong to another ensemble, which would grant the same locks:
//
//  1. The session ends. Its locks are granted to others.
//  2. Meanwhile the servers have moved, and others have their addresses.
//  3. A session there grants the locks a second time.
//
// A session that may still be alive can be resumed at any address, because only its own
// ensemble knows it.
func (d *Dialer) addresses(server, host, port string) (addrs []string, failed error) {
	last := d.cfg.Names.last(host)
	switch {
	case last.number > d.began && last.err == nil:
		for _, addr := range last.found {
			addrs = append(addrs, net.JoinHostPort(addr.Unmap().String(), port))
		}
		d.cfg.Hosts.learn(server, addrs, d.cfg.Rng)
	case d.link.Session() == 0:
		d.cfg.Hosts.learn(server, nil, d.cfg.Rng)
	}
	return d.cfg.Hosts.addresses(server), last.err
}

// race connects to the first of the addresses that answers. When it returns, no other
// connection is open.
func (d *Dialer) race(ctx context.Context, network, server string, addrs []string) (net.Conn, error) {
	won, conn, err := firstOf(ctx, len(addrs), d.stagger(),
		func(ctx context.Context, i int) (net.Conn, error) {
			d.cfg.Hosts.note(server, addrs[i])
			return d.cfg.Dial(ctx, network, addrs[i])
		}, func(conn net.Conn) { _ = conn.Close() })
	if err != nil {
		return nil, err
	}
	d.cfg.Hosts.note(server, addrs[won]) // the last one, even if others were dialed after it
	return conn, nil
}

// stagger returns how long a server may stay silent before the next one is tried in
// parallel.
func (d *Dialer) stagger() time.Duration { return min(mostStagger, d.link.Timeout()/20) }

// firstOf makes n tries in order, and returns the index and the value of the first one
// that succeeds. The next try begins when one fails, or has taken as long as stagger, so
// that a try that hangs does not use up the time. When firstOf returns, no try is in
// progress, and the values of later ones are discarded.
func firstOf[T any](
	ctx context.Context, n int, stagger time.Duration, try func(context.Context, int) (T, error),
	discard func(T),
) (won int, value T, failed error) {
	type result struct {
		try   int
		value T
		err   error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results, begun, ended := make(chan result, n), 0, 0
	won = -1
	timer := time.NewTimer(0) // the first begins at once
	defer timer.Stop()
	for won < 0 && (begun > ended || begun < n && ctx.Err() == nil) {
		select {
		case <-timer.C:
			if begun == n || ctx.Err() != nil {
				continue
			}
			i := begun
			begun++
			go func() {
				value, err := try(ctx, i)
				results <- result{i, value, err}
			}()
			timer.Reset(stagger)
		case r := <-results:
			ended++
			switch {
			case r.err == nil:
				won, value = r.try, r.value
			case failed == nil:
				failed = r.err
			default:
				failed = fmt.Errorf("%w; %w", failed, r.err)
			}
			timer.Reset(0)
		}
	}
	cancel()
	for ; ended < begun; ended++ {
		if r := <-results; r.err == nil {
			discard(r.value)
		}
	}
	if won >= 0 {
		return won, value, nil
	}
	return won, value, cmp.Or(failed, context.Cause(ctx))
}

// To find out whether a server serves, send it a four-letter word on a separate
// connection. That needs no session, quorum or permission, and every server answers, even
// if only to say that the word is not in its whitelist.
const (
	// word asks for the server's state. It is the only word enabled by default.
	word = "srvr"
	// mostAnswer is more than the longest answer.
	mostAnswer = 4 << 10
)

// Ask reports whether a server other than the current one says that it serves, and if so
// makes it the next one to dial. A session asks before it hangs up on a silent server: if
// no other server answers, or all are as slow, hanging up costs time that the lease
// needs. Ask tries the servers in dialing order, until ctx ends.
func (d *Dialer) Ask(ctx context.Context) bool {
	w := d.connection()
	if w == nil {
		return false
	}
	others := d.cfg.Hosts.others(w.server, addressOf(w.socket))
	first := d.askEach(ctx, others)
	if first < 0 {
		return false
	}
	d.cfg.Hosts.prefer(others[first])
	return true
}

// AskAll reports whether any server says that it serves. It asks as [Dialer.Ask] does.
func (d *Dialer) AskAll(ctx context.Context) bool { return d.askEach(ctx, d.cfg.Hosts.inOrder()) >= 0 }

// askEach returns the index of the first server that says that it serves, or -1.
func (d *Dialer) askEach(ctx context.Context, servers []server) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)() //nolint:contextcheck // the dialer's end, beside the caller's
	first, _, err := firstOf(ctx, len(servers), d.stagger(),
		func(ctx context.Context, i int) (struct{}, error) {
			return struct{}{}, d.ask(ctx, servers[i])
		}, func(struct{}) {})
	if err != nil || ctx.Err() != nil {
		return -1
	}
	return first
}

// ask asks one server. It returns nil if the server serves.
func (d *Dialer) ask(ctx context.Context, s server) error {
	conn, err := d.cfg.Dial(ctx, "tcp", cmp.Or(s.addr, s.name))
	if err != nil {
		return err
	}
	socket := conn
	defer context.AfterFunc(ctx, func() { _ = socket.Close() })() // unblocks the calls below
	defer socket.Close()
	if d.cfg.TLS != nil {
		if conn, err = secure(ctx, socket, s.name, d.cfg.TLS()); err != nil {
			return err
		}
	}
	if _, err := conn.Write([]byte(word)); err != nil {
		return err
	}
	answer, _ := io.ReadAll(io.LimitReader(conn, mostAnswer)) // an incomplete answer is good enough
	if !says(answer) {
		return errors.New("it does not serve") // it would not accept a session
	}
	return nil
}

// says reports whether a server with this answer would accept a session. Without a quorum
// it would not.
func says(answer []byte) bool {
	return len(answer) > 0 && !bytes.Contains(answer, []byte("not currently serving")) &&
		!bytes.Contains(answer, []byte("Mode: read-only"))
}

// note notes why a connection failed, and reports it; nil clears it.
func (d *Dialer) note(addr string, err error) {
	d.mu.Lock()
	if d.err = err; err != nil {
		d.err = fmt.Errorf("%s: %w", addr, err)
	}
	d.mu.Unlock()
	if err != nil {
		d.link.Events.OnFailed(err)
	}
}

// LastError returns why the latest connection failed or ended, or nil while it is up. It
// is safe for concurrent use, as are the methods below.
func (d *Dialer) LastError() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// Failed returns how many consecutive attempts have failed.
func (d *Dialer) Failed() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current != nil {
		switch life, good := d.current.lifetime(); {
		case good:
			return 0
		case life > 0:
			return d.failures + 1
		}
	}
	return d.failures
}

// connection returns the current connection, or nil.
func (d *Dialer) connection() *wire {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.current
}

// Stop makes a Dial in progress, and every later one, return a farewell at once. It
// leaves the current connection alone, so that the client can still say goodbye on it.
func (d *Dialer) Stop() { d.cancel() }

// Owing returns the current connection, and since when its server has owed an answer, or
// the zero time if it owes none.
func (d *Dialer) Owing() (w *wire, since time.Time) {
	if w = d.connection(); w != nil {
		since = w.owing()
	}
	return w, since
}

// Peer returns the address of the current connection if its server's name was resolved
// here, and "" otherwise.
func (d *Dialer) Peer() string {
	w := d.connection()
	if w == nil || d.cfg.Names == nil {
		return ""
	}
	if addr := addressOf(w.socket); addr != w.server {
		return addr
	}
	return ""
}

// HardClose closes the socket of the current connection. Unless Stop was called, the
// client then dials the next server.
func (d *Dialer) HardClose() error {
	if w := d.connection(); w != nil {
		return w.hangUp()
	}
	return nil
}

// Leave prepares the current connection for a client that must end. The dialer must be
// stopped, and the client must have no request in progress. Leave reports whether the
// client can end on the connection. If not, the client dials again, and gets a farewell
// in the end.
func (d *Dialer) Leave() bool {
	w := d.connection()
	return w == nil || w.leave()
}

// addressOf returns the address of the server's end. A connection from a user's dialer
// may have none.
func addressOf(conn net.Conn) string {
	if addr := conn.RemoteAddr(); addr != nil {
		return addr.String()
	}
	return ""
}
