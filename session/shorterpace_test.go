package session_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
)

// TestProbesKeepUpWithAShorterTimeout: the timer for the next probe was set when the
// timeout was ten times as long. On a healthy connection nothing may be lost.
func TestProbesKeepUpWithAShorterTimeout(t *testing.T) {
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
		s := r.seat()
		s.want("Opened")
		r.plant("n")
		s.claim(1, "n")
		r.srv.Cut(r.only())
		r.settle()
		time.Sleep(long)
		for _, in := range s.fresh() {
			if _, ok := in.(recipes.LeaseRanOut); ok {
				t.Error("a lease ran out on a healthy connection")
			}
		}
		if left := time.Until(s.Deadline(1)); left < short/2 {
			t.Errorf("%v are left of the lease", left)
		}
	})
}
