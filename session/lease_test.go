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

// window is how long an answered request must be past for a write to prove it; the
// session is not told the tick.
const window = 1250 * time.Millisecond

// greeting is how long a session is kept quiet after its handshake.
const greeting = 5 * time.Millisecond

// until tells how long the lease of the first epoch is good from now on.
func (s *seat) until() time.Duration {
	synctest.Wait()
	return time.Until(s.Deadline(1))
}

// noPings keeps the client's pings from being answered, so that they are no signs of life.
func (r *rig) noPings() {
	r.srv.Intercept(func(q zktest.Request) zktest.Action {
		if q.Op == zktest.OpPing {
			return zktest.Swallow()
		}
		return zktest.Pass()
	})
}

func TestTheLeaseCountsFromTheSendingOfWhatAWriteProves(t *testing.T) {
	inSession(t, func(r *rig) {
		s := r.seat()
		s.want("Opened")
		at := func(what string, want time.Duration) { // since the handshake
			t.Helper()
			if got := s.until() + time.Since(r.start) - lease; got != want {
				t.Errorf("%s: counts from %v, want %v", what, got, want)
			}
		}
		at("handshake", 0)
		r.noPings()
		time.Sleep(5*time.Second - greeting)
		s.write()
		at("the first write, at 5 s, has nothing to prove", 0)
		time.Sleep(window - time.Nanosecond)
		s.write()
		at("another, a little too soon", 0)
		time.Sleep(time.Nanosecond)
		s.write()
		at("another after half a tick", 5*time.Second)

		// The answer comes late: the server may have got it as late.
		r.srv.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op == zktest.OpDelete {
				return zktest.Delay(3 * time.Second)
			}
			return zktest.Swallow()
		})
		s.Delete(recipes.Delete{Epoch: 1, Node: "none"}) // at 6.25 s
		time.Sleep(2 * time.Second)
		at("with a write under way", 5*time.Second)
		time.Sleep(time.Second)
		at("its answer, at 9.25 s", 5*time.Second)
		s.want("Deleted")
		r.noPings()
		time.Sleep(window - time.Nanosecond)
		s.write()
		at("a write too soon after the late answer", 5*time.Second+window)

		// What is never answered proves nothing, and a read neither.
		r.srv.Intercept(func(zktest.Request) zktest.Action { return zktest.Swallow() })
		time.Sleep(time.Second)
		s.Claim(recipes.Claim{Epoch: 1, Node: "n"})
		time.Sleep(time.Second)
		at("a request without an answer", 5*time.Second+window)
	})
}

func TestPingsAndReadsRenewNothing(t *testing.T) {
	inSession(t, func(r *rig) {
		s := r.seat()
		s.want("Opened")
		for range 10 {
			time.Sleep(time.Second)
			s.List(recipes.List{Epoch: 1})
			s.want("Listed")
		}
		if got := s.until(); got != lease-10*time.Second-greeting {
			t.Errorf("lease of %v 10 s after the handshake", got)
		}
		// But they are signs of life, of which a write makes proofs.
		s.write()
		if got := s.until(); got != lease-2*time.Second {
			t.Errorf("lease of %v after a write, with a read each second", got)
		}
	})
}

// As long as nothing is held nothing is written, however long it takes; the lease
// runs out, which is nobody's business, and a claim has one at once.
func TestAClaimAfterALongIdleTimeIsFresh(t *testing.T) {
	inSession(t, func(r *rig) {
		r.plant("n")
		s := r.seat()
		for range 100 {
			time.Sleep(20*time.Minute + 777*time.Millisecond) // in another phase of the pings each time
			if !s.Deadline(1).Before(time.Now()) {
				t.Fatalf("lease of %v", s.until())
			}
			s.claim(1, "n")
			if got, least := s.until(), lease-timeout/3-window; got > lease || got < least {
				t.Fatalf("lease of %v, want %v at least", got, least)
			}
			s.write() // and holds nothing any more
		}
		want := []recipes.Input{recipes.Opened{Epoch: 1, Session: r.only()}}
		for range 100 {
			want = append(want, recipes.Claimed{Epoch: 1, Fresh: true}, recipes.Deleted{Epoch: 1})
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if !slices.Equal(s.inputs, want) {
			t.Errorf("told %+v", s.inputs)
		}
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
		r.plant("n")
		first := r.s.ID()
		s, waiter := r.seat(), r.seat()
		s.want("Opened")
		for outage := range 2 {
			// The last sign of life comes 1 s after a tick, so the server waits for another 29 s.
			time.Sleep(tick - time.Since(r.start)%tick + time.Second)
			s.claim(1, "n")
			r.srv.Down(true)
			s.want("Suspended")
			left := s.until()
			if left > lease || left < lease-timeout/3-window {
				t.Errorf("outage %d: lease of %v", outage, left)
			}
			time.Sleep(left - time.Nanosecond)
			s.want("")
			if !s.Deadline(1).After(time.Now()) {
				t.Error("the lease is over too early")
			}
			time.Sleep(time.Nanosecond)
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
		// To whoever holds nothing it is no news.
		waiter.want("Opened Suspended Reconnected Suspended Reconnected")
	})
}

// Nothing breaks, and nothing is answered either: it is the lease that runs out first.
func TestLeaseRunsOutBeforeTheSession(t *testing.T) {
	inSession(t, func(r *rig) {
		r.plant("n")
		first := r.s.ID()
		s := r.seat()
		s.want("Opened")
		s.claim(1, "n")
		time.Sleep(time.Minute)
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

// A process that is held up finds the answer to its claim when that has no value any
// more. What it is told makes it claim again, so it is not told at once: a claim right
// behind the first would not be fresh either.
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
		slow.hears(func(recipes.Input) { time.Sleep(lease + time.Second) }) // stands for a pause of the whole process
		slow.Delete(recipes.Delete{Epoch: 99, Node: "n"})
		time.Sleep(lease)
		s.want("")
		time.Sleep(time.Second + window - time.Nanosecond)
		claimed := func() (list []recipes.Input) {
			for _, in := range s.fresh() {
				if _, ok := in.(recipes.Claimed); ok {
					list = append(list, in)
				}
			}
			return list
		}
		if got := claimed(); len(got) != 0 {
			t.Errorf("told %+v", got)
		}
		time.Sleep(time.Nanosecond)
		if got := claimed(); !slices.Equal(got, []recipes.Input{recipes.Claimed{Epoch: 1, Fresh: false}}) {
			t.Errorf("told %+v", s.inputs)
		}
	})
}

// The timer that watches the lease and the answer that renews it may come at the same
// moment; whoever has seen it run out must be right.
func TestALeaseThatHadRunOutIsNotRenewedInSilence(t *testing.T) {
	inSession(t, func(r *rig) {
		r.plant("n")
		s, slow := r.seat(), r.seat()
		s.claim(1, "n")
		slow.want("Opened")
		r.srv.Intercept(func(q zktest.Request) zktest.Action {
			switch q.Op {
			case zktest.OpMulti: // the probes
				return zktest.Swallow()
			case zktest.OpDelete:
				return zktest.Delay(2 * time.Second)
			default:
				return zktest.Pass()
			}
		})
		time.Sleep(s.until() - time.Second)
		// A write is sent before the deadline and answered after it, and from before to
		// after both the session's actor is held up.
		slow.Delete(recipes.Delete{Epoch: 1, Node: "none"})
		synctest.Wait()
		slow.hears(func(recipes.Input) { time.Sleep(3 * time.Second) })
		slow.Delete(recipes.Delete{Epoch: 99, Node: "none"})
		time.Sleep(4 * time.Second)
		if !s.Deadline(1).After(time.Now()) {
			t.Fatal("the lease was not renewed, and the test shows nothing")
		}
		s.want("LeaseRanOut")
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
