package session_test

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
)

// shorter asks for another session timeout in every handshake but the first, as if the client had come to a
// server with a lower maxSessionTimeout.
type shorter struct {
	net.Conn
	to   time.Duration
	done bool
}

func (s *shorter) Write(p []byte) (int, error) {
	if !s.done {
		s.done = true
		if binary.BigEndian.Uint64(p[20:]) != 0 {
			binary.BigEndian.PutUint32(p[16:], uint32(s.to/time.Millisecond))
		}
	}
	return s.Conn.Write(p)
}

// The timeout gets shorter with a reconnect.
func TestTheLeaseIsWatchedWhenTheTimeoutGetsShorter(t *testing.T) {
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
		var mu sync.Mutex
		var at time.Time
		s := &seat{Seat: r.s.Seat(session.Place{Dir: dir}), r: r}
		s.hook = func(in recipes.Input) {
			if _, ok := in.(recipes.LeaseRanOut); ok {
				mu.Lock()
				at = time.Now()
				mu.Unlock()
			}
		}
		s.Open(s.note)
		s.want("Opened")
		r.plant("n")
		s.claim(1, "n")
		id := r.only()
		r.srv.Cut(id)
		r.settle()
		if got := r.s.Timeout(); got != short {
			t.Fatalf("timeout %v", got)
		}
		r.srv.Mute(id, true)
		var expired time.Time
		for range 400 {
			time.Sleep(time.Second)
			if expired.IsZero() && len(r.srv.Sessions()) == 0 {
				expired = time.Now()
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if at.IsZero() || at.After(expired) {
			t.Errorf("LeaseRanOut at %v, the server ended the session at %v", at.Sub(r.start), expired.Sub(r.start))
		}
		r.srv.Mute(id, false)
	})
}
