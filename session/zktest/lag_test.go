package zktest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// news reads what has come without a request, one event for each.
func (r *rawClient) news(want ...event) {
	r.tb.Helper()
	for _, e := range want {
		a := r.next()
		if got := (event{eventKind(a.body.int32()), ""}); a.xid != eventXid || got.kind != e.kind {
			r.tb.Fatalf("got %+v, want the event %+v", a, e)
		}
		if _, path := a.body.int32(), a.body.string(); path != e.path {
			r.tb.Fatalf("got event %d of %s, want of %s", e.kind, path, e.path)
		}
	}
}

// reads fails the test unless the node has this data.
func (r *rawClient) reads(when, path, want string, watched bool) {
	r.tb.Helper()
	if got := r.can(OpGetData, about(path, watched), ok).body.bytes(); string(got) != want {
		r.tb.Errorf("%s %s is %q, want %q", when, path, got, want)
	}
}

// lists fails the test unless the node has these children.
func (r *rawClient) lists(when, path string, watched bool, want ...string) {
	r.tb.Helper()
	if got := r.can(OpGetChildren, about(path, watched), ok).body.strings(); !slices.Equal(got, want) {
		r.tb.Errorf("%s the children of %s are %v, want %v", when, path, got, want)
	}
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
		if got := r.call(OpPing, nil).zxid; got != zxid {
			t.Errorf("a follower that lags answers with zxid %d, want %d", got, zxid)
		}
		r.reads("in the lag", "/set", "", false)
		r.lists("in the lag", "/", true, "dir", "old", "set", "zookeeper")
		r.can(OpExists, about("/new", true), NoNode)
		if n := s.Watches(); n != 4 {
			t.Errorf("%d watches, want 4", n)
		}
		eventstest.Must(t, s.Create("/dir/child", nil))

		// The follower's own write is answered from the present, and the past comes before it.
		r.request(OpCreate, createBody("/dir/mine", 0))
		r.news(event{nodeDeleted, "/old"}, event{childrenChanged, "/"})
		r.news(event{nodeCreated, "/new"}, event{childrenChanged, "/dir"})
		if a := r.next(); a.code != ok || a.zxid != zxid+5 {
			t.Errorf("the write is answered %+v, want the zxid %d", a, zxid+5)
		}
		r.lists("after its write", "/dir", false, "child", "mine")
		r.reads("after its write", "/dir", "", true) // and it lags again
		eventstest.Must(t, s.SetData("/dir", []byte("y")))
		r.reads("after its write", "/dir", "", false)
		r.request(OpSync, appendString(nil, "/"))
		r.news(event{dataChanged, "/dir"})
		if got := r.next().zxid; got != zxid+6 {
			t.Errorf("a sync is answered with zxid %d, want %d", got, zxid+6)
		}
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
		if k := again.hello(r.ticket); k.session != r.session {
			t.Errorf("session %#x on the new connection, want %#x", k.session, r.session)
		}
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
			r.can(OpPing, nil, ok) // no sign of life gets through
		}
		if s.Exists("/e") || len(s.Sessions()) != 0 {
			t.Errorf("after 30 s there are sessions %v and nodes %v, want it expired", s.Sessions(), s.Tree())
		}
		r.can(OpExists, about("/e", false), ok) // to the client all is as it was
		s.Strand(r.session, false)
		r.news(event{nodeDeleted, "/e"})
		r.ended("an expired session that finds its leader")
	})
}

func TestStrandedWriteWaits(t *testing.T) {
	withMember(t, 10_000, func(t *testing.T, s *Server, r *rawClient) {
		s.Strand(r.session, true)
		r.request(OpCreate, createBody("/x", 0))
		r.request(OpPing, nil) // waits behind it
		r.quiet(3 * time.Second)
		if s.Exists("/x") {
			t.Error("a write on the stranded connection was executed, want it held back")
		}
		s.Strand(r.session, false)
		if a := r.next(); a.code != ok || !s.Exists("/x") {
			t.Errorf("with its leader back the follower answers the write %+v, want it executed", a)
		}
		r.next()

		// If the client gives up the connection meanwhile, the write is not executed.
		s.Strand(r.session, true)
		r.request(OpCreate, createBody("/y", 0))
		if !r.resumes(s) || s.Exists("/y") {
			t.Error("the session cannot be resumed elsewhere, or the write was executed; want neither")
		}
	})
}

// TestAFollowerKeepsSignsOfLifeToItself until the leader asks, every second here.
func TestAFollowerKeepsSignsOfLifeToItself(t *testing.T) {
	for _, c := range []struct {
		settings   []Setting
		ping, sent time.Duration // a ping, and a write right before the follower loses its leader
		ends       time.Duration
	}{
		{nil, 3300 * time.Millisecond, 4900 * time.Millisecond, 16 * time.Second}, // the first tick beyond 14.9 s
		// The leader has heard of the ping at 4 s.
		{[]Setting{Followers()}, 3300 * time.Millisecond, 4900 * time.Millisecond, 16 * time.Second},
		// It has heard of the handshake only. The session lives for less than its
		// timeout.
		{[]Setting{Followers()}, 3300 * time.Millisecond, 3900 * time.Millisecond, 12 * time.Second},
	} {
		eventstest.Bubble(t, func(t *testing.T) {
			s := Start(t, c.settings...)
			start := time.Now()
			r := member(t, s, 10_000)
			time.Sleep(c.ping)
			r.can(OpPing, nil, ok)
			time.Sleep(c.sent - c.ping)
			r.can(OpCreate, createBody("/x", flagEphemeral), ok)
			s.Strand(r.session, true)
			expiry(t, s, r.session)
			if got := time.Since(start); got != c.ends {
				t.Errorf("with %d settings, and a write after %v, the session ends after %v, want %v",
					len(c.settings), c.sent, got, c.ends)
			}
			synctest.Wait()
			s.Strand(r.session, false)
		})
	}
}
