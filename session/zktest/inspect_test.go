package zktest

import (
	"context"
	"errors"
	"io"
	"slices"
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
			if got := a.body.string(); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		r.can(OpCreate, createBody("/dir/c-", flagSequential), NodeExists) // the same name again
		if err := s.SetSequence("/none", 1); !errors.Is(err, NoNode) {
			t.Errorf("SetSequence of a missing node = %v, want %v", err, NoNode)
		}
	})
}

func TestATestSeesAndChangesNodes(t *testing.T) {
	withMember(t, 10_000, func(t *testing.T, s *Server, r *rawClient) {
		r.can(OpExists, about("/a/b", true), NoNode)
		eventstest.Must(t, s.Create("/a/b/c", []byte("x")))
		r.news(event{nodeCreated, "/a/b"})
		if data, found := s.Data("/a/b/c"); !found || string(data) != "x" {
			t.Errorf("Data = %q, %v; want x", data, found)
		}
		if _, found := s.Data("/none"); found {
			t.Error("Data says that a missing node is there, want it missing")
		}
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
			if !errors.Is(c.got, c.want) {
				t.Errorf("%s = %v, want %v", c.what, c.got, c.want)
			}
		}
		r.can(OpCreate, createBody("/mine", flagEphemeral), ok)
		if got := s.Children("/a"); !slices.Equal(got, []string{"b"}) || s.Children("/none") != nil {
			t.Errorf("the children are %v, and those of a missing node %v; want b, and none", got, s.Children("/none"))
		}
		if got := s.Sessions(); s.Connections() != 1 || !slices.Equal(got, []int64{r.session}) {
			t.Errorf("%d connections, and sessions %#x; want one, and %#x", s.Connections(), got, r.session)
		}
		if a, mine := s.Owner("/a"), s.Owner("/mine"); a != 0 || mine != r.session {
			t.Errorf("the owners are %#x and %#x, want none, and the session %#x", a, mine, r.session)
		}
	})
}

// TestLimitNodesHoldsForClientsOnly, and quotas that clients write hold if the server
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
		create("/locksmith", ok) // not below it
		eventstest.Must(t, s.Create("/locks/mine", nil))
		eventstest.Must(t, errors.Join(s.Delete("/locks/mine"), s.Delete("/locks/a")))
		create("/locks/c", ok)
		eventstest.Must(t, s.LimitNodes("/locks", -1))
		create("/locks/d", ok)
	})
}

func TestReapTakesWhatIsOverdue(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := Start(t, ExtendedTypes())
		member(t, s, 10_000).can(OpCreateTTL, appendInt64(createBody("/t", flagTTL), 1000), ok)
		if n := s.Reap(); n != 0 {
			t.Errorf("%d nodes were reaped before the time, want none", n)
		}
		time.Sleep(2 * time.Second)
		if n := s.Reap(); n != 1 || s.Exists("/t") {
			t.Errorf("%d nodes were reaped after the time, want the one", n)
		}
	})
}

// TestServersThatLackRequests: such a request costs its client the connection. With
// Keeper there is no answer, and the session is over as well.
func TestServersThatLackRequests(t *testing.T) {
	for name, test := range map[string]struct {
		setting Setting
		answers bool
	}{
		"ZooKeeper 3.4": {ZooKeeper34(), true}, "ClickHouse Keeper": {ClickHouseKeeper(), false},
	} {
		t.Run(name, func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				s := Start(t, test.setting)
				r := member(t, s, 10_000)
				r.can(OpCreate, createBody("/e", flagEphemeral), ok)
				r.can(OpMulti, multiBody(part(OpCheck, versioned("/", -1)), part(OpCreate, createBody("/p", 0))), ok)
				r.can(OpSetData, setBody("/none", ""), NoNode)
				r.request(OpCreateContainer, createBody("/c", flagContainer))
				if test.answers {
					if a := r.next(); a.code != Unimplemented {
						t.Errorf("a container: %v, want %v", a.code, Unimplemented)
					}
				}
				r.ended("a request that the server lacks")
				synctest.Wait()
				if s.Exists("/e") != test.answers || r.resumes(s) != test.answers || !s.Exists("/p") || s.Exists("/c") {
					t.Errorf("nodes %v; want /p, and /e and its session: %t", s.Tree(), test.answers)
				}
			})
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
	if _, err := s.DialContext(t.Context(), "tcp", s.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a dial after Close: %v, want it refused", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.DialContext(gone, "tcp", s.Addr()); !errors.Is(err, context.Canceled) {
		t.Errorf("a dial with an ended context: %v, want %v", err, context.Canceled)
	}
}

// failing records what Start reports to a test.
type failing struct {
	cleanups []func()
	fatal    bool
}

func (*failing) Helper()                 {}
func (f *failing) Fatalf(string, ...any) { f.fatal = true }
func (f *failing) Cleanup(fn func())     { f.cleanups = append(f.cleanups, fn) }

func TestStartFailsItsTestAndClosesWithIt(t *testing.T) {
	for name, setting := range map[string]Setting{"tick": Tick(0), "check interval": CheckInterval(0)} {
		if tb := new(failing); Start(tb, setting) != nil || !tb.fatal {
			t.Errorf("Start with a %s of zero is well, want the test failed", name)
		}
	}
	tb := new(failing)
	r := rawTCP(t, Start(tb).Addr())
	for _, fn := range tb.cleanups {
		fn()
	}
	if _, err := io.ReadAll(r); tb.fatal || len(tb.cleanups) != 1 || err != nil {
		t.Errorf("after %d clean-ups the client reads %v, want the one clean-up to close the server", len(tb.cleanups), err)
	}
}

func TestOpsAndCodesHaveNames(t *testing.T) {
	for op := OpClose; op <= OpSASL; op++ {
		// Operations that have a body fail without one, and these have names.
		if _, err := decodeCall(op, &decoder{}); err != nil && strings.HasPrefix(op.String(), "op ") {
			t.Errorf("op %d has a body and no name, want one", op)
		}
	}
	for what, want := range map[Op]string{OpConnect: "connect", 77: "op 77"} {
		if got := what.String(); got != want {
			t.Errorf("an op is called %q, want %q", got, want)
		}
	}
	for code, want := range map[Code]string{ok: "zktest: ok", Throttled: "zktest: throttled", -999: "zktest: code -999"} {
		if got := code.Error(); got != want {
			t.Errorf("code %d is called %q, want %q", int32(code), got, want)
		}
	}
}

func TestBubbleIsRecognised(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		if s := Start(t); s.listener != nil || s.Addr() != memoryAddress {
			t.Errorf("a server in a bubble listens on %s, want it in memory", s.Addr())
		}
	})
	if s := Start(t); s.listener == nil || s.Addr() == memoryAddress {
		t.Errorf("outside of a bubble the server is at %s, want a port that it listens on", s.Addr())
	}
	if s := Start(t, InMemory()); s.listener != nil {
		t.Errorf("a server in memory listens on %s, want none", s.Addr())
	}
}
