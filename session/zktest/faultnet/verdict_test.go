package faultnet_test

import (
	"errors"
	"io"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// Three creates are sent, and the rule decides about the second or its answer. The
// connection is quiet before each, so that a cut loses nothing that is under way.
func TestVerdicts(t *testing.T) {
	all, goesOn, reset := []string{"/1", "/2", "/3"}, os.ErrDeadlineExceeded, error(syscall.ECONNRESET)
	for _, test := range []struct {
		direction faultnet.Direction
		verdict   faultnet.Verdict
		executed  []string
		answered  []int32
		ended     error
	}{
		{faultnet.Up, faultnet.Pass(), all, []int32{1, 2, 3}, goesOn},
		{faultnet.Up, faultnet.Drop(), []string{"/1", "/3"}, []int32{1, 3}, goesOn},
		{faultnet.Up, faultnet.Hold(), all[:1], []int32{1}, goesOn},
		{faultnet.Up, faultnet.HoldFor(time.Hour), all[:1], []int32{1}, goesOn},
		{faultnet.Up, faultnet.HoldFor(time.Second / 2), all, []int32{1, 2, 3}, goesOn},
		{faultnet.Up, faultnet.CutBefore(), all[:1], nil, reset},
		{faultnet.Up, faultnet.CutAfter(), all[:2], nil, reset},
		{faultnet.Up, faultnet.Swallow(), all[:1], []int32{1}, goesOn},
		{faultnet.Down, faultnet.Drop(), all, []int32{1, 3}, goesOn},
		{faultnet.Down, faultnet.Hold(), all, []int32{1}, goesOn},
		{faultnet.Down, faultnet.HoldFor(time.Second / 2), all, []int32{1, 2, 3}, goesOn},
		{faultnet.Down, faultnet.CutBefore(), all[:2], []int32{1}, reset},
		{faultnet.Down, faultnet.CutAfter(), all[:2], []int32{1, 2}, reset},
		{faultnet.Down, faultnet.Swallow(), all, []int32{1}, goesOn},
	} {
		t.Run(test.direction.String()+" "+test.verdict.String(), func(t *testing.T) {
			rule := func(f faultnet.Frame) faultnet.Verdict {
				if f.Direction == test.direction && f.Nth == 3 { // the handshake is the first
					return test.verdict
				}
				return faultnet.Pass()
			}
			bubble(t, rule, func(r *rig) {
				paths := all
				if errors.Is(test.ended, reset) {
					paths = all[:2] // nothing can be sent after the cut
				}
				for _, path := range paths {
					r.create(path)
					synctest.Wait()
				}
				if answered, ended := r.received(); !slices.Equal(answered, test.answered) || !errors.Is(ended, test.ended) {
					t.Errorf("answered %v, and ended with %v; want %v and %v", answered, ended, test.answered, test.ended)
				}
				r.wantNodes("in the end", test.executed...)
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
		first, second := r.create("/1"), r.ask(zktest.OpExists, "/1", false)
		r.wantAnswers("while the first request is held")
		r.wantNodes("while the first request is held")
		r.net.Release()
		r.wantAnswers("while the first answer is held")
		r.wantNodes("while the first answer is held", "/1")
		r.net.Release()
		r.wantAnswers("after the second release", first, second)
	})
}

func TestLagKeepsTheOrder(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.net.Lag(faultnet.Up, time.Second)
		r.net.Lag(faultnet.Down, 2*time.Second)
		start := time.Now()
		sent := []int32{r.create("/1"), r.create("/2")}
		time.Sleep(time.Second / 2)
		r.net.Lag(faultnet.Up, 0)
		for _, want := range append(sent, r.create("/3")) {
			xid, err := r.receive()
			if r.wantEnd("a read", start, 3*time.Second, err, nil); xid != want {
				t.Errorf("%d is answered, want %d", xid, want)
			}
		}
		r.wantNodes("in the end", "/1", "/2", "/3")
	})
}

func TestFramesAreTold(t *testing.T) {
	var told []string
	rule := func(f faultnet.Frame) faultnet.Verdict {
		told = append(told, f.String())
		return faultnet.Pass()
	}
	bubble(t, rule, func(r *rig) {
		step := func(op zktest.Op, fields ...any) {
			r.ask(op, fields...)
			synctest.Wait() // the hook hears of the answer, too
		}
		step(zktest.OpExists, "/x", true)
		step(zktest.OpPing)
		eventstest.Check(t, r.srv.Create("/x", nil))
		synctest.Wait()
		step(zktest.OpSync, "/")
		step(zktest.OpClose)
		want := []string{
			"up 1/1 connect", "down 1/1 connect", "up 1/2 exists", "down 1/2 exists (-101)", "up 1/3 ping", "down 1/3 ping",
			"down 1/4 event", "up 1/4 sync", "down 1/5 sync", "up 1/5 close", "down 1/6 close",
		}
		if !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
		if up, down := r.net.Frames(faultnet.Up), r.net.Frames(faultnet.Down); up != 5 || down != 6 {
			t.Errorf("%d frames were told up and %d down, want 5 and 6", up, down)
		}
		// The server's last words are read before the end, which is its own.
		if answered, err := r.received(); !slices.Equal(answered, []int32{1, 2, -1, 3, 4}) || !errors.Is(err, io.EOF) {
			t.Errorf("before the end %v is answered, %v; want the four requests and the event, then the end", answered, err)
		}
	})
}

// Bytes of another protocol cannot be judged.
func TestGarbageIsCut(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.Conn = r.dial()
		if _, err := r.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err == nil {
			t.Error("a write of HTTP succeeds, want the connection cut")
		}
		if _, err := r.receive(); err == nil {
			t.Error("HTTP is answered, want the connection cut")
		}
	})
}
