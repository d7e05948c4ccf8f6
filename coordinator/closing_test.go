package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// A function that runs under a lock is brought to an end before the next holder is
// let in.
func TestCloseWaitsForFunctionsUnderALock(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		started, over := make(chan struct{}), make(chan time.Time, 1)
		var doErr error
		go func() {
			doErr = c.Mutex(lockPath).Do(t.Context(), func(ctx context.Context, _ events.Grant) error {
				close(started)
				<-ctx.Done()
				time.Sleep(time.Second) // the work has to be brought to an end
				return nil
			})
			over <- time.Now()
		}()
		<-started
		next := coordtest.Queue(other.Mutex(lockPath))
		go func() { _ = c.Close() }()
		if _, err := next.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		granted := time.Now()
		if end := <-over; end.After(granted) {
			t.Errorf("the next holder was granted %v before the function had returned", end.Sub(granted))
		}
		if !errors.Is(doErr, coordinator.ErrClosed) {
			t.Errorf("Do = %v", doErr)
		}
	})
}

func TestCloseIsBoundedWithASlowReader(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, err := coordinator.Connect(t.Context(), srv.Addr(), srv.Option())
		if err != nil {
			t.Fatal(err)
		}
		stream := c.Events(t.Context())
		for range 10_000 {
			c.Mutex("bad").Acquire(t.Context())
		}
		go func() {
			for range stream {
				time.Sleep(50 * time.Millisecond)
			}
		}()
		start := time.Now()
		_ = c.Close()
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("Close took %v, the session timeout is 10 s", took)
		}
		time.Sleep(time.Second) // for the reader
	})
}

// However short the timeout is, and whatever the network does: the client library alone would wait for a second.
func TestCloseIsBoundedWithADeadNetwork(t *testing.T) {
	breakages := map[string]func(srv *zktest.Server){
		"servers hang":                       func(srv *zktest.Server) { srv.MuteAll(true) },
		"connection cut, and then they hang": func(srv *zktest.Server) { srv.MuteAll(true); srv.CutAll() },
		"servers are away":                   func(srv *zktest.Server) { srv.Down(true) },
	}
	for name, breaks := range breakages {
		for _, timeout := range []time.Duration{time.Second, 2 * time.Second, 10 * time.Second} {
			for _, noticed := range []time.Duration{0, timeout / 10, timeout, 3 * timeout} {
				t.Run(fmt.Sprintf("%s, T %v, since %v", name, timeout, noticed), func(t *testing.T) {
					eventstest.Bubble(t, func(t *testing.T) {
						srv := zktest.Start(t, zktest.Tick(timeout/2))
						c, err := coordinator.Connect(t.Context(), srv.Addr(), srv.Option(), coordinator.WithSessionTimeout(timeout))
						if err != nil {
							t.Fatal(err)
						}
						coordtest.Hold(t, c.Mutex(lockPath))
						waiting := coordtest.Queue(c.Mutex(lockPath))
						breaks(srv)
						time.Sleep(noticed)
						start := time.Now()
						_ = c.Close()
						if took := time.Since(start); took > timeout {
							t.Errorf("Close took %v", took)
						}
						if !coordtest.IsClosed(waiting.Done()) {
							t.Error("it is closed, and somebody waits")
						}
					})
				})
			}
		}
	}
}

func TestDoReturnsWhenItsContextEndsThoughTheServerHangs(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		srv.MuteAll(true)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		err := c.Mutex(lockPath).Do(ctx, func(context.Context, events.Grant) error { return nil })
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != 100*time.Millisecond {
			t.Errorf("Do = %v after %v", err, took)
		}
		srv.MuteAll(false)
	})
}

func TestDoLeavesNothingOnAParentThatLivesForLong(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		parent, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 100 {
			if err := c.Mutex(lockPath).Do(parent, func(context.Context, events.Grant) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := reflect.ValueOf(parent).Elem().FieldByName("children").Len(); n > 10 {
			t.Errorf("%d children hang on the parent after 100 calls that are over", n)
		}
	})
}

// However early the context of Connect ends, the server is not left with a session
// that nobody owns.
func TestConnectThatIsGivenUpLeavesNoSession(t *testing.T) {
	for name, options := range map[string][]coordinator.Option{
		"without identity": nil,
		"with identity":    {coordinator.WithAuth("digest", []byte("u:p"))},
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				srv.Intercept(func(zktest.Request) zktest.Action { return zktest.Delay(2 * time.Millisecond) })
				vain := 0
				for wait := range 15 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(wait)*time.Millisecond)
					c, err := coordinator.Connect(ctx, srv.Addr(), append(options, srv.Option())...)
					cancel()
					if err == nil {
						err = c.Close()
					} else {
						vain++
						if errors.Is(err, context.DeadlineExceeded) {
							err = nil
						}
					}
					synctest.Wait()
					if left := srv.Sessions(); err != nil || len(left) > 0 {
						t.Errorf("after %d ms: %v, sessions left: %x", wait, err, left)
					}
				}
				if vain == 0 || vain == 15 {
					t.Errorf("%d in vain", vain)
				}
			})
		})
	}
}
