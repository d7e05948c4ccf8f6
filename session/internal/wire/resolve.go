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

// mostStagger is for how long an address may stay silent before the next one is dialled beside it. [net.Dialer] waits as long before it
// tries the other family of addresses.
const mostStagger = 300 * time.Millisecond

// errSlow is why an attempt has no answer of a lookup: it goes on.
var errSlow = errors.New("name not resolved yet")

// reach connects to a server of the connect string. It resolves the server's name each time. [knowledge.source] says which addresses
// stand in while the lookup goes on, or when it has failed.
func (d *Dialer) reach(ctx context.Context, network, server string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(server)
	if _, noLiteral := netip.ParseAddr(host); d.names == nil || err != nil || noLiteral == nil {
		return d.dial(ctx, network, server)
	}
	lookup := d.names.find(host) //nolint:contextcheck // a lookup outlasts the attempt
	standIns, _ := d.addresses(server, host, port)
	var slow <-chan time.Time
	if len(standIns) > 0 {
		slow = time.After(d.Timeout() / 10)
	}
	select {
	case <-lookup.done:
		addrs, failed := d.addresses(server, host, port)
		switch {
		case failed == nil:
			return d.race(ctx, network, server, addrs)
		case len(addrs) == 0:
			return nil, failed
		}
		d.link.unresolved(server, failed)
		conn, err := d.race(ctx, network, server, addrs)
		if err != nil {
			err = fmt.Errorf("%w; addresses known before: %w", failed, err)
		}
		return conn, err
	case <-slow:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", errSlow, context.Cause(ctx))
	}

	d.link.unresolved(server, errSlow)
	conn, failed := d.race(ctx, network, server, standIns)
	if failed == nil {
		return conn, nil
	}
	failed = fmt.Errorf("%w; addresses known before: %w", errSlow, failed)
	select {
	case <-lookup.done:
	case <-ctx.Done():
		return nil, failed
	}
	addrs, err := d.addresses(server, host, port)
	if err != nil {
		return nil, fmt.Errorf("%w; %w", err, failed)
	}
	return d.race(ctx, network, server, addrs)
}

// addresses returns which addresses of a name to dial, in order, and why the latest lookup has failed, if it has.
func (d *Dialer) addresses(server, host, port string) (addrs []string, failed error) {
	last := d.names.last(host)
	k := knowledge{resumes: d.link.Session() != 0, began: d.began, ended: last.number, failed: last.err != nil}
	switch k.source() {
	case fromLatest:
		for _, addr := range last.found {
			addrs = append(addrs, net.JoinHostPort(addr.Unmap().String(), port))
		}
		d.hosts.learn(server, addrs, d.rng)
	case fromNone:
		d.hosts.learn(server, nil, d.rng)
	case fromBefore:
	}
	return d.hosts.addresses(server), last.err
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
