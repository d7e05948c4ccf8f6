package program

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// ZooKeeper is where an example's locks are: servers that somebody runs, or one
// inside the program.
type ZooKeeper struct {
	// Servers is the connect string.
	Servers string
	// Timeout is what sessions ask for.
	Timeout time.Duration
	// Inside is the server inside the program; nil for real ones.
	Inside *zktest.Server

	ours bool
}

// Open returns the servers of a connect string, or starts one in this process if
// the string is empty.
func Open(servers string, timeout time.Duration) (*ZooKeeper, error) {
	if servers != "" {
		return &ZooKeeper{Servers: servers, Timeout: timeout}, nil
	}
	server, err := zktest.New()
	if err != nil {
		return nil, fmt.Errorf("starting a server: %w", err)
	}
	z := Within(server, timeout)
	z.ours = true
	return z, nil
}

// Within returns a server that was started by somebody else, who will close it.
func Within(server *zktest.Server, timeout time.Duration) *ZooKeeper {
	return &ZooKeeper{Servers: server.Addr(), Timeout: timeout, Inside: server}
}

// Options are what coordinator.Connect needs besides the list of servers: the
// session timeout, and the way to a server inside the program, which is in memory.
func (z *ZooKeeper) Options() []coordinator.Option {
	options := []coordinator.Option{coordinator.WithSessionTimeout(z.Timeout)}
	if z.Inside != nil {
		options = append(options, z.Inside.Option())
	}
	return options
}

// dial connects to one of the servers.
func (z *ZooKeeper) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if z.Inside != nil {
		return z.Inside.DialContext(ctx, network, address)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// Close ends the server that Open started.
func (z *ZooKeeper) Close() {
	if z.ours {
		z.Inside.Close()
	}
}

// String says where it is.
func (z *ZooKeeper) String() string {
	if z.Inside != nil {
		return "a ZooKeeper inside this program, at " + z.Servers
	}
	return "ZooKeeper at " + z.Servers
}
