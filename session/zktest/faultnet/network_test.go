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
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(r *rig) {
				r.net.Partition(directions...)
				sent := r.create("/1")
				if answered, err := r.received(); len(answered) != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("in a partition %v is answered, %v; want silence", answered, err)
				}
				if executed := r.srv.Exists("/1"); executed != (name == "down") {
					t.Errorf("in a partition of %s the node is there: %t, want it only if requests pass", name, executed)
				}
				ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
				defer cancel()
				start := time.Now()
				_, err := r.net.Dial(ctx, "tcp", r.srv.Addr())
				r.wantEnd("a dial in a partition", start, time.Minute, err, context.DeadlineExceeded)
				r.srv.CutAll() // the client does not hear this either, unless only the way up is cut
				time.AfterFunc(time.Second, r.net.Heal)
				r.dial()
				answered, err := r.received()
				if name == "down" && (!slices.Equal(answered, []int32{sent}) || !errors.Is(err, io.EOF)) {
					t.Errorf("after the partition %v is answered, %v; want %v and the end", answered, err, sent)
				}
			})
		})
	}
}

func TestWhatWasSentArrivesAfterThePartition(t *testing.T) {
	for name, gone := range map[string]bool{"client waits": false, "client has gone": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(r *rig) {
				r.net.Partition()
				sent := r.create("/1")
				if gone {
					eventstest.Check(t, r.Close())
				}
				r.wantNodes("in the partition")
				if n := r.srv.Connections(); n != 1 {
					t.Errorf("in the partition there are %d connections, want 1", n)
				}
				r.net.Heal()
				r.wantNodes("after the partition", "/1")
				if !gone {
					r.wantAnswers("after the partition", sent)
				} else if n := r.srv.Connections(); n != 0 {
					t.Errorf("after the partition there are %d connections, want none", n)
				}
			})
		})
	}
}

// TestADialInAPartitionEnds early if something else comes before the end of the
// partition.
func TestADialInAPartitionEnds(t *testing.T) {
	for name, end := range map[string]func(*faultnet.Network){
		"refused": func(n *faultnet.Network) { n.Refuse(true) },
		"closed":  (*faultnet.Network).Close,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(r *rig) {
				r.net.Partition()
				ended := make(chan error, 1)
				go func() {
					_, err := r.net.Dial(context.Background(), "tcp", "x:1")
					ended <- err
				}()
				synctest.Wait()
				start := time.Now()
				end(r.net)
				if err := <-ended; err == nil || time.Since(start) != 0 {
					t.Errorf("the dial that waits ends with %v after %v, want an error at once", err, time.Since(start))
				}
			})
		})
	}
}

func TestRefuseAndCut(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.net.Refuse(true)
		if _, err := r.net.Dial(r.Context(), "tcp", r.srv.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a dial that is refused ends with %v, want %v", err, syscall.ECONNREFUSED)
		}
		r.wantAnswers("while dials are refused", r.create("/1"))
		r.net.Cut()
		start := time.Now()
		_, err := r.received()
		r.wantEnd("a read after a cut", start, 0, err, syscall.ECONNRESET)
		_, err = r.Write([]byte{0})
		r.wantEnd("a write after a cut", start, 0, err, syscall.ECONNRESET)
		r.net.Refuse(false)
		synctest.Wait()
		if n := len(r.srv.Sessions()); n != 1 || r.srv.Connections() != 0 {
			t.Errorf("after the cut there are %d sessions on %d connections, want 1 on none", n, r.srv.Connections())
		}
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

// TestWhatIsHeldOrLagsIsLetGo before its time is over. What only lags is not released.
func TestWhatIsHeldOrLagsIsLetGo(t *testing.T) {
	holding := func(f faultnet.Frame) faultnet.Verdict {
		if f.Op == zktest.OpCreate && f.Direction == faultnet.Up {
			return faultnet.HoldFor(time.Hour)
		}
		return faultnet.Pass()
	}
	for name, tt := range map[string]struct {
		rule  faultnet.Rule
		lag   time.Duration
		letGo func(*faultnet.Network)
		nodes []string
	}{
		"held, released":   {holding, 0, (*faultnet.Network).Release, []string{"/1"}},
		"held, healed":     {holding, 0, (*faultnet.Network).Heal, []string{"/1"}},
		"lagging, healed":  {nil, time.Hour, (*faultnet.Network).Heal, []string{"/1"}},
		"lagging, release": {nil, time.Hour, (*faultnet.Network).Release, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, tt.rule, func(r *rig) {
				r.net.Lag(faultnet.Up, tt.lag)
				r.create("/1")
				r.wantNodes("before the network lets go")
				tt.letGo(r.net)
				r.wantNodes("after it has let go", tt.nodes...)
			})
		})
	}
}
