package zktest

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// quiet fails the test if the server says anything within d.
func (r *rawClient) quiet(d time.Duration) {
	r.t.Helper()
	eventstest.Must(r.t, r.SetReadDeadline(time.Now().Add(d)))
	if b, err := r.in.next(); !errors.Is(err, os.ErrDeadlineExceeded) {
		r.t.Errorf("a mute server sends %v, %v; want silence", b, err)
	}
	eventstest.Must(r.t, r.SetReadDeadline(time.Time{}))
}

func TestMuteHoldsEventsBack(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := Start(t)
		r := rawMemory(t, s)
		k := r.hello(0, 30000, 0, make([]byte, passwordLength))
		p := r.create("/x", 0)
		r.call(OpGetData, appendBool(appendString(nil, p), true))
		s.Mute(k.session, true)
		eventstest.Must(t, s.Delete(p))
		r.quiet(5 * time.Second)
		s.Mute(k.session, false)
		if e := r.next(); e.xid != -1 {
			t.Errorf("got %+v, want the event", e)
		}
	})
}

func TestMuteHidesExpiry(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := Start(t)
		r := rawMemory(t, s)
		k := r.hello(0, 4000, 0, make([]byte, passwordLength))
		r.create("/x", flagEphemeral)
		s.Mute(k.session, true)
		r.quiet(20 * time.Second)
		if s.Exists("/x") || len(s.Sessions()) != 0 {
			t.Errorf("muted for 20 s, a session of 4 s has left sessions %v and nodes %v, want none", s.Sessions(), s.Tree())
		}
		if n := len(s.tree.ephemerals); n != 0 {
			t.Errorf("the nodes of %d sessions are known after the end of the only one, want none", n)
		}
		again := rawMemory(t, s)
		again.sendHello(0, 4000, k.session, k.password)
		again.quiet(20 * time.Second)
		s.Mute(k.session, false)
		r.ended("an expired session that is heard again")
		if body, err := receive(t, again.in); err != nil || len(body) != 36 {
			t.Errorf("the late handshake of an expired session is answered %v, %v; want 36 bytes", body, err)
		}
		again.ended("a refused handshake")
	})
}

func TestMuteHoldsRequestsOfTheDead(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := Start(t)
		r := rawMemory(t, s)
		k := r.hello(0, 4000, 0, make([]byte, passwordLength))
		s.Mute(k.session, true)
		r.request(OpCreate, createBody("/late", 0))
		time.Sleep(20 * time.Second)
		s.Mute(k.session, false)
		r.ended("an expired session")
		if s.Exists("/late") {
			t.Error("the node of an expired session's request is there, want it missing")
		}
	})
}

func TestLaggingZxid(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := Start(t)
		r := rawMemory(t, s)
		k := r.hello(0, 10000, 0, make([]byte, passwordLength))
		before := r.call(OpPing, nil).zxid
		s.Lag(k.session, true)
		eventstest.Must(t, s.Create("/x", nil))
		if got := r.call(OpPing, nil).zxid; got != before {
			t.Errorf("a follower that lags answers with zxid %d, want %d", got, before)
		}
		if got := r.call(OpSync, appendString(nil, "/")).zxid; got != before+1 {
			t.Errorf("zxid %d after a sync, want %d", got, before+1)
		}
	})
}

// TestCutsLeaveEarlierAnswers sends four requests in one write, because a later one would find the connection closed, and loses
// the third. The answers to the two before it must come out all the same, and the fourth must not be executed.
func TestCutsLeaveEarlierAnswers(t *testing.T) {
	for name, act := range map[string]Action{"before": CutBefore(), "after": CutAfter()} {
		t.Run(name, func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				s := Start(t)
				r := rawMemory(t, s)
				k := r.hello(0, 10000, 0, make([]byte, passwordLength))
				s.Intercept(func(q Request) Action {
					if q.Op == OpCreate && q.Count == 3 {
						return act
					}
					return Pass()
				})
				var all []byte
				for _, p := range []string{"/1", "/2", "/3", "/4"} {
					all = append(all, r.frame(OpCreate, createBody(p, 0))...)
				}
				r.write(all)
				for xid := int32(1); xid <= 2; xid++ {
					if a := r.next(); a.xid != xid || a.code != ok {
						t.Errorf("answer %+v, want %d", a, xid)
					}
				}
				r.ended("cut")
				if s.Exists("/3") != (name == "after") || s.Exists("/4") {
					t.Errorf("cut %s the third of four creates, the nodes are %v; want no /4", name, s.Tree())
				}
				if got := rawMemory(t, s).hello(0, 10000, k.session, k.password); got.session != k.session {
					t.Errorf("a resume after the cut gives session %#x, want %#x", got.session, k.session)
				}
			})
		})
	}
}

func TestInterceptedHandshake(t *testing.T) {
	for name, test := range map[string]struct {
		act      Action
		sessions int
	}{
		"cut before": {CutBefore(), 0}, "cut after": {CutAfter(), 1}, "fail": {Fail(Throttled), 0},
	} {
		t.Run(name, func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				s := Start(t)
				s.Intercept(func(Request) Action { return test.act })
				r := rawMemory(t, s)
				r.sendHello(0, 10000, 0, make([]byte, passwordLength))
				r.ended(name)
				if n := len(s.Sessions()); n != test.sessions {
					t.Errorf("%d sessions, want %d", n, test.sessions)
				}
				// A session of which the client never heard expires like any other.
				time.Sleep(20 * time.Second)
				synctest.Wait()
				if n := len(s.Sessions()); n != 0 {
					t.Errorf("%d sessions are left of which no client heard, want none", n)
				}
			})
		})
	}
}

func TestOpsAndCodesHaveNames(t *testing.T) {
	for op := OpClose; op <= OpSetWatches; op++ {
		known := !strings.HasPrefix(op.String(), "op ")
		_, err := decodeCall(op, &decoder{})
		// Operations that have a body fail without one, and these have names.
		if err != nil && !known {
			t.Errorf("op %d has a body and no name, want one", op)
		}
	}
	if got := Op(77).String(); got != "op 77" {
		t.Errorf("an op that is not known is called %q, want op 77", got)
	}
	for _, c := range []Code{ok, NoNode, Throttled, Code(-999)} {
		if !strings.HasPrefix(c.Error(), "zktest: ") {
			t.Errorf("code %d is called %q, want a name that begins with the package", int32(c), c.Error())
		}
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
	tb := &failing{}
	if s := Start(tb, Tick(-1)); s != nil || !tb.fatal {
		t.Errorf("Start with a tick of -1 = %v, fatal %t; want nil, and the test failed", s, tb.fatal)
	}
	tb = &failing{}
	s := Start(tb)
	r := rawTCP(t, s.Addr())
	for _, fn := range tb.cleanups {
		fn()
	}
	if _, err := io.ReadAll(r); tb.fatal || len(tb.cleanups) != 1 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after %d clean-ups the client reads %v, want the one clean-up to close the server", len(tb.cleanups), err)
	}
}

// The script sees the bounds at a tick of 500 ms. Without a setting they are those of a real server without one.
func TestTheDefaultTickGrantsTimeoutsOfFourToFortySeconds(t *testing.T) {
	s := Start(t)
	for asked, want := range map[int32]int32{-1: 4000, 3999: 4000, 4000: 4000, 17_000: 17_000, 40_000: 40_000, 40_001: 40_000} {
		if got := rawTCP(t, s.Addr()).hello(0, asked, 0, make([]byte, passwordLength)).timeout; got != want {
			t.Errorf("a client that asks for %d ms is granted %d ms, want %d", asked, got, want)
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
