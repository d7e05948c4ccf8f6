package coordinator_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// names answers the lookups of every name. What a session makes of the answers is tested in session/internal/wire.
type names struct {
	mu             sync.Mutex
	takes          time.Duration // a lookup
	err            error
	addrs          []netip.Addr
	lookups, going int
}

// newNames has names lead to the loopback address.
func newNames(takes time.Duration) *names {
	n := &names{}
	n.set(takes, nil, "127.0.0.1")
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

// counts returns how many lookups there were, and how many are under way.
func (n *names) counts() (lookups, going int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lookups, n.going
}

func (n *names) lookup(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lookups++
	n.going++
	takes := n.takes
	n.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
	}
	n.mu.Lock()
	n.going--
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return n.addrs, n.err
}

// option has a coordinator look names up here, and dial the double, if there is one.
func (n *names) option(srv *zktest.Server) coordinator.Option {
	return session.OptionFunc(func(c *session.Config) {
		c.Lookup = n.lookup
		if srv != nil {
			c.Dial = srv.DialContext
		}
	})
}

// TestASlowLookupEndsInASession: Go's resolver waits 5 s for a name server that is silent before
// it asks the next one. That is longer than an attempt to connect takes, and no attempt begins
// it again.
func TestASlowLookupEndsInASession(t *testing.T) {
	for _, timeout := range []time.Duration{time.Second, 4 * time.Second, 10 * time.Second, 16 * time.Second, time.Minute} {
		t.Run(timeout.String(), func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				const takes = 5 * time.Second
				n := newNames(takes)
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				c, err := coordinator.Connect(ctx, "zk.test:2181", n.option(srv), coordinator.WithSessionTimeout(timeout))
				eventstest.Must(t, err)
				defer func() { eventstest.Check(t, c.Close()) }()
				// An attempt may have its end, and a pause after it, just when the lookup ends.
				if took := time.Since(start); took > takes+2*time.Second {
					t.Errorf("the session is there after %v, want it soon after the lookup's %v", took, takes)
				}
				if lookups, _ := n.counts(); lookups > 2 {
					t.Errorf("%d lookups, want one, and one more by the attempt that connects", lookups)
				}

				// With a session, the addresses stand in at once.
				held, _ := coordtest.Hold(t, c.Mutex(lockPath))
				before := c.SessionID()
				time.Sleep(timeout / 2) // it counts as a good connection from then on
				srv.CutAll()
				time.Sleep(timeout / 2)
				coordtest.NotLost(t, held)
				if c.State() != coordinator.StateConnected || c.SessionID() != before {
					t.Errorf("half a timeout after the cut the session is %v, %x; want the first one, connected",
						c.State(), c.SessionID())
				}

				// A new one waits for a lookup of its own.
				eventstest.Must(t, srv.Expire(c.SessionID()))
				expired := time.Now()
				<-held.Lost()
				eventstest.Must(t, c.Mutex(lockPath).Do(t.Context(), func(context.Context, events.Grant) error { return nil }))
				if took := time.Since(expired); took > takes+3*time.Second {
					t.Errorf("the next session grants after %v, want it soon after the lookup's %v",
						took, takes)
				}
			})
		})
	}
}

// TestALookupThatNeverEndsIsGivenUp: it has a bound of its own, and the error says what there is to wait for.
func TestALookupThatNeverEndsIsGivenUp(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		n := newNames(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), 65*time.Second)
		defer cancel()
		_, err := coordinator.Connect(ctx, "zk.test:2181", n.option(srv))
		if err == nil || !strings.Contains(err.Error(), "zk.test:2181: name not resolved ") {
			t.Errorf("Connect = %v, want it to say that the name is not resolved", err)
		}
		if lookups, _ := n.counts(); lookups != 3 {
			t.Errorf("%d lookups in 65 s, want 3: each of them ends after 30 s", lookups)
		}
	})
}

// TestCloseEndsALookup at once, also one that is under way beside a connection.
func TestCloseEndsALookup(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		n := newNames(0)
		connected, err := coordinator.Connect(t.Context(), "zk.test:2181", n.option(srv))
		eventstest.Must(t, err)
		n.set(time.Hour, nil, "127.0.0.1")
		trying, err := coordinator.Open("zk.test:2181", n.option(srv))
		eventstest.Must(t, err)
		srv.CutAll()
		time.Sleep(2 * time.Second)
		if _, going := n.counts(); going != 2 || connected.State() != coordinator.StateConnected {
			t.Fatalf("%d lookups are under way, and the first session is %v; want 2, and connected",
				going, connected.State())
		}
		start := time.Now()
		eventstest.Check(t, connected.Close())
		eventstest.Check(t, trying.Close())
		synctest.Wait()
		if _, going := n.counts(); going != 0 || time.Since(start) > time.Second {
			t.Errorf("after Close, which took %v, %d lookups are under way; want none, within a second",
				time.Since(start), going)
		}
	})
}

// TestRealHeadlessService: three servers have one name, and a port, as behind a headless service of Kubernetes. A lock is held all the
// time, while servers die and hang and the name leads elsewhere or nowhere.
func TestRealHeadlessService(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel() // it waits for servers most of the time
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
	n := newNames(0)
	n.set(0, nil, hosts[one])
	c := coordtest.ConnectReal(t, "zk.test:"+port, n.option(nil), coordinator.WithLogger(zap.New(core)))
	a, grant := coordtest.Hold(t, c.Mutex(lockPath))
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
		away, back func(i int) error // what happens to the server that the session is on
		takes      time.Duration     // a lookup, as set before
		err        error
		leads      []string // the name
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
		if told := failed() > fails; told != (x.leads == nil) {
			t.Errorf("%s: the log tells of a lookup that failed: %v, want %v", x.what, told, x.leads == nil)
		}
		coordtest.NotLost(t, a)
		eventstest.Must(t, x.back(from))
		eventstest.Must(t, e.Wait(coordtest.RealContext(t)))
		from, to = to, from
	}
	coordtest.End(a)
	if _, again := coordtest.Hold(t, c.Mutex(lockPath)); again.Session != grant.Session {
		t.Errorf("the session is %x, want the first one, %x", again.Session, grant.Session)
	}
}

// TestRealIPv6: a server that only ::1 leads to.
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
	six, both := newNames(0), newNames(0)
	six.set(0, nil, "::1")
	both.set(0, nil, "127.0.0.1", "::1")
	for servers, names := range map[string]*names{
		"[::1]:" + port: six, "[0:0::1]:" + port: six, "[::1%lo]:" + port: six, "six.test:" + port: six, "both.test:" + port: both,
		"127.0.0.1:" + port + ",[::1]:" + port: six,
	} {
		for range 4 { // the order of addresses is random
			holdAgainAndAgain(t, coordtest.ConnectReal(t, servers, names.option(nil)).Mutex(lockPath), 1)
		}
	}
}
