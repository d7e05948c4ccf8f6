package session_test

import (
	"context"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestSeatsAreToldOfTheSession(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		first := r.Session.ID()
		early := r.Seat()
		if got := early.Want("Opened")[0]; got != (recipes.Opened{Epoch: 1, Session: first}) || first != r.Only() {
			t.Errorf("the seat is told %+v, want session %#x, which is the server's", got, first)
		}
		if got := r.Session.Timeout(); got != sessiontest.Timeout {
			t.Errorf("the timeout is %v, want %v", got, sessiontest.Timeout)
		}

		// An outage: a seat that comes in it is told as well.
		r.Server.Down(true)
		early.Want("Suspended")
		r.WantState(session.Suspended)
		late := r.Seat()
		if got := late.Want("Opened")[0]; got != (recipes.Opened{Epoch: 1, Session: first, Suspended: true}) {
			t.Errorf("a seat that comes in an outage is told %+v, want session %#x, suspended", got, first)
		}
		r.Server.Down(false)
		r.Settle()
		early.Want("Reconnected")
		late.Want("Reconnected")
		if r.Session.ID() != first {
			t.Errorf("session %#x became %#x, want it kept over the outage", first, r.Session.ID())
		}

		// The session ends, and the next one begins.
		r.Must(r.Server.Expire(first))
		r.Until("there is a second session", func() bool { return r.Session.State() == session.Connected && r.Session.ID() != first })
		second := r.Session.ID()
		for _, s := range []*sessiontest.Seat{early, late} {
			got := s.Want("Suspended Expired Opened")
			if got[2] != (recipes.Opened{Epoch: 2, Session: second}) {
				t.Errorf("after the expiry the seat is told %+v, want epoch 2 and session %#x", got[2], second)
			}
			if s.Session(1) != 0 || s.Session(2) != second || !s.Deadline(1).IsZero() {
				t.Errorf("epoch 1 has session %#x and a lease until %v, epoch 2 has session %#x; want 0, none and %#x", s.Session(1), s.Deadline(1), s.Session(2), second)
			}
		}
		if got, want := r.Told(), "Connected Suspended Resumed Suspended SessionExpired Connected"; got != want {
			t.Errorf("told %s, want %s", got, want)
		}
		if got := r.Heard[0].(events.Connected); got != (events.Connected{Session: first, Timeout: sessiontest.Timeout, Server: r.Server.Addr()}) {
			t.Errorf("the first event is %+v, want session %#x with its timeout and server", got, first)
		}
		if got := r.Heard[4].(events.SessionExpired); got.Session != first {
			t.Errorf("the event of the expiry is %+v, want session %#x", got, first)
		}

		// A seat that was closed is told nothing, and Close is the end for all seats.
		late.Close()
		r.Server.Down(true)
		early.Want("Suspended")
		late.Want("")
		r.Server.Down(false)
		r.Settle()
		early.Want("Reconnected")
		r.Close(time.Second)
		early.Want("Expired")
		late.Want("")
		r.WantState(session.Closed)
		if r.Session.ID() != 0 || early.Session(2) != 0 || !early.Deadline(2).IsZero() {
			t.Error("there is a session after Close, want none")
		}
		if n := len(r.Server.Sessions()); n != 0 {
			t.Errorf("the server has %d sessions after Close, want none", n)
		}
	})
}

// Servers that have lost their data refuse a client that knows more than they do, without
// an answer, and would do so for ever.
func TestASessionThatNoServerTakesBack(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		s := r.Seated()
		s.ClaimNode(1, s.CreateNode(1).Text)
		start := time.Now()
		r.Server.Wipe()
		s.Await(2)
		if took := time.Since(start); took < sessiontest.Lease+sessiontest.Timeout || took > sessiontest.Lease+sessiontest.Timeout+2*time.Second {
			t.Errorf("another session comes after %v, want a lease and a timeout: %v", took, sessiontest.Lease+sessiontest.Timeout)
		}
		s.Want("Suspended LeaseRanOut Expired Opened")
		s.CreateNode(2)
	})
}

// A server that is behind for a while is no reason to give up a session.
func TestASessionThatIsTakenBackLate(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Plant("n")
		s := r.Seated()
		s.ClaimNode(1, "n")
		r.On(zktest.OpConnect, zktest.CutBefore())
		r.Server.Cut(r.Only())
		time.Sleep(sessiontest.Lease + time.Second)
		s.Want("Suspended LeaseRanOut")
		r.Server.Intercept(nil)
		r.Settle()
		s.Want("Reconnected")
	})
}

// The lease of a session in which nothing is held ran out long ago. That says nothing
// about the session.
func TestAnIdleSessionThatIsTakenBackLate(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		s := r.Seat()
		time.Sleep(time.Hour)
		r.On(zktest.OpConnect, zktest.CutBefore())
		r.Server.Cut(r.Only())
		time.Sleep(10 * time.Second)
		r.Server.Intercept(nil)
		r.Settle()
		s.Want("Opened Suspended Reconnected")
	})
}

func TestOpenWaitsForAServer(t *testing.T) {
	sessiontest.Bubble(t, func(r *sessiontest.Rig) {
		r.Server.Down(true)
		start := time.Now()
		time.AfterFunc(time.Minute, func() { r.Server.Down(false) })
		r.Open("")
		if took := time.Since(start); took < time.Minute || took > time.Minute+2*time.Second {
			t.Errorf("Open returns after %v, want soon after the minute without a server", took)
		}
	})
}

func withAuth(scheme, auth string) session.Option {
	return session.OptionFunc(func(c *session.Config) {
		c.Auth = append(c.Auth, session.Auth{Scheme: scheme, Auth: []byte(auth)})
	})
}

// A session is not announced before it has its identities, and each connection gets them
// anew.
func TestIdentitiesComeFirst(t *testing.T) {
	acl := zk.DigestACL(zk.PermAll, "ann", "secret")
	sessiontest.Bubble(t, func(r *sessiontest.Rig) {
		r.Open("", withAuth("digest", "ann:secret"), withAuth("digest", "bob:other"), session.OptionFunc(func(c *session.Config) { c.ACL = acl }))
		auths := func() int { return r.Server.Requests(zktest.OpAuth) }
		if n := auths(); n != 2 {
			t.Errorf("%d identities were sent, want 2", n)
		}
		seat := r.Seat()
		seat.CreateNode(1)
		r.Server.Cut(r.Only())
		r.Until("it is sent again", func() bool { return auths() == 4 })
		r.Settle()
		seat.ListNodes(1) // no other client may list them
		seat.ExpireBefore(2)
		if n := auths(); n != 6 {
			t.Errorf("%d identities sent, want 6", n)
		}
		seat.Fresh()
		seat.CreateNode(2)

		// The connection breaks while the identities are being added.
		r.Server.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op == zktest.OpAuth && q.Count == 8 {
				return zktest.CutAfter()
			}
			return zktest.Pass()
		})
		seat.ExpireBefore(3)
		seat.Want("Suspended Expired Opened")
		seat.CreateNode(3)
	})
}

func TestAChrootIsMadeAndStandsBeforeEachPath(t *testing.T) {
	sessiontest.Bubble(t, func(r *sessiontest.Rig) {
		r.Open("/app/one") // it does not exist
		a, top := r.Seat(), r.SeatAt(session.Place{Dir: "/"})
		name := a.CreateNode(1)
		if want := []string{"/app", "/app/one", "/app/one/locks", "/app/one/locks/a", "/app/one/locks/a/" + name.Text}; !slices.Equal(r.Server.Tree(), want) {
			t.Errorf("made %v, want %v", r.Server.Tree(), want)
		}
		listed := a.ListNodes(1)
		if listed.Own.Name != name || listed.Own.Owner != r.Only() || listed.Own.Token == 0 {
			t.Errorf("below a chroot the listing is %+v, want %v of this session", listed, name)
		}
		// The chroot itself is a lock's directory, too.
		if node := top.CreateNode(1).Text; !r.Server.Exists("/app/one/" + node) {
			t.Errorf("a lock at the chroot itself has made %v, want %s in the chroot", r.Server.Tree(), node)
		}
	})
}

func TestCloseIsBounded(t *testing.T) {
	const grace = 2 * time.Second
	for name, c := range map[string]struct {
		bad  func(*sessiontest.Rig)
		want time.Duration // at most
	}{
		"good": {func(*sessiontest.Rig) {}, 100 * time.Millisecond},
		"mute": {func(r *sessiontest.Rig) { r.Server.MuteAll(true) }, grace},
		"down": {func(r *sessiontest.Rig) { r.Server.Down(true) }, grace},
		"silent": {func(r *sessiontest.Rig) {
			r.Server.Intercept(func(zktest.Request) zktest.Action { return zktest.Swallow() })
		}, grace},
		"mute after a cut": {func(r *sessiontest.Rig) {
			r.Server.MuteAll(true)
			r.Server.CutAll()
			time.Sleep(time.Second)
		}, grace},
	} {
		t.Run(name, func(t *testing.T) {
			sessiontest.Bubble(t, func(r *sessiontest.Rig) {
				r.Open("")
				seats := make([]*sessiontest.Seat, 300) // more than are made at a time
				for i := range seats {
					seats[i] = r.Seat()
					seats[i].Want("Opened")
				}
				c.bad(r)
				for _, s := range seats {
					s.Do(recipes.Create{Epoch: 1, Attempt: 1})
					s.Do(recipes.Claim{Epoch: 1, Node: events.Name{Text: "none"}})
				}
				start := time.Now()
				r.Close(grace)
				if took := time.Since(start); took > c.want {
					t.Errorf("took %v, want at most %v", took, c.want)
				}
				r.Group.Close()
				for _, s := range seats {
					answers := 0
					for _, in := range s.Fresh() {
						switch in.(type) {
						case recipes.Created, recipes.Refused, recipes.Unknown, recipes.Claimed:
							answers++
						}
					}
					if answers != 2 {
						t.Fatalf("%d answers to 2 requests, want 2: %+v", answers, s.Inputs)
					}
				}
				r.Server.MuteAll(false)
				r.Server.Intercept(nil)
				r.Until("the server has no session", func() bool { return len(r.Server.Sessions()) == 0 })
				r.WantChildren(0)
			})
		})
	}
}

func TestCloseMayBeCalledTwice(t *testing.T) {
	sessiontest.Bubble(t, func(r *sessiontest.Rig) {
		r.Open("")
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.Close(time.Second)
		}()
		r.Close(time.Second)
		<-done
		seat := r.Seat() // opened after the end, and answered all the same
		seat.Do(recipes.Create{Epoch: 1, Attempt: 1})
		seat.WantAnswer(recipes.Unknown{Epoch: 1, Op: recipes.OpCreate})
		r.Group.Close()
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

// The end of the session is asked for when everything under way has been answered, and
// not before: the client answers a request twice that is under way when it is closed, and
// has not always room for both answers.
func TestTheEndOfASessionIsAskedForBehindItsRequests(t *testing.T) {
	const late, grace = time.Second, 2 * time.Second
	sessiontest.Bubble(t, func(r *sessiontest.Rig) {
		r.Open("")
		s := r.Seated()
		var asked time.Time
		r.Server.Intercept(func(q zktest.Request) zktest.Action {
			switch q.Op {
			case zktest.OpClose:
				asked = time.Now()
			case zktest.OpMulti:
				return zktest.Delay(late)
			default: // at once
			}
			return zktest.Pass()
		})
		s.Do(recipes.Claim{Epoch: 1, Node: events.Name{Text: "none"}})
		synctest.Wait()
		start := time.Now()
		r.Close(grace)
		if after := asked.Sub(start); after != late {
			t.Errorf("the end was asked for after %v, want it behind the answer that comes after %v", after, late)
		}
	})
}

// TestTheLastFlightIsSent: requests right before the end go out, and later ones do not.
func TestTheLastFlightIsSent(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		s := r.Seated()
		node := s.CreateNode(1)
		asked := r.Asked()
		r.Together(func() {
			s.Do(recipes.Delete{Epoch: 1, Node: node})
			go r.Session.Quiesce(r.Context())
			synctest.Wait()
		})
		s.WantAnswer(recipes.Deleted{Epoch: 1})
		s.Do(recipes.List{Epoch: 1})
		synctest.Wait()
		r.WantAsked(asked(), zktest.OpDelete)
		if gone := r.Close(time.Second); !gone {
			t.Error("Close says that something may be left, want nothing: the server has answered")
		}
	})
}

// TestAStuckServerIsNoConnection: requests are left unanswered, and pings and handshakes
// are answered. The session is suspended until a server answers a request.
func TestAStuckServerIsNoConnection(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		s := r.Seated()
		node := s.CreateNode(1)
		s.ListNodes(1)
		s.ClaimNode(1, node.Text)
		r.Server.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op == zktest.OpPing || q.Op == zktest.OpConnect {
				return zktest.Pass()
			}
			return zktest.Swallow()
		})
		time.Sleep(time.Minute)
		if told := s.Fresh(); count[recipes.Suspended](told) != 1 || count[recipes.Reconnected](told) != 0 {
			t.Errorf("the seat is told %+v, want one Suspended, and no connection", told)
		}
		r.Server.Intercept(nil)
		time.Sleep(sessiontest.Timeout)
		if told := s.Fresh(); count[recipes.Reconnected](told) != 1 || count[recipes.Suspended](told) != 0 {
			t.Errorf("when requests are answered again the seat is told %+v, want one Reconnected", told)
		}
	})
}

// TestAReplacedSessionIsAnExpiredOne: some servers hand out another session when the old
// one is resumed, and do not tell its end. To the client that is the old session. To this
// package it is the end of an epoch.
func TestAReplacedSessionIsAnExpiredOne(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		s, first := r.Seat(), r.Session.ID()
		s.Want("Opened")
		r.Session.Replaced()
		r.Settle()
		if told := s.Want("Expired Opened"); told[1] != (recipes.Opened{Epoch: 2, Session: r.Session.ID()}) || r.Session.ID() == first {
			r.Errorf("the seat is told %+v, want the end of session %#x and another one", told, first)
		}
	})
}

// leaving is a connection that notes when it is closed.
type leaving struct {
	net.Conn

	closed func()
}

func (l leaving) Close() error {
	l.closed()
	return l.Conn.Close()
}

// TestTheServerOfASessionThatIsOverIsNotWaitedForLong: it has a quarter of the timeout,
// though the client library would wait for a second.
func TestTheServerOfASessionThatIsOverIsNotWaitedForLong(t *testing.T) {
	sessiontest.Bubble(t, func(r *sessiontest.Rig) {
		const timeout = time.Second
		var left atomic.Pointer[time.Time]
		r.Server = zktest.Start(r.T, zktest.Tick(timeout/2))
		r.Open("", session.OptionFunc(func(c *session.Config) {
			dial := c.Dial
			c.Timeout, c.Dial = timeout, func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := dial(ctx, network, address)
				return leaving{conn, func() { now := time.Now(); left.CompareAndSwap(nil, &now) }}, err
			}
		}))
		r.Server.Mute(r.Session.ID(), true) // nothing of the session is answered, and neither is its end
		start := time.Now()
		r.Session.Replaced()
		time.Sleep(time.Minute)
		if at := left.Load(); at == nil || at.Sub(start) <= 0 || at.Sub(start) > timeout/4 {
			r.Errorf("the connection of a session that is over was left at %v, want at most %v after %v", at, timeout/4, start)
		}
	})
}
