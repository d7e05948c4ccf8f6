package wire

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"
)

var _ zk.HostProvider = (*Hosts)(nil)

// errNoHosts is the answer of [Hosts.Init] to an empty list.
var errNoHosts = errors.New("no servers")

// Hosts tells the client which server to try next. It keeps names: whoever dials resolves them, every time,
// so a changed DNS answer is followed without a new client.
//
// The client sleeps a fixed second, which nothing but its own Close interrupts, whenever Next reports that a round
// is complete. Waiting is the dialer's business, so Next never reports it. That sleep is also the only place in its dial
// loop where the client looks whether it has been closed, and so the dialer of a closed client has to let it connect.
//
// All methods are safe for concurrent use.
type Hosts struct {
	mu    sync.Mutex
	names []string
	next  int
}

// NewHosts shuffles names once, so that many clients with the same connect string spread over the ensemble.
// It keeps no reference to names and does not use rng after it has returned.
func NewHosts(names []string, rng *rand.Rand) *Hosts {
	names = slices.Clone(names)
	rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return &Hosts{names: names}
}

// Init is called by the client before anything else. The list it hands over is the one it was created with, but
// shuffled by its own random source; ours is kept instead.
func (h *Hosts) Init([]string) error {
	if h.Len() == 0 {
		return errNoHosts
	}
	return nil
}

// Len returns the number of servers.
func (h *Hosts) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.names)
}

// Next returns the servers in turn, for ever. Its second result is always false.
func (h *Hosts) Next() (server string, retryStart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	server = h.names[h.next]
	h.next = (h.next + 1) % len(h.names)
	return server, false
}

// Connected does nothing: after a connection has been lost its server is the last one to try again, and the
// ring is in that order already.
func (h *Hosts) Connected() {}
