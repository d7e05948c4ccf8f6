package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

func TestWhatAServerSaysOfItself(t *testing.T) {
	for answer, want := range map[string]bool{
		"": false,
		"Zookeeper version: 3.8.0\nLatency min/avg/max: 0/0.0/0\nMode: follower\nNode count: 5\n": true,
		"Zookeeper version: 3.8.0\nMode: standalone\n":                                            true,
		"srvr is not executed because it is not in the whitelist.\n":                              true,
		"This ZooKeeper instance is not currently serving requests\n":                             false,
		"Zookeeper version: 3.8.0\nMode: read-only\nNode count: 5\n":                              false,
	} {
		equal(t, says([]byte(answer)), want, "%q: it serves", answer)
	}
}

// asking returns a dialer that is connected to one:1. The other servers answer a query
// after the given time. A negative time means never; a server without a time refuses.
func asking(t *testing.T, times map[string]time.Duration) *Dialer {
	t.Helper()
	h := NewHosts([]string{"one:1", "two:2", "three:3"}, testRand())
	d := dialerOf(t, Events{}, Dialing{
		Hosts: h,
		Dial: func(_ context.Context, _, addr string) (net.Conn, error) {
			wait, up := times[addr]
			if !up {
				return nil, errDown
			}
			near, far := net.Pipe()
			t.Cleanup(func() { _ = far.Close() })
			go func() {
				defer far.Close()
				if _, err := io.ReadFull(far, make([]byte, len(word))); err != nil {
					return
				}
				if wait >= 0 {
					_ = far.SetReadDeadline(time.Now().Add(wait))
				}
				if _, err := far.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) { // otherwise it was closed
					_, _ = far.Write([]byte("Mode: follower\n"))
				}
			}()
			return near, nil
		},
	})
	d.current = play(t, d.link).wire
	d.current.server = "one:1"
	h.note("one:1", "")
	return d
}

// TestAskingTheOtherServers: the first server that answers is dialed next. A server that
// refuses or is silent costs at most a moment, and the current server is not asked.
func TestAskingTheOtherServers(t *testing.T) {
	const ms = time.Millisecond
	stagger := min(mostStagger, testTimeout/20)
	type asked struct {
		times map[string]time.Duration
		want  string // the next server to be dialed; "": no server answers
		after time.Duration
	}
	inBubbles(t, map[string]asked{
		"all answer":               {map[string]time.Duration{"one:1": 0, "two:2": ms, "three:3": ms}, "either", ms},
		"one refuses":              {map[string]time.Duration{"three:3": ms}, "three:3", ms},
		"the other one refuses":    {map[string]time.Duration{"two:2": ms}, "two:2", ms},
		"one is silent":            {map[string]time.Duration{"two:2": -1, "three:3": ms}, "three:3", stagger + ms},
		"the other one is silent":  {map[string]time.Duration{"two:2": ms, "three:3": -1}, "two:2", stagger + ms},
		"both refuse":              {map[string]time.Duration{"one:1": 0}, "", 0},
		"both are silent":          {map[string]time.Duration{"one:1": 0, "two:2": -1, "three:3": -1}, "", testTimeout},
		"both answer after a time": {map[string]time.Duration{"two:2": time.Second, "three:3": time.Second}, "either", time.Second},
	}, func(t *testing.T, c asked) {
		d := asking(t, c.times)
		defer d.Stop()
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		defer cancel()
		begun := time.Now()
		serves := d.Ask(ctx)
		took := time.Since(begun)
		if serves != (c.want != "") || took > c.after {
			t.Fatalf("another one serves: %v, after %v; want %q, after %v at most", serves, took, c.want, c.after)
		}
		if next, _ := d.cfg.Hosts.Next(); serves && next != c.want && (c.want != "either" || next == "one:1") {
			t.Errorf("%s is dialled next, want %s", next, c.want)
		}
	})
}

// TestAskingEndsWithTheClient: Stop ends it at once. No server is asked if a lookup has
// meanwhile found fewer addresses.
func TestAskingEndsWithTheClient(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		d := asking(t, map[string]time.Duration{"two:2": -1, "three:3": -1})
		begun := time.Now()
		time.AfterFunc(time.Second, d.Stop)
		expect(t, !d.Ask(t.Context()) && time.Since(begun) == time.Second,
			"asking ends after %v, want with the client", time.Since(begun))
		d = asking(t, nil)
		d.cfg.Hosts.servers = d.cfg.Hosts.servers[:0]
		expect(t, !d.Ask(t.Context()), "another server serves, want none where there is none")
	})
}

// TestEachAddressIsAServer: each can be asked, and be dialed next.
func TestEachAddressIsAServer(t *testing.T) {
	rng := testRand()
	h := NewHosts([]string{"zk:1", "other:1"}, rng)
	h.learn("zk:1", []string{"10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"}, rng)
	for _, addr := range []string{"10.0.0.3:1", "10.0.0.1:1", "10.0.0.2:1"} {
		h.note("zk:1", addr)
	}
	want := []server{{"other:1", "", 0}, {"zk:1", "10.0.0.3:1", 1}, {"zk:1", "10.0.0.1:1", 2}}
	got := h.others("zk:1", "10.0.0.2:1")
	expect(t, slices.Equal(got, want), "the others are %v, want %v", got, want)
	h.prefer(want[2])
	if name, _ := h.Next(); name != "zk:1" || h.addresses(name)[0] != "10.0.0.1:1" {
		t.Errorf("%s at %v is dialled next, want the address that is preferred", name, h.addresses(name))
	}
	h.note("zk:1", "10.0.0.1:1")
	if name, _ := h.Next(); name != "other:1" || h.addresses("zk:1")[0] != "10.0.0.3:1" {
		t.Errorf("behind it come %s, and %v; want other:1, and 10.0.0.3:1: a server is preferred once", name, h.addresses("zk:1"))
	}
}
