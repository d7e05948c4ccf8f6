package coordinator_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

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
	names := startNameServer(t)
	core, logs := observer.New(zap.DebugLevel)
	on := func(i int) string { return fmt.Sprintf("zk.test:%s at %s", port, e.Addr(i)) }

	names.set("zk.test", hosts[one])
	c := coordtest.ConnectReal(t, "zk.test:"+port, names.option(), coordinator.WithLogger(zap.New(core)))
	a, grant := coordtest.Hold(t, c.Mutex(lockPath))
	servers := func() (seen []string) {
		for _, line := range logs.All() {
			if line.Message == "session established" || line.Message == "session resumed" {
				seen = append(seen, fmt.Sprint(line.ContextMap()["server"]))
			}
		}
		return seen
	}
	// moves takes the server away that the session is on, sees it go to the other one, and brings that back.
	moves := func(what string, away, back func(i int) error) {
		t.Helper()
		before := servers()
		from, to := one, two
		if before[len(before)-1] == on(two) {
			from, to = two, one
		}
		began := time.Now()
		eventstest.Must(t, away(from))
		eventstest.Eventually(t, what+": the session has another server", func() bool { return len(servers()) > len(before) })
		if now := servers(); now[len(now)-1] != on(to) || now[0] != on(one) {
			t.Fatalf("%s: the session was on %q, want %s at the end", what, now, on(to))
		}
		t.Logf("%s: on another server after %v", what, time.Since(began).Round(time.Millisecond))
		coordtest.NotLost(t, a)
		eventstest.Must(t, back(from))
		eventstest.Must(t, e.Wait(coordtest.RealContext(t)))
	}
	failed := func() int { return logs.FilterMessage("name not resolved; dialling the addresses known before").Len() }

	names.set("zk.test", hosts[two])
	moves("the name leads elsewhere", e.Kill, e.Restart)
	if n := failed(); n > 0 {
		t.Errorf("the log tells of %d lookups that failed, want none", n)
	}
	names.set("zk.test", hosts[one], hosts[two])
	moves("the name has two addresses", e.Kill, e.Restart)
	moves("a server hangs", e.Stop, e.Cont)
	for what, trouble := range map[string]byte{"the name has vanished": nxDomain, "the name server fails": servFail, "the name server is silent": silence} {
		before := failed()
		names.answers(trouble)
		moves(what, e.Kill, e.Restart)
		if failed() == before {
			t.Errorf("%s: the log tells of no lookup that failed, want one", what)
		}
		names.answers(noTrouble)
	}
	coordtest.End(a)
	if _, again := coordtest.Hold(t, c.Mutex(lockPath)); again.Session != grant.Session {
		t.Errorf("the session is %x, want the first one, %x", again.Session, grant.Session)
	}
}

// TestRealNamesThatLeadNowhere: the cause is in the error of Connect, and the next attempt works when the name is there.
func TestRealNamesThatLeadNowhere(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel()
	server := coordtest.Servers(t, 1).Addr(0)
	_, port, err := net.SplitHostPort(server)
	eventstest.Must(t, err)
	names := startNameServer(t)
	for trouble, want := range map[byte]string{
		nxDomain: "zk.test:" + port + ": lookup zk.test on ", servFail: "server misbehaving", silence: "name not resolved yet",
	} {
		names.answers(trouble)
		var err error
		eventstest.Eventually(t, fmt.Sprintf("Connect fails with %q", want), func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
			defer cancel()
			_, err = coordinator.Connect(ctx, "zk.test:"+port, names.option(), coordinator.WithSessionTimeout(time.Second))
			return err != nil && strings.Contains(err.Error(), want)
		}, func() string { return fmt.Sprintf("it returns %v", err) })
	}
	names.answers(noTrouble)
	names.set("zk.test", "127.0.0.9") // where nothing listens
	c, err := coordinator.Open("zk.test:"+port, names.option())
	eventstest.Must(t, err)
	defer func() { eventstest.Check(t, c.Close()) }()
	asked := names.questions()
	eventstest.Eventually(t, "the name is asked for again and again", func() bool { return names.questions() > asked+6 })
	names.set("zk.test", "127.0.0.1")
	eventstest.Must(t, c.Ready(coordtest.RealContext(t)))
}

// TestRealASilentNameServerFirst: Go's resolver waits 5 s for it in each lookup, which is longer than an attempt to connect takes.
func TestRealASilentNameServerFirst(t *testing.T) {
	eventstest.NeedsServers(t)
	if !eventstest.Full() {
		t.Skip("TestASlowLookupEndsInASession has it in virtual time; ZKGRANT_FULL=1 runs this one")
	}
	t.Parallel()
	e := coordtest.Servers(t, 1)
	_, port, err := net.SplitHostPort(e.Addr(0))
	eventstest.Must(t, err)
	mute, names := startNameServer(t), startNameServer(t)
	mute.answers(silence)
	names.set("zk.test", "127.0.0.1")
	for _, timeout := range []time.Duration{4 * time.Second, 10 * time.Second} {
		began := time.Now()
		c := coordtest.ConnectReal(t, "zk.test:"+port, names.behind(mute), coordinator.WithSessionTimeout(timeout))
		t.Logf("session timeout %v: a session after %v", timeout, time.Since(began).Round(time.Millisecond))
		held, _ := coordtest.Hold(t, c.Mutex(lockPath))
		coordtest.End(held)
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
	names := startNameServer(t)
	names.set("six.test", "::1")
	names.set("both.test", "127.0.0.1", "::1")
	for _, servers := range []string{"[::1]:" + port, "[0:0::1]:" + port, "[::1%lo]:" + port, "six.test:" + port, "both.test:" + port, "127.0.0.1:" + port + ",[::1]:" + port} {
		for range 4 { // the order of addresses is random
			c := coordtest.ConnectReal(t, servers, names.option())
			a, _ := coordtest.Hold(t, c.Mutex(lockPath))
			coordtest.End(a)
		}
	}
}
