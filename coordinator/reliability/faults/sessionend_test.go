package faults

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// The end of a session is one transaction, which since ZooKeeper 3.6 lists its ephemeral
// nodes (ZOOKEEPER-4306). A server writes it whatever its size. When it starts, or
// receives it from its leader, it reads it, and then jute.maxbuffer and an extra bound
// its size.
const (
	defaultBuffer = 0xfffff // of jute.maxbuffer, and of the extra
	endAround     = 48      // the transaction without its nodes: a header, a count and a digest
	endNode       = 4       // before the path of each node: its length

	extraProperty  = "zookeeper.jute.maxbuffer.extrasize"
	bufferProperty = "jute.maxbuffer"

	keptNode, otherNode = "/kept", "/other"
)

// TestFullSessionsEnd fills sessions with locks until they accept no more, and ends them
// by Close and by a crash. All servers are killed and started again, and everything
// works. A session of another client that is one byte larger than servers can read kills
// them for good, so the limit is the servers'. They start again with a larger extra, and
// nothing is lost. docs/production.md and docs/failures.md tell operators about it.
//
// The short form gives the server a small buffer, for few nodes. The same holds for every
// size.
func TestFullSessionsEnd(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	const small = 20_000
	t.Run("small buffer", func(t *testing.T) {
		t.Parallel()
		e := ensemble.Start(t, 1, ensemble.Property(bufferProperty, strconv.Itoa(small)))
		fullSessionsEnd(t, e, 2*small, coordinator.WithNodeBudget(2*small-endAround))
		anEndTooLarge(t, e, 2*small)
	})
	if !eventstest.Full() {
		return
	}
	t.Run("half of the default buffer, default budget", func(t *testing.T) {
		t.Parallel()
		e := ensemble.Start(t, 1, ensemble.Property(bufferProperty, strconv.Itoa(defaultBuffer/2)))
		fullSessionsEnd(t, e, 2*(defaultBuffer/2))
	})
	t.Run("default buffer, default budget, three servers", func(t *testing.T) {
		t.Parallel()
		e := ensemble.Start(t, 3, ensemble.Heap("512m")) // with 96m one ran out of memory
		fullSessionsEnd(t, e, 2*defaultBuffer)
		anEndTooLarge(t, e, 2*defaultBuffer)
	})
}

// fullSessionsEnd ends full sessions of ours, then kills and restarts the servers.
func fullSessionsEnd(t *testing.T, e *ensemble.Ensemble, readable int, options ...coordinator.Option) {
	t.Helper()
	timeout := time.Duration(eventstest.Amount(2, 10)) * time.Second
	raw := coordtest.RawClient(t, e.Connect())
	for _, create := range []zk.CreateRequest{{Path: keptNode, Data: []byte("data")}, {Path: otherNode, Flags: zk.FlagEphemeral}} {
		_, err := raw.Create(create.Path, create.Data, create.Flags, zk.WorldACL(zk.PermAll))
		eventstest.Must(t, err)
	}
	network := faultnet.New((&net.Dialer{}).DialContext, nil)
	t.Cleanup(network.Close)
	closing := fullCoordinator(t, e, "/closes/", 18, options, coordinator.WithSessionTimeout(timeout))
	dying := fullCoordinator(t, e, "/crashes/", 140, options,
		coordinator.WithSessionTimeout(timeout), coordinator.WithDialer(network.Dial))
	permits := fullOfPermits(t, e, options)
	for _, c := range []*coordinator.Coordinator{closing, dying, permits} {
		bytes := bytesOf(t, e, c.SessionID())
		t.Logf("a full session: %+v; its end takes %d bytes of %d", c.Nodes(), endAround+bytes, readable)
		if bytes > c.Nodes().Bytes || endAround+bytes > readable {
			t.Errorf("the end of a session takes %d bytes, want no more than %d, which were counted, and %d, which servers read",
				bytes, c.Nodes().Bytes, readable-endAround)
		}
	}
	eventstest.Must(t, closing.Close())
	eventstest.Must(t, permits.Close())
	network.Refuse(true) // as after a crash
	network.Cut()
	owns(t, e, 1, "the nodes of the full sessions are gone")
	reboot(t, e)
	allIsWell(t, e, "after full sessions have ended")
}

// fullCoordinator returns a coordinator that holds as many mutexes as fit, at paths of
// this length.
func fullCoordinator(
	t *testing.T, e *ensemble.Ensemble, prefix string, length int, options []coordinator.Option, more ...coordinator.Option,
) *coordinator.Coordinator {
	t.Helper()
	c := filled(t, e, append(more, options...), func(c *coordinator.Coordinator, i int) (coordinator.Handle, []coordinator.AcquireOption) {
		return c.Mutex(fmt.Sprintf("%s%0*d", prefix, length-len(prefix), i)), nil
	})
	if now := c.Nodes(); now.Budget-now.Bytes >= length+60 {
		t.Errorf("the session refuses nodes, and is not full: %+v", now)
	}
	return c
}

// fullOfPermits returns a coordinator that holds as many permits as fit. Permits have the
// longest names, at a short path.
func fullOfPermits(t *testing.T, e *ensemble.Ensemble, options []coordinator.Option) *coordinator.Coordinator {
	t.Helper()
	const each = 20
	return filled(t, e, options, func(c *coordinator.Coordinator, i int) (coordinator.Handle, []coordinator.AcquireOption) {
		return c.Semaphore(fmt.Sprint("/p", i), each), []coordinator.AcquireOption{coordinator.Permits(each)}
	})
}

// filled returns a coordinator that holds as many of these locks as fit. It acquires many
// at once, because each takes a write to every server's disk.
func filled(
	t *testing.T, e *ensemble.Ensemble, options []coordinator.Option,
	lock func(c *coordinator.Coordinator, i int) (coordinator.Handle, []coordinator.AcquireOption),
) *coordinator.Coordinator {
	t.Helper()
	ctx := patiently(t)
	c, err := coordinator.Connect(ctx, e.Connect(), options...)
	eventstest.Must(t, err)
	t.Cleanup(func() { _ = c.Close() }) // it may have crashed
	const hands = 64
	var all sync.WaitGroup
	for hand := range hands {
		all.Go(func() {
			for i := hand; ; i += hands {
				l, options := lock(c, i)
				if _, err := l.Acquire(ctx, options...).Wait(ctx); err != nil {
					eventstest.ErrorIs(t, err, coordinator.ErrSessionFull, "no grant of lock %d", i)
					return
				}
			}
		})
	}
	all.Wait()
	return c
}

// anEndTooLarge ends a session as large as servers can read, and one that is one byte
// larger.
func anEndTooLarge(t *testing.T, e *ensemble.Ensemble, readable int) {
	t.Helper()
	version, err := e.Version(t.Context(), 0)
	eventstest.Must(t, err)
	endOf(t, e, readable-endAround)
	owns(t, e, 1, "the nodes of a session as large as servers can read are gone")
	reboot(t, e)
	allIsWell(t, e, "after the end of a session as large as servers can read")

	endOf(t, e, readable-endAround+1)
	if strings.HasPrefix(version, "3.4.") || strings.HasPrefix(version, "3.5.") {
		owns(t, e, 1, "the nodes of the larger session are gone")
		reboot(t, e)
		allIsWell(t, e, "after the end of the larger session, which a server of "+version+" bears")
		return
	}
	neverStart(t, e)
	for i := range e.Size() {
		if e.Ended(i) == nil {
			continue
		}
		log, err := os.ReadFile(filepath.Join(filepath.Dir(e.DataDir(i)), "server.log"))
		eventstest.Must(t, err)
		written := strings.Contains(string(log), " INFO ") // a folder of jars may lack a logger
		if want := fmt.Sprintf("Unreasonable length = %d\n", readable+1); written && !strings.Contains(string(log), want) {
			t.Errorf("server %d has ended, and its log does not say %s", i, want)
		}
	}
	e.SetProperty(extraProperty, strconv.Itoa(4*readable))
	reboot(t, e)
	allIsWell(t, e, "with a larger extra")
}

// endOf ends a session whose nodes take this many bytes in its last transaction.
func endOf(t *testing.T, e *ensemble.Ensemble, bytes int) {
	t.Helper()
	const path, most = 100, 60 // nodes in one request
	conn := coordtest.RawClient(t, e.Connect())
	made := 0
	for bytes > 0 {
		var ops []any
		for ; bytes > 0 && len(ops) < most; made++ {
			length := path
			if bytes < 2*(path+endNode) {
				length = bytes - endNode
			}
			name := fmt.Sprintf("/raw-%0*d", length-len("/raw-"), made)
			ops = append(ops, &zk.CreateRequest{Path: name, Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral})
			bytes -= length + endNode
		}
		_, err := conn.Multi(ops...)
		eventstest.Must(t, err)
	}
	conn.Close()
}

// allIsWell checks that the servers grant a session and locks, that the ended sessions
// left nothing else, and that nothing else is lost.
func allIsWell(t *testing.T, e *ensemble.Ensemble, when string) {
	t.Helper()
	raw := coordtest.RawClient(t, e.Connect())
	eventstest.Eventually(t, "there is a session "+when, func() bool {
		data, _, err := raw.Get(keptNode)
		kept := err != nil || string(data) == "data"
		eventstest.Expect(t, kept, "%s: %s has %q, want what was written", when, keptNode, data)
		return err == nil
	})
	owns(t, e, 1, "there is one ephemeral node "+when)
	found, _, err := raw.Exists(otherNode)
	eventstest.Expect(t, found && err == nil,
		"%s: the node of another session is there: %t, %v; want it there", when, found, err)
	c := connect(t, e.Connect(), 10*time.Second, 0)
	_, err = c.Mutex("/locks/after").Acquire(t.Context()).Wait(patiently(t))
	eventstest.Expect(t, err == nil, "%s: %v, want a grant", when, err)
	eventstest.Check(t, c.Close())
}

// neverStart kills and starts the servers until most of them have ended by themselves. At
// first, only the leader may have logged the unreadable transaction. The others then
// serve until they end the session themselves.
func neverStart(t *testing.T, e *ensemble.Ensemble) {
	t.Helper()
	ctx, most := eventstest.Patiently(t, 6*time.Minute), e.Size()/2
	for {
		if e.Size() == 1 { // it reads the transaction only when it starts
			owns(t, e, 1, "the nodes of the session are gone")
		} else {
			eventstest.Eventually(t, "the quorum is lost", func() bool { return serving(t, e) <= most })
		}
		kill(t, e, everyServer(e)...)
		restart(t, e, everyServer(e)...)
		for serving(t, e) <= most {
			ended := 0
			for i := range e.Size() {
				if e.Ended(i) != nil {
					ended++
				}
			}
			if ended > most {
				return
			}
			if pause(ctx, 20*time.Millisecond); ctx.Err() != nil {
				t.Fatal("most of the servers still run, want them to end by themselves")
			}
		}
	}
}

func serving(t *testing.T, e *ensemble.Ensemble) (n int) {
	t.Helper()
	for i := range e.Size() {
		if counters, err := e.Counters(t.Context(), i); err == nil && len(counters) > 0 {
			n++
		}
	}
	return n
}

// owns waits until every server knows of n ephemeral nodes.
func owns(t *testing.T, e *ensemble.Ensemble, n int, what string) {
	t.Helper()
	eventstest.Eventually(t, what, func() bool {
		for i := range e.Size() {
			if counters, err := e.Counters(t.Context(), i); err != nil || counters["zk_ephemerals_count"] != float64(n) {
				return false
			}
		}
		return true
	})
}

// bytesOf returns how many bytes a session's ephemeral nodes take in its last
// transaction.
func bytesOf(t *testing.T, e *ensemble.Ensemble, session int64) (bytes int) {
	t.Helper()
	leader, err := e.Leader(patiently(t))
	eventstest.Must(t, err)
	answer, err := ensemble.Ask(t.Context(), e.Addr(leader), "dump")
	eventstest.Must(t, err)
	_, nodes, _ := strings.Cut(answer, fmt.Sprintf("\n0x%x:\n", session))
	for line := range strings.Lines(nodes) {
		path, is := strings.CutPrefix(line, "\t")
		if !is {
			break
		}
		bytes += endNode + len(strings.TrimSuffix(path, "\n"))
	}
	return bytes
}
