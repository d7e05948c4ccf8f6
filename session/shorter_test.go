package session_test

import (
	"context"
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
)

const (
	longTimeout  = 10 * sessiontest.Timeout // of the first connection
	shortTimeout = sessiontest.Timeout      // of every later one
)

// shorter asks for another session timeout in every handshake but the first, as if the client had come to a
// server with a lower maxSessionTimeout.
type shorter struct {
	net.Conn
	done bool
}

func (s *shorter) Write(p []byte) (int, error) {
	if !s.done {
		s.done = true
		if binary.BigEndian.Uint64(p[20:]) != 0 {
			binary.BigEndian.PutUint32(p[16:], uint32(shortTimeout/time.Millisecond))
		}
	}
	return s.Conn.Write(p)
}

// getsShorter has a seat hold in a session whose timeout gets ten times shorter with a reconnect. The timers of the
// lease, and of the next probe, were set before that. The channel has when LeaseRanOut was told.
func getsShorter(t *testing.T, test func(r *sessiontest.Rig, s *sessiontest.Seat, ranOut <-chan time.Time)) {
	t.Helper()
	sessiontest.Bubble(t, func(r *sessiontest.Rig) {
		r.Open("", session.OptionFunc(func(c *session.Config) {
			c.Timeout = longTimeout
			dial := c.Dial
			c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := dial(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				return &shorter{Conn: conn}, nil
			}
		}))
		ranOut := make(chan time.Time, 1)
		s := &sessiontest.Seat{Seat: r.Session.Seat(session.Place{Dir: sessiontest.Dir}), Rig: r, Hook: func(in recipes.Input) {
			if _, ok := in.(recipes.LeaseRanOut); ok {
				ranOut <- time.Now() // there is room: it is told once
			}
		}}
		s.Open(s.Note)
		s.Want("Opened")
		r.Plant("n")
		s.ClaimNode(1, "n")
		r.Server.Cut(r.Only())
		r.Settle()
		if got := r.Session.Timeout(); got != shortTimeout {
			t.Fatalf("after the reconnect the timeout is %v, want %v", got, shortTimeout)
		}
		test(r, s, ranOut)
	})
}

// TestLeaseRanOutComesAtTheDeadlineOfAShorterTimeout: the timer for the next probe
// would notice as well, and too late.
func TestLeaseRanOutComesAtTheDeadlineOfAShorterTimeout(t *testing.T) {
	getsShorter(t, func(r *sessiontest.Rig, s *sessiontest.Seat, ranOut <-chan time.Time) {
		id := r.Only()
		r.Server.Mute(id, true)
		deadline := s.Deadline(1)
		if left := time.Until(deadline); left > shortTimeout || left < shortTimeout/2 {
			t.Fatalf("the lease is good for %v, want it between half and all of %v", left, shortTimeout)
		}
		select {
		case at := <-ranOut:
			if at.After(deadline) {
				t.Errorf("LeaseRanOut came %v after the deadline, want it in time", at.Sub(deadline))
			}
		case <-time.After(longTimeout):
			t.Errorf("no LeaseRanOut within %v, want it at the deadline", longTimeout)
		}
		r.Server.Mute(id, false)
	})
}

// TestProbesKeepUpWithAShorterTimeout: on a healthy connection nothing may be lost.
func TestProbesKeepUpWithAShorterTimeout(t *testing.T) {
	getsShorter(t, func(_ *sessiontest.Rig, s *sessiontest.Seat, ranOut <-chan time.Time) {
		time.Sleep(longTimeout)
		if len(ranOut) > 0 {
			t.Errorf("LeaseRanOut was told on a connection that answers, within %v; want none", longTimeout)
		}
		if left := time.Until(s.Deadline(1)); left < shortTimeout/2 {
			t.Errorf("%v are left of the lease, want half of %v or more", left, shortTimeout)
		}
	})
}
