package session_test

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestSeatsAreToldOfTheSession(t *testing.T) {
	inSession(t, func(r *rig) {
		wantState := func(want session.State) {
			r.Helper()
			synctest.Wait()
			equal(r, r.Session.State(), want, "the session's state")
		}
		first := r.Session.ID()
		early := r.Seat()
		early.WantOnly(recipes.Opened{Epoch: 1, Session: first})
		if got := r.Session.Timeout(); got != sessionTimeout || first != r.Only() {
			t.Errorf("the timeout of session %#x is %v, want %v in session %#x", first, got, sessionTimeout, r.Only())
		}

		// An outage: a seat that is opened during it is notified as well.
		r.Server.Down(true)
		early.Want("Suspended")
		suspended := events.Suspended{Session: first, Deadline: early.Deadline(1)}
		equal[events.Event](t, r.Heard[1], suspended, "the event of an outage")
		wantState(session.Suspended)
		late := r.Seat()
		late.WantOnly(recipes.Opened{Epoch: 1, Session: first, Suspended: true})
		r.Server.Down(false)
		r.Settle()
		early.Want("Reconnected")
		late.Want("Reconnected")
		expect(t, r.Session.ID() == first,
			"session %#x became %#x, want it kept over the outage", first, r.Session.ID())

		// The session ends, and the next one begins.
		early.ExpireBefore(2)
		wantState(session.Connected)
		second := r.Session.ID()
		for _, s := range []*seat{early, late} {
			got := s.Want("Suspended Expired Opened")
			equal[recipes.Input](t, got[2], recipes.Opened{Epoch: 2, Session: second}, "the seat is told after the expiry")
			if s.Session(1) != 0 || s.Session(2) != second || !s.Deadline(1).IsZero() {
				t.Errorf("epoch 1 has session %#x and a lease until %v, epoch 2 has session %#x; want 0, none and %#x",
					s.Session(1), s.Deadline(1), s.Session(2), second)
			}
		}
		equal(t, typesOf(r.Heard), "Connected Suspended Resumed Suspended SessionExpired Connected", "the events")
		connected := events.Connected{Session: first, Timeout: sessionTimeout, Server: r.Server.Addr()}
		equal[events.Event](t, r.Heard[0], connected, "the first event is")
		equal(t, r.Heard[4].(events.SessionExpired).Session, first, "the session in the event of the expiry")

		// A closed seat receives nothing, and Close is the end for all seats.
		late.Close()
		r.Server.Down(true)
		early.Want("Suspended")
		r.Server.Down(false)
		r.Settle()
		early.Want("Reconnected")
		r.Close(time.Second)
		early.Want("Expired")
		late.Want("")
		wantState(session.Closed)
		expect(t, r.Session.ID() == 0 && early.Session(2) == 0 && early.Deadline(2).IsZero(),
			"there is a session after Close, want none")
		equal(t, len(r.Server.Sessions()), 0, "sessions at the server after Close")
		r.Close(time.Second)
		after := r.Seat() // opened after the end, but still answered
		after.Asks(recipes.Create{Epoch: 1, Attempt: 1}, recipes.Unknown{Epoch: 1, Op: recipes.OpCreate})
	})
}

// TestASessionThatNoServerTakesBack: servers that have lost their data refuse, without an
// answer, a client that has seen a later state. They would do so forever. From their
// first refusal on, the old session would have ended within a timeout and a tick. Other
// servers may be silent. They cost so much time that no server refuses for a timeout.
func TestASessionThatNoServerTakesBack(t *testing.T) {
	for name, silent := range map[string][]string{"": nil, "beside silent ones": {"b:1", "c:1", "d:1", "e:1"}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.Silent = silent
				r.Open("")
				s := r.Seated()
				s.ClaimNode(s.Makes(1).Node.Text)
				start := time.Now()
				r.Server.Wipe()
				s.Await(2)
				const want = sessionTimeout + 2*time.Second // the session's default for a tick
				round := 2*time.Second + time.Duration(len(silent))*(sessionTimeout*3/10+time.Second)
				if took := time.Since(start); took < want || took > want+4*round {
					t.Errorf("another session comes after %v, want a timeout and a tick, and at most four rounds of %v: %v",
						took, round, want)
				}
				s.Want("Suspended LeaseRanOut Expired Opened")
				ask[recipes.Created](s, recipes.Create{Epoch: 2, Attempt: 1})
			})
		})
	}
}

// TestAnOutageBesideSilentServers: a server refuses the session, then none is up for
// longer than the timeout, and then each one refuses the session once more. Four servers
// of the connect string are always silent, so nothing shows that there was an outage.
func TestAnOutageBesideSilentServers(t *testing.T) {
	for times, twins := range map[int][]string{1: nil, 30: {"f:1"}} { // the order of the servers is random
		for range times {
			t.Run(fmt.Sprint(1+len(twins), " refuse"), func(t *testing.T) { outageBesideSilentServers(t, twins) })
		}
	}
}

func outageBesideSilentServers(t *testing.T, twins []string) {
	t.Helper()
	bubble(t, func(r *rig) {
		r.Silent, r.Twins = []string{"b:1", "c:1", "d:1", "e:1"}, twins
		r.Open("")
		s := r.Seated()
		keep := func() { // each session has its full timeout again
			r.Server.LoseQuorum(true)
			r.Server.LoseQuorum(false)
		}
		refused := func(times int) {
			t.Helper()
			before := r.Server.Requests(zktest.OpConnect)
			r.Until("it is refused", func() bool {
				keep()
				return r.Server.Requests(zktest.OpConnect) >= before+times
			})
			time.Sleep(time.Second) // the servers are asked whether they serve
		}
		r.On(zktest.OpConnect, zktest.CutBefore())
		r.Server.Cut(r.Only())
		r.Server.LoseQuorum(true) // so that no session ends while the silent servers are dialed
		time.Sleep(sessionTimeout)
		r.Server.LoseQuorum(false)
		refused(1)
		r.Server.LoseQuorum(true)
		r.Server.Down(true)
		time.Sleep(sessionTimeout) // the silent servers take longer
		r.Server.Down(false)
		refused(1 + len(twins))
		r.Server.Intercept(nil)
		for r.Session.State() != session.Connected {
			keep()
			time.Sleep(time.Second)
		}
		r.Settle()
		s.Want("Suspended Reconnected")
	})
}

// TestASessionThatIsTakenBackLate: a server that lags for a while is no reason to give up
// a session. Neither is a lease that ran out long ago, because nothing was held.
func TestASessionThatIsTakenBackLate(t *testing.T) {
	inSession(t, func(r *rig) {
		s := r.Seated()
		time.Sleep(time.Hour)
		r.On(zktest.OpConnect, zktest.CutBefore())
		r.Server.Cut(r.Only())
		time.Sleep(10 * time.Second)
		r.Server.Intercept(nil)
		r.Settle()
		s.Want("Suspended Reconnected")
		r.Plant("n")
		s.ClaimNode("n")
		r.On(zktest.OpConnect, zktest.CutBefore())
		r.Server.Cut(r.Only())
		time.Sleep(leaseTime + time.Second)
		s.Want("Suspended LeaseRanOut")
		r.Server.Intercept(nil)
		r.Settle()
		s.Want("Reconnected")
	})
}

// TestNoOutageIsTooLongForASession: servers without a quorum refuse each handshake. The
// next leader gives each session its full timeout. So none is given up meanwhile, nor at
// the first refusals that follow an outage without a server. Refusals before a quorum was
// lost do not count, either.
func TestNoOutageIsTooLongForASession(t *testing.T) {
	const outage = 10 * sessionTimeout
	for name, play := range map[string]func(r *rig){
		"no server has a quorum": func(*rig) { time.Sleep(outage) },
		"no server is up, and then none has a quorum": func(r *rig) {
			r.Server.Down(true)
			time.Sleep(outage)
			r.Server.Down(false)
			time.Sleep(sessionTimeout / 2)
		},
		"twice, servers serve and refuse for a while": func(r *rig) {
			r.On(zktest.OpConnect, zktest.CutBefore()) // as if it lagged
			for range 2 {
				time.Sleep(outage)
				r.Server.LoseQuorum(false)
				time.Sleep(leaseTime)
				r.Server.LoseQuorum(true)
			}
			r.Server.Intercept(nil)
		},
		"servers serve and refuse, and then none is up": func(r *rig) {
			r.On(zktest.OpConnect, zktest.CutBefore())
			r.Server.LoseQuorum(false)
			time.Sleep(leaseTime)
			r.Server.LoseQuorum(true) // so that no session ends
			r.Server.Down(true)
			time.Sleep(outage)
			r.Server.Down(false)
			r.Server.LoseQuorum(false)
			time.Sleep(sessionTimeout / 2)
			r.Server.Intercept(nil)
		},
		"servers refuse, with an election in between": func(r *rig) {
			r.On(zktest.OpConnect, zktest.CutBefore())
			r.Server.LoseQuorum(false)
			time.Sleep(sessionTimeout / 2)
			r.Server.LoseQuorum(true)
			time.Sleep(sessionTimeout / 2)
			r.Server.LoseQuorum(false)
			time.Sleep(sessionTimeout / 2)
			r.Server.Intercept(nil)
		},
	} {
		run(t, name, func(r *rig) {
			s := r.Seated()
			r.Server.LoseQuorum(true)
			play(r)
			r.Server.LoseQuorum(false)
			r.Settle()
			s.Want("Suspended Reconnected")
		})
	}
}

// wordTime is how long a four-letter word takes on a lateWord.
const wordTime = 3 * time.Second

// lateWord is a connection that says when a four-letter word is sent, which takes long.
type lateWord struct {
	net.Conn
	asked func()
}

func (w lateWord) Write(b []byte) (int, error) {
	if string(b) == "srvr" {
		w.asked()
		time.Sleep(wordTime)
	}
	return w.Conn.Write(b)
}

// TestASessionThatIsResumedMeanwhile: before a session is given up, the servers are asked
// whether they serve, at most once in a quarter of the timeout. One of them resumes the
// session before it answers that.
func TestASessionThatIsResumedMeanwhile(t *testing.T) {
	const enough = sessionTimeout + 2*time.Second
	var mu sync.Mutex
	var first, last time.Time // servers are known to serve from wordTime after first on
	soon := false
	asked := func() {
		mu.Lock()
		defer mu.Unlock()
		soon = soon || time.Since(last) < sessionTimeout/4 && time.Since(first) < wordTime+enough
		if last = time.Now(); first.IsZero() {
			first = last
		}
	}
	inSession(t, func(r *rig) {
		s := r.Seated()
		r.On(zktest.OpConnect, zktest.CutBefore())
		r.Server.Cut(r.Only())
		time.Sleep(sessionTimeout)
		r.Server.LoseQuorum(true)
		r.Server.LoseQuorum(false) // the session has its full timeout again
		r.Until("the answer would come too late for the session", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return last.Sub(first) >= enough && time.Since(last) < wordTime
		})
		r.Server.Intercept(nil)
		r.Settle()
		time.Sleep(sessionTimeout)
		s.Want("Suspended Reconnected")
		expect(r, !soon, "the servers were asked again too soon")
	}, through(func(conn net.Conn) net.Conn { return lateWord{conn, asked} }))
}

func TestOpenWaitsForAServer(t *testing.T) {
	bubble(t, func(r *rig) {
		r.Server.Down(true)
		start := time.Now()
		time.AfterFunc(time.Minute, func() { r.Server.Down(false) })
		r.Open("")
		if took := time.Since(start); took < time.Minute || took > time.Minute+2*time.Second {
			t.Errorf("Open returns after %v, want soon after the minute without a server", took)
		}
	})
}

// TestIdentitiesComeFirst: a session is not announced before its identities are sent, and
// they are sent on each connection.
func TestIdentitiesComeFirst(t *testing.T) {
	bubble(t, func(r *rig) {
		r.Open("", configured(func(c *session.Config) {
			c.Auth = []session.Auth{
				{Scheme: "digest", Auth: []byte("ann:secret")}, {Scheme: "digest", Auth: []byte("bob:other")},
			}
			c.ACL = zk.DigestACL(zk.PermAll, "ann", "secret")
		}))
		auths := func() int { return r.Server.Requests(zktest.OpAuth) }
		equal(t, auths(), 2, "identities that were sent")
		s := r.Seat()
		s.Makes(1)
		r.Server.Cut(r.Only())
		r.Until("it is sent again", func() bool { return auths() == 4 })
		r.Settle()
		s.Look(1, false) // no other client may list them
		s.ExpireBefore(2)
		equal(t, auths(), 6, "identities that were sent by the next session, too")
		s.Fresh()
		ask[recipes.Created](s, recipes.Create{Epoch: 2, Attempt: 1})

		// The connection breaks while the identities are being added.
		r.Either(func(q zktest.Request) bool { return q.Op == zktest.OpAuth && q.Count == 8 },
			zktest.CutAfter(), zktest.Pass())
		s.ExpireBefore(3)
		s.Want("Suspended Expired Opened")
		ask[recipes.Created](s, recipes.Create{Epoch: 3, Attempt: 1})
	})
}

func TestAChrootIsMadeAndStandsBeforeEachPath(t *testing.T) {
	bubble(t, func(r *rig) {
		r.Open("/app/one") // it does not exist
		a, top := r.Seat(), r.SeatAt(session.Place{Dir: "/"})
		name := a.Makes(1).Node
		want := []string{"/app", "/app/one", "/app/one/locks", "/app/one/locks/a", "/app/one/locks/a/" + name.Text}
		expect(t, slices.Equal(r.Server.Tree(), want), "made %v, want %v", r.Server.Tree(), want)
		if own := a.Look(1, false).Own; own.Name != name || own.Owner != r.Only() || own.Token == 0 {
			t.Errorf("below a chroot the listing has %+v, want %v of this session", own, name)
		}
		// The chroot itself is a lock's directory, too.
		node := top.Makes(1).Node.Text
		expect(t, r.Server.Exists("/app/one/"+node), "made %v, want %s in the chroot itself", r.Server.Tree(), node)
	})
}

// TestCloseIsBounded: that holds even if Close is called twice.
func TestCloseIsBounded(t *testing.T) {
	const grace = 2 * time.Second
	for name, c := range map[string]struct {
		bad  func(*rig)
		want time.Duration // at most
	}{
		"good":   {func(*rig) {}, 100 * time.Millisecond},
		"mute":   {func(r *rig) { r.Server.MuteAll(true) }, grace},
		"down":   {func(r *rig) { r.Server.Down(true) }, grace},
		"silent": {func(r *rig) { r.OnAll(zktest.Swallow()) }, grace},
		"mute after a cut": {func(r *rig) {
			r.Server.MuteAll(true)
			r.Server.CutAll()
			time.Sleep(time.Second)
		}, grace},
	} {
		run(t, name, func(r *rig) {
			seats := make([]*seat, 300) // more than can be in progress at a time
			for i := range seats {
				seats[i] = r.Seated()
			}
			c.bad(r)
			for _, s := range seats {
				s.Do(recipes.Create{Epoch: 1, Attempt: 1})
				s.Do(recipes.Claim{Epoch: 1, Node: named("none")})
			}
			start := time.Now()
			var twice sync.WaitGroup
			twice.Go(func() { r.Close(grace) })
			r.Close(grace)
			twice.Wait()
			r.Group.Close()
			took := time.Since(start)
			expect(r, took <= c.want, "took %v, want at most %v", took, c.want)
			for _, s := range seats {
				if answers := s.FreshAnswers(); len(answers) != 2 {
					r.Fatalf("%d answers to 2 requests, want 2: %+v", len(answers), answers)
				}
			}
			r.Server.MuteAll(false)
			r.Server.Intercept(nil)
			r.Until("the server has no session", func() bool { return len(r.Server.Sessions()) == 0 })
			r.WantChildren(0)
		})
	}
}

func TestStateHasAName(t *testing.T) {
	states := [...]session.State{0, session.Connecting, session.Connected, session.Suspended, session.Closed, 5}
	equal(t, fmt.Sprint(states), "[unknown connecting connected suspended closed unknown]", "the names")
}

// TestTheEndOfASessionIsAskedForBehindItsRequests: the session's end is requested once
// all requests in progress have been answered, and not before. The client answers a
// request twice that is in progress when it is closed, and does not always have room for
// both answers.
func TestTheEndOfASessionIsAskedForBehindItsRequests(t *testing.T) {
	const late, grace = time.Second, 2 * time.Second
	inSession(t, func(r *rig) {
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
		s.Do(recipes.Claim{Epoch: 1, Node: named("none")})
		synctest.Wait()
		start := time.Now()
		r.Close(grace)
		equal(t, asked.Sub(start), late, "the end was asked for behind the answer to the last request, after")
	})
}

// TestTheLastFlightIsSent: requests right before the end are sent, and later ones are
// not.
func TestTheLastFlightIsSent(t *testing.T) {
	inSession(t, func(r *rig) {
		s := r.Seated()
		node := s.Makes(1).Node
		asked := r.Asked()
		r.Together(func() {
			s.Do(recipes.Delete{Epoch: 1, Node: node})
			go r.Session.Quiesce(r.Context())
			synctest.Wait()
		})
		s.WantAnswer(recipes.Deleted{Epoch: 1})
		s.Do(recipes.List{Epoch: 1})
		r.WantAsked(asked(), zktest.OpDelete)
		gone := r.Close(time.Second)
		expect(t, gone, "Close says that something may be left, want nothing: the server has answered")
	})
}

// TestAStuckServerIsNoConnection: requests are not answered, but pings and handshakes
// are. The session is suspended until a server answers a request.
func TestAStuckServerIsNoConnection(t *testing.T) {
	inSession(t, func(r *rig) {
		s := r.Seated()
		node := s.Makes(1).Node
		s.Look(1, false)
		s.ClaimNode(node.Text)
		r.Either(isA(zktest.OpPing, zktest.OpConnect), zktest.Pass(), zktest.Swallow())
		time.Sleep(time.Minute)
		if told := s.Fresh(); count[recipes.Suspended](told) != 1 || count[recipes.Reconnected](told) != 0 {
			t.Errorf("the seat is told %+v, want one Suspended, and no connection", told)
		}
		r.Server.Intercept(nil)
		time.Sleep(sessionTimeout)
		if told := s.Fresh(); count[recipes.Reconnected](told) != 1 || count[recipes.Suspended](told) != 0 {
			t.Errorf("when requests are answered again the seat is told %+v, want one Reconnected", told)
		}
	})
	// The first answer may have a code that does not say whether the request was executed.
	inSession(t, func(r *rig) {
		s := r.Seated()
		r.Either(isA(zktest.OpPing, zktest.OpConnect), zktest.Pass(), zktest.Swallow())
		s.Do(recipes.Create{Epoch: 1, Attempt: 1})
		time.Sleep(time.Minute)
		s.Fresh()
		r.Times(1, zktest.Fail(-5), isA(zktest.OpExists))
		time.Sleep(sessionTimeout)
		if told := s.Fresh(); count[recipes.Reconnected](told) != 1 {
			t.Errorf("after such an answer the seat is told %+v, want one Reconnected", told)
		}
	})
}

// leaving is a connection that reports when it is closed.
type leaving struct {
	net.Conn

	closed func()
}

func (l leaving) Close() error {
	l.closed()
	return l.Conn.Close()
}

// TestAReplacedSessionIsAnExpiredOne: some servers grant another session when the old one
// is resumed, and do not report its end. To the client, that is still the old session. To
// this package, it is the end of an epoch. It does not wait long for the old session's
// server: a quarter of the timeout, although the client would wait for a second.
func TestAReplacedSessionIsAnExpiredOne(t *testing.T) {
	bubble(t, func(r *rig) {
		const timeout = time.Second
		var left atomic.Pointer[time.Time]
		r.Server = zktest.Start(r.T, zktest.Tick(timeout/2))
		shorter := configured(func(c *session.Config) { c.Timeout = timeout })
		r.Open("", shorter, through(func(conn net.Conn) net.Conn {
			return leaving{conn, func() { now := time.Now(); left.CompareAndSwap(nil, &now) }}
		}))
		s, first := r.Seated(), r.Session.ID()
		r.Server.Mute(first, true) // no request of the session is answered, not even the one that ends it
		start := time.Now()
		r.Session.Replaced()
		s.Await(2)
		if told := s.Want("Expired Opened"); told[1] != (recipes.Opened{Epoch: 2, Session: r.Session.ID()}) || r.Session.ID() == first {
			r.Errorf("the seat is told %+v, want the end of session %#x and another one", told, first)
		}
		time.Sleep(time.Minute)
		if at := left.Load(); at == nil || at.Sub(start) <= 0 || at.Sub(start) > timeout/4 {
			r.Errorf("the connection of a session that is over was left at %v, want at most %v after %v", at, timeout/4, start)
		}
	})
}
