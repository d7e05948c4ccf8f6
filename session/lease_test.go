package session_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// until tells how long the lease of the first epoch is good from now on.
func (s *seat) until() time.Duration {
	synctest.Wait()
	return time.Until(s.Deadline(1))
}

// noPings keeps the client's pings, which renew the lease, from being answered in time.
func (r *rig) noPings() {
	r.srv.Intercept(func(q zktest.Request) zktest.Action {
		if q.Op == zktest.OpPing {
			return zktest.Swallow()
		}
		return zktest.Pass()
	})
}

// greeting is how long a session is kept quiet after its handshake.
const greeting = 5 * time.Millisecond

func TestTheLeaseCountsFromTheSendingOfTheNewestAnsweredRequest(t *testing.T) {
	inSession(t, func(r *rig) {
		r.plant("n")
		s := r.seat()
		s.want("Opened")
		if got := s.until(); got != lease-greeting {
			t.Errorf("%v after the handshake, want %v", got, lease-greeting)
		}
		r.noPings()
		time.Sleep(5*time.Second - greeting)
		if got := s.until(); got != lease-5*time.Second {
			t.Errorf("%v after 5 s of silence, want %v", got, lease-5*time.Second)
		}
		s.Claim(recipes.Claim{Epoch: 1, Node: "n"})
		s.answer()
		if got := s.until(); got != lease {
			t.Errorf("%v after a request, want %v", got, lease)
		}

		// The answer comes late: the server may have executed it at once.
		r.srv.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op == zktest.OpMulti {
				return zktest.Delay(3 * time.Second)
			}
			return zktest.Swallow()
		})
		s.Claim(recipes.Claim{Epoch: 1, Node: "n"})
		time.Sleep(2 * time.Second)
		if got := s.until(); got != lease-2*time.Second {
			t.Errorf("%v with a request under way, want %v", got, lease-2*time.Second)
		}
		time.Sleep(time.Second)
		if got := s.until(); got != lease-3*time.Second {
			t.Errorf("%v after an answer that took 3 s, want %v", got, lease-3*time.Second)
		}
		if in := s.want("Claimed")[0]; in != (recipes.Claimed{Epoch: 1, Fresh: true}) {
			t.Errorf("%+v", in)
		}

		// An answer with an error is an answer, one that never comes is none.
		r.noPings()
		s.Claim(recipes.Claim{Epoch: 1, Node: "none"})
		s.want("Refused")
		if got := s.until(); got != lease {
			t.Errorf("%v after a refusal, want %v", got, lease)
		}
		r.srv.Intercept(func(zktest.Request) zktest.Action { return zktest.Swallow() })
		time.Sleep(time.Second)
		s.Claim(recipes.Claim{Epoch: 1, Node: "n"})
		time.Sleep(time.Second)
		if got := s.until(); got != lease-2*time.Second {
			t.Errorf("%v after a request without an answer, want %v", got, lease-2*time.Second)
		}
	})
}

func TestPingsRenewTheLease(t *testing.T) {
	inSession(t, func(r *rig) {
		s := r.seat()
		for range 3600 {
			time.Sleep(time.Second)
			// The client pings every third of the timeout.
			if got := s.until(); got < lease-timeout/3-time.Millisecond || got > lease {
				t.Fatalf("lease of %v", got)
			}
		}
		s.want("Opened")
	})
}

func TestSuspendedHasTheDeadline(t *testing.T) {
	inSession(t, func(r *rig) {
		s := r.seat()
		time.Sleep(3 * time.Second)
		r.srv.Down(true)
		synctest.Wait()
		if got := r.heard[1]; got != (events.Suspended{Deadline: s.Deadline(1)}) || s.until() != lease-3*time.Second-greeting {
			t.Errorf("%+v, and the lease is good for %v", got, s.until())
		}
	})
}

// The session survives an outage that its lease does not, twice.
func TestLeaseRanOutOnceInEachOutage(t *testing.T) {
	inSession(t, func(r *rig) {
		first := r.s.ID()
		s := r.seat()
		s.want("Opened")
		for outage := range 2 {
			// The last sign of life comes 1 s after a tick, so the server waits for another 29 s.
			time.Sleep(tick - time.Since(r.start)%tick + time.Second)
			s.List(recipes.List{Epoch: 1})
			s.want("Listed")
			r.srv.Down(true)
			s.want("Suspended")
			time.Sleep(lease - time.Millisecond)
			s.want("")
			if s.Deadline(1).Before(time.Now()) {
				t.Error("the lease is over too early")
			}
			time.Sleep(time.Millisecond)
			s.want("LeaseRanOut")
			if s.Deadline(1).After(time.Now()) {
				t.Error("the lease goes on")
			}
			time.Sleep(2 * time.Second)
			s.want("")
			r.srv.Down(false)
			r.settle()
			s.want("Reconnected")
			if got := s.until(); got < lease-time.Second {
				t.Errorf("outage %d: lease of %v after it", outage, got)
			}
			time.Sleep(time.Hour)
			s.want("")
		}
		if r.s.ID() != first {
			t.Errorf("session %#x became %#x", first, r.s.ID())
		}
	})
}

// Nothing breaks, and nothing is answered either: it is the lease that runs out first.
func TestLeaseRunsOutBeforeTheSession(t *testing.T) {
	inSession(t, func(r *rig) {
		first := r.s.ID()
		s := r.seat()
		s.want("Opened")
		time.Sleep(time.Minute)
		s.List(recipes.List{Epoch: 1})
		s.want("Listed")
		r.srv.Mute(first, true)
		start := time.Now()
		r.until("the lease runs out", func() bool { return s.Deadline(1).Before(time.Now()) })
		ranOut := time.Since(start)
		r.until("the server ends the session", func() bool { return len(r.srv.Sessions()) == 0 })
		if expired := time.Since(start); ranOut > lease+10*time.Millisecond || expired < ranOut+timeout/20 {
			t.Errorf("lease over after %v, session after %v", ranOut, expired)
		}
		s.want("Suspended LeaseRanOut")
		r.srv.Mute(first, false)
		r.until("there is another session", func() bool { return s.Session(2) != 0 })
		s.want("Expired Opened")
		if got := time.Until(s.Deadline(2)); got < lease-time.Second {
			t.Errorf("lease of %v in the new session", got)
		}
	})
}

// A process that is held up finds the answer to its claim when that has no value any more.
func TestAClaimThatIsSeenTooLateIsNotFresh(t *testing.T) {
	inSession(t, func(r *rig) {
		r.plant("n")
		s, slow := r.seat(), r.seat()
		s.want("Opened")
		slow.want("Opened")
		r.srv.Intercept(func(q zktest.Request) zktest.Action { // nothing but the claim is answered
			if q.Op == zktest.OpMulti {
				return zktest.Delay(time.Second)
			}
			return zktest.Swallow()
		})
		s.Claim(recipes.Claim{Epoch: 1, Node: "n"})
		synctest.Wait()
		slow.hook = func(recipes.Input) { time.Sleep(lease + time.Second) } // stands for a pause of the whole process
		slow.Delete(recipes.Delete{Epoch: 99, Node: "n"})
		time.Sleep(lease)
		s.want("")
		time.Sleep(2 * time.Second)
		var claims []recipes.Input
		for _, in := range s.fresh() {
			if _, ok := in.(recipes.Claimed); ok {
				claims = append(claims, in)
			}
		}
		if !slices.Equal(claims, []recipes.Input{recipes.Claimed{Epoch: 1, Fresh: false}}) {
			t.Errorf("told %+v", s.inputs)
		}
	})
}

func TestTimeoutIsTheServersWord(t *testing.T) {
	bubble(t, func(r *rig) {
		r.open("", session.OptionFunc(func(c *session.Config) { c.Timeout = time.Hour }))
		s := r.seat()
		const most = 20 * tick
		if got := r.s.Timeout(); got != most {
			t.Errorf("timeout %v, want %v", got, most)
		}
		if got, want := s.until(), most-most/20-greeting; got != want {
			t.Errorf("lease of %v, want %v", got, want)
		}
	})
}
