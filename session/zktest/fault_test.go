package zktest

import (
	"errors"
	"io"
	"os"
	"reflect"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// expiry waits until a session is gone, and returns how long that took in virtual time.
func expiry(t *testing.T, s *Server, id int64) time.Duration {
	t.Helper()
	start := time.Now()
	for slices.Contains(s.Sessions(), id) {
		if time.Since(start) > 10*time.Minute {
			t.Fatalf("session %#x never expires", id)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait() // what is due at this moment has happened
	}
	return time.Since(start)
}

// quiet fails the test if the server says anything within d.
func (r *rawClient) quiet(d time.Duration) {
	r.tb.Helper()
	eventstest.Must(r.tb, r.SetReadDeadline(time.Now().Add(d)))
	if b, err := r.in.next(); !errors.Is(err, os.ErrDeadlineExceeded) {
		r.tb.Errorf("the server sends %v, %v; want silence", b, err)
	}
	eventstest.Must(r.tb, r.SetReadDeadline(time.Time{}))
}

func TestAServerThatIsDownKeepsSessions(t *testing.T) {
	withMember(t, 10_000, func(t *testing.T, s *Server, r *rawClient) {
		s.Down(true)
		r.ended("a server that is down")
		if _, err := s.DialContext(t.Context(), "tcp", s.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a dial to a server that is down: %v, want it refused", err)
		}
		time.Sleep(5 * time.Second)
		s.Down(false)
		if !r.resumes(s) {
			t.Error("after 5 s without a server the session of 10 s cannot be resumed, want it to live on")
		}
		s.Down(false) // this changes nothing
		synctest.Wait()
		if n := s.Connections(); n != 1 {
			t.Errorf("%d connections are left after Down(false), want 1", n)
		}
		s.Down(true)
		if d := expiry(t, s, r.session); d <= 10*time.Second || d > 12*time.Second {
			t.Errorf("without a server the session of 10 s expires after %v, want 10 to 12 s", d)
		}
		s.Down(false)
		if r.resumes(s) {
			t.Error("a session that has expired is resumed, want it refused")
		}
	})
	s := Start(t)
	r := rawTCP(t, s.Addr())
	r.ticket = r.hello(ticket{timeout: 10_000})
	s.Down(true)
	r.ended("a server that is down")
	if b, _ := io.ReadAll(rawTCP(t, s.Addr())); len(b) != 0 {
		t.Errorf("over TCP a server that is down says %q, want nothing", b)
	}
	s.Down(false)
	if again := rawTCP(t, s.Addr()).hello(r.ticket); again.session != r.session {
		t.Errorf("over TCP the session is %#x when the server is up again, want %#x", again.session, r.session)
	}
}

// TestASessionEndsAtATick beyond its timeout, which is between 2 and 20 ticks.
func TestASessionEndsAtATick(t *testing.T) {
	for _, c := range []struct {
		tick, asked, want time.Duration
	}{
		{2 * time.Second, 8 * time.Second, 10 * time.Second}, // 8 s is a boundary, and the next one counts
		{100 * time.Millisecond, time.Hour, 2100 * time.Millisecond},
	} {
		eventstest.Bubble(t, func(t *testing.T) {
			s := Start(t, Tick(c.tick))
			r := member(t, s, int32(c.asked.Milliseconds()))
			if got := expiry(t, s, r.session); got != c.want {
				t.Errorf("with a tick of %v a session of %v expires after %v, want %v", c.tick, c.asked, got, c.want)
			}
		})
	}
	s := Start(t) // with the tick of a real server without a setting
	for asked, want := range map[int32]int32{
		-1: 4000, 3999: 4000, 4000: 4000, 17_000: 17_000, 40_000: 40_000, 40_001: 40_000,
	} {
		if got := rawTCP(t, s.Addr()).hello(ticket{timeout: asked}).timeout; got != want {
			t.Errorf("a client that asks for %d ms is granted %d ms, want %d", asked, got, want)
		}
	}
}

func TestMuteKeepsEverythingBack(t *testing.T) {
	withMember(t, 30_000, func(t *testing.T, s *Server, r *rawClient) {
		r.can(OpCreate, createBody("/x", 0), ok)
		r.can(OpGetData, about("/x", true), ok)
		s.Mute(r.session, true)
		eventstest.Must(t, s.Delete("/x"))
		r.quiet(5 * time.Second)
		s.Mute(r.session, false)
		if e := r.next(); e.xid != eventXid {
			t.Errorf("when the server is heard again it sends %+v, want the event", e)
		}
	})
	withMember(t, 4000, func(t *testing.T, s *Server, r *rawClient) {
		r.can(OpCreate, createBody("/x", flagEphemeral), ok)
		s.Mute(r.session, true)
		r.request(OpCreate, createBody("/late", 0))
		r.quiet(20 * time.Second)
		if len(s.Tree()) != 0 || len(s.Sessions()) != 0 || len(s.tree.ephemerals) != 0 {
			t.Errorf("muted, a session of 4 s has left sessions %v and nodes %v, want none", s.Sessions(), s.Tree())
		}
		again := rawMemory(t, s)
		again.write(frame(greeting(0, r.ticket)))
		again.quiet(20 * time.Second)
		s.Mute(r.session, false)
		r.ended("an expired session that is heard again")
		if body, err := again.receive(); err != nil || len(body) != 36 {
			t.Errorf("the late handshake of an expired session is answered %v, %v; want 36 bytes", body, err)
		}
		again.ended("a refused handshake")
		if s.Exists("/late") {
			t.Error("the node of an expired session's request is there, want it missing")
		}
	})
}

// TestActions sends four creates in one write, because a later one would find the
// connection closed, and decides about the third. What comes before it is answered all
// the same.
func TestActions(t *testing.T) {
	type answers map[int32]Code
	all, four := []string{"/1", "/2", "/3", "/4"}, answers{1: ok, 2: ok, 3: ok, 4: ok}
	for name, c := range map[string]struct {
		act     Action
		answers answers
		nodes   []string
		ends    bool
		after   time.Duration // the third answer
	}{
		"pass":       {Pass(), four, all, false, 0},
		"cut before": {CutBefore(), answers{1: ok, 2: ok}, all[:2], true, 0},
		"cut after":  {CutAfter(), answers{1: ok, 2: ok}, all[:3], true, 0},
		"fail":       {Fail(NoAuth), answers{1: ok, 2: ok, 3: NoAuth, 4: ok}, []string{"/1", "/2", "/4"}, false, 0},
		"swallow":    {Swallow(), answers{1: ok, 2: ok, 4: ok}, all, false, 0},
		"delay":      {Delay(3 * time.Second), four, all, false, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			withMember(t, 10_000, func(t *testing.T, s *Server, r *rawClient) {
				s.Intercept(func(q Request) Action {
					if q.Op == OpCreate && q.Count == 3 {
						return c.act
					}
					return Pass()
				})
				start := time.Now()
				var requests []byte
				for _, p := range all {
					requests = append(requests, r.frame(OpCreate, createBody(p, 0))...)
				}
				r.write(requests)
				synctest.Wait()
				if got := s.Tree(); !slices.Equal(got, c.nodes) {
					t.Errorf("the nodes are %v, want %v", got, c.nodes)
				}
				for xid := range int32(4) {
					want, told := c.answers[xid+1]
					if !told {
						continue
					}
					if a := r.next(); a.xid != xid+1 || a.code != want {
						t.Errorf("the answer is %d, %v; want %d, %v", a.xid, a.code, xid+1, want)
					}
					if got := time.Since(start); xid == 1 && got != 0 || xid >= 2 && got != c.after {
						t.Errorf("answer %d comes after %v, want the third and what follows it after %v", xid+1, got, c.after)
					}
				}
				if c.ends {
					r.ended("cut")
				} else {
					r.quiet(time.Second)
				}
				if !r.resumes(s) {
					t.Error("the session cannot be resumed, want it to live on")
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
				r.write(frame(greeting(0, ticket{timeout: 10_000})))
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

// TestInterceptSeesEachRequest, and may use the server: a session that ends before its
// request is executed has no node.
func TestInterceptSeesEachRequest(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := Start(t)
		var seen []Request
		s.Intercept(func(q Request) Action {
			if seen = append(seen, q); q.Path == "/late" {
				eventstest.Check(t, s.Expire(q.Session))
			}
			return Pass()
		})
		r := member(t, s, 10_000)
		r.can(OpCreate, createBody("/x", 0), ok)
		r.can(OpCreate, createBody("/y", 0), ok)
		r.can(OpMulti, multiBody(part(OpCheck, versioned("/x", -1)), part(OpDelete, versioned("/y", -1))), ok)
		r.request(OpCreate, createBody("/late", 0))
		r.ended("a session that expires")
		want := []Request{
			{Op: OpConnect, Count: 1},
			{Session: r.session, Op: OpCreate, Path: "/x", Count: 1},
			{Session: r.session, Op: OpCreate, Path: "/y", Count: 2},
			{Session: r.session, Op: OpMulti, Path: "/x", Count: 1, Parts: []Part{{OpCheck, "/x"}, {OpDelete, "/y"}}},
			{Session: r.session, Op: OpCreate, Path: "/late", Count: 3},
		}
		if !reflect.DeepEqual(seen, want) {
			t.Errorf("the hook saw\n%+v, want\n%+v", seen, want)
		}
		if s.Exists("/late") {
			t.Error("the node of a session that expired before the request is there, want it missing")
		}
		if err := s.Expire(r.session); err == nil {
			t.Error("Expire of a session that has ended = nil, want an error")
		}
	})
}
