package session_test

import (
	"context"
	"encoding/binary"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// window is how long before a write a request must have been answered for the write to
// prove it. The session's tick is not configured.
const window = 1250 * time.Millisecond

// greeting is the time after the handshake during which a session sends nothing.
const greeting = 5 * time.Millisecond

func TestTheLeaseCountsFromTheSendingOfWhatAWriteProves(t *testing.T) {
	inSession(t, func(r *rig) {
		s := r.Seated()
		at := func(what string, want time.Duration) { // since the handshake
			t.Helper()
			equal(t, s.Until()+time.Since(r.Start)-leaseTime, want, "%s: counts from", what)
		}
		at("handshake", 0)
		r.NoPings()
		time.Sleep(5*time.Second - greeting)
		s.WriteNothing()
		at("the first write, at 5 s, has nothing to prove", 0)
		time.Sleep(window - time.Nanosecond)
		s.WriteNothing()
		at("another, a little too soon", 0)
		time.Sleep(time.Nanosecond)
		s.WriteNothing()
		at("another after half a tick", 5*time.Second)

		// The answer comes late: the server may have received the request just as late.
		r.Either(isA(zktest.OpDelete), zktest.Delay(3*time.Second), zktest.Swallow())
		s.Do(recipes.Delete{Epoch: 1, Node: named("none")}) // at 6.25 s
		time.Sleep(2 * time.Second)
		at("with a write under way", 5*time.Second)
		time.Sleep(time.Second)
		at("its answer, at 9.25 s", 5*time.Second)
		s.Want("Deleted")
		r.NoPings()
		time.Sleep(window - time.Nanosecond)
		s.WriteNothing()
		at("a write too soon after the late answer", 5*time.Second+window)

		// An unanswered request proves nothing, and neither does a read.
		r.OnAll(zktest.Swallow())
		time.Sleep(time.Second)
		s.Do(recipes.Claim{Epoch: 1, Node: named("n")})
		time.Sleep(time.Second)
		at("a request without an answer", 5*time.Second+window)
	})
}

// As long as nothing is held, nothing is written, however long that takes. The lease runs
// out, without notice to any seat, and a claim renews it at once.
func TestAClaimAfterALongIdleTimeIsFresh(t *testing.T) {
	inSession(t, func(r *rig) {
		r.Plant("n")
		s, times := r.Seated(), eventstest.Amount(40, 100)
		for range times {
			time.Sleep(20*time.Minute + 777*time.Millisecond) // in a different phase of the pings each time
			if s.Until() > 0 {
				t.Fatalf("after 20 idle minutes the lease is good for %v, want it run out", s.Until())
			}
			s.Do(recipes.Claim{Epoch: 1, Node: named("n")})
			s.WantOnly(recipes.Claimed{Epoch: 1, Fresh: true})
			s.WantLease(leaseTime-sessionTimeout/3-window, leaseTime)
			s.WriteNothing() // and the seat no longer holds anything
		}
	})
}

// Nothing breaks, but nothing is answered either: the lease runs out before the session.
func TestLeaseRunsOutBeforeTheSession(t *testing.T) {
	inSession(t, func(r *rig) {
		r.Plant("n")
		first := r.Session.ID()
		s := r.Seated()
		s.ClaimNode("n")
		time.Sleep(time.Minute)
		r.Server.Mute(first, true)
		start := time.Now()
		r.Until("the lease runs out", func() bool { return s.Deadline(1).Before(time.Now()) })
		ranOut := time.Since(start)
		r.Until("the server ends the session", func() bool { return len(r.Server.Sessions()) == 0 })
		expired := time.Since(start)
		expect(t, ranOut <= leaseTime+10*time.Millisecond && expired >= ranOut+sessionTimeout/20,
			"the lease is over after %v and the session after %v, want the lease first, in time", ranOut, expired)
		s.Want("Suspended LeaseRanOut")
		r.Server.Mute(first, false)
		s.Await(2)
		s.Want("Expired Opened")
		if got := time.Until(s.Deadline(2)); got < leaseTime-time.Second {
			t.Errorf("in the new session the lease is good for %v, want %v or little less", got, leaseTime)
		}
	})
}

// A deposed leader answers handshakes, but executes no write. The timeouts of its
// sessions run out at the new leader, and no event of a new contender arrives.
func TestAHandshakeAloneRenewsNothing(t *testing.T) {
	inSession(t, func(r *rig) {
		r.Plant("n")
		s := r.Seated()
		s.ClaimNode("n")
		again := func() (handshake time.Time) {
			r.Server.Cut(r.Only())
			synctest.Wait()
			handshake = time.Now()
			r.Until("the session is resumed", func() bool { return r.Session.State() == session.Connected })
			return handshake
		}
		deadline := s.Deadline(1)
		r.On(zktest.OpMulti, zktest.Swallow())
		for range 3 {
			time.Sleep(sessionTimeout / 5)
			again()
			if got := s.Deadline(1); got != deadline {
				t.Fatalf("after a handshake the lease ends at %v, want %v, as before", got, deadline)
			}
			if alive, recent := s.Proven(1); !alive || recent {
				t.Fatalf("after a handshake the lease is good: %v, and a write is recent: %v; want only the first",
					alive, recent)
			}
		}
		r.Until("the lease runs out", func() bool { return deadline.Before(time.Now()) })
		s.Want("Suspended Reconnected Suspended Reconnected Suspended Reconnected LeaseRanOut")
		r.Server.Intercept(nil)
		handshake := again()
		s.Asks(recipes.Delete{Epoch: 1, Node: named("none")}, recipes.Deleted{Epoch: 1})
		equal(t, s.Deadline(1).Sub(handshake), leaseTime, "after a handshake and a write the lease lasts for")
		alive, recent := s.Proven(1)
		expect(t, alive && recent, "after a write the lease is good: %v, and a write is recent: %v; want both",
			alive, recent)
	})
}

// A process pauses, and sees the answer to its claim when it is no longer worth anything.
// The answer makes the machine claim again, so the machine does not get it at once: a
// claim right after the first would not be fresh either.
func TestAClaimThatIsSeenTooLateIsNotFresh(t *testing.T) {
	inSession(t, func(r *rig) {
		r.Plant("n")
		s := r.Seated()
		r.Either(isA(zktest.OpMulti), zktest.Delay(time.Second), zktest.Swallow()) // only the claim is answered
		s.Do(recipes.Claim{Epoch: 1, Node: named("n")})
		synctest.Wait()
		r.Session.Loop().Post(func() { time.Sleep(leaseTime + time.Second) }) // the whole process pauses
		time.Sleep(leaseTime)
		s.Want("")
		time.Sleep(time.Second + window - time.Nanosecond)
		got := s.FreshAnswers()
		expect(t, len(got) == 0, "a nanosecond too soon the seat is told %+v, want nothing", got)
		time.Sleep(time.Nanosecond)
		if got := s.FreshAnswers(); !slices.Equal(got, []recipes.Input{recipes.Claimed{Epoch: 1, Fresh: false}}) {
			t.Errorf("the seat is told %+v, want a claim that is not fresh", s.Inputs)
		}
	})
}

// The timer that watches the lease and the answer that renews it may come at the same
// moment. If the timer finds that the lease has run out, that must be true.
func TestALeaseThatHadRunOutIsNotRenewedInSilence(t *testing.T) {
	inSession(t, func(r *rig) {
		r.Plant("n")
		s, slow := r.Seated(), r.Seated()
		s.ClaimNode("n")
		r.Server.Intercept(func(q zktest.Request) zktest.Action {
			switch q.Op {
			case zktest.OpMulti: // the probes
				return zktest.Swallow()
			case zktest.OpDelete:
				return zktest.Delay(2 * time.Second)
			default:
				return zktest.Pass()
			}
		})
		time.Sleep(s.Until() - time.Second)
		// A write is sent before the deadline and answered after it. The session's loop
		// is held up from before both until after both.
		slow.Do(recipes.Delete{Epoch: 1, Node: named("none")})
		synctest.Wait()
		slow.Hears(func(recipes.Input) { time.Sleep(3 * time.Second) })
		slow.Do(recipes.Delete{Epoch: 99, Node: named("none")})
		time.Sleep(4 * time.Second)
		if s.Until() <= 0 {
			t.Fatal("the lease was not renewed, and the test shows nothing; want it renewed")
		}
		s.Want("LeaseRanOut")
	})
}

func TestTimeoutIsTheServersWord(t *testing.T) {
	inSession(t, func(r *rig) {
		const most = 20 * serverTick
		equal(t, r.Session.Timeout(), most, "timeout")
		r.Seat().WantLease(most-most/20-greeting, most-most/20-greeting)
	}, configured(func(c *session.Config) { c.Timeout = time.Hour }))
}

const (
	longTimeout  = 10 * sessionTimeout // of the first connection
	shortTimeout = sessionTimeout      // of every later one
)

// shorter requests another session timeout in every handshake but the first, as if the
// client had connected to a server with a lower maxSessionTimeout.
type shorter struct {
	net.Conn
	done bool
}

func (s *shorter) Write(p []byte) (int, error) {
	if !s.done && binary.BigEndian.Uint64(p[20:]) != 0 {
		binary.BigEndian.PutUint32(p[16:], uint32(shortTimeout/time.Millisecond))
	}
	s.done = true
	return s.Conn.Write(p)
}

// through wraps the session's connections.
func through(wrap func(net.Conn) net.Conn) session.Option {
	return configured(func(c *session.Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return wrap(conn), nil
		}
	})
}

// TestAShorterTimeoutCountsAtOnce: a seat holds in a session whose timeout becomes ten
// times shorter at a reconnect. The timers for the lease and the next probe were set
// before that. LeaseRanOut comes at the deadline: the timer for the next probe would
// notice it, too, but too late. On a healthy connection, nothing is lost.
func TestAShorterTimeoutCountsAtOnce(t *testing.T) {
	for name, mute := range map[string]bool{"healthy": false, "mute": true} {
		run(t, name, func(r *rig) {
			var ranOut time.Time // when LeaseRanOut arrived
			s := r.Seated()
			s.Hears(func(in recipes.Input) {
				if _, ok := in.(recipes.LeaseRanOut); ok {
					ranOut = time.Now()
				}
			})
			r.Plant("n")
			s.ClaimNode("n")
			r.Server.Cut(r.Only())
			r.Settle()
			equal(r, r.Session.Timeout(), shortTimeout, "the timeout after the reconnect")
			id, deadline := r.Only(), s.Deadline(1)
			s.WantLease(shortTimeout/2, shortTimeout)
			r.Server.Mute(id, mute)
			time.Sleep(longTimeout)
			synctest.Wait()
			if mute {
				expect(r, !ranOut.IsZero() && !ranOut.After(deadline),
					"LeaseRanOut came at %v, want it at the deadline, %v", ranOut, deadline)
				r.Server.Mute(id, false)
				return
			}
			expect(r, ranOut.IsZero(),
				"LeaseRanOut was told on a connection that answers, within %v; want none", longTimeout)
			s.WantLease(shortTimeout/2, shortTimeout)
		}, configured(func(c *session.Config) { c.Timeout = longTimeout }),
			through(func(conn net.Conn) net.Conn { return &shorter{Conn: conn} }))
	}
}
