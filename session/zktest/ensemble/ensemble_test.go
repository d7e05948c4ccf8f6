package ensemble

import (
	"context"
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
)

// within bounds the waiting of a test for servers; it is never used up on a healthy machine.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// client connects to the servers and is closed with the test.
func client(t *testing.T, servers string) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect(strings.Split(servers, ","), 5*time.Second, zk.WithLogger(log.New(io.Discard, "", 0)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		for range events { // ends when the client's goroutines have
		}
	})
	return conn
}

// written creates the node, again and again while the ensemble has no leader or the connection drops.
func written(t *testing.T, ctx context.Context, conn *zk.Conn, path, data string) {
	t.Helper()
	err := poll(ctx, func() (bool, error) {
		_, err := conn.Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll))
		return err == nil || errors.Is(err, zk.ErrNodeExists), nil
	})
	if err != nil {
		t.Fatalf("creating %s: %v", path, err)
	}
}

func TestStandalone(t *testing.T) {
	e := Start(t, 1, Tick(100*time.Millisecond))
	ctx := within(t)
	version, err := e.Version(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ZooKeeper %s at %s", version, e.Connect())
	if version == "" {
		t.Error("no version")
	}
	if leader, err := e.Leader(ctx); leader != 0 || err != nil {
		t.Errorf("leader %d, %v; want 0", leader, err)
	}
	conn := client(t, e.Connect())
	written(t, ctx, conn, "/node", "data")
	data, _, err := conn.Get("/node")
	if err != nil || string(data) != "data" {
		t.Errorf("got %q, %v", data, err)
	}
	if _, err := conn.CreateContainer("/container", nil, zk.FlagContainer, zk.WorldACL(zk.PermAll)); err != nil {
		t.Error(err)
	}
	counters, err := e.Counters(ctx, 0)
	if err != nil || counters["zk_num_alive_connections"] < 1 {
		t.Errorf("counters %v, %v; want a connection among them", counters, err)
	}
}

// What was acknowledged survives a kill: without fsync, too, the process had handed it to the operating system.
func TestKilledServerKeepsItsDataAndAddress(t *testing.T) {
	e := Start(t, 1)
	ctx := within(t)
	addr := e.Addr(0)
	conn := client(t, e.Connect())
	written(t, ctx, conn, "/node", "data")
	for range 2 { // the second time there is nothing to kill
		if err := e.Kill(0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.status(ctx, 0); err == nil {
		t.Fatal("a killed server answers")
	}
	if err := e.Stop(0); err == nil {
		t.Error("a killed server could be stopped")
	}
	if err := e.Restart(0); err != nil {
		t.Fatal(err)
	}
	if err := e.Restart(0); err == nil {
		t.Error("a running server could be started once more")
	}
	if err := e.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	data, _, err := client(t, addr).Get("/node")
	if err != nil || string(data) != "data" {
		t.Errorf("got %q, %v", data, err)
	}
}

func TestStoppedServerGoesOn(t *testing.T) {
	e := Start(t, 1)
	ctx := within(t)
	if err := e.Stop(0); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this system cannot stop a process; run the test on a Unix")
	} else if err != nil {
		t.Fatal(err)
	}
	if answer, err := e.status(ctx, 0); err == nil {
		t.Errorf("a stopped server answers %+v", answer)
	}
	if err := e.Wait(ctx); err != nil {
		t.Errorf("waiting for no server: %v", err)
	}
	if err := e.Cont(0); err != nil {
		t.Fatal(err)
	}
	if err := e.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if now, err := e.status(ctx, 0); err != nil || !now.serves() {
		t.Errorf("status %+v, %v", now, err)
	}
	if err := e.Stop(0); err != nil { // and is killed in that state by the clean-up
		t.Fatal(err)
	}
}

func TestLeaderIsKilled(t *testing.T) {
	e := Start(t, 3)
	ctx := within(t)
	conn := client(t, e.Connect())
	written(t, ctx, conn, "/before", "")

	first, err := e.Leader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if followers, err := e.Followers(ctx); err != nil || len(followers) != 2 {
		t.Fatalf("followers %v, %v; want 2", followers, err)
	}
	if err := e.Kill(first); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	second, err := e.Leader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("server %d leads %v after the kill of %d", second, time.Since(begin).Round(time.Millisecond), first)
	if second == first {
		t.Fatalf("the killed server %d still leads", first)
	}
	written(t, ctx, conn, "/between", "")

	begin = time.Now()
	if err := e.Restart(first); err != nil {
		t.Fatal(err)
	}
	if err := e.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("server %d serves %v after its restart", first, time.Since(begin).Round(time.Millisecond))
	back := client(t, e.Addr(first))
	for _, path := range []string{"/before", "/between"} {
		if ok, _, err := back.Exists(path); !ok || err != nil {
			t.Errorf("%s at the restarted server: %t, %v", path, ok, err)
		}
	}
	if leader, err := e.Leader(ctx); leader != second || err != nil {
		t.Errorf("leader %d, %v; want %d, whom the restart does not depose", leader, err, second)
	}
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
		file := c.file(servers, i)
		for _, line := range want {
			if !strings.Contains(file, line) {
				t.Errorf("server %d lacks %q:\n%s", i, line, file)
			}
		}
	}
}

// A server that cannot start is reported with its own words, at once and not when the time is up, and leaves no process.
func TestStartFails(t *testing.T) {
	installation := installed(t)
	begin := time.Now()
	e, err := Launch(within(t), installation, t.TempDir(), 1, Line("tickTime", "never"))
	if err == nil {
		t.Fatal(errors.Join(errors.New("a server without a tickTime runs"), e.Close()))
	}
	if !strings.Contains(err.Error(), "ended by itself") || !strings.Contains(err.Error(), "never") {
		t.Errorf("error %v; want the server's own words in it", err)
	}
	t.Logf("known after %v", time.Since(begin).Round(time.Millisecond))
	if _, err := Launch(within(t), installation, t.TempDir(), 0); err == nil {
		t.Error("no servers are no ensemble")
	}
}

// A port taken by somebody else fails the attempt, and the next one uses others.
func TestTakenPortIsRetried(t *testing.T) {
	installation := installed(t)
	var taken net.Listener
	defer func() {
		if taken != nil {
			taken.Close()
		}
	}()
	// The hook runs after the ports have been picked and before a server is started.
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
	e, err := Launch(within(t), installation, folder, 2, steal)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := os.Stat(filepath.Join(folder, "attempt1")); err != nil {
		t.Errorf("there was no second attempt: %v", err)
	}
	t.Logf("started after %v", time.Since(begin).Round(time.Millisecond))
}
