package program

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// ZooKeeper is the servers that an example uses: real ones, or one inside the program.
type ZooKeeper struct {
	// Servers is the connect string.
	Servers string
	// Timeout is the session timeout to ask for.
	Timeout time.Duration
	// Inside is the server inside the program, or nil for real ones.
	Inside *zktest.Server

	ours bool
}

// Open returns the servers of the connect string. If it is empty, Open starts a server in
// this process.
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

// Within wraps a server that the caller has started and will close.
func Within(server *zktest.Server, timeout time.Duration) *ZooKeeper {
	return &ZooKeeper{Servers: server.Addr(), Timeout: timeout, Inside: server}
}

// Options returns what coordinator.Connect needs besides the list of servers: the session
// timeout, and the in-memory dialer for a server inside the program.
func (z *ZooKeeper) Options() []coordinator.Option {
	options := []coordinator.Option{coordinator.WithSessionTimeout(z.Timeout)}
	if z.Inside != nil {
		options = append(options, z.Inside.Option())
	}
	return options
}

// Process represents one process of a program that has several: it connects, calls f with
// the coordinator, and closes it. It returns no error if ctx has ended.
func (z *ZooKeeper) Process(ctx context.Context, f func(*coordinator.Coordinator) error) error {
	c, err := coordinator.Connect(ctx, z.Servers, z.Options()...)
	if err == nil {
		err = f(c)
		_ = c.Close() // if no server is reachable, the session times out
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the error follows from the end of ctx
	}
	return err
}

// Client connects a plain ZooKeeper client, for data instead of locks. The coordinators'
// paths are relative to root. The caller must call closed.
func (z *ZooKeeper) Client() (conn *zk.Conn, root string, closed func(), err error) {
	servers, err := session.ParseConnectString(z.Servers)
	if err != nil {
		return nil, "", nil, err
	}
	conn, news, err := zk.Connect(servers.Hosts, z.Timeout, zk.WithLogger(log.New(io.Discard, "", 0)),
		zk.WithDialer(func(network, address string, timeout time.Duration) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			return z.dial(ctx, network, address)
		}))
	if err != nil {
		return nil, "", nil, err
	}
	return conn, servers.Chroot, func() {
		conn.Close()
		for range news { // ends when the client's goroutines have ended
		}
	}, nil
}

// dial connects to one of the servers.
func (z *ZooKeeper) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if z.Inside != nil {
		return z.Inside.DialContext(ctx, network, address)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// Close stops the server if Open has started it.
func (z *ZooKeeper) Close() {
	if z.ours {
		z.Inside.Close()
	}
}

// String names the servers.
func (z *ZooKeeper) String() string {
	if z.Inside != nil {
		return "a ZooKeeper inside this program, at " + z.Servers
	}
	return "ZooKeeper at " + z.Servers
}
