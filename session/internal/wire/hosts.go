package wire

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"
)

var _ zk.HostProvider = (*Hosts)(nil)

// errNoHosts is the answer of [Hosts.Init] to an empty list.
var errNoHosts = errors.New("no servers")

// Hosts returns which server to try next: the one that was tried the longest time ago. A name of the connect string is as many
// servers as it has addresses. The dialer resolves it each time ([Dialer.resolve]), so a changed DNS answer is followed without a new
// client.
//
// If Next reports that a round is complete, the client sleeps a fixed second, which nothing but its own Close interrupts. The dialer
// does the waiting, so Next never reports it. That sleep is also the only place in its dial loop where the client looks whether it
// has been closed. So the dialer of a closed client has to let it connect.
//
// All methods are safe for concurrent use.
type Hosts struct {
	mu    sync.Mutex
	hosts []host
	tries int64
}

// first is the number of a try by which a server goes before those that were never tried.
const first = -1

// host is an entry of the connect string.
type host struct {
	name      string
	tried     int64     // the number of its latest try; 0: never
	addresses []address // of the name; none: it is not resolved, or need not be
}

// address is one of a name's addresses.
type address struct {
	addr  string
	tried int64
}

// NewHosts shuffles names once, so that many clients with the same connect string spread over the ensemble.
// It keeps no reference to names and does not use rng after it has returned.
func NewHosts(names []string, rng *rand.Rand) *Hosts {
	h := &Hosts{}
	for _, name := range names {
		h.hosts = append(h.hosts, host{name: name})
	}
	rng.Shuffle(len(h.hosts), func(i, j int) { h.hosts[i], h.hosts[j] = h.hosts[j], h.hosts[i] })
	return h
}

// Init is called by the client before anything else. The list it hands over is the one it was created with, but
// shuffled by its own random source; ours is kept instead.
func (h *Hosts) Init([]string) error {
	if h.Len() == 0 {
		return errNoHosts
	}
	return nil
}

// Len returns the number of servers: each name counts once for each of its known addresses, or once if none is known.
func (h *Hosts) Len() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, host := range h.hosts {
		n += max(1, len(host.addresses))
	}
	return n
}

// Next returns the name of the server that was tried the longest time ago. Its second result is always false.
func (h *Hosts) Next() (server string, retryStart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := &h.hosts[0]
	for i := range h.hosts {
		if h.hosts[i].last() < next.last() {
			next = &h.hosts[i]
		}
	}
	h.tries++
	next.tried = h.tries
	return next.name, false
}

// last returns the number of the host's earliest latest try: that of its address that was tried the longest time ago.
func (h *host) last() int64 {
	if len(h.addresses) == 0 {
		return h.tried
	}
	return h.addresses[0].tried
}

// Connected does nothing: the connected server is the one that was tried last, and so the last one to be tried again.
func (h *Hosts) Connected() {}

// learn replaces the addresses of a name by its present ones. New ones come first, in a random order.
func (h *Hosts) learn(name string, addrs []string, rng *rand.Rand) {
	h.mu.Lock()
	defer h.mu.Unlock()
	host := h.find(name)
	now := make([]address, 0, len(addrs))
	for _, addr := range addrs {
		if slices.ContainsFunc(now, func(a address) bool { return a.addr == addr }) {
			continue
		}
		a := address{addr: addr}
		if i := slices.IndexFunc(host.addresses, func(known address) bool { return known.addr == addr }); i >= 0 {
			a = host.addresses[i]
		}
		now = append(now, a)
	}
	rng.Shuffle(len(now), func(i, j int) { now[i], now[j] = now[j], now[i] })
	host.addresses = now
	host.sort()
}

// addresses returns the addresses of a name, in the order in which to try them.
func (h *Hosts) addresses(name string) (addrs []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.find(name).addresses {
		addrs = append(addrs, a.addr)
	}
	return addrs
}

// note notes a try of an address.
func (h *Hosts) note(name, addr string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	host := h.find(name)
	h.tries++
	for i := range host.addresses {
		if host.addresses[i].addr == addr {
			host.addresses[i].tried = h.tries
		}
	}
	host.sort()
}

// find returns the entry of a name, which is one of the connect string. It is called with mu held.
func (h *Hosts) find(name string) *host {
	return &h.hosts[slices.IndexFunc(h.hosts, func(host host) bool { return host.name == name })]
}

// sort brings the addresses into the order of their latest tries.
func (h *host) sort() {
	slices.SortStableFunc(h.addresses, func(a, b address) int { return cmp.Compare(a.tried, b.tried) })
}
