package zktest_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestSequenceEnds(t *testing.T) {
	withClient(t, func(t *testing.T, s *zktest.Server, c *client) {
		dir := c.make("/dir", 0)
		eventstest.Must(t, s.SetSequence(dir, 1<<31-2))
		var got []string
		for _, prefix := range []string{"a-", "b-", "c-"} {
			got = append(got, c.make(dir+"/"+prefix, zk.FlagSequence))
		}
		want := []string{"/dir/a-2147483646", "/dir/b-2147483647", "/dir/c-2147483647"}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if _, err := c.Create(dir+"/c-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll)); !errors.Is(err, zk.ErrNodeExists) {
			t.Errorf("the same name again: %v, want %v", err, zk.ErrNodeExists)
		}
		if err := s.SetSequence("/none", 1); !errors.Is(err, zktest.NoNode) {
			t.Errorf("SetSequence of a missing node = %v, want %v", err, zktest.NoNode)
		}
	})
}

func TestATestSeesAndChangesNodes(t *testing.T) {
	withClient(t, func(t *testing.T, s *zktest.Server, c *client) {
		c.watchExists("/a/b")
		eventstest.Must(t, s.Create("/a/b/c", []byte("x")))
		if err := s.Create("/a/b/c", nil); !errors.Is(err, zktest.NodeExists) {
			t.Errorf("Create of a node that is there = %v, want %v", err, zktest.NodeExists)
		}
		if err := s.Create("a", nil); !errors.Is(err, zktest.BadArguments) {
			t.Errorf("Create of a relative path = %v, want %v", err, zktest.BadArguments)
		}
		if data, found := s.Data("/a/b/c"); !found || string(data) != "x" {
			t.Errorf("Data = %q, %v; want x", data, found)
		}
		if _, found := s.Data("/none"); found {
			t.Error("Data says that a missing node is there, want it missing")
		}
		eventstest.Must(t, s.SetData("/a/b/c", []byte("y")))
		if data, _, err := c.Get("/a/b/c"); err != nil || string(data) != "y" {
			t.Errorf("after SetData the client reads %q, %v; want y", data, err)
		}
		if err := s.Delete("/a/b"); !errors.Is(err, zktest.NotEmpty) {
			t.Errorf("Delete of a node with children = %v, want %v", err, zktest.NotEmpty)
		}
		eventstest.Must(t, s.Delete("/a/b/c"))
		if got := s.Children("/a"); !slices.Equal(got, []string{"b"}) {
			t.Errorf("the children are %v, want b", got)
		}
		c.told("EventNodeCreated /a/b")
		if s.Connections() != 1 || len(s.Sessions()) != 1 || s.Owner("/a") != 0 {
			t.Errorf("%d connections, sessions %v, owner %#x; want 1, 1 and none", s.Connections(), s.Sessions(), s.Owner("/a"))
		}
	})
}

func TestCloseIsIdempotent(t *testing.T) {
	s, err := zktest.New()
	eventstest.Must(t, err)
	nc, err := net.Dial("tcp", s.Addr())
	eventstest.Must(t, err)
	defer func() { _ = nc.Close() }()
	var work sync.WaitGroup
	for range 3 {
		work.Go(s.Close)
	}
	work.Wait()
	if _, err := s.DialContext(t.Context(), "tcp", s.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a dial after Close: %v, want it refused", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.DialContext(gone, "tcp", s.Addr()); !errors.Is(err, context.Canceled) {
		t.Errorf("a dial with an ended context: %v, want %v", err, context.Canceled)
	}
}

// overQuota reports whether the server answered QuotaExceeded, for which the client library has no name.
func overQuota(err error) bool { return err != nil && strings.HasSuffix(err.Error(), " -125") }

func TestLimitNodesHoldsForClientsOnly(t *testing.T) {
	withClient(t, func(t *testing.T, s *zktest.Server, c *client) {
		open := zk.WorldACL(zk.PermAll)
		c.make("/locks", 0)
		eventstest.Must(t, s.LimitNodes("/locks", 2))
		p := c.make("/locks/a", 0)
		if _, err := c.Create("/locks/b", nil, zk.FlagEphemeral|zk.FlagSequence, open); !overQuota(err) {
			t.Errorf("a third node where two are allowed: %v, want the quota exceeded", err)
		}
		c.make("/locksmith", 0) // not below it
		if err := s.Create("/locks/mine", nil); err != nil {
			t.Errorf("a node of the test's own: %v, want it made beyond the limit", err)
		}
		eventstest.Must(t, s.Delete("/locks/mine"))
		c.remove(p)
		c.make("/locks/c", 0)
		eventstest.Must(t, s.LimitNodes("/locks", -1))
		c.make("/locks/d", 0)
		if err := s.LimitNodes("/", 1); !errors.Is(err, zktest.BadArguments) {
			t.Errorf("a quota for the root: %v, want %v", err, zktest.BadArguments)
		}
	})
}

func TestQuotasAreNotEnforcedByDefault(t *testing.T) {
	withClient(t, func(t *testing.T, s *zktest.Server, c *client) {
		for _, p := range []string{"/q", "/zookeeper/quota/q"} {
			c.make(p, 0)
		}
		limits := []byte("count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=1")
		if _, err := c.Create("/zookeeper/quota/q/zookeeper_limits", limits, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		c.make("/q/over", 0)
	})
}

func TestReapTakesWhatIsOverdue(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := zktest.Start(t, zktest.ExtendedTypes())
		c := memoryClient(t, s, 10*time.Second)
		if _, err := c.CreateTTL("/t", nil, zk.FlagTTL, zk.WorldACL(zk.PermAll), time.Second); err != nil {
			t.Fatal(err)
		}
		if n := s.Reap(); n != 0 {
			t.Errorf("%d nodes were reaped before the time, want none", n)
		}
		time.Sleep(2 * time.Second)
		if n := s.Reap(); n != 1 || s.Exists("/t") {
			t.Errorf("%d nodes were reaped after the time, want the one", n)
		}
	})
	if _, err := zktest.New(zktest.CheckInterval(0)); err == nil {
		t.Error("New with a check interval of zero = nil, want an error")
	}
}
