package wire

import (
	"context"
	"errors"
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
	const life = testTimeout / 10
	eventstest.Bubble(t, func(t *testing.T) {
		down := errors.New("down")
		var attempts []time.Duration
		var at time.Time // of the last drop
		f := &fakeServer{}
		f.serve = func(n int, c fakeConn) {
			c.handshake()
			c.grant(testTimeout, 7)
			if n == 1 {
				time.Sleep(life)
			} else {
				time.Sleep(life - time.Millisecond)
			}
			at = time.Now()
		}
		var dials int
		r := newRig(t, func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials++
			if dials > 1 {
				attempts = append(attempts, time.Since(at))
			}
			// 1 live; 2 to 5 down; 6 short-lived; 7 down.
			if dials > 1 && dials != 6 {
				return nil, down
			}
			return f.dial(ctx, network, addr)
		}, testTimeout, Events{}, "a:1", "b:1")
		time.Sleep(3 * time.Second)
		if err := r.dialer.LastError(); !errors.Is(err, down) {
			t.Error(err)
		}
		r.end(t)
		f.wg.Wait()
		if attempts[0] != 0 {
			t.Errorf("the first attempt after a live connection comes after %v, want it at once", attempts[0])
		}
		for i := 1; i < 4; i++ {
			gap, full := attempts[i]-attempts[i-1], backoffMin<<(i-1)
			if gap < full/2 || gap > full {
				t.Errorf("attempt %d after another %v, want %v to %v", i, gap, full/2, full)
			}
		}
		// The connection of attempt 6 was too short to wipe out the four failures before it.
		if attempts[5] < 200*time.Millisecond {
			t.Errorf("the attempt after a short connection comes after %v, want 200ms or more", attempts[5])
		}
	})
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

func TestADialTakesAThirdOfTheTimeoutAtMost(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		d := NewDialer(t.Context(), NewLink(Events{}), Dialing{
			Asked: testTimeout, Rng: testRand(),
			Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
		})
		start := time.Now()
		if _, err := d.Dial("tcp", "a:1", time.Second); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != testTimeout*3/10 {
			t.Errorf("a dial without an answer ends with %v after %v, want the deadline after %v", err, time.Since(start), testTimeout*3/10)
		}
		d.Stop()
		if conn, err := d.Dial("tcp", "a:1", time.Second); !isFarewell(conn) {
			t.Errorf("a dial after stop = %v, %v; want a farewell", conn, err)
		}
	})
}

// A slow TCP connection leaves less time for the handshake.
func TestConnectAndHandshakeShareOneDeadline(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		f := &fakeServer{serve: func(_ int, c fakeConn) {
			for c.recv() != nil {
			}
		}}
		var start time.Time
		r := newRig(t, func(ctx context.Context, network, addr string) (net.Conn, error) {
			if start.IsZero() {
				start = time.Now()
			}
			time.Sleep(2 * time.Second)
			return f.dial(ctx, network, addr)
		}, testTimeout, Events{}, "a:1")
		r.await(t, zk.StateDisconnected)
		took(t, "a slow connect with a handshake", start, testTimeout*3/10)
		r.end(t)
		f.wg.Wait()
	})
}

// The dialer may be stopped while a connection is being made; that connection must not stay open.
func TestStopDuringADialLeavesNothingOpen(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		f := &fakeServer{serve: func(_ int, c fakeConn) {
			for c.recv() != nil {
			}
		}}
		var d *Dialer
		d = NewDialer(t.Context(), NewLink(Events{}), Dialing{
			Asked: testTimeout, Rng: testRand(),
			Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := f.dial(ctx, network, addr)
				d.Stop()
				eventstest.Check(t, d.HardClose())
				return conn, err
			},
		})
		if conn, err := d.Dial("tcp", "a:1", 0); !isFarewell(conn) {
			t.Errorf("a dial during which the dialer is stopped = %v, %v; want a farewell", conn, err)
		}
		if !f.sock(1).isClosed() {
			t.Error("the socket is open after the end of the dial, want it closed")
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
	if !slices.Equal(names, given) {
		t.Fatalf("the caller's list was changed to %v, want %v", names, given)
	}
	eventstest.Must(t, h.Init([]string{"elsewhere:1"}))
	if h.Len() != len(names) {
		t.Fatalf("Len() = %d, want %d", h.Len(), len(names))
	}
	var first []string
	for i := range 3 * len(names) {
		name, retryStart := h.Next()
		if retryStart {
			t.Fatalf("at step %d Next asks for a pause, want none: the dialer has one of its own", i)
		}
		if i < len(names) {
			first = append(first, name)
		} else if want := first[i%len(names)]; name != want {
			t.Fatalf("step %d: %s, want %s", i, name, want)
		}
		if i == 6 {
			h.Connected() // this changes nothing: the next one in the ring comes next
		}
	}
	if sorted := slices.Sorted(slices.Values(first)); !slices.Equal(sorted, given) {
		t.Fatalf("one round is %v, want each of %v once", first, given)
	}
}

func TestHostsAreShuffledByTheGivenSource(t *testing.T) {
	names := []string{"a:1", "b:1", "c:1"}
	starts := map[string]int{}
	rng := testRand()
	for range 300 {
		name, _ := NewHosts(names, rng).Next()
		starts[name]++
	}
	for _, name := range names {
		if n := starts[name]; n < 60 {
			t.Errorf("%s is first %d times of 300, want 60 or more", name, n)
		}
	}
	one, _ := NewHosts(names, testRand()).Next()
	two, _ := NewHosts(names, testRand()).Next()
	if one != two {
		t.Error("two orders of the hosts from the same seed differ, want them equal")
	}
}

func TestHostsRefuseAnEmptyList(t *testing.T) {
	if err := NewHosts(nil, testRand()).Init([]string{"a:1"}); err == nil {
		t.Fatal("an empty list of hosts is accepted, want an error")
	}
}

// A client without a connection ends at once, whatever it was doing, and the requests in its queue are answered.
func TestAClientWithoutAConnectionEndsAtOnce(t *testing.T) {
	never := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	refused := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") }
	for name, dial := range map[string]DialFunc{"while it dials": never, "between two attempts": refused} {
		t.Run(name, func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				r := newRig(t, dial, testTimeout, Events{}, "a:1")
				queued := make(chan error, 1)
				go func() {
					_, _, err := r.conn.Get("/x")
					queued <- err
				}()
				time.Sleep(10 * time.Millisecond)
				r.endWithin(t, 0)
				if err := <-queued; err == nil {
					t.Error("a request that no server has seen is answered, want an error")
				} else if outcome, _ := zkerr.Classify(err); outcome != zkerr.Unknown {
					t.Errorf("the error %v is taken for %v, want Unknown", err, outcome)
				}
			})
		})
	}
}
