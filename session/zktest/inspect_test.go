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

func TestContainersAreReaped(t *testing.T) {
	withClient(t, func(t *testing.T, s *zktest.Server, c *client) {
		box := func(p string) {
			t.Helper()
			if _, err := c.CreateContainer(p, nil, zk.FlagContainer, zk.WorldACL(zk.PermAll)); err != nil {
				t.Fatal(err)
			}
		}
		box("/used")
		box("/fresh")
		box("/busy")
		c.make("/busy/e", 0)
		c.make("/used/e", 0)
		c.remove("/used/e")
		if n := s.Reap(); n != 1 {
			t.Errorf("%d containers were reaped, want the one that was used", n)
		}
		wantTree(t, s, "/busy", "/busy/e", "/fresh")
		c.remove("/busy/e")
		c.watch("/busy")
		time.Sleep(45 * time.Second)
		e, _ := c.await(0, "deletion", func(e zk.Event) bool { return e.Type == zk.EventNodeDeleted })
		if e.Path != "/busy" || time.Now().Second() != 0 {
			t.Errorf("%v at %v, want the full minute", e, time.Now())
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

// overQuota tells whether the server answered QuotaExceeded, for which the client
// library has no name.
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

// The script has the bytes of an answer. Callers of the client library compare its errors.
func TestTheClientHasANameForEachErrorOfAccess(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := zktest.Start(t)
		owner, other := memoryClient(t, s, 10*time.Second), memoryClient(t, s, 10*time.Second)
		eventstest.Must(t, owner.AddAuth("digest", []byte("ann:secret")))
		if _, err := owner.Create("/private", nil, 0, zk.AuthACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		makes := func(path string, acl []zk.ACL) func() error {
			return func() error {
				_, err := other.Create(path, nil, 0, acl)
				return err
			}
		}
		for _, c := range []struct {
			what string
			do   func() error
			want error
		}{
			{"its owner reads it", func() error { _, _, err := owner.Get("/private"); return err }, nil},
			{"a stranger reads it", func() error { _, _, err := other.Get("/private"); return err }, zk.ErrNoAuth},
			{"a stranger writes it", func() error { _, err := other.Set("/private", nil, -1); return err }, zk.ErrNoAuth},
			{"a stranger makes a child", makes("/private/x", zk.WorldACL(zk.PermAll)), zk.ErrNoAuth},
			{"a stranger checks it in a multi", func() error {
				_, err := other.Multi(&zk.CheckVersionRequest{Path: "/private", Version: -1})
				return err
			}, zk.ErrNoAuth},
			{"a stranger makes a node without a list", makes("/x", nil), zk.ErrInvalidACL},
			{"a stranger makes a node for itself, of whom nothing is known", makes("/x", zk.AuthACL(zk.PermAll)), zk.ErrInvalidACL},
			{"an identity of no scheme", func() error { return other.AddAuth("nobody", []byte("x")) }, zk.ErrAuthFailed},
		} {
			if err := c.do(); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", c.what, err, c.want)
			}
		}
	})
}

func TestANodeOutlivesItsTimeWhileItHasAChild(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := zktest.Start(t, zktest.ExtendedTypes(), zktest.CheckInterval(time.Second))
		c := memoryClient(t, s, 10*time.Second)
		p, err := c.CreateTTL("/t", nil, zk.FlagTTL, zk.WorldACL(zk.PermAll), 10*time.Second)
		eventstest.Must(t, err)
		time.Sleep(8 * time.Second)
		if _, err := c.Set(p, nil, -1); err != nil { // a change starts the time anew
			t.Fatal(err)
		}
		c.make(p+"/child", 0)
		time.Sleep(time.Minute) // and a child keeps its parent
		if !s.Exists(p) {
			t.Fatalf("%s has a child and was reaped after its time, want it kept", p)
		}
		// Changed while the child still keeps it: it is overdue, and without either it
		// would go at the next check.
		c.set(p, nil)
		c.remove(p + "/child")
		changed := time.Now()
		c.watch(p)
		c.await(0, "deletion", func(e zk.Event) bool { return e.Type == zk.EventNodeDeleted && e.Path == p })
		if d := time.Since(changed); d <= 10*time.Second || d > 11*time.Second {
			t.Errorf("it lived for %v, want 10s and up to the next check", d)
		}
		if owner := s.Owner(p); owner != 0 {
			t.Errorf("a node with a time to live has the owner %#x, want none", owner)
		}
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
			t.Errorf("%d nodes were reaped behind the time, want the one", n)
		}
	})
	if _, err := zktest.New(zktest.CheckInterval(0)); err == nil {
		t.Error("New with a check interval of zero = nil, want an error")
	}
}
