package faultnet_test

import (
	"context"
	"errors"
	"io"
	"net"
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

func TestPartitionIsSilent(t *testing.T) {
	for name, directions := range map[string][]faultnet.Direction{
		"both": nil, "up": {faultnet.Up}, "down": {faultnet.Down},
	} {
		bubbles(t, name, nil, func(r *rig) {
			r.net.Partition(directions...)
			sent := r.create("/1")
			answered, err := r.received()
			eventstest.Expect(r, len(answered) == 0 && errors.Is(err, os.ErrDeadlineExceeded),
				"in a partition %v is answered, %v", answered, err)
			eventstest.Equal(r, r.srv.Exists("/1"), name == "down", "the request has passed")
			ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
			defer cancel()
			start := time.Now()
			_, err = r.net.Dial(ctx, "tcp", r.srv.Addr())
			r.wantEnd("a dial in a partition", start, time.Minute, err, context.DeadlineExceeded)
			r.srv.CutAll() // the client does not see this either, unless only the direction up is cut
			time.AfterFunc(time.Second, r.net.Heal)
			r.dial()
			answered, err = r.received()
			eventstest.Expect(r, name != "down" || slices.Equal(answered, []int32{sent}) && errors.Is(err, io.EOF),
				"after the partition %v is answered, %v; want %v and the end", answered, err, sent)
		})
	}
}

func TestWhatWasSentArrivesAfterThePartition(t *testing.T) {
	for name, gone := range map[string]bool{"client waits": false, "client has gone": true} {
		bubbles(t, name, nil, func(r *rig) {
			r.net.Partition()
			sent := r.create("/1")
			if gone {
				eventstest.Check(r, r.Close())
			}
			r.wantNodes("in the partition")
			eventstest.Equal(r, r.srv.Connections(), 1, "connections in the partition")
			r.net.Heal()
			r.wantNodes("after the partition", "/1")
			if gone {
				eventstest.Equal(r, r.srv.Connections(), 0, "connections after the partition")
			} else {
				r.wantAnswers("after the partition", sent)
			}
		})
	}
}

// TestADialInAPartitionEnds: it ends early if something else happens before the end of
// the partition.
func TestADialInAPartitionEnds(t *testing.T) {
	for name, end := range map[string]func(*faultnet.Network){
		"refused": func(n *faultnet.Network) { n.Refuse(true) },
		"closed":  (*faultnet.Network).Close,
	} {
		bubbles(t, name, nil, func(r *rig) {
			r.net.Partition()
			ended := make(chan error, 1)
			go func() {
				_, err := r.net.Dial(context.Background(), "tcp", "x:1")
				ended <- err
			}()
			synctest.Wait()
			start := time.Now()
			end(r.net)
			err := <-ended
			eventstest.Expect(r, err != nil && time.Since(start) == 0,
				"the dial that waits ends with %v after %v", err, time.Since(start))
		})
	}
}

func TestRefuseAndCut(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.net.Refuse(true)
		_, err := r.net.Dial(r.Context(), "tcp", r.srv.Addr())
		eventstest.ErrorIs(t, err, syscall.ECONNREFUSED, "a dial that is refused")
		r.wantAnswers("while dials are refused", r.create("/1"))
		r.net.Cut()
		start := time.Now()
		_, err = r.received()
		r.wantEnd("a read after a cut", start, 0, err, syscall.ECONNRESET)
		_, err = r.Write([]byte{0})
		r.wantEnd("a write after a cut", start, 0, err, syscall.ECONNRESET)
		r.net.Refuse(false)
		synctest.Wait()
		eventstest.Equal(t, len(r.srv.Sessions()), 1, "sessions after the cut")
		eventstest.Equal(t, r.srv.Connections(), 0, "connections after the cut")
		r.begin()
		r.wantAnswers("on a new connection", r.create("/2"))
	})
}

func TestDeadlines(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.net.Partition()
		eventstest.Must(t, r.SetWriteDeadline(time.Now().Add(time.Second)))
		start, frame := time.Now(), []byte{3: 8, 4: 0xff, 0xff, 0xff, 0xfe, 11: byte(zktest.OpPing)}
		var err error
		for written := 0; err == nil && written < 10<<20; written += len(frame) {
			_, err = r.Write(frame)
		}
		r.wantEnd("a write that waits for room", start, time.Second, err, os.ErrDeadlineExceeded)
		eventstest.Must(t, r.SetWriteDeadline(time.Time{}))
		time.AfterFunc(time.Second, r.net.Heal)
		_, err = r.Write(frame)
		r.wantEnd("a write that waits until Heal", start, 2*time.Second, err, nil)
	})
	bubble(t, nil, func(r *rig) {
		start := time.Now()
		time.AfterFunc(time.Second, func() { eventstest.Check(t, r.SetDeadline(time.Now().Add(time.Second))) })
		_, err := r.receive()
		r.wantEnd("a read that waits for its deadline", start, 2*time.Second, err, os.ErrDeadlineExceeded)
		time.AfterFunc(time.Second, func() { _ = r.Close() })
		eventstest.Check(t, r.SetDeadline(time.Time{}))
		_, err = r.receive()
		r.wantEnd("a read that waits when the connection is closed", start, 3*time.Second, err, net.ErrClosed)
	})
}

// TestWhatIsHeldOrLagsIsLetGo: it arrives before its time.
func TestWhatIsHeldOrLagsIsLetGo(t *testing.T) {
	holding := func(f faultnet.Frame) faultnet.Verdict {
		if f.Op == zktest.OpCreate && f.Direction == faultnet.Up {
			return faultnet.HoldFor(time.Hour)
		}
		return faultnet.Pass()
	}
	for name, tt := range map[string]struct {
		rule faultnet.Rule
		lag  time.Duration
	}{"held": {holding, 0}, "lagging": {nil, time.Hour}} {
		bubbles(t, name, tt.rule, func(r *rig) {
			r.net.Lag(faultnet.Up, tt.lag)
			r.create("/1")
			r.wantNodes("before the network is healed")
			r.net.Heal()
			r.wantNodes("after it is healed", "/1")
		})
	}
}

// Three creates are sent, and the rule decides about the second or its answer. The
// connection is idle before each, so that a cut loses nothing in transit.
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
				answered, ended := r.received()
				eventstest.Equal(t, answered, test.answered, "answered")
				eventstest.ErrorIs(t, ended, test.ended, "the end")
				r.wantNodes("in the end", test.executed...)
				eventstest.Equal(t, r.srv.Connections(), r.net.Open(), "the server's connections, and the network's")
			})
		})
	}
}

func TestHealLetsGoInOrder(t *testing.T) {
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
		r.net.Heal()
		r.wantAnswers("while the first answer is held")
		r.wantNodes("while the first answer is held", "/1")
		r.net.Heal()
		r.wantAnswers("when the network is healed again", first, second)
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
			r.wantEnd("a read", start, 3*time.Second, err, nil)
			eventstest.Equal(t, xid, want, "the next answer")
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
			synctest.Wait() // the rule sees the answer, too
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
		eventstest.Equal(t, told, want, "told")
		// The server's last frames are read before the end, which comes from the server.
		answered, err := r.received()
		eventstest.Equal(t, answered, []int32{1, 2, -1, 3, 4}, "answered before the end")
		eventstest.ErrorIs(t, err, io.EOF, "the end")
	})
}

// The rule cannot judge bytes of another protocol.
func TestGarbageIsCut(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.Conn = r.dial()
		_, err := r.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		eventstest.Expect(t, err != nil, "a write of HTTP succeeds, want the connection cut")
		_, err = r.receive()
		eventstest.Expect(t, err != nil, "HTTP is answered, want the connection cut")
	})
}
