package coordinator_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// names answers every lookup. session/internal/wire tests what a session does with the
// answers.
type names struct {
	lookups, going atomic.Int32 // in total, and under way

	mu    sync.Mutex
	takes time.Duration // how long a lookup takes
	err   error
	addrs []netip.Addr
}

// newNames returns names that resolve to the addresses.
func newNames(takes time.Duration, addrs ...string) *names {
	n := &names{}
	n.set(takes, nil, addrs...)
	return n
}

// set changes the answers.
func (n *names) set(takes time.Duration, err error, addrs ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.takes, n.err, n.addrs = takes, err, nil
	for _, addr := range addrs {
		n.addrs = append(n.addrs, netip.MustParseAddr(addr))
	}
}

func (n *names) lookup(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	n.lookups.Add(1)
	n.going.Add(1)
	defer n.going.Add(-1)
	n.mu.Lock()
	takes := n.takes
	n.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.addrs, n.err
}

// option makes a coordinator look up names here, and dial the double unless srv is nil.
func (n *names) option(srv *zktest.Server) coordinator.Option {
	return session.OptionFunc(func(c *session.Config) {
		c.Lookup = n.lookup
		if srv != nil {
			c.Dial = srv.DialContext
		}
	})
}

// TestASlowLookupEndsInASession: Go's resolver waits 5 s for a silent name server before
// it asks the next one. That is longer than an attempt to connect takes, so the lookup
// outlives the attempt, and later attempts do not restart it.
func TestASlowLookupEndsInASession(t *testing.T) {
	for _, timeout := range []time.Duration{time.Second, 4 * time.Second, 10 * time.Second, 16 * time.Second, time.Minute} {
		coordtest.Case(t, timeout.String(), func(t *testing.T, srv *zktest.Server) {
			const takes = 5 * time.Second
			n := newNames(takes, "127.0.0.1")
			start := time.Now()
			ctx := within(t, time.Hour)
			c, err := coordinator.Connect(ctx, "zk.test:2181", n.option(srv), coordinator.WithSessionTimeout(timeout))
			eventstest.Must(t, err)
			defer func() { eventstest.Check(t, c.Close()) }()
			took, lookups := time.Since(start), n.lookups.Load()
			// An attempt may end, and a pause follow it, just when the lookup ends.
			expect(t, took <= takes+2*time.Second, "a session after %v, want it after the lookup's %v", took, takes)
			expect(t, lookups <= 2, "%d lookups, want one, and one more by the attempt that connects", lookups)

			// During a session, the earlier addresses are used at once.
			held, _ := coordtest.Hold(t, c.Mutex(lockPath))
			session := c.SessionID()
			time.Sleep(timeout / 2) // from then on it counts as a good connection
			srv.CutAll()
			time.Sleep(timeout / 2)
			coordtest.NotLost(t, held)
			expectEqual(t, c.State(), coordinator.StateConnected, "the state half a timeout after the cut")
			expectEqual(t, c.SessionID(), session, "the session after the cut")

			// A new session waits for its own lookup.
			expire(t, srv, c)
			expired := time.Now()
			<-held.Lost()
			_, err = c.Mutex(lockPath).Hold(t.Context())
			eventstest.Must(t, err)
			took = time.Since(expired)
			expect(t, took <= takes+3*time.Second, "a Grant after %v, want it after the lookup's %v", took, takes)
		})
	}
}

// TestALookupThatNeverEndsIsGivenUp: a lookup has its own time limit, and the error says
// that the name was not resolved.
func TestALookupThatNeverEndsIsGivenUp(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		n := newNames(time.Hour, "127.0.0.1")
		_, err := coordinator.Connect(within(t, 65*time.Second), "zk.test:2181", n.option(srv))
		expect(t, err != nil && strings.Contains(err.Error(), "zk.test:2181: name not resolved "),
			"Connect = %v, want it to say that the name is not resolved", err)
		expectEqual(t, n.lookups.Load(), 3, "lookups in 65 s, of which each ends after 30 s")
	})
}

// TestCloseEndsALookup at once, even one that is under way during a connection.
func TestCloseEndsALookup(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		n := newNames(0, "127.0.0.1")
		connected, err := coordinator.Connect(t.Context(), "zk.test:2181", n.option(srv))
		eventstest.Must(t, err)
		n.set(time.Hour, nil, "127.0.0.1")
		trying, err := coordinator.Open("zk.test:2181", n.option(srv))
		eventstest.Must(t, err)
		srv.CutAll()
		time.Sleep(2 * time.Second)
		expectEqual(t, n.going.Load(), 2, "lookups under way")
		expectEqual(t, connected.State(), coordinator.StateConnected, "the state of the first session")
		start := time.Now()
		eventstest.Check(t, connected.Close())
		eventstest.Check(t, trying.Close())
		synctest.Wait()
		expectEqual(t, n.going.Load(), 0, "lookups under way after Close")
		expect(t, time.Since(start) <= time.Second, "Close took %v, want a second at most", time.Since(start))
	})
}

// TestRealHeadlessService: three servers share one name and port, as behind a headless
// service of Kubernetes. A lock is held throughout, while servers die and hang and the
// name resolves to another address or to none.
func TestRealHeadlessService(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel() // it mostly waits for servers
	hosts := []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"}
	for _, host := range hosts {
		if l, err := net.Listen("tcp", net.JoinHostPort(host, "0")); err != nil {
			t.Skipf("this system has no %s: %v; give the loopback interface this address (ifconfig lo0 alias %[1]s), or use Linux", host, err)
		} else {
			eventstest.Must(t, l.Close())
		}
	}
	e := ensemble.Start(t, len(hosts), ensemble.At(hosts...))
	followers, err := e.Followers(coordtest.RealContext(t))
	eventstest.Must(t, err)
	one, two := followers[0], followers[1]
	_, port, err := net.SplitHostPort(e.Addr(one))
	eventstest.Must(t, err)
	core, logs := observer.New(zap.DebugLevel)
	n := newNames(0, hosts[one])
	c := coordtest.ConnectReal(t, "zk.test:"+port, n.option(nil), coordinator.WithLogger(zap.New(core)))
	a, grant := coordtest.HoldReal(t, c.Mutex(lockPath))
	servers := func() (seen []string) {
		for _, line := range logs.All() {
			if line.Message == "session established" || line.Message == "session resumed" {
				seen = append(seen, fmt.Sprint(line.ContextMap()["server"]))
			}
		}
		return seen
	}
	failed := func() int { return logs.FilterMessage("name not resolved; dialing its earlier addresses").Len() }
	from, to := one, two
	for _, x := range []struct {
		what       string
		away, back func(i int) error // applied to the session's server
		takes      time.Duration     // how long a lookup takes
		err        error
		leads      []string // the addresses of the name
	}{
		{what: "the name leads elsewhere", away: e.Kill, back: e.Restart, leads: []string{hosts[two]}},
		{what: "the name has two addresses", away: e.Kill, back: e.Restart, leads: []string{hosts[one], hosts[two]}},
		{what: "a server hangs", away: e.Stop, back: e.Cont, leads: []string{hosts[one], hosts[two]}},
		{what: "the name has vanished", away: e.Kill, back: e.Restart, err: &net.DNSError{Err: "no such host", Name: "zk.test", IsNotFound: true}},
		{what: "no name server answers", away: e.Kill, back: e.Restart, takes: time.Hour},
	} {
		n.set(x.takes, x.err, x.leads...)
		before, fails := len(servers()), failed()
		eventstest.Must(t, x.away(from))
		eventstest.Eventually(t, x.what+": the session has another server", func() bool { return len(servers()) > before })
		if now, want := servers(), fmt.Sprintf("zk.test:%s at %s", port, e.Addr(to)); now[len(now)-1] != want {
			t.Fatalf("%s: the session was on %q, want %s at the end", x.what, now, want)
		}
		expectEqual(t, failed() > fails, x.leads == nil, "%s: the log tells of a lookup that failed", x.what)
		coordtest.NotLost(t, a)
		eventstest.Must(t, x.back(from))
		eventstest.Must(t, e.Wait(coordtest.RealContext(t)))
		from, to = to, from
	}
	coordtest.End(a)
	_, again := coordtest.HoldReal(t, c.Mutex(lockPath))
	expectEqual(t, again.Session, grant.Session, "the session in the end")
}

// TestRealIPv6 uses a server that only listens on ::1.
func TestRealIPv6(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel()
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skipf("this system has no IPv6: %v; enable it for the loopback interface", err)
	}
	eventstest.Must(t, l.Close())
	e := ensemble.Start(t, 1, ensemble.At("::1"))
	_, port, err := net.SplitHostPort(e.Addr(0))
	eventstest.Must(t, err)
	six, both := newNames(0, "::1"), newNames(0, "127.0.0.1", "::1")
	for servers, names := range map[string]*names{
		"[::1]:" + port: six, "[0:0::1]:" + port: six, "[::1%lo]:" + port: six, "six.test:" + port: six, "both.test:" + port: both,
		"127.0.0.1:" + port + ",[::1]:" + port: six,
	} {
		for range 4 { // the order of addresses is random
			holdAgainAndAgain(t, coordtest.ConnectReal(t, servers, names.option(nil)).Mutex(lockPath), 1)
		}
	}
}
