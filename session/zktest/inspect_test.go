package zktest

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

func TestSequenceEnds(t *testing.T) {
	withMember(t, 10_000, func(t *testing.T, s *Server, r *rawClient) {
		eventstest.Must(t, s.Create("/dir", nil))
		eventstest.Must(t, s.SetSequence("/dir", 1<<31-2))
		for _, want := range []string{"/dir/a-2147483646", "/dir/b-2147483647", "/dir/c-2147483647"} {
			a := r.can(OpCreate, createBody(strings.TrimRight(want, "0123456789"), flagSequential), ok)
			eventstest.Equal(t, a.body.string(), want, "the new node")
		}
		r.can(OpCreate, createBody("/dir/c-", flagSequential), NodeExists) // the same name again
		eventstest.ErrorIs(t, s.SetSequence("/none", 1), NoNode, "SetSequence of a missing node")
	})
}

func TestATestSeesAndChangesNodes(t *testing.T) {
	withMember(t, 10_000, func(t *testing.T, s *Server, r *rawClient) {
		r.can(OpExists, about("/a/b", true), NoNode)
		eventstest.Must(t, s.Create("/a/b/c", []byte("x")))
		r.news(event{nodeCreated, "/a/b"})
		data, found := s.Data("/a/b/c")
		eventstest.Expect(t, found && string(data) == "x", "Data = %q, %v; want x", data, found)
		_, found = s.Data("/none")
		eventstest.Expect(t, !found, "Data says that a missing node is there, want it missing")
		eventstest.Must(t, s.SetData("/a/b/c", []byte("y")))
		r.reads("after SetData", "/a/b/c", "y", false)
		for _, c := range []struct {
			what      string
			got, want error
		}{
			{"Create of a node that is there", s.Create("/a/b/c", nil), NodeExists},
			{"Create of a relative path", s.Create("a", nil), BadArguments},
			{"SetData of a missing node", s.SetData("/none", nil), NoNode},
			{"Delete of a node with children", s.Delete("/a/b"), NotEmpty},
			{"Delete of a node without any", s.Delete("/a/b/c"), nil},
			{"LimitNodes for the root", s.LimitNodes("/", 1), BadArguments},
		} {
			eventstest.ErrorIs(t, c.got, c.want, "%s", c.what)
		}
		r.can(OpCreate, createBody("/mine", flagEphemeral), ok)
		eventstest.Equal(t, s.Children("/a"), []string{"b"}, "the children")
		eventstest.Equal(t, s.Children("/none"), nil, "the children of a missing node")
		eventstest.Equal(t, s.Sessions(), []int64{r.session}, "sessions")
		eventstest.Equal(t, s.Connections(), 1, "connections")
		eventstest.Equal(t, s.Owner("/a"), 0, "the owner of a node that is not ephemeral")
		eventstest.Equal(t, s.Owner("/mine"), r.session, "the owner of an ephemeral node")
	})
}

// TestLimitNodesHoldsForClientsOnly: quotas written by clients apply if the server
// enforces them.
func TestLimitNodesHoldsForClientsOnly(t *testing.T) {
	withMember(t, 10_000, func(t *testing.T, s *Server, r *rawClient) {
		create := func(path string, want Code) { t.Helper(); r.can(OpCreate, createBody(path, 0), want) }
		for _, path := range []string{"/q", quotaRoot + "/q", "/locks"} {
			create(path, ok)
		}
		limits := appendString(nil, quotaRoot+"/q/"+quotaLimits)
		limits = appendBytes(limits, []byte("count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=1"))
		r.can(OpCreate, appendInt32(appendACLs(limits, openACL()), 0), ok)
		create("/q/over", ok) // not enforced by default
		eventstest.Must(t, s.LimitNodes("/locks", 2))
		create("/q/more", QuotaExceeded)
		create("/locks/a", ok)
		create("/locks/b", QuotaExceeded)
		create("/locksmith", ok) // not below /locks
		eventstest.Must(t, s.Create("/locks/mine", nil))
		eventstest.Must(t, errors.Join(s.Delete("/locks/mine"), s.Delete("/locks/a")))
		create("/locks/c", ok)
		eventstest.Must(t, s.LimitNodes("/locks", -1))
		create("/locks/d", ok)
	})
}

func TestReapTakesWhatIsOverdue(t *testing.T) {
	withMember(t, 10_000, func(t *testing.T, s *Server, r *rawClient) {
		r.can(OpCreateTTL, appendInt64(createBody("/t", flagTTL), 1000), ok)
		eventstest.Equal(t, s.Reap(), 0, "nodes that were reaped before the time")
		time.Sleep(2 * time.Second)
		eventstest.Equal(t, s.Reap(), 1, "nodes that were reaped after the time")
		eventstest.Equal(t, s.Exists("/t"), false, "the node that was reaped is there")
	}, ExtendedTypes())
}

// TestServersThatLackRequests: such a request costs the client its connection. Keeper
// does not answer it, and the session is over as well.
func TestServersThatLackRequests(t *testing.T) {
	for name, test := range map[string]struct {
		setting Setting
		answers bool
	}{
		"ZooKeeper 3.4": {ZooKeeper34(), true}, "ClickHouse Keeper": {ClickHouseKeeper(), false},
	} {
		eventstest.Case(t, name, func(t *testing.T) {
			s := Start(t, test.setting)
			r := member(t, s, 10_000)
			r.can(OpCreate, createBody("/e", flagEphemeral), ok)
			r.can(OpMulti, multiBody(part(OpCheck, versioned("/", -1)), part(OpCreate, createBody("/p", 0))), ok)
			r.can(OpSetData, setBody("/none", ""), NoNode)
			r.request(OpCreateContainer, createBody("/c", flagContainer))
			if test.answers {
				eventstest.ErrorIs(t, r.next().code, Unimplemented, "a container")
			}
			r.ended("a request that the server lacks")
			synctest.Wait()
			kept := s.Exists("/e") == test.answers && r.resumes(s) == test.answers
			eventstest.Expect(t, kept && s.Exists("/p") && !s.Exists("/c"),
				"nodes %v; want /p, and /e and its session: %t", s.Tree(), test.answers)
		})
	}
}

func TestCloseIsIdempotent(t *testing.T) {
	s, err := New()
	eventstest.Must(t, err)
	rawTCP(t, s.Addr())
	var work sync.WaitGroup
	for range 3 {
		work.Go(s.Close)
	}
	work.Wait()
	_, err = s.DialContext(t.Context(), "tcp", s.Addr())
	eventstest.ErrorIs(t, err, syscall.ECONNREFUSED, "a dial after Close")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.DialContext(gone, "tcp", s.Addr())
	eventstest.ErrorIs(t, err, context.Canceled, "a dial with an ended context")
}

type failing struct {
	cleanups []func()
	fatal    bool
}

func (*failing) Helper()                 {}
func (f *failing) Fatalf(string, ...any) { f.fatal = true }
func (f *failing) Cleanup(fn func())     { f.cleanups = append(f.cleanups, fn) }

func TestStartFailsItsTestAndClosesWithIt(t *testing.T) {
	for name, setting := range map[string]Setting{"tick": Tick(0), "check interval": CheckInterval(0)} {
		tb := new(failing)
		eventstest.Expect(t, Start(tb, setting) == nil && tb.fatal, "Start with a %s of zero is well", name)
	}
	tb := new(failing)
	r := rawTCP(t, Start(tb).Addr())
	for _, fn := range tb.cleanups {
		fn()
	}
	_, err := io.ReadAll(r)
	eventstest.Expect(t, !tb.fatal && len(tb.cleanups) == 1 && err == nil,
		"after %d clean-ups the client reads %v, want the one clean-up to close the server", len(tb.cleanups), err)
}

func TestBubbleIsRecognised(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := Start(t)
		eventstest.Expect(t, s.listener == nil && s.Addr() == memoryAddress,
			"in a bubble it listens on %s", s.Addr())
	})
	s := Start(t)
	eventstest.Expect(t, s.listener != nil && s.Addr() != memoryAddress,
		"outside of a bubble it is at %s", s.Addr())
	s = Start(t, InMemory())
	eventstest.Expect(t, s.listener == nil, "a server in memory listens on %s, want none", s.Addr())
}
