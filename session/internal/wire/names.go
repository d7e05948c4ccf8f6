package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"
)

// LookupFunc resolves a host's name, as [net.Resolver.LookupNetIP] does.
type LookupFunc func(ctx context.Context, network, host string) ([]netip.Addr, error)

// lookupMax bounds a lookup. Go's resolver gives each name server 5 s, twice, and does so for
// each domain of the search list.
const lookupMax = 30 * time.Second

var (
	// errNoAddress is the error of a lookup that finds nothing and has no error.
	errNoAddress = errors.New("no address")
	// errNamesStopped is the error of a lookup that is asked for after Stop.
	errNamesStopped = errors.New("closed")
)

// Names looks up the names of a connect string, for all clients of a session. A lookup belongs
// to no attempt to connect: an attempt that cannot wait for it leaves it running, and the next
// one finds it, or its answer. There is at most one at a time for each name.
//
// All methods are safe for concurrent use.
type Names struct {
	lookup LookupFunc
	start  func(func()) bool
	ctx    context.Context // ends with Stop
	cancel context.CancelFunc

	mu      sync.Mutex
	ended   uint64              // how many lookups have ended, of any name
	flights map[string]*flight  // by host, the lookups under way
	latest  map[string]resolved // by host, the latest lookup that has ended
}

// flight is a lookup under way. The channel is closed when it has ended.
type flight struct{ done chan struct{} }

// resolved is the result of a lookup.
type resolved struct {
	number uint64 // among the lookups that have ended, from 1; 0: none has
	found  []netip.Addr
	err    error
}

// NewNames returns names that start runs the lookups of; see [Events]. A nil lookup is the
// system's, a nil start the go statement.
func NewNames(lookup LookupFunc, start func(func()) bool) *Names {
	n := &Names{lookup: lookup, start: start, flights: map[string]*flight{}, latest: map[string]resolved{}}
	if n.lookup == nil {
		n.lookup = net.DefaultResolver.LookupNetIP
	}
	if n.start == nil {
		n.start = func(run func()) bool { go run(); return true }
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	return n
}

// Stop ends the lookups under way. No later one begins.
func (n *Names) Stop() { n.cancel() }

// count returns how many lookups have ended.
func (n *Names) count() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ended
}

// find returns a lookup of the host that is under way, and begins one if there is none.
func (n *Names) find(host string) *flight {
	n.mu.Lock()
	defer n.mu.Unlock()
	if f := n.flights[host]; f != nil {
		return f
	}
	f := &flight{make(chan struct{})}
	n.flights[host] = f
	if n.ctx.Err() != nil || !n.start(func() { n.run(f, host) }) {
		n.end(f, host, nil, errNamesStopped)
	}
	return f
}

func (n *Names) run(f *flight, host string) {
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
	n.end(f, host, found, err)
}

// resolverFile names the name servers for Go's resolver.
const resolverFile = "/etc/resolv.conf"

// nobodyToAsk adds to the error of a lookup that the resolver has no name server to ask. Go's
// resolver then asks this machine, and its error tells of that one alone.
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

// end is called with mu held.
func (n *Names) end(f *flight, host string, found []netip.Addr, err error) {
	n.ended++
	n.latest[host] = resolved{n.ended, found, err}
	delete(n.flights, host)
	close(f.done)
}

// last returns the answer of the host's latest lookup that has ended.
func (n *Names) last(host string) resolved {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.latest[host]
}

// source is where the addresses come from that an attempt dials.
type source uint8

const (
	fromNone   source = iota // there are none to dial
	fromLatest               // the answer of the latest lookup that has ended
	fromBefore               // what earlier lookups have found
)

// knowledge is what an attempt knows of a name.
type knowledge struct {
	resumes bool   // the attempt goes on with a session that may still live
	began   uint64 // how many lookups had ended when the client began, which the session before it did not see
	ended   uint64 // the number of the latest lookup that has ended; 0: none has
	failed  bool   // that one has failed
}

// source decides which addresses may be dialled. A new session begins only at addresses from a
// lookup that ended after the session before it, and only while no later lookup has failed. An
// address from before may belong to another ensemble now, which would grant the same locks:
//
//  1. The session ends. Its locks are granted to others.
//  2. Meanwhile the servers have moved, and other ones have got their addresses.
//  3. A session with those grants the locks once more.
//
// A session that may still live can be resumed at any address: only its own ensemble knows it.
func (k knowledge) source() source {
	switch {
	case k.ended > k.began && !k.failed:
		return fromLatest
	case k.resumes:
		return fromBefore
	default:
		return fromNone
	}
}
