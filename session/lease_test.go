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
		r.Server.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op == zktest.OpDelete {
				return zktest.Delay(3 * time.Second)
			}
			return zktest.Swallow()
		})
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
		s.ClaimNode(1, "n")
		time.Sleep(time.Minute)
		r.Server.Mute(first, true)
		start := time.Now()
		r.Until("the lease runs out", func() bool { return s.Deadline(1).Before(time.Now()) })
		ranOut := time.Since(start)
		r.Until("the server ends the session", func() bool { return len(r.Server.Sessions()) == 0 })
		expired := time.Since(start)
		if ranOut > leaseTime+10*time.Millisecond || expired < ranOut+sessionTimeout/20 {
			t.Errorf("the lease is over after %v and the session after %v, want the lease first, in time", ranOut, expired)
		}
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
// sessions run out at the new leader.
func TestAHandshakeAloneRenewsNothing(t *testing.T) {
	inSession(t, func(r *rig) {
		r.Plant("n")
		s := r.Seated()
		s.ClaimNode(1, "n")
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
		}
		r.Until("the lease runs out", func() bool { return deadline.Before(time.Now()) })
		s.Want("Suspended Reconnected Suspended Reconnected Suspended Reconnected LeaseRanOut")
		r.Server.Intercept(nil)
		handshake := again()
		s.Asks(recipes.Delete{Epoch: 1, Node: named("none")}, recipes.Deleted{Epoch: 1})
		if got := s.Deadline(1); got != handshake.Add(leaseTime) {
			t.Errorf("after a handshake at %v and a write the lease ends at %v, want %v later",
				handshake, got, leaseTime)
		}
	})
}

// A process pauses, and sees the answer to its claim when it is no longer worth anything.
// The answer makes the machine claim again, so the machine does not get it at once: a
// claim right after the first would not be fresh either.
func TestAClaimThatIsSeenTooLateIsNotFresh(t *testing.T) {
	inSession(t, func(r *rig) {
		r.Plant("n")
		s, slow := r.Seated(), r.Seated()
		r.Server.Intercept(func(q zktest.Request) zktest.Action { // only the claim is answered
			if q.Op == zktest.OpMulti {
				return zktest.Delay(time.Second)
			}
			return zktest.Swallow()
		})
		s.Do(recipes.Claim{Epoch: 1, Node: named("n")})
		synctest.Wait()
		slow.Hears(func(in recipes.Input) {
			if _, refused := in.(recipes.Unknown); refused {
				time.Sleep(leaseTime + time.Second) // the whole process pauses
			}
		})
		slow.Do(recipes.Delete{Epoch: 99, Node: named("n")})
		time.Sleep(leaseTime)
		s.Want("")
		time.Sleep(time.Second + window - time.Nanosecond)
		if got := s.FreshAnswers(); len(got) != 0 {
			t.Errorf("a nanosecond too soon the seat is told %+v, want nothing", got)
		}
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
		s.ClaimNode(1, "n")
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

// getsShorter runs a test with a seat that holds, in a session whose timeout becomes ten
// times shorter at a reconnect. The timers for the lease and the next probe were set
// before that. The channel gets the time at which LeaseRanOut arrived.
func getsShorter(t *testing.T, test func(r *rig, s *seat, ranOut <-chan time.Time)) {
	t.Helper()
	inSession(t, func(r *rig) {
		ranOut := make(chan time.Time, 1)
		s := r.Seated()
		s.Hears(func(in recipes.Input) {
			if _, ok := in.(recipes.LeaseRanOut); ok {
				ranOut <- time.Now() // there is room: it arrives once
			}
		})
		r.Plant("n")
		s.ClaimNode(1, "n")
		r.Server.Cut(r.Only())
		r.Settle()
		if got := r.Session.Timeout(); got != shortTimeout {
			t.Fatalf("after the reconnect the timeout is %v, want %v", got, shortTimeout)
		}
		test(r, s, ranOut)
	}, configured(func(c *session.Config) { c.Timeout = longTimeout }),
		through(func(conn net.Conn) net.Conn { return &shorter{Conn: conn} }))
}

// TestLeaseRanOutComesAtTheDeadlineOfAShorterTimeout: the timer for the next probe would
// notice it, too, but too late.
func TestLeaseRanOutComesAtTheDeadlineOfAShorterTimeout(t *testing.T) {
	getsShorter(t, func(r *rig, s *seat, ranOut <-chan time.Time) {
		id := r.Only()
		r.Server.Mute(id, true)
		deadline := s.Deadline(1)
		s.WantLease(shortTimeout/2, shortTimeout)
		select {
		case at := <-ranOut:
			expect(t, !at.After(deadline),
				"LeaseRanOut came %v after the deadline, want it in time", at.Sub(deadline))
		case <-time.After(longTimeout):
			t.Errorf("no LeaseRanOut within %v, want it at the deadline", longTimeout)
		}
		r.Server.Mute(id, false)
	})
}

// TestProbesKeepUpWithAShorterTimeout: on a healthy connection, nothing is lost.
func TestProbesKeepUpWithAShorterTimeout(t *testing.T) {
	getsShorter(t, func(_ *rig, s *seat, ranOut <-chan time.Time) {
		time.Sleep(longTimeout)
		expect(t, len(ranOut) == 0,
			"LeaseRanOut was told on a connection that answers, within %v; want none", longTimeout)
		s.WantLease(shortTimeout/2, shortTimeout)
	})
}
