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
					t.Errorf("answered %v, %v", answered, err)
				}
				if executed := r.srv.Exists("/1"); executed != (name == "down") {
					t.Errorf("in a partition of %s the node is there: %t, want it only if requests pass", name, executed)
				}
				start := time.Now()
				_, err := r.net.Dial(r.within(time.Minute), "tcp", r.srv.Addr())
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("dialled: %v", err)
				}
				if took := time.Since(start); took != time.Minute {
					t.Errorf("a dial took %v", took)
				}
				r.srv.CutAll() // which nobody hears either, unless it goes up
				time.AfterFunc(time.Second, r.net.Heal)
				if _, err := r.net.Dial(r.within(time.Minute), "tcp", r.srv.Addr()); err != nil {
					t.Errorf("dialled after the partition: %v", err)
				}
				answered, err := c.received()
				if want := []int32{sent}; name == "down" && (!slices.Equal(answered, want) || !errors.Is(err, io.EOF)) {
					t.Errorf("after the partition: %v, %v", answered, err)
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
					if err := c.Close(); err != nil {
						t.Error(err)
					}
				}
				synctest.Wait()
				if n := r.srv.Connections(); n != 1 || r.srv.Exists("/1") {
					t.Errorf("%d connections, executed: %v", n, r.srv.Exists("/1"))
				}
				r.net.Heal()
				synctest.Wait()
				if !r.srv.Exists("/1") {
					t.Error("not executed")
				}
				answered, _ := c.received()
				want := []int32{sent}
				if gone {
					want = nil
				}
				if !slices.Equal(answered, want) || gone && r.srv.Connections() != 0 {
					t.Errorf("answered %v, connections %d", answered, r.srv.Connections())
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
			t.Errorf("dialled: %v", err)
		}
		c.create("/1")
		if answered, _ := c.received(); len(answered) != 1 {
			t.Errorf("answered %v", answered)
		}
		r.net.Cut()
		if _, err := c.received(); !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
		if _, err := c.Write([]byte{0}); !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
		r.net.Refuse(false)
		synctest.Wait()
		if n := len(r.srv.Sessions()); n != 1 || r.srv.Connections() != 0 {
			t.Errorf("%d sessions, %d connections", n, r.srv.Connections())
		}
		r.session().create("/2")
		synctest.Wait()
		if !r.srv.Exists("/2") {
			t.Error("not executed")
		}
	})
}

// The server's end of a connection is the client's.
func TestTheServersLastWordsAreRead(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		c := r.session()
		c.create("/1")
		c.ask(zktest.OpClose)
		answered, err := c.received()
		if !slices.Equal(answered, []int32{1, 2}) || !errors.Is(err, io.EOF) {
			t.Errorf("answered %v, %v", answered, err)
		}
	})
}

func TestAWriteWaitsForRoom(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		c := r.session()
		r.net.Partition()
		if err := c.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		start, frame := time.Now(), []byte{3: 8, 4: 0xff, 0xff, 0xff, 0xfe, 11: byte(zktest.OpPing)}
		var err error
		written := 0
		for err == nil && written < 10<<20 {
			written += len(frame)
			_, err = c.Write(frame)
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("%v after %v and %d bytes", err, time.Since(start), written)
		}
		if err := c.SetWriteDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, r.net.Heal)
		if _, err = c.Write(frame); err != nil || time.Since(start) != 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestADeadlineAppliesToAReadThatWaits(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		c := r.session()
		start := time.Now()
		time.AfterFunc(time.Second, func() {
			if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
				t.Error(err)
			}
		})
		if _, err := c.receive(); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		time.AfterFunc(time.Second, func() { _ = c.Close() })
		if err := c.SetDeadline(time.Time{}); err != nil {
			t.Error(err)
		}
		if _, err := c.receive(); err == nil || time.Since(start) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}
