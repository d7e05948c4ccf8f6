package session_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
)

// TestLeaseRanOutComesAtTheDeadlineOfAShorterTimeout: the timers of a holder were set
// when the timeout was ten times as long, the one for the next probe included, which
// would notice as well, and too late.
func TestLeaseRanOutComesAtTheDeadlineOfAShorterTimeout(t *testing.T) {
	const long, short = 200 * time.Second, 20 * time.Second
	bubble(t, func(r *rig) {
		r.open("", session.OptionFunc(func(c *session.Config) {
			c.Timeout = long
			dial := c.Dial
			c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := dial(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				return &shorter{Conn: conn, to: short}, nil
			}
		}))
		told := make(chan time.Time, 1)
		s := &seat{Seat: r.s.Seat(session.Place{Dir: dir}), r: r}
		s.hook = func(in recipes.Input) {
			if _, ok := in.(recipes.LeaseRanOut); ok {
				told <- time.Now() // there is room: it is told once
			}
		}
		s.Open(s.note)
		s.want("Opened")
		r.plant("n")
		s.claim(1, "n")
		id := r.only()
		r.srv.Cut(id)
		r.settle()
		r.srv.Mute(id, true)
		deadline := s.Deadline(1)
		if left := time.Until(deadline); left > short || left < short/2 {
			t.Fatalf("the lease is good for %v of %v", left, short)
		}
		select {
		case at := <-told:
			if at.After(deadline) {
				t.Errorf("LeaseRanOut came %v after the deadline", at.Sub(deadline))
			}
		case <-time.After(long):
			t.Error("nothing was heard")
		}
		r.srv.Mute(id, false)
	})
}
