package wire

import (
	"context"
	"crypto/tls"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

func TestBackoffIsForgottenAfterALiveConnection(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		var attempts []time.Duration
		var at time.Time // of the latest drop
		f := &fakeServer{serve: func(n int, c fakeConn) {
			c.grant(testTimeout, 7)
			time.Sleep(testTimeout/10 - time.Duration(n-1)*time.Millisecond) // the second connection is too short
			at = time.Now()
		}}
		dials := 0
		r := newRig(t, Events{}, Dialing{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dials++; dials > 1 {
				attempts = append(attempts, time.Since(at))
			}
			// Connection 1 lives; 2 to 5 fail; 6 is short-lived; 7 fails.
			if dials > 1 && dials != 6 {
				return nil, errDown
			}
			return f.dial(ctx, network, addr)
		}}, "a:1", "b:1")
		time.Sleep(3 * time.Second)
		eventstest.ErrorIs(t, r.dialer.LastError(), errDown, "the last error")
		r.end()
		f.wg.Wait()
		equal(t, attempts[0], 0, "the first attempt after a live connection comes after")
		for i := 1; i < 4; i++ {
			gap, full := attempts[i]-attempts[i-1], backoffMin<<(i-1)
			expect(t, gap >= full/2 && gap <= full,
				"attempt %d after another %v, want %v to %v", i, gap, full/2, full)
		}
		// Connection 6 was too short to clear the four failures before it.
		expect(t, attempts[5] >= 200*time.Millisecond,
			"the attempt after a short connection comes after %v, want 200ms or more", attempts[5])
	})
}

// TestFailuresBeforeAGoodConnection do not delay the client of the next session.
func TestFailuresBeforeAGoodConnection(t *testing.T) {
	for lives, want := range map[time.Duration]int{time.Millisecond: 6, testTimeout: 0} {
		p := established(t, Events{})
		p.established = p.established.Add(-lives)
		d := &Dialer{link: p.link, current: p.wire, failures: 5}
		eventstest.Equal(t, d.Failed(), want, "failures after a connection of %v", lives)
	}
}

func TestBackoffBounds(t *testing.T) {
	rng := testRand()
	for _, most := range []time.Duration{backoffMax, 20 * time.Second} {
		full := backoffMin
		for failures := 1; failures < 200; failures++ {
			for range 100 {
				if d := backoff(failures, most, rng); d < full/2 || d > full {
					t.Fatalf("after %d failures: %v, want %v to %v", failures, d, full/2, full)
				}
			}
			full = min(2*full, most)
		}
	}
}

// never is a network that does not answer.
func never(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestADialTakesAThirdOfTheTimeoutAtMost: that includes the handshake.
func TestADialTakesAThirdOfTheTimeoutAtMost(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		d := dialerOf(t, Events{}, Dialing{Dial: never})
		start := time.Now()
		_, err := d.Dial("tcp", "a:1", time.Second)
		eventstest.ErrorIs(t, err, context.DeadlineExceeded, "the end of a dial without an answer")
		took(t, "a dial without an answer", start, testTimeout*3/10)
		d.Stop()
		conn, err := d.Dial("tcp", "a:1", time.Second)
		expect(t, isFarewell(conn), "a dial after stop = %v, %v; want a farewell", conn, err)

		f := &fakeServer{serve: func(_ int, c fakeConn) { c.ignore() }}
		start = time.Now()
		d = dialerOf(t, Events{}, Dialing{Dial: f.dial, TLS: func() *tls.Config { return &tls.Config{} }})
		_, err = d.Dial("tcp", "zk.example.com:2181", 0)
		eventstest.ErrorIs(t, err, context.DeadlineExceeded, "the end of a handshake of TLS without an answer")
		took(t, "a handshake of TLS that is never answered", start, testTimeout*3/10)
		var began time.Time
		r := newRig(t, Events{}, Dialing{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if began.IsZero() {
				began = time.Now()
			}
			time.Sleep(2 * time.Second)
			return f.dial(ctx, network, addr)
		}}, "a:1")
		r.await(zk.StateDisconnected)
		took(t, "a slow connect with a handshake", began, testTimeout*3/10)
		r.end()
		f.wg.Wait()
	})
}

// The dialer may be stopped while a connection is being made. That connection must not
// stay open.
func TestStopDuringADialLeavesNothingOpen(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		f := &fakeServer{serve: func(_ int, c fakeConn) { c.ignore() }}
		var d *Dialer
		d = dialerOf(t, Events{}, Dialing{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := f.dial(ctx, network, addr)
			d.Stop()
			eventstest.Check(t, d.HardClose())
			return conn, err
		}})
		if conn, err := d.Dial("tcp", "a:1", 0); !isFarewell(conn) || !f.closed(1) {
			t.Errorf("a dial during which the dialer is stopped = %v, %v, its socket closed: %v; want a farewell, and closed",
				conn, err, f.closed(1))
		}
		f.wg.Wait()
	})
}

func isFarewell(conn net.Conn) bool {
	_, ok := conn.(*farewell)
	return ok
}

func testRand() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

func TestHostsGoRoundInOneShuffledOrder(t *testing.T) {
	names := []string{"a:1", "b:1", "c:1", "d:1", "e:1"}
	given := slices.Clone(names)
	h := NewHosts(names, testRand())
	eventstest.Must(t, h.Init([]string{"elsewhere:1"}))
	if h.Len() != len(names) || !slices.Equal(names, given) {
		t.Fatalf("there are %d of the hosts %v, want all of %v", h.Len(), names, given)
	}
	var all []string
	for i := range 3 * len(names) {
		name, retryStart := h.Next()
		if all = append(all, name); retryStart {
			t.Fatalf("at step %d Next asks for a pause, want none: the dialer has one of its own", i)
		}
		if i == 6 {
			h.Connected() // this changes nothing: the next server in the ring is next
		}
	}
	first := all[:len(names)]
	expect(t, slices.Equal(sorted(first), given) && slices.Equal(all, slices.Repeat(first, 3)),
		"the order is %v, want each of %v once in a round, and all rounds alike", all, given)
	err := NewHosts(nil, testRand()).Init([]string{"a:1"})
	expect(t, err != nil, "an empty list of hosts is accepted, want an error")
}

// TestHostsAreShuffledByTheGivenSource: so are the addresses of a name. Many clients with
// one name spread over the servers.
func TestHostsAreShuffledByTheGivenSource(t *testing.T) {
	names := []string{"a:1", "b:1", "c:1"}
	for what, first := range map[string]func(rng *rand.Rand) string{
		"host": func(rng *rand.Rand) string { name, _ := NewHosts(names, rng).Next(); return name },
		"address": func(rng *rand.Rand) string {
			h := NewHosts([]string{"zk:1"}, rng)
			h.learn("zk:1", names, rng)
			return h.addresses("zk:1")[0]
		},
	} {
		starts, rng := map[string]int{}, testRand()
		for range 300 {
			starts[first(rng)]++
		}
		for _, name := range names {
			n := starts[name]
			expect(t, n >= 60, "%s %s is first %d times of 300, want 60 or more", what, name, n)
		}
		one, two := first(testRand()), first(testRand())
		expect(t, one == two, "with the same seed %s and %s are the first %s, want one", one, two, what)
	}
}

// A client without a connection ends at once, whatever it was doing, and the requests in
// its queue are answered.
func TestAClientWithoutAConnectionEndsAtOnce(t *testing.T) {
	refused := func(context.Context, string, string) (net.Conn, error) { return nil, errDown }
	cases := map[string]DialFunc{"while it dials": never, "between two attempts": refused}
	inBubbles(t, cases, func(t *testing.T, dial DialFunc) {
		r := newRig(t, Events{}, Dialing{Dial: dial}, "a:1")
		queued := make(chan error, 1)
		go func() {
			_, _, err := r.conn.Get("/x")
			queued <- err
		}()
		time.Sleep(10 * time.Millisecond)
		start := time.Now()
		r.end()
		took(t, "the end of the client", start, 0)
		err := <-queued
		if outcome, _ := zkerr.Classify(err); err == nil || outcome != zkerr.Unknown {
			t.Errorf("a request that no server has seen ends with %v (%v), want one that is Unknown", err, outcome)
		}
	})
}
