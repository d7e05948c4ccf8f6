package ensemble

import (
	"errors"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// client connects to the servers and is closed with the test.
func client(t *testing.T, servers string) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect(strings.Split(servers, ","), 5*time.Second, zk.WithLogger(log.New(io.Discard, "", 0)))
	eventstest.Must(t, err)
	t.Cleanup(func() {
		conn.Close()
		for range events { // ends when the client's goroutines have
		}
	})
	return conn
}

// written creates the node, again and again while the ensemble has no leader or the connection drops.
func written(t *testing.T, conn *zk.Conn, path, data string) {
	t.Helper()
	eventstest.Eventually(t, "a server has created "+path, func() bool {
		_, err := conn.Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll))
		return err == nil || errors.Is(err, zk.ErrNodeExists)
	})
}

// TestOneServer shares one server among the tests that need only one.
func TestOneServer(t *testing.T) { //nolint:tparallel // one after the other, beside other tests
	eventstest.NeedsServers(t)
	t.Parallel() // it waits for servers most of the time
	e := Start(t, 1, Tick(100*time.Millisecond))
	t.Run("it says what it is and serves", func(t *testing.T) { tryStandalone(t, e) })
	t.Run("killed, it keeps its data and its address", func(t *testing.T) { tryKill(t, e) })
	t.Run("stopped, it goes on", func(t *testing.T) { tryStop(t, e) }) // the last test: the server ends stopped
}

func tryStandalone(t *testing.T, e *Ensemble) {
	t.Helper()
	ctx := t.Context()
	version, err := e.Version(ctx, 0)
	eventstest.Must(t, err)
	t.Logf("ZooKeeper %s at %s", version, e.Connect())
	if version == "" {
		t.Errorf("the version of server 0 is empty, want a number")
	}
	if leader, err := e.Leader(ctx); leader != 0 || err != nil {
		t.Errorf("leader %d, %v; want 0", leader, err)
	}
	conn := client(t, e.Connect())
	written(t, conn, "/node", "data")
	data, _, err := conn.Get("/node")
	if err != nil || string(data) != "data" {
		t.Errorf("the node holds %q, %v; want what was just written", data, err)
	}
	if _, err := conn.CreateContainer("/container", nil, zk.FlagContainer, zk.WorldACL(zk.PermAll)); err != nil {
		t.Error(err)
	}
	counters, err := e.Counters(ctx, 0)
	if err != nil || counters["zk_num_alive_connections"] < 1 {
		t.Errorf("counters %v, %v; want a connection among them", counters, err)
	}
}

// Acknowledged data survive a kill, also without fsync: the process had handed them to the operating system.
func tryKill(t *testing.T, e *Ensemble) {
	t.Helper()
	ctx := t.Context()
	addr := e.Addr(0)
	conn := client(t, e.Connect())
	written(t, conn, "/kept", "over a kill")
	for range 2 { // the second time there is nothing to kill
		eventstest.Must(t, e.Kill(0))
	}
	if _, err := e.status(ctx, 0); err == nil {
		t.Fatal("the killed server answers srvr, want no answer")
	}
	if err := e.Stop(0); err == nil {
		t.Error("Stop of the killed server = nil, want an error")
	}
	eventstest.Must(t, e.Restart(0))
	if err := e.Restart(0); err == nil {
		t.Error("Restart of the running server = nil, want an error")
	}
	eventstest.Must(t, e.Wait(ctx))
	data, _, err := client(t, addr).Get("/kept")
	if err != nil || string(data) != "over a kill" {
		t.Errorf("after the restart the node holds %q, %v; want what was written before the kill", data, err)
	}
}

func tryStop(t *testing.T, e *Ensemble) {
	t.Helper()
	ctx := t.Context()
	if err := e.Stop(0); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this system cannot stop a process; run the test on a Unix")
	} else if err != nil {
		t.Fatal(err)
	}
	if answer, err := e.status(ctx, 0); err == nil {
		t.Errorf("the stopped server answers srvr with %+v, want no answer", answer)
	}
	if err := e.Wait(ctx); err != nil {
		t.Errorf("Wait while the only server is stopped = %v, want nil", err)
	}
	eventstest.Must(t, e.Cont(0))
	eventstest.Must(t, e.Wait(ctx))
	if now, err := e.status(ctx, 0); err != nil || !now.serves() {
		t.Errorf("after Cont the status is %+v, %v; want one that serves", now, err)
	}
	eventstest.Must(t, e.Stop(0)) // the clean-up kills it in that state
}

// TestLeaderIsKilled has an ensemble of its own. Through the proxies of TestLinksIsolate an election takes long: a server
// that dials a proxy too early is not refused.
func TestLeaderIsKilled(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel() // it waits for servers most of the time
	e := Start(t, 3)
	ctx := t.Context()
	conn := client(t, e.Connect())
	written(t, conn, "/before", "")

	first, err := e.Leader(ctx)
	eventstest.Must(t, err)
	if followers, err := e.Followers(ctx); err != nil || len(followers) != 2 {
		t.Fatalf("followers %v, %v; want 2", followers, err)
	}
	eventstest.Must(t, e.Kill(first))
	begin := time.Now()
	second, err := e.Leader(ctx)
	eventstest.Must(t, err)
	t.Logf("server %d leads %v after the kill of %d", second, time.Since(begin).Round(time.Millisecond), first)
	if second == first {
		t.Fatalf("the killed server %d still leads, want another", first)
	}
	written(t, conn, "/between", "")

	begin = time.Now()
	eventstest.Must(t, e.Restart(first))
	eventstest.Must(t, e.Wait(ctx))
	t.Logf("server %d serves %v after its restart", first, time.Since(begin).Round(time.Millisecond))
	back := client(t, e.Addr(first))
	for _, path := range []string{"/before", "/between"} {
		if ok, _, err := back.Exists(path); !ok || err != nil {
			t.Errorf("the restarted server has %s: %t, %v; want it", path, ok, err)
		}
	}
	if leader, err := e.Leader(ctx); leader != second || err != nil {
		t.Errorf("leader %d, %v; want %d, which the restart does not depose", leader, err, second)
	}
}

// A server that is cut off from its leader goes on answering reads from what it knows, writes nothing, and catches up when
// it is healed.
func TestLinksIsolate(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel() // it waits for servers most of the time
	links := NewLinks(t)
	e := Start(t, 3, links.Setting(), SyncLimit(60)) // so that a server does not close a connection to another one too soon
	ctx := t.Context()
	followers, err := e.Followers(ctx)
	eventstest.Must(t, err)
	reader, writer := client(t, e.Addr(followers[0])), client(t, e.Addr(followers[0]))
	written(t, writer, "/node", "data")
	if _, _, err := reader.Get("/node"); err != nil {
		t.Fatal(err)
	}
	links.Isolate(followers[0])
	answered := make(chan error, 1)
	go func() {
		_, err := writer.Create("/isolated", nil, 0, zk.WorldACL(zk.PermAll))
		answered <- err
	}()
	written(t, client(t, e.Addr(followers[1])), "/others", "") // the others have a quorum
	if found, _, err := reader.Exists("/others"); found || err != nil {
		t.Errorf("the isolated follower shows what the others wrote: %v, %v; want it missing", found, err)
	}
	if data, _, err := reader.Get("/node"); err != nil || string(data) != "data" {
		t.Errorf("the isolated follower shows %q, %v; want the data from before the cut", data, err)
	}
	select {
	case err := <-answered:
		t.Errorf("an isolated follower answers a write with %v, want no answer", err)
	default:
	}
	links.Heal(followers[0])
	if err := eventstest.Receive(t, answered, "the answer to the write, after the healing"); err != nil {
		t.Errorf("after the healing the write ends with %v, want success", err)
	}
	eventstest.Eventually(t, "the healed follower shows what the others wrote meanwhile", func() bool {
		found, _, err := reader.Exists("/others")
		return found && err == nil
	})
}

// Each server's zoo.cfg names its own port for itself and the proxy's for the others.
func TestQuorumVia(t *testing.T) {
	servers := []*server{
		{index: 0, ports: ports{client: 11000, quorum: 11001, election: 11002}},
		{index: 1, ports: ports{client: 12000, quorum: 12001, election: 12002}},
	}
	c := newConfig([]Setting{QuorumVia(func(from, to, port int) int { return port + 100*(from+1) + 10*(to+1) })})
	for i, want := range [][]string{
		{"server.1=127.0.0.1:11001:11002\n", "server.2=127.0.0.1:12121:12002\n"},
		{"server.1=127.0.0.1:11211:11002\n", "server.2=127.0.0.1:12001:12002\n"},
	} {
		file := c.file(servers, []int{0, 1}, i)
		for _, line := range want {
			if !strings.Contains(file, line) {
				t.Errorf("server %d lacks %q:\n%s", i, line, file)
			}
		}
	}
}

// A server's zoo.cfg names the members of the list, and no other server.
func TestListOfMembers(t *testing.T) {
	servers := []*server{{index: 0}, {index: 1}, {index: 2}}
	file := newConfig(nil).file(servers, []int{0, 2}, 2)
	for line, want := range map[string]bool{"server.1=": true, "server.2=": false, "server.3=": true} {
		if got := strings.Contains(file, line); got != want {
			t.Errorf("of the members 1 and 3, the list has %s: %t, want %t:\n%s", line, got, want, file)
		}
	}
}

// Each server's zoo.cfg names the observers, and an observer's own says that it is one.
func TestObservers(t *testing.T) {
	servers := []*server{{index: 0}, {index: 1}, {index: 2}}
	c := newConfig([]Setting{Observers(1)})
	for i := range servers {
		file := c.file(servers, []int{0, 1, 2}, i)
		if got := strings.Contains(file, "peerType=observer\n"); got != (i == 2) {
			t.Errorf("server %d says that it is an observer: %v, want the last one to:\n%s", i, got, file)
		}
		if strings.Count(file, ":observer\n") != 1 || !strings.Contains(file, "server.3=127.0.0.1:0:0:observer\n") {
			t.Errorf("server %d does not name the last one, and no other, as an observer:\n%s", i, file)
		}
		if strings.Contains(file, "observerMasterPort") {
			t.Errorf("server %d has a port for an ObserverMaster that was not asked for:\n%s", i, file)
		}
	}
}

// A server that cannot start is reported with the end of its log, at once and not when the time is up, and leaves no
// process.
func TestStartFails(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel() // it waits for a server most of the time
	installation := Installed(t)
	begin := time.Now()
	e, err := Launch(t.Context(), installation, t.TempDir(), 1, Line("tickTime", "never"))
	if err == nil {
		t.Fatal(errors.Join(errors.New("a server without a tickTime runs"), e.Close()))
	}
	if !strings.Contains(err.Error(), "ended by itself") || !strings.Contains(err.Error(), "never") {
		t.Errorf("error %v; want the server's own words in it", err)
	}
	t.Logf("known after %v", time.Since(begin).Round(time.Millisecond))
	if _, err := Launch(t.Context(), installation, t.TempDir(), 0); err == nil {
		t.Error("Launch of 0 servers = nil, want an error")
	}
	if _, err := Launch(t.Context(), installation, t.TempDir(), 2, At("127.0.0.1")); err == nil {
		t.Error("Launch of 2 servers at 1 address = nil, want an error")
	}
}

// If another process has taken a port the attempt fails, and the next one uses other ports.
func TestTakenPortIsRetried(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel() // it waits for servers most of the time
	installation := Installed(t)
	var taken net.Listener
	defer func() {
		if taken != nil {
			taken.Close()
		}
	}()
	// The hook runs after the ports were picked and before a server is started.
	steal := QuorumVia(func(_, _, port int) int {
		if taken == nil {
			l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if err != nil {
				t.Error(err)
				return port
			}
			taken = l
		}
		return port
	})
	folder := t.TempDir()
	begin := time.Now()
	e, err := Launch(t.Context(), installation, folder, 2, steal)
	eventstest.Must(t, err)
	defer func() {
		eventstest.Check(t, e.Close())
	}()
	if _, err := os.Stat(filepath.Join(folder, "attempt1")); err != nil {
		t.Errorf("there was no second attempt: %v", err)
	}
	t.Logf("started after %v", time.Since(begin).Round(time.Millisecond))
}
