package faultnet_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// Three creates are sent, and the rule decides about the second or its answer. The connection is quiet before each,
// so that a cut loses nothing that is under way.
func TestVerdicts(t *testing.T) {
	for _, test := range []struct {
		direction faultnet.Direction
		verdict   faultnet.Verdict
		executed  string
		answered  []int32
		ended     error
	}{
		{faultnet.Up, faultnet.Pass(), "/1 /2 /3", []int32{1, 2, 3}, os.ErrDeadlineExceeded},
		{faultnet.Up, faultnet.Drop(), "/1 /3", []int32{1, 3}, os.ErrDeadlineExceeded},
		{faultnet.Up, faultnet.Hold(), "/1", []int32{1}, os.ErrDeadlineExceeded},
		{faultnet.Up, faultnet.HoldFor(time.Hour), "/1", []int32{1}, os.ErrDeadlineExceeded},
		{faultnet.Up, faultnet.HoldFor(time.Second / 2), "/1 /2 /3", []int32{1, 2, 3}, os.ErrDeadlineExceeded},
		{faultnet.Up, faultnet.CutBefore(), "/1", nil, syscall.ECONNRESET},
		{faultnet.Up, faultnet.CutAfter(), "/1 /2", nil, syscall.ECONNRESET},
		{faultnet.Up, faultnet.Swallow(), "/1", []int32{1}, os.ErrDeadlineExceeded},
		{faultnet.Down, faultnet.Drop(), "/1 /2 /3", []int32{1, 3}, os.ErrDeadlineExceeded},
		{faultnet.Down, faultnet.Hold(), "/1 /2 /3", []int32{1}, os.ErrDeadlineExceeded},
		{faultnet.Down, faultnet.HoldFor(time.Second / 2), "/1 /2 /3", []int32{1, 2, 3}, os.ErrDeadlineExceeded},
		{faultnet.Down, faultnet.CutBefore(), "/1 /2", []int32{1}, syscall.ECONNRESET},
		{faultnet.Down, faultnet.CutAfter(), "/1 /2", []int32{1, 2}, syscall.ECONNRESET},
		{faultnet.Down, faultnet.Swallow(), "/1 /2 /3", []int32{1}, os.ErrDeadlineExceeded},
	} {
		t.Run(test.direction.String()+" "+test.verdict.String(), func(t *testing.T) {
			rule := func(f faultnet.Frame) faultnet.Verdict {
				if f.Direction == test.direction && f.Nth == 3 { // the handshake is the first
					return test.verdict
				}
				return faultnet.Pass()
			}
			bubble(t, rule, func(r *rig) {
				c := r.session()
				paths := []string{"/1", "/2", "/3"}
				if errors.Is(test.ended, syscall.ECONNRESET) {
					paths = paths[:2] // nothing can be sent after the cut
				}
				for _, path := range paths {
					c.create(path)
					synctest.Wait()
				}
				answered, ended := c.received()
				if got := strings.Join(r.srv.Tree(), " "); got != test.executed {
					t.Errorf("executed %s, want %s", got, test.executed)
				}
				if !slices.Equal(answered, test.answered) {
					t.Errorf("answered %v, want %v", answered, test.answered)
				}
				if !errors.Is(ended, test.ended) {
					t.Errorf("ended with %v, want %v", ended, test.ended)
				}
				synctest.Wait()
				if n := r.srv.Connections() - r.net.Open(); n != 0 {
					t.Errorf("the server has %d connections more than the network, want as many", n)
				}
			})
		})
	}
}

func TestReleaseLetsGoInOrder(t *testing.T) {
	rule := func(f faultnet.Frame) faultnet.Verdict {
		if f.Op == zktest.OpCreate {
			return faultnet.Hold()
		}
		return faultnet.Pass()
	}
	bubble(t, rule, func(r *rig) {
		c := r.session()
		first, second := c.create("/1"), c.ask(zktest.OpExists, "/1", false)
		if answered, _ := c.received(); len(answered) != 0 || r.srv.Exists("/1") {
			t.Errorf("while the first request is held %v is answered, want nothing executed", answered)
		}
		r.net.Release()
		if answered, _ := c.received(); len(answered) != 0 || !r.srv.Exists("/1") {
			t.Errorf("while the first answer is held %v is answered, want only the request executed", answered)
		}
		r.net.Release()
		if answered, _ := c.received(); !slices.Equal(answered, []int32{first, second}) {
			t.Errorf("after the second release %v is answered, want %d and %d", answered, first, second)
		}
	})
}

func TestLagKeepsTheOrder(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		c := r.session()
		r.net.Lag(faultnet.Up, time.Second)
		r.net.Lag(faultnet.Down, 2*time.Second)
		start := time.Now()
		sent := []int32{c.create("/1"), c.create("/2")}
		time.Sleep(time.Second / 2)
		r.net.Lag(faultnet.Up, 0)
		sent = append(sent, c.create("/3"))
		for _, want := range sent {
			if xid, err := c.receive(); err != nil || xid != want || time.Since(start) != 3*time.Second {
				t.Errorf("%d after %v: %v; want %d after 3s", xid, time.Since(start), err, want)
			}
		}
		if got := strings.Join(r.srv.Tree(), " "); got != "/1 /2 /3" {
			t.Errorf("the server has made %s, want /1 /2 /3", got)
		}
	})
}

func TestFramesAreTold(t *testing.T) {
	var told []string
	rule := func(f faultnet.Frame) faultnet.Verdict {
		told = append(told, f.String())
		return faultnet.Pass()
	}
	bubble(t, rule, func(r *rig) {
		c := r.session()
		step := func(op zktest.Op, fields ...any) {
			c.ask(op, fields...)
			synctest.Wait() // the hook hears of the answer, too
		}
		step(zktest.OpExists, "/x", true)
		step(zktest.OpPing)
		eventstest.Check(t, r.srv.Create("/x", nil))
		synctest.Wait()
		step(zktest.OpSync, "/")
		want := []string{
			"up 1/1 connect", "down 1/1 connect", "up 1/2 exists", "down 1/2 exists (-101)",
			"up 1/3 ping", "down 1/3 ping", "down 1/4 event", "up 1/4 sync", "down 1/5 sync",
		}
		if !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
		if up, down := r.net.Frames(faultnet.Up), r.net.Frames(faultnet.Down); up != 4 || down != 5 {
			t.Errorf("%d frames were told up and %d down, want 4 and 5", up, down)
		}
	})
}

// Bytes of another protocol cannot be judged.
func TestGarbageIsCut(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		c := r.dial()
		if _, err := c.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err == nil {
			t.Error("a write of HTTP succeeds, want the connection cut")
		}
		if _, err := c.receive(); err == nil {
			t.Error("HTTP is answered, want the connection cut")
		}
	})
}
