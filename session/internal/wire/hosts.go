package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

var _ zk.HostProvider = (*Hosts)(nil)

// errNoHosts is the error of [Hosts.Init] for an empty list.
var errNoHosts = errors.New("no servers")

// Hosts decides which server to try next: the least recently tried one. A host name in
// the connect string counts as one server per address. The dialer resolves it each time
// (see reach), so a changed DNS answer takes effect without a new client.
//
// If Next reported a complete round, the client would sleep for a fixed second, which
// only its own Close interrupts. The dialer does the waiting instead, so Next never
// reports one. That sleep is also the only place in the client's dial loop where it
// checks whether it was closed. So the dialer of a closed client must let it connect.
//
// All methods are safe for concurrent use.
type Hosts struct {
	mu      sync.Mutex
	servers []server // those of one name are adjacent
	tries   int64
}

// server is an entry of the connect string, or one of the addresses of its name.
type server struct {
	name  string
	addr  string // empty: not resolved yet, or not a host name
	tried int64  // the number of its latest try; 0: never; -1: goes first
}

// NewHosts shuffles names once, so that many clients with the same connect string spread
// over the ensemble. It does not retain names, and does not use rng after it returns.
func NewHosts(names []string, rng *rand.Rand) *Hosts {
	h := &Hosts{}
	for _, name := range names {
		h.servers = append(h.servers, server{name: name})
	}
	rng.Shuffle(len(names), func(i, j int) { h.servers[i], h.servers[j] = h.servers[j], h.servers[i] })
	return h
}

// Init is called by the client before anything else. Its list is the one the client was
// created with, but shuffled by the client; ours is kept instead.
func (h *Hosts) Init([]string) error {
	if len(h.servers) == 0 {
		return errNoHosts
	}
	return nil
}

// Len returns the number of servers.
func (h *Hosts) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.servers)
}

// Connected does nothing: the connected server is the one tried last, and so will be the
// last one to be tried again.
func (h *Hosts) Connected() {}

// byTry orders servers in the order in which to try them.
func byTry(a, b server) int { return cmp.Compare(a.tried, b.tried) }

// Next returns the name of the least recently tried server. Its second result is always
// false. A server with an address is noted as tried only when the address is dialed.
func (h *Hosts) Next() (name string, retryStart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tries++
	next := slices.MinFunc(h.servers, byTry)
	for i := range h.servers {
		if h.servers[i] == next && next.addr == "" {
			h.servers[i].tried = h.tries
		}
	}
	return next.name, false
}

// learn replaces the addresses of a name by its current ones, in random order.
func (h *Hosts) learn(name string, addrs []string, rng *rand.Rand) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var now []server
	for _, addr := range addrs {
		s := server{name: name, addr: addr}
		is := func(known server) bool { return known.name == name && known.addr == addr }
		if i := slices.IndexFunc(h.servers, is); i >= 0 {
			s = h.servers[i]
		}
		if !slices.ContainsFunc(now, is) {
			now = append(now, s)
		}
	}
	rng.Shuffle(len(now), func(i, j int) { now[i], now[j] = now[j], now[i] })
	if len(now) == 0 {
		now = []server{{name: name, tried: h.tries}}
	}
	begin := slices.IndexFunc(h.servers, func(s server) bool { return s.name == name })
	end := begin
	for end < len(h.servers) && h.servers[end].name == name {
		end++
	}
	h.servers = slices.Replace(h.servers, begin, end, now...)
}

// addresses returns the addresses of a name, in the order in which to try them.
func (h *Hosts) addresses(name string) (addrs []string) {
	for _, s := range h.inOrder() {
		if s.name == name && s.addr != "" {
			addrs = append(addrs, s.addr)
		}
	}
	return addrs
}

// others returns all servers except the one with this name and address, in the order in
// which to try them.
func (h *Hosts) others(name, addr string) []server {
	return slices.DeleteFunc(h.inOrder(), func(s server) bool {
		return s.name == name && (s.addr == addr || s.addr == "")
	})
}

func (h *Hosts) inOrder() []server {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := slices.Clone(h.servers)
	slices.SortStableFunc(all, byTry)
	return all
}

// note notes that a server is being tried.
func (h *Hosts) note(name, addr string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tries++
	h.mark(name, addr, h.tries)
}

// prefer makes a server the next one to try, once.
func (h *Hosts) prefer(s server) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mark(s.name, s.addr, -1)
}

// mark is called with mu held. The server may be gone.
func (h *Hosts) mark(name, addr string, tried int64) {
	for i, s := range h.servers {
		if s.name == name && s.addr == addr {
			h.servers[i].tried = tried
		}
	}
}

// LookupFunc resolves a host name like [net.Resolver.LookupNetIP].
type LookupFunc func(ctx context.Context, network, host string) ([]netip.Addr, error)

// lookupMax is the maximum time of a lookup. Go's resolver gives each name server 5 s,
// twice, for each domain of the search list.
const lookupMax = 30 * time.Second

var (
	// errNoAddress is the error of a lookup that finds nothing without an error.
	errNoAddress = errors.New("no address")
	// errNamesStopped is the error of a lookup requested after Stop.
	errNamesStopped = errors.New("closed")
)

// Names looks up the host names of a connect string, for all clients of a session. A
// lookup is independent of attempts to connect: an attempt that cannot wait for it leaves
// it running, and the next one finds it or its result. There is at most one lookup at a
// time per name.
//
// All methods are safe for concurrent use.
type Names struct {
	lookup LookupFunc
	start  func(func()) bool
	ctx    context.Context // ends with Stop
	cancel context.CancelFunc

	mu       sync.Mutex
	ended    uint64             // how many lookups have ended, for all names
	underWay map[string]*lookup // by host
	latest   map[string]*lookup // by host, the latest completed one
}

// lookup is one lookup. Its result may be read once it has ended.
type lookup struct {
	done   chan struct{} // closed when it has ended
	number uint64        // among the completed lookups, starting at 1
	found  []netip.Addr
	err    error
}

// NewNames returns Names whose lookups are run by start; see [Events]. If resolve is nil,
// the system's resolver is used.
func NewNames(resolve LookupFunc, start func(func()) bool) *Names {
	n := &Names{lookup: resolve, start: start, underWay: map[string]*lookup{}, latest: map[string]*lookup{}}
	if n.lookup == nil {
		n.lookup = net.DefaultResolver.LookupNetIP
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	return n
}

// Stop ends the lookups in progress, and prevents new ones.
func (n *Names) Stop() { n.cancel() }

// count returns how many lookups have ended.
func (n *Names) count() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ended
}

// last returns the host's latest completed lookup, or an empty one.
func (n *Names) last(host string) lookup {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.latest[host]; l != nil {
		return *l
	}
	return lookup{}
}

// find returns the lookup of the host that is in progress, or starts one.
func (n *Names) find(host string) *lookup {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.underWay[host]; l != nil {
		return l
	}
	l := &lookup{done: make(chan struct{})}
	n.underWay[host] = l
	if n.ctx.Err() != nil || !n.start(func() { n.run(l, host) }) {
		n.end(l, host, nil, errNamesStopped)
	}
	return l
}

func (n *Names) run(l *lookup, host string) {
	ctx, cancel := context.WithTimeout(n.ctx, lookupMax)
	defer cancel()
	found, err := n.lookup(ctx, "ip", host)
	switch {
	case err == nil && len(found) == 0:
		err = errNoAddress
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("name not resolved in %v: %w", lookupMax, err)
	case err != nil:
		conf, unread := os.ReadFile(resolverFile)
		err = nobodyToAsk(err, conf, unread)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.end(l, host, found, err)
}

// end is called with mu held.
func (n *Names) end(l *lookup, host string, found []netip.Addr, err error) {
	n.ended++
	l.number, l.found, l.err = n.ended, found, err
	n.latest[host] = l
	delete(n.underWay, host)
	close(l.done)
}

// resolverFile lists the name servers for Go's resolver.
const resolverFile = "/etc/resolv.conf"

// nobodyToAsk adds to a lookup's error that no name server is configured. Go's resolver
// then asks this machine, and its error mentions only that.
func nobodyToAsk(err error, conf []byte, unread error) error {
	asked := new(net.DNSError)
	if !errors.As(err, &asked) || asked.Server != "127.0.0.1:53" && asked.Server != "[::1]:53" {
		return err
	}
	if unread != nil {
		return fmt.Errorf("%w (no name server is configured: %w)", err, unread)
	}
	for line := range strings.Lines(string(conf)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "nameserver" {
			return err
		}
	}
	return fmt.Errorf("%w (no name server is configured: %s has none)", err, resolverFile)
}
