package zktest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// news reads events that must be next, in this order.
func (r *rawClient) news(want ...event) {
	r.tb.Helper()
	for _, e := range want {
		a := r.next()
		kind, _, path := eventKind(a.body.int32()), a.body.int32(), a.body.string()
		if a.xid != eventXid || kind != e.kind || path != e.path {
			r.tb.Fatalf("got %+v, event %d of %s; want %+v", a, kind, path, e)
		}
	}
}

func (r *rawClient) reads(when, path, want string, watched bool) {
	r.tb.Helper()
	eventstest.Equal(r.tb, string(r.can(OpGetData, about(path, watched), ok).body.bytes()), want,
		"%s %s", when, path)
}

func (r *rawClient) lists(when, path string, watched bool, want ...string) {
	r.tb.Helper()
	got := r.can(OpGetChildren, about(path, watched), ok).body.strings()
	eventstest.Expect(r.tb, slices.Equal(got, want), "%s %s has %v, want %v", when, path, got, want)
}

func TestALaggingFollowerShowsThePastUntilAWrite(t *testing.T) {
	withMember(t, 30_000, func(t *testing.T, s *Server, r *rawClient) {
		for _, p := range []string{"/old", "/set", "/dir"} {
			eventstest.Must(t, s.Create(p, nil))
		}
		r.reads("before the lag", "/old", "", true)
		r.lists("before the lag", "/dir", true)
		zxid := r.call(OpPing, nil).zxid
		s.Lag(r.session, true)
		eventstest.Must(t, s.Delete("/old"))
		eventstest.Must(t, s.Create("/new", nil))
		eventstest.Must(t, s.SetData("/set", []byte("x")))
		eventstest.Equal(t, r.call(OpPing, nil).zxid, zxid, "a follower that lags answers with zxid")
		r.reads("in the lag", "/set", "", false)
		r.lists("in the lag", "/", true, "dir", "old", "set", "zookeeper")
		r.can(OpExists, about("/new", true), NoNode)
		eventstest.Equal(t, s.Watches(), 4, "watches")
		eventstest.Must(t, s.Create("/dir/child", nil))

		// The follower's own write is answered with the current state, after the events
		// that it has missed.
		r.request(OpCreate, createBody("/dir/mine", 0))
		r.news(event{nodeDeleted, "/old"}, event{childrenChanged, "/"})
		r.news(event{nodeCreated, "/new"}, event{childrenChanged, "/dir"})
		a := r.next()
		eventstest.Expect(t, a.code == ok && a.zxid == zxid+5, "the write is answered %+v after %d", a, zxid)
		r.lists("after its write", "/dir", false, "child", "mine")
		r.reads("after its write", "/dir", "", true) // and it lags again
		eventstest.Must(t, s.SetData("/dir", []byte("y")))
		r.reads("after its write", "/dir", "", false)
		r.request(OpSync, appendString(nil, "/"))
		r.news(event{dataChanged, "/dir"})
		eventstest.Equal(t, r.next().zxid, zxid+6, "a sync is answered with zxid")
	})
}

func TestLagEndsOnRequestAndWithTheConnection(t *testing.T) {
	withMember(t, 10_000, func(t *testing.T, s *Server, r *rawClient) {
		eventstest.Must(t, s.Create("/x", nil))
		s.Lag(r.session, true)
		r.can(OpExists, about("/new", true), NoNode)
		eventstest.Must(t, s.SetData("/x", []byte("y")))
		s.Lag(r.session, false)
		r.reads("after the lag", "/x", "y", false)
		eventstest.Must(t, s.Create("/new", nil))
		r.news(event{nodeCreated, "/new"})
		s.Lag(r.session, true)
		s.Cut(r.session)
		eventstest.Must(t, s.Create("/z", nil))
		again := rawMemory(t, s)
		eventstest.Equal(t, again.hello(r.ticket).session, r.session, "the session on the new connection")
		again.reads("on a new connection", "/z", "", false)
	})
}

func TestStrandedSessionExpiresUnawares(t *testing.T) {
	withMember(t, 10_000, func(t *testing.T, s *Server, r *rawClient) {
		r.can(OpCreate, createBody("/e", flagEphemeral), ok)
		r.can(OpGetData, about("/e", true), ok)
		s.Strand(r.session, true)
		for range 10 {
			time.Sleep(3 * time.Second)
			r.can(OpPing, nil, ok) // no sign of life reaches the leader
		}
		eventstest.Expect(t, !s.Exists("/e") && len(s.Sessions()) == 0,
			"after 30 s there are sessions %v and nodes %v, want it expired", s.Sessions(), s.Tree())
		r.can(OpExists, about("/e", false), ok) // to the client, everything is as before
		s.Strand(r.session, false)
		r.news(event{nodeDeleted, "/e"})
		r.ended("an expired session that finds its leader")
	})
}

func TestStrandedWriteWaits(t *testing.T) {
	withMember(t, 10_000, func(t *testing.T, s *Server, r *rawClient) {
		s.Strand(r.session, true)
		r.request(OpCreate, createBody("/x", 0))
		r.request(OpPing, nil) // waits after it
		r.quiet(3 * time.Second)
		eventstest.Expect(t, !s.Exists("/x"), "a write on the stranded connection was executed")
		s.Strand(r.session, false)
		a := r.next()
		eventstest.Expect(t, a.code == ok && s.Exists("/x"), "with its leader back it answers %+v", a)
		r.next()

		// If the client gives up the connection meanwhile, the write is not executed.
		s.Strand(r.session, true)
		r.request(OpCreate, createBody("/y", 0))
		eventstest.Expect(t, r.resumes(s), "the session cannot be resumed elsewhere")
		eventstest.Expect(t, !s.Exists("/y"), "the write was executed")
	})
}

// TestAFollowerKeepsSignsOfLifeToItself until the leader asks, which is every second
// here.
func TestAFollowerKeepsSignsOfLifeToItself(t *testing.T) {
	for _, c := range []struct {
		settings   []Setting
		ping, sent time.Duration // when a ping is sent, and a write right before the follower loses its leader
		ends       time.Duration
	}{
		{nil, 3300 * time.Millisecond, 4900 * time.Millisecond, 16 * time.Second}, // the first tick after 14.9 s
		// The leader learned of the ping at 4 s.
		{[]Setting{Followers()}, 3300 * time.Millisecond, 4900 * time.Millisecond, 16 * time.Second},
		// It has learned only of the handshake. The session lives for less than its
		// timeout.
		{[]Setting{Followers()}, 3300 * time.Millisecond, 3900 * time.Millisecond, 12 * time.Second},
	} {
		withMember(t, 10_000, func(t *testing.T, s *Server, r *rawClient) {
			start := time.Now()
			time.Sleep(c.ping)
			r.can(OpPing, nil, ok)
			time.Sleep(c.sent - c.ping)
			r.can(OpCreate, createBody("/x", flagEphemeral), ok)
			s.Strand(r.session, true)
			expiry(t, s, r.session)
			eventstest.Equal(t, time.Since(start), c.ends,
				"%d settings, a write after %v: the end", len(c.settings), c.sent)
			synctest.Wait()
			s.Strand(r.session, false)
		}, c.settings...)
	}
}
