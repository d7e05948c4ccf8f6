package ensemble

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A killed server keeps its address; a stopped server answers nothing. What clients see
// of both, and of several servers, is tested where it matters: in coordinator and
// coordinator/reliability/faults.
func TestOneServer(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel() // it waits for servers most of the time
	ctx := t.Context()
	e := Start(t, 1)
	serves := func(when string, want bool) {
		t.Helper()
		now, err := e.status(ctx, 0)
		eventstest.Expect(t, (err == nil && now.serves()) == want,
			"%s the status is %+v, %v; want one that serves: %v", when, now, err, want)
	}
	serves("after the start", true)
	version, err := e.Version(ctx, 0)
	eventstest.Expect(t, version != "" && err == nil, "the version of server 0 is %q, %v", version, err)
	leader, err := e.Leader(ctx)
	eventstest.Expect(t, leader == 0 && err == nil, "leader %d, %v; want 0", leader, err)
	counters, err := e.Counters(ctx, 0)
	eventstest.Expect(t, err == nil && counters["zk_num_alive_connections"] >= 1,
		"counters %v, %v", counters, err)
	for range 2 { // the second time there is nothing to kill
		eventstest.Must(t, e.Kill(0))
	}
	serves("after the kill", false)
	eventstest.Expect(t, e.Stop(0) != nil, "Stop of the killed server = nil, want an error")
	eventstest.Must(t, e.Restart(0))
	eventstest.Expect(t, e.Restart(0) != nil, "Restart of the running server = nil, want an error")
	eventstest.Must(t, e.Wait(ctx))
	serves("after the restart", true)
	if err := e.Stop(0); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this system cannot stop a process; run the test on a Unix")
	} else if err != nil {
		t.Fatal(err)
	}
	serves("stopped", false)
	eventstest.Must(t, e.Wait(ctx)) // there is no server to wait for
	eventstest.Must(t, e.Cont(0))
	eventstest.Must(t, e.Wait(ctx))
	serves("after Cont", true)
	eventstest.Must(t, e.Stop(0)) // the clean-up kills it while it is stopped
}

// TestLeader: of two servers that claim to lead, the one with the later epoch leads.
func TestLeader(t *testing.T) {
	e := &Ensemble{}
	for i, answer := range []string{
		"Mode: follower\nZxid: 0x200000000\n", "Mode: leader\nZxid: 0x100000000\n", "Mode: leader\nZxid: 0x200000000\n",
		"This ZooKeeper instance is not currently serving requests\n",
	} {
		addr := eventstest.Serve(t, func(conn net.Conn) {
			_, _ = io.ReadFull(conn, make([]byte, len("srvr")))
			_, _ = io.WriteString(conn, answer)
		})
		at, err := net.ResolveTCPAddr("tcp4", addr)
		eventstest.Must(t, err)
		e.servers = append(e.servers, &server{
			index: i, host: "127.0.0.1", ports: ports{client: at.Port},
			process: &process{done: make(chan struct{})},
		})
	}
	leader, err := e.Leader(t.Context())
	eventstest.Expect(t, leader == 2 && err == nil, "leader %d, %v; want 2", leader, err)
	followers, err := e.Followers(t.Context())
	eventstest.Expect(t, slices.Equal(followers, []int{0, 1}) && err == nil, "followers %v, %v", followers, err)
}

// TestConfiguration: each server's zoo.cfg lists the members and no other server, itself
// with its own port and the others with the proxy's. It marks the observers, and an
// observer's own zoo.cfg says that it is one.
func TestConfiguration(t *testing.T) {
	servers := make([]*server, 3)
	for i := range servers {
		servers[i] = &server{index: i, ports: ports{client: 1000 * i, quorum: 1000*i + 1, election: 1000*i + 2}}
	}
	via := []Setting{QuorumVia(func(from, to, port int) int { return port + 100*(from+1) + 10*(to+1) })}
	observers, master := []Setting{Observers(1)}, []Setting{Observers(1), ObserverMaster()}
	pair, all := []int{0, 1}, []int{0, 1, 2}
	const observer, port, named = "peerType=observer", "observerMasterPort=2001", "server.3=127.0.0.1:2001:2002:observer"
	for name, c := range map[string]struct {
		settings []Setting
		members  []int
		of       int
		has, not []string
	}{
		"the first of two": {via, pair, 0, []string{"server.1=127.0.0.1:1:2", "server.2=127.0.0.1:1121:1002"}, []string{"server.3"}},
		"the other of two": {via, pair, 1, []string{"server.1=127.0.0.1:211:2", "server.2=127.0.0.1:1001:1002"}, []string{observer}},
		"some of them":     {nil, []int{0, 2}, 2, []string{"server.1=", "server.3=127.0.0.1:2001:2002\n"}, []string{"server.2="}},
		"a voter":          {observers, all, 0, []string{"server.2=127.0.0.1:1001:1002\n", named}, []string{observer, port}},
		"an observer":      {observers, all, 2, []string{observer, named}, []string{port}},
		"a master's":       {master, all, 2, []string{observer, port}, nil},
		"the master":       {master, all, 0, []string{port}, []string{observer}},
		"another voter":    {master, all, 1, nil, []string{observer, port}},
	} {
		file := newConfig(c.settings).file(servers, c.members, c.of)
		for _, line := range c.has {
			eventstest.Contains(t, file, line, "%s", name)
		}
		for _, line := range c.not {
			eventstest.Expect(t, !strings.Contains(file, line), "%s: want no %q in it:\n%s", name, line, file)
		}
	}
}

// A server that cannot start is reported at once, with the end of its log, not when the
// time is up. No process is left.
func TestStartFails(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel() // it waits for a server most of the time
	for _, c := range []struct {
		servers  int
		settings []Setting
		says     []string
	}{
		{1, []Setting{Line("tickTime", "never")}, []string{"ended by itself", "never"}},
		{0, nil, []string{"0 servers"}},
		{2, []Setting{At("127.0.0.1")}, []string{"1 addresses for 2 servers"}},
	} {
		e, err := Launch(t.Context(), Installed(t), t.TempDir(), c.servers, c.settings...)
		if err == nil {
			t.Error(errors.Join(errors.New("the servers run, want an error"), e.Close()))
			continue
		}
		for _, says := range c.says {
			eventstest.Contains(t, err.Error(), says, "%d servers", c.servers)
		}
	}
}

// If another process has taken a port, the attempt fails, and the next one uses other
// ports.
func TestTakenPortIsRetried(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel() // it waits for servers most of the time
	var taken net.Listener
	// The hook runs after the ports were picked, before a server is started.
	steal := QuorumVia(func(_, _, port int) int {
		if taken == nil {
			var err error
			taken, err = net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			eventstest.Must(t, err)
			t.Cleanup(func() { taken.Close() })
		}
		return port
	})
	folder := t.TempDir()
	e, err := Launch(t.Context(), Installed(t), folder, 2, steal)
	eventstest.Must(t, err)
	eventstest.Check(t, e.Close())
	_, err = os.Stat(filepath.Join(folder, "attempt1"))
	eventstest.ErrorIs(t, err, nil, "the folder of the second attempt")
}

func TestSinceKnowsBranches(t *testing.T) {
	for _, c := range []struct {
		version string
		first   []string
		want    bool
	}{
		{"3.7.1", []string{"3.7.2", "3.8.2"}, false},
		{"3.7.2", []string{"3.7.2", "3.8.2"}, true},
		{"3.8.1", []string{"3.7.2", "3.8.2"}, false},
		{"3.8.10", []string{"3.7.2", "3.8.2"}, true},
		{"3.6.4", []string{"3.7.2", "3.8.2"}, false},
		{"3.9.0", []string{"3.7.2", "3.8.2"}, true},
		{"3.10.0", []string{"3.9.3"}, true},
		{"3.4.14", []string{"3.5.3"}, false},
		{"3.5.10", []string{"3.5.3"}, true},
		{"3.8.0", nil, true},
	} {
		eventstest.Equal(t, Since(c.version, c.first...), c.want, "Since(%s, %v)", c.version, c.first)
	}
}
