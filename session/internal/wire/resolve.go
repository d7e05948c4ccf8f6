package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// This file is about the way from a name in the connect string to a connection. A name may have several addresses, as that of a headless
// service in Kubernetes has; each is a server of its own.

// LookupFunc resolves a host's name, as [net.Resolver.LookupNetIP] does.
type LookupFunc func(ctx context.Context, network, host string) ([]netip.Addr, error)

// errNoAddress is the error of a lookup that finds nothing and has no error.
var errNoAddress = errors.New("no address")

// mostStagger is for how long an address may stay silent before the next one is dialled beside it. [net.Dialer] waits as long before it
// tries the other family of addresses.
const mostStagger = 300 * time.Millisecond

// errSlow is why the addresses known before are dialled while the name is still being resolved.
var errSlow = errors.New("name not resolved yet")

// reach connects to a server of the connect string. It resolves the server's name each time.
//
// If the name cannot be resolved, or not soon, and there is a session to go on with, the earlier addresses are dialled. A new session
// begins only at the present addresses: an earlier address may belong to another ensemble now, which knows nothing of the session and
// would give out the same locks.
func (d *Dialer) reach(ctx context.Context, network, server string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(server)
	if _, noLiteral := netip.ParseAddr(host); d.lookup == nil || err != nil || noLiteral == nil {
		return d.dial(ctx, network, server)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answer := make(chan resolved, 1)
	go func() { answer <- d.resolve(ctx, host, port) }()
	var known []string
	var slow <-chan time.Time
	if d.link.Session() != 0 {
		if known = d.hosts.addresses(server); len(known) > 0 {
			slow = time.After(d.Timeout() / 10)
		}
	}
	now := resolved{err: errSlow}
	select {
	case now = <-answer:
		slow = nil
	case <-slow:
	}
	if now.err == nil || len(known) == 0 {
		return d.follow(ctx, network, server, now)
	}
	d.link.unresolved(server, now.err)
	conn, err := d.race(ctx, network, server, known)
	if slow != nil {
		if err == nil {
			cancel()
		}
		now = <-answer // the lookup answers when its context ends
	}
	switch {
	case err == nil:
		return conn, nil
	case now.err == nil:
		return d.follow(ctx, network, server, now)
	default:
		return nil, fmt.Errorf("%w; addresses known before: %w", now.err, err)
	}
}

// resolved is the result of a lookup.
type resolved struct {
	addrs []string // host:port
	err   error
}

// resolve looks a name up.
func (d *Dialer) resolve(ctx context.Context, host, port string) (r resolved) {
	found, err := d.lookup(ctx, "ip", host)
	if err == nil && len(found) == 0 {
		err = errNoAddress
	}
	for _, addr := range found {
		r.addrs = append(r.addrs, net.JoinHostPort(addr.Unmap().String(), port))
	}
	r.err = err
	return r
}

// follow connects to the present addresses of a name.
func (d *Dialer) follow(ctx context.Context, network, server string, now resolved) (net.Conn, error) {
	d.hosts.learn(server, now.addrs, d.rng)
	if now.err != nil {
		return nil, now.err
	}
	return d.race(ctx, network, server, d.hosts.addresses(server))
}

// race connects to the first of the addresses that answers. The next one is dialled when one fails, or is silent for a moment: a dead
// address costs that moment, not all of the attempt. When race returns, the connection is the only one that is open, and no dial is
// under way.
func (d *Dialer) race(ctx context.Context, network, server string, addrs []string) (won net.Conn, failed error) {
	type result struct {
		addr string
		conn net.Conn
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results, running := make(chan result, len(addrs)), 0
	stagger := time.NewTimer(0) // the first begins at once
	defer stagger.Stop()
	for won == nil && (running > 0 || len(addrs) > 0 && ctx.Err() == nil) {
		select {
		case <-stagger.C:
			if len(addrs) == 0 || ctx.Err() != nil {
				continue
			}
			addr := addrs[0]
			addrs, running = addrs[1:], running+1
			d.hosts.note(server, addr)
			go func() {
				conn, err := d.dial(ctx, network, addr)
				results <- result{addr, conn, err}
			}()
			stagger.Reset(min(mostStagger, d.Timeout()/20))
		case r := <-results:
			running--
			switch {
			case r.err == nil:
				won = r.conn
				d.hosts.note(server, r.addr) // the last one, also if others were dialled after it
			case failed == nil:
				failed = r.err
			default:
				failed = fmt.Errorf("%w; %w", failed, r.err)
			}
			stagger.Reset(0)
		}
	}
	cancel()
	for range running {
		if r := <-results; r.err == nil {
			_ = r.conn.Close() // it was not handed out
		}
	}
	if won != nil {
		return won, nil
	}
	if failed == nil {
		failed = context.Cause(ctx)
	}
	return nil, failed
}
