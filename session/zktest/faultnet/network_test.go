package faultnet_test

import (
	"context"
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

func TestPartitionIsSilent(t *testing.T) {
	for name, directions := range map[string][]faultnet.Direction{
		"both": nil, "up": {faultnet.Up}, "down": {faultnet.Down},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(r *rig) {
				c := r.session()
				r.net.Partition(directions...)
				sent := c.create("/1")
				if answered, err := c.received(); len(answered) != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("in a partition %v is answered, %v; want silence", answered, err)
				}
				if executed := r.srv.Exists("/1"); executed != (name == "down") {
					t.Errorf("in a partition of %s the node is there: %t, want it only if requests pass", name, executed)
				}
				start := time.Now()
				_, err := r.net.Dial(r.within(time.Minute), "tcp", r.srv.Addr())
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("a dial in a partition ends with %v, want its deadline", err)
				}
				if took := time.Since(start); took != time.Minute {
					t.Errorf("a dial in a partition takes %v, want the minute of its context", took)
				}
				r.srv.CutAll() // the client does not hear this either, unless only the way up is cut
				time.AfterFunc(time.Second, r.net.Heal)
				if _, err := r.net.Dial(r.within(time.Minute), "tcp", r.srv.Addr()); err != nil {
					t.Errorf("a dial that waits until Heal ends with %v, want a connection", err)
				}
				answered, err := c.received()
				if want := []int32{sent}; name == "down" && (!slices.Equal(answered, want) || !errors.Is(err, io.EOF)) {
					t.Errorf("after the partition %v is answered, %v; want %v and the end", answered, err, want)
				}
				r.net.Close()
			})
		})
	}
}

func TestWhatWasSentArrivesAfterThePartition(t *testing.T) {
	for name, gone := range map[string]bool{"client waits": false, "client has gone": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(r *rig) {
				c := r.session()
				r.net.Partition()
				sent := c.create("/1")
				if gone {
					eventstest.Check(t, c.Close())
				}
				synctest.Wait()
				if n := r.srv.Connections(); n != 1 || r.srv.Exists("/1") {
					t.Errorf("in the partition there are %d connections, executed: %v; want 1, not executed", n, r.srv.Exists("/1"))
				}
				r.net.Heal()
				synctest.Wait()
				if !r.srv.Exists("/1") {
					t.Error("after the partition the create is not executed, want what was sent to arrive")
				}
				answered, _ := c.received()
				want := []int32{sent}
				if gone {
					want = nil
				}
				if !slices.Equal(answered, want) || gone && r.srv.Connections() != 0 {
					t.Errorf("after the partition %v is answered on %d connections, want %v", answered, r.srv.Connections(), want)
				}
			})
		})
	}
}

func TestRefuseAndCut(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		c := r.session()
		r.net.Refuse(true)
		if _, err := r.net.Dial(r.Context(), "tcp", r.srv.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a dial that is refused ends with %v, want %v", err, syscall.ECONNREFUSED)
		}
		c.create("/1")
		if answered, _ := c.received(); len(answered) != 1 {
			t.Errorf("while dials are refused %v is answered, want the one request on the connection there is", answered)
		}
		r.net.Cut()
		if _, err := c.received(); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a read after a cut ends with %v, want %v", err, syscall.ECONNRESET)
		}
		if _, err := c.Write([]byte{0}); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a write after a cut ends with %v, want %v", err, syscall.ECONNRESET)
		}
		r.net.Refuse(false)
		synctest.Wait()
		if n := len(r.srv.Sessions()); n != 1 || r.srv.Connections() != 0 {
			t.Errorf("after the cut there are %d sessions on %d connections, want 1 on none", n, r.srv.Connections())
		}
		r.session().create("/2")
		synctest.Wait()
		if !r.srv.Exists("/2") {
			t.Error("a create on a new connection is not executed, want it executed")
		}
	})
}

// The server's end of a connection is also the client's.
func TestTheServersLastWordsAreRead(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		c := r.session()
		c.create("/1")
		c.ask(zktest.OpClose)
		answered, err := c.received()
		if !slices.Equal(answered, []int32{1, 2}) || !errors.Is(err, io.EOF) {
			t.Errorf("before the end %v is answered, %v; want both requests, then the end", answered, err)
		}
	})
}

func TestAWriteWaitsForRoom(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		c := r.session()
		r.net.Partition()
		eventstest.Must(t, c.SetWriteDeadline(time.Now().Add(time.Second)))
		start, frame := time.Now(), []byte{3: 8, 4: 0xff, 0xff, 0xff, 0xfe, 11: byte(zktest.OpPing)}
		var err error
		written := 0
		for err == nil && written < 10<<20 {
			written += len(frame)
			_, err = c.Write(frame)
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("the write ends with %v after %v and %d bytes, want its deadline after 1s", err, time.Since(start), written)
		}
		eventstest.Must(t, c.SetWriteDeadline(time.Time{}))
		time.AfterFunc(time.Second, r.net.Heal)
		if _, err = c.Write(frame); err != nil || time.Since(start) != 2*time.Second {
			t.Errorf("the write that waits until Heal ends with %v after %v, want success after 2s", err, time.Since(start))
		}
	})
}

func TestADeadlineAppliesToAReadThatWaits(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		c := r.session()
		start := time.Now()
		time.AfterFunc(time.Second, func() {
			eventstest.Check(t, c.SetDeadline(time.Now().Add(time.Second)))
		})
		if _, err := c.receive(); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 2*time.Second {
			t.Errorf("the read ends with %v after %v, want its deadline after 2s", err, time.Since(start))
		}
		time.AfterFunc(time.Second, func() { _ = c.Close() })
		eventstest.Check(t, c.SetDeadline(time.Time{}))
		if _, err := c.receive(); err == nil || time.Since(start) != 3*time.Second {
			t.Errorf("the read ends with %v after %v, want the end of the connection after 3s", err, time.Since(start))
		}
	})
}

// A frame that is held for a time is let go before it is over, and a frame that lags arrives when everything heals.
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
		there bool
	}{
		"held, released":   {holding, 0, (*faultnet.Network).Release, true},
		"held, healed":     {holding, 0, (*faultnet.Network).Heal, true},
		"lagging, healed":  {nil, time.Hour, (*faultnet.Network).Heal, true},
		"lagging, release": {nil, time.Hour, (*faultnet.Network).Release, false}, // the lag stays
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, tt.rule, func(r *rig) {
				c := r.session()
				r.net.Lag(faultnet.Up, tt.lag)
				c.create("/1")
				synctest.Wait()
				if r.srv.Exists("/1") {
					t.Fatal("before the network lets go the node is there, want the create on its way")
				}
				tt.letGo(r.net)
				synctest.Wait()
				if got := r.srv.Exists("/1"); got != tt.there {
					t.Errorf("after the network has let go the node is there: %t, want %t", got, tt.there)
				}
			})
		})
	}
}

// A dial that waits for the end of a partition ends early if something else comes first.
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
