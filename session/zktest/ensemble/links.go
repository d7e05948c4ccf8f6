package ensemble

import (
	"net"
	"strconv"
	"testing"
)

// Links are the connections between the servers of an ensemble, each through a [Proxy].
// They can isolate a server from the others while its clients stay connected.
//
// Elections use their own ports and bypass the proxies. So an isolated server that looks
// for a leader finds one, and then fails to follow it.
type Links struct {
	tb      testing.TB
	proxies map[link]*Proxy
}

// link is the connection that one server makes to another.
type link struct{ from, to int }

// NewLinks returns links for an ensemble that is started with their Setting. The proxies
// end with the test.
func NewLinks(tb testing.TB) *Links {
	tb.Helper()
	return &Links{tb: tb, proxies: map[link]*Proxy{}}
}

// Setting makes the servers talk to each other through the proxies.
func (l *Links) Setting() Setting {
	return QuorumVia(func(from, to, port int) int {
		l.tb.Helper()
		// If the start is repeated, the servers have other ports, and the previous
		// proxies are never dialed again.
		p := StartProxy(l.tb, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		l.proxies[link{from, to}] = p
		return p.listener.Addr().(*net.TCPAddr).Port
	})
}

// Isolate separates server i from the others: connections stay open, and nothing passes.
func (l *Links) Isolate(i int) {
	for _, p := range l.of(i) {
		p.Hold(BothWays)
	}
}

// Cut is [Links.Isolate] for the link between two servers. Healing either server ends it.
func (l *Links) Cut(i, j int) {
	for _, way := range []link{{i, j}, {j, i}} {
		l.proxies[way].Hold(BothWays)
	}
}

// Heal ends Isolate and Cut for server i, and delivers what was held.
func (l *Links) Heal(i int) {
	for _, p := range l.of(i) {
		p.Heal()
	}
}

// of returns the proxies from and to server i.
func (l *Links) of(i int) []*Proxy {
	var all []*Proxy
	for way, p := range l.proxies {
		if way.from == i || way.to == i {
			all = append(all, p)
		}
	}
	return all
}
