package coordinator_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestDataIsCopiedIntoTheNode(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		data := []byte("host-7")
		option := coordinator.WithData(data)
		data[0] = 'X'
		_, grant := coordtest.Hold(t, c.Mutex(lockPath), option)
		if got, _ := srv.Data(grant.Node); string(got) != "host-7" {
			t.Errorf("node holds %q", got)
		}
	})
}

func TestBadArgumentsEndAtOnceAndSendNothing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		for _, tt := range []struct {
			path    string
			options []coordinator.AcquireOption
			want    error
		}{
			{"", nil, coordinator.ErrPath},
			{"a", nil, coordinator.ErrPath},
			{"/a//b", nil, coordinator.ErrPath},
			{"/a/", nil, coordinator.ErrPath},
			{"/a/../b", nil, coordinator.ErrPath},
			{"/a\x00", nil, coordinator.ErrPath},
			{"/" + strings.Repeat("a", 1<<20), nil, coordinator.ErrTooLarge},
			{lockPath, []coordinator.AcquireOption{coordinator.WithData(make([]byte, 1<<20))}, coordinator.ErrTooLarge},
		} {
			a := c.Mutex(tt.path).Acquire(t.Context(), tt.options...)
			if !coordtest.IsClosed(a.Done()) || !errors.Is(a.Err(), tt.want) {
				t.Errorf("%.20q: done %v, Err = %v, want %v", tt.path, coordtest.IsClosed(a.Done()), a.Err(), tt.want)
			}
			a.Release()
		}
		synctest.Wait()
		for _, op := range []zktest.Op{zktest.OpCreate, zktest.OpMulti, zktest.OpCreateContainer, zktest.OpGetChildren2} {
			if got := srv.Requests(op); got != 0 {
				t.Errorf("%d requests %v were sent", got, op)
			}
		}
	})
}

func TestBadServersAndOptions(t *testing.T) {
	for _, servers := range []string{"", ":", "h:x", "h:2181/app/", "h:2181/app,h2:2181"} {
		if _, err := coordinator.Connect(t.Context(), servers); !errors.Is(err, coordinator.ErrConnectString) {
			t.Errorf("Connect(%q) = %v", servers, err)
		}
	}
	for name, option := range map[string]coordinator.Option{
		"timeout": coordinator.WithSessionTimeout(0), "logger": coordinator.WithLogger(nil), "acl": coordinator.WithACL(nil),
	} {
		if _, err := coordinator.Connect(t.Context(), "127.0.0.1:1", option); err == nil {
			t.Errorf("bad %s was accepted", name)
		}
	}
}

func TestConnectEndsWithItsContextAndNamesTheLastError(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		srv.Down(true)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := coordinator.Connect(ctx, srv.Addr(), srv.Option())
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "refused") {
			t.Errorf("Connect = %v", err)
		}
	})
}

func TestContextsOfAnAcquisition(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		a := c.Mutex(lockPath).Acquire(t.Context())
		early := a.Context(t.Context())
		if _, err := a.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		parent, cancel := context.WithCancel(t.Context())
		child := a.Context(parent)
		cancel()
		if early.Err() != nil || !errors.Is(child.Err(), context.Canceled) {
			t.Errorf("before the release: %v and %v", early.Err(), child.Err())
		}
		a.Release()
		<-early.Done()
		if cause := context.Cause(early); !errors.Is(cause, coordinator.ErrReleased) {
			t.Errorf("cause = %v", cause)
		}
		late := a.Context(t.Context())
		<-late.Done()

		b, _ := coordtest.Hold(t, c.Mutex(lockPath))
		ctx := b.Context(t.Context())
		if err := srv.Expire(c.SessionID()); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, coordinator.ErrSessionExpired) || b.Valid() {
			t.Errorf("cause = %v, valid %v", cause, b.Valid())
		}
	})
}

func TestClose(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		stream := c.Events(t.Context())
		held, _ := coordtest.Hold(t, c.Mutex(lockPath))
		waiting := coordtest.Queue(c.Mutex(lockPath))
		id := c.SessionID()
		ended := make(chan int)
		go func() {
			n := 0
			for ev := range stream {
				if _, ok := ev.(events.Ended); ok {
					n++
				}
			}
			ended <- n
		}()
		if err := c.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		if n := <-ended; n != 2 {
			t.Errorf("the stream closed after %d Ended", n)
		}
		if !errors.Is(held.Err(), coordinator.ErrClosed) || !errors.Is(waiting.Err(), coordinator.ErrClosed) || held.Valid() {
			t.Errorf("%v, %v", held.Err(), waiting.Err())
		}
		for _, s := range srv.Sessions() {
			if s == id {
				t.Error("the session is still there")
			}
		}
		if left := srv.Children(lockPath); len(left) != 0 || c.State() != coordinator.StateClosed || c.SessionID() != 0 {
			t.Errorf("left %v in state %v", left, c.State())
		}
		late := c.Mutex(lockPath).Acquire(t.Context())
		if !coordtest.IsClosed(late.Done()) || !errors.Is(late.Err(), coordinator.ErrClosed) {
			t.Errorf("after Close: %v", late.Err())
		}
		held.Release()
		if err := c.Close(); err != nil {
			t.Errorf("second Close = %v", err)
		}
		if _, open := <-c.Events(t.Context()); open {
			t.Error("a stream of a closed coordinator is open")
		}
	})
}

func TestCloseIsBoundedWhenTheServersAreAway(t *testing.T) {
	for name, fault := range map[string]func(*zktest.Server){
		"down": func(srv *zktest.Server) { srv.Down(true) },
		"mute": func(srv *zktest.Server) { srv.MuteAll(true) },
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				coordtest.Hold(t, c.Mutex(lockPath))
				fault(srv)
				synctest.Wait()
				start := time.Now()
				err := c.Close()
				if took := time.Since(start); took > 10*time.Second {
					t.Errorf("Close took %v", took)
				}
				if err == nil {
					t.Error("Close did not say that a node is left")
				}
			})
		})
	}
}
