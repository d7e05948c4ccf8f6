package session_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestNewsOfASession(t *testing.T) {
	inSession(t, func(r *rig) {
		first := r.s.ID()
		early := r.seat()
		if got := early.want("Opened")[0]; got != (recipes.Opened{Epoch: 1, Session: first}) || first != r.only() {
			t.Errorf("%+v in session %#x", got, first)
		}
		if got := r.s.Timeout(); got != timeout {
			t.Errorf("timeout %v", got)
		}

		r.srv.Down(true)
		early.want("Suspended")
		r.wantState(session.Suspended)
		late := r.seat()
		late.want("Opened Suspended")
		r.srv.Down(false)
		r.settle()
		early.want("Reconnected")
		late.want("Reconnected")
		if r.s.ID() != first {
			t.Errorf("session %#x became %#x", first, r.s.ID())
		}

		if err := r.srv.Expire(first); err != nil {
			t.Fatal(err)
		}
		r.until("there is a second session", func() bool { return r.s.State() == session.Connected && r.s.ID() != first })
		second := r.s.ID()
		for _, s := range []*seat{early, late} {
			got := s.want("Suspended Expired Opened")
			if got[2] != (recipes.Opened{Epoch: 2, Session: second}) {
				t.Errorf("%+v in session %#x", got[2], second)
			}
			if s.Session(1) != 0 || s.Session(2) != second || !s.Deadline(1).IsZero() {
				t.Errorf("epoch 1 has session %#x and a lease until %v, epoch 2 has session %#x", s.Session(1), s.Deadline(1), s.Session(2))
			}
		}
		if got, want := r.told(), "Connected Suspended Resumed Suspended SessionExpired Connected"; got != want {
			t.Errorf("told %s, want %s", got, want)
		}
		if got := r.heard[0].(events.Connected); got != (events.Connected{Session: first, Timeout: timeout, Server: r.srv.Addr()}) {
			t.Errorf("%+v", got)
		}
		if got := r.heard[4].(events.SessionExpired); got.Session != first {
			t.Errorf("%+v", got)
		}

		late.Close()
		r.srv.Down(true)
		early.want("Suspended")
		late.want("")
		r.srv.Down(false)
		r.settle()
		early.want("Reconnected")
		r.s.Close(time.Second)
		early.want("Expired")
		late.want("")
		r.wantState(session.Closed)
		if r.s.ID() != 0 || early.Session(2) != 0 || !early.Deadline(2).IsZero() {
			t.Error("there is a session after Close")
		}
		if n := len(r.srv.Sessions()); n != 0 {
			t.Errorf("the server has %d sessions after Close", n)
		}
	})
}

// Whatever is done to it, each session belongs to a client of its own.
func TestOneSessionForEachEpoch(t *testing.T) {
	inSession(t, func(r *rig) {
		var made atomic.Int32
		r.srv.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op == zktest.OpConnect && q.Session == 0 {
				made.Add(1)
			}
			return zktest.Pass()
		})
		seat := r.seat()
		seat.want("Opened")
		for epoch := recipes.Epoch(2); epoch < 12; epoch++ {
			if err := r.srv.Expire(r.only()); err != nil {
				t.Fatal(err)
			}
			r.until("there is another session", func() bool { return seat.Session(epoch) != 0 })
			if got := seat.want("Suspended Expired Opened")[2]; got != (recipes.Opened{Epoch: epoch, Session: r.only()}) {
				t.Errorf("%+v", got)
			}
			if n := made.Load(); n != int32(epoch)-1 {
				t.Errorf("%d new sessions in epoch %d", n, epoch)
			}
			if n := r.srv.Connections(); n != 1 {
				t.Errorf("%d connections in epoch %d", n, epoch)
			}
		}
	})
}

// Servers that have lost their data refuse a client that knows more than they do, without a word, and would do so for ever.
func TestASessionThatNoServerTakesBack(t *testing.T) {
	inSession(t, func(r *rig) {
		s := r.seat()
		s.want("Opened")
		s.claim(1, s.create(1).Text)
		start := time.Now()
		r.srv.Wipe()
		r.until("there is another session", func() bool { return s.Session(2) != 0 })
		if took := time.Since(start); took < lease+timeout || took > lease+timeout+2*time.Second {
			t.Errorf("another session after %v", took)
		}
		s.want("Suspended LeaseRanOut Expired Opened")
		s.create(2)
	})
}

// A server that is behind for a while is no reason to give a session up.
func TestASessionThatIsTakenBackLate(t *testing.T) {
	inSession(t, func(r *rig) {
		r.plant("n")
		s := r.seat()
		s.want("Opened")
		s.claim(1, "n")
		r.srv.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op == zktest.OpConnect {
				return zktest.CutBefore()
			}
			return zktest.Pass()
		})
		r.srv.Cut(r.only())
		time.Sleep(lease + time.Second)
		s.want("Suspended LeaseRanOut")
		r.srv.Intercept(nil)
		r.settle()
		s.want("Reconnected")
	})
}

// The lease of a session in which nothing is held ran out long ago. That says nothing
// about the session.
func TestAnIdleSessionThatIsTakenBackLate(t *testing.T) {
	inSession(t, func(r *rig) {
		s := r.seat()
		time.Sleep(time.Hour)
		r.srv.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op == zktest.OpConnect {
				return zktest.CutBefore()
			}
			return zktest.Pass()
		})
		r.srv.Cut(r.only())
		time.Sleep(10 * time.Second)
		r.srv.Intercept(nil)
		r.settle()
		s.want("Opened Suspended Reconnected")
	})
}

func TestOpenWaitsForAServer(t *testing.T) {
	bubble(t, func(r *rig) {
		r.srv.Down(true)
		start := time.Now()
		time.AfterFunc(time.Minute, func() { r.srv.Down(false) })
		r.open("")
		if took := time.Since(start); took < time.Minute || took > time.Minute+2*time.Second {
			t.Errorf("open after %v", took)
		}
	})
}

func TestOpenEndsWithItsContext(t *testing.T) {
	for name, c := range map[string]struct {
		bad  func(*rig)
		want string // part of the error
	}{
		"refused": {func(r *rig) { r.srv.Down(true) }, syscall.ECONNREFUSED.Error()},
		"mute":    {func(r *rig) { r.srv.MuteAll(true) }, "handshake timed out"},
		"cut": {func(r *rig) {
			r.srv.Intercept(func(zktest.Request) zktest.Action { return zktest.CutBefore() })
		}, "closed the connection during the handshake"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				c.bad(r)
				ctx, cancel := context.WithTimeout(context.Background(), timeout)
				defer cancel()
				start := time.Now()
				s, err := session.Open(ctx, r.servers(""), r.config(), r.group, r.news)
				if s != nil || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v: %v", s, err)
				}
				if took := time.Since(start); took > timeout+3*time.Second {
					t.Errorf("took %v", took)
				}
				if got := r.told(); got != "" {
					t.Errorf("told %s", got)
				}
				r.group.Close()
			})
		})
	}
}

func TestOpenHasTheCauseOfItsContext(t *testing.T) {
	bubble(t, func(r *rig) {
		r.srv.Down(true)
		why := errors.New("changed my mind")
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(why)
		if _, err := session.Open(ctx, r.servers(""), r.config(), r.group, r.news); !errors.Is(err, why) {
			t.Error(err)
		}
		r.group.Close()
	})
}

func withAuth(scheme, auth string) session.Option {
	return session.OptionFunc(func(c *session.Config) {
		c.Auth = append(c.Auth, session.Auth{Scheme: scheme, Auth: []byte(auth)})
	})
}

// Nobody hears of a session before it has its identities, and each connection gets them anew.
func TestIdentitiesComeFirst(t *testing.T) {
	acl := zk.DigestACL(zk.PermAll, "ann", "secret")
	bubble(t, func(r *rig) {
		r.open("", withAuth("digest", "ann:secret"), withAuth("digest", "bob:other"), session.OptionFunc(func(c *session.Config) { c.ACL = acl }))
		auths := func() int { return r.srv.Requests(zktest.OpAuth) }
		if n := auths(); n != 2 {
			t.Errorf("%d identities sent", n)
		}
		seat := r.seat()
		seat.create(1)
		r.srv.Cut(r.only())
		r.until("it is sent again", func() bool { return auths() == 4 })
		r.settle()
		seat.list(1) // which nobody else may
		if err := r.srv.Expire(r.only()); err != nil {
			t.Fatal(err)
		}
		r.until("there is another session", func() bool { return seat.Session(2) != 0 })
		if n := auths(); n != 6 {
			t.Errorf("%d identities sent, want 6", n)
		}
		seat.fresh()
		seat.create(2)

		// The connection breaks while they are being added.
		r.srv.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op == zktest.OpAuth && q.Count == 8 {
				return zktest.CutAfter()
			}
			return zktest.Pass()
		})
		if err := r.srv.Expire(r.only()); err != nil {
			t.Fatal(err)
		}
		r.until("there is another session", func() bool { return seat.Session(3) != 0 })
		seat.want("Suspended Expired Opened")
		seat.create(3)
	})
}

func TestWrongIdentity(t *testing.T) {
	bubble(t, func(r *rig) {
		start := time.Now()
		_, err := session.Open(context.Background(), r.servers(""), r.config(withAuth("none", "x")), r.group, r.news)
		if !errors.Is(err, session.ErrNoAuth) || !errors.Is(err, zk.ErrAuthFailed) {
			t.Error(err)
		}
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("took %v", took)
		}
		r.group.Close()
	})
}

func TestChroot(t *testing.T) {
	bubble(t, func(r *rig) {
		r.open("/app/one") // which does not exist
		a, top := r.seat(), r.seatAt(session.Place{Dir: "/"})
		name := a.create(1)
		if want := []string{"/app", "/app/one", "/app/one/locks", "/app/one/locks/a", "/app/one/locks/a/" + name.Text}; !slices.Equal(r.srv.Tree(), want) {
			t.Errorf("made %v, want %v", r.srv.Tree(), want)
		}
		listed := a.list(1)
		if listed.Own.Name != name || listed.Own.Owner != r.only() || listed.Own.Token == 0 {
			t.Errorf("%+v", listed)
		}
		// The chroot itself is a lock's directory, too.
		if node := top.create(1).Text; !r.srv.Exists("/app/one/" + node) {
			t.Errorf("made %v", r.srv.Tree())
		}
	})
}

func TestCloseIsBounded(t *testing.T) {
	const grace = 2 * time.Second
	for name, c := range map[string]struct {
		bad  func(*rig)
		want time.Duration // at most
	}{
		"good":   {func(*rig) {}, 100 * time.Millisecond},
		"mute":   {func(r *rig) { r.srv.MuteAll(true) }, grace + 2*time.Second},
		"down":   {func(r *rig) { r.srv.Down(true) }, grace + 2*time.Second},
		"silent": {func(r *rig) { r.srv.Intercept(func(zktest.Request) zktest.Action { return zktest.Swallow() }) }, grace + 2*time.Second},
		"mute after a cut": {func(r *rig) {
			r.srv.MuteAll(true)
			r.srv.CutAll()
			time.Sleep(time.Second)
		}, grace + 2*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.open("")
				seats := make([]*seat, 300) // more than are made at a time
				for i := range seats {
					seats[i] = r.seat()
					seats[i].want("Opened")
				}
				c.bad(r)
				for _, s := range seats {
					s.Create(recipes.Create{Epoch: 1, Attempt: 1})
					s.Claim(recipes.Claim{Epoch: 1, Node: "none"})
				}
				start := time.Now()
				r.s.Close(grace)
				if took := time.Since(start); took > c.want {
					t.Errorf("took %v, want at most %v", took, c.want)
				}
				r.group.Close()
				for _, s := range seats {
					answers := 0
					for _, in := range s.fresh() {
						switch in.(type) {
						case recipes.Created, recipes.Refused, recipes.Unknown, recipes.Claimed:
							answers++
						}
					}
					if answers != 2 {
						t.Fatalf("%d answers to 2 requests: %+v", answers, s.inputs)
					}
				}
				r.srv.MuteAll(false)
				r.srv.Intercept(nil)
				r.until("the server has no session", func() bool { return len(r.srv.Sessions()) == 0 })
				if n := len(r.srv.Children(dir)); n != 0 {
					t.Errorf("%d nodes left", n)
				}
			})
		})
	}
}

func TestCloseTwice(t *testing.T) {
	bubble(t, func(r *rig) {
		r.open("")
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.s.Close(time.Second)
		}()
		r.s.Close(time.Second)
		<-done
		seat := r.seat() // opened after the end, and answered all the same
		seat.Create(recipes.Create{Epoch: 1, Attempt: 1})
		if in := seat.answer(); in != (recipes.Unknown{Epoch: 1, Op: recipes.OpCreate}) {
			t.Errorf("%+v", in)
		}
		r.group.Close()
	})
}

func TestStateHasAName(t *testing.T) {
	for state, want := range map[session.State]string{
		session.Connecting: "connecting", session.Connected: "connected", session.Suspended: "suspended", session.Closed: "closed", 0: "unknown",
	} {
		if got := state.String(); got != want {
			t.Errorf("%d is %q, want %q", state, got, want)
		}
	}
}
