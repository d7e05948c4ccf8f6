package zktest

import (
	"errors"
	"io"
	"os"
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
		synctest.Wait() // everything due at this moment has happened
	}
	return time.Since(start)
}

// quiet fails the test if the server sends anything within d.
func (r *rawClient) quiet(d time.Duration) {
	r.tb.Helper()
	eventstest.Must(r.tb, r.SetReadDeadline(time.Now().Add(d)))
	b, err := r.in.next()
	eventstest.Expect(r.tb, errors.Is(err, os.ErrDeadlineExceeded), "the server sends %v, %v", b, err)
	eventstest.Must(r.tb, r.SetReadDeadline(time.Time{}))
}

func TestAServerThatIsDownKeepsSessions(t *testing.T) {
	withMember(t, 10_000, func(t *testing.T, s *Server, r *rawClient) {
		s.Down(true)
		r.ended("a server that is down")
		_, err := s.DialContext(t.Context(), "tcp", s.Addr())
		eventstest.ErrorIs(t, err, syscall.ECONNREFUSED, "a dial to a server that is down")
		time.Sleep(5 * time.Second)
		s.Down(false)
		eventstest.Expect(t, r.resumes(s), "after 5 s without a server the session of 10 s cannot be resumed")
		s.Down(false) // this changes nothing
		synctest.Wait()
		eventstest.Equal(t, s.Connections(), 1, "connections after Down(false)")
		s.Down(true)
		d := expiry(t, s, r.session)
		eventstest.Expect(t, d > 10*time.Second && d <= 12*time.Second, "a session of 10 s expires after %v", d)
		s.Down(false)
		eventstest.Expect(t, !r.resumes(s), "a session that has expired is resumed, want it refused")
	})
	s := Start(t)
	r := rawTCP(t, s.Addr())
	r.ticket = r.hello(ticket{timeout: 10_000})
	s.Down(true)
	r.ended("a server that is down")
	b, _ := io.ReadAll(rawTCP(t, s.Addr()))
	eventstest.Equal(t, len(b), 0, "what a server that is down says over TCP")
	s.Down(false)
	eventstest.Equal(t, rawTCP(t, s.Addr()).hello(r.ticket).session, r.session, "the session over TCP")
}

// TestNoSessionEndsWithoutAQuorum: the server refuses every session, and says why. Then
// each has its full timeout again.
func TestNoSessionEndsWithoutAQuorum(t *testing.T) {
	withMember(t, 10_000, func(t *testing.T, s *Server, r *rawClient) {
		says := func(word string) string {
			asking := rawMemory(t, s)
			asking.write([]byte(word))
			answer, err := io.ReadAll(asking)
			eventstest.Must(t, err)
			return string(answer)
		}
		s.LoseQuorum(true)
		r.ended("a server without a quorum")
		time.Sleep(time.Hour)
		eventstest.Equal(t, says("ruok"), "imok", "ruok without a quorum")
		eventstest.Equal(t, says("srvr"), "This ZooKeeper instance is not currently serving requests\n", "srvr without a quorum")
		eventstest.Equal(t, len(s.Sessions()), 1, "sessions without a quorum")
		s.LoseQuorum(false)
		d := expiry(t, s, r.session)
		eventstest.Expect(t, d > 10*time.Second && d <= 12*time.Second, "then a session of 10 s expires after %v", d)
	})
}

// TestASessionEndsAtATick: it is the first one after the timeout. sessions.txt of the
// script bounds when.
func TestASessionEndsAtATick(t *testing.T) {
	for _, c := range []struct {
		tick, asked, want time.Duration
	}{
		{2 * time.Second, 8 * time.Second, 10 * time.Second}, // 8 s is a tick boundary, so the next one counts
		{100 * time.Millisecond, time.Hour, 2100 * time.Millisecond},
	} {
		withMember(t, int32(c.asked.Milliseconds()), func(t *testing.T, s *Server, r *rawClient) {
			eventstest.Equal(t, expiry(t, s, r.session), c.want, "a session of %v with a tick of %v", c.asked, c.tick)
		}, Tick(c.tick))
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
		r.news(event{nodeDeleted, "/x"})
	})
	withMember(t, 4000, func(t *testing.T, s *Server, r *rawClient) {
		r.can(OpCreate, createBody("/x", flagEphemeral), ok)
		s.Mute(r.session, true)
		r.request(OpCreate, createBody("/late", 0))
		r.quiet(20 * time.Second)
		eventstest.Expect(t, len(s.Tree()) == 0 && len(s.Sessions()) == 0 && len(s.tree.ephemerals) == 0,
			"muted, a session of 4 s has left sessions %v and nodes %v, want none", s.Sessions(), s.Tree())
		again := rawMemory(t, s)
		again.write(frame(greeting(0, r.ticket)))
		again.quiet(20 * time.Second)
		s.Mute(r.session, false)
		r.ended("an expired session that is heard again")
		body, err := again.receive()
		eventstest.Expect(t, err == nil && len(body) == 36, "the late handshake is answered %v, %v", body, err)
		again.ended("a refused handshake")
		eventstest.Expect(t, !s.Exists("/late"), "the node of an expired session's request is there")
	})
}

// TestActions sends four creates in one write, because a later one would find the
// connection closed, and decides about the third. Earlier ones are still answered.
func TestActions(t *testing.T) {
	type answers map[int32]Code
	all, four := []string{"/1", "/2", "/3", "/4"}, answers{1: ok, 2: ok, 3: ok, 4: ok}
	for name, c := range map[string]struct {
		act     Action
		answers answers
		nodes   []string
		ends    bool
		after   time.Duration // the delay of the third answer
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
				eventstest.Equal(t, s.Tree(), c.nodes, "the nodes")
				for xid := range int32(4) {
					want, told := c.answers[xid+1]
					if !told {
						continue
					}
					a, after := r.next(), time.Since(start)
					eventstest.Expect(t, a.xid == xid+1 && a.code == want, "answer %d is %d, %v", xid+1, a.xid, a.code)
					due := map[bool]time.Duration{true: c.after}[xid >= 2] // answers after the third wait for it
					eventstest.Equal(t, after, due, "the time of answer %d", xid+1)
				}
				if c.ends {
					r.ended("cut")
				} else {
					r.quiet(time.Second)
				}
				eventstest.Expect(t, r.resumes(s), "the session cannot be resumed, want it to live on")
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
		eventstest.Case(t, name, func(t *testing.T) {
			s := Start(t)
			s.Intercept(func(Request) Action { return test.act })
			r := rawMemory(t, s)
			r.write(frame(greeting(0, ticket{timeout: 10_000})))
			r.ended(name)
			eventstest.Equal(t, len(s.Sessions()), test.sessions, "sessions")
			// A session that its client never learned of expires like any other.
			time.Sleep(20 * time.Second)
			synctest.Wait()
			eventstest.Equal(t, len(s.Sessions()), 0, "sessions of which no client heard")
		})
	}
}

// TestInterceptSeesEachRequest: the function may use the server. A session that ends
// before its request is executed has no node.
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
		eventstest.Equal(t, seen, want, "the hook saw")
		eventstest.Expect(t, !s.Exists("/late"), "the node of a session that expired before the request is there")
		eventstest.Expect(t, s.Expire(r.session) != nil, "Expire of a session that has ended = nil, want an error")
	})
}
