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

func TestTry(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		a, _ := coordtest.Hold(t, c.Mutex(lockPath), coordinator.Try())
		made := func() int { return srv.Requests(zktest.OpCreate) + srv.Requests(zktest.OpMulti) }
		before := made()
		b := c.Mutex(lockPath).Acquire(t.Context(), coordinator.Try())
		<-b.Done()
		if !errors.Is(b.Err(), coordinator.ErrNotAcquired) {
			t.Errorf("Err = %v", b.Err())
		}
		if got := made() - before; got != 0 || len(srv.Children(lockPath)) != 1 {
			t.Errorf("%d nodes were created where somebody stands", got)
		}
		a.Release()
		<-a.Done()
		coordtest.Hold(t, c.Mutex(lockPath), coordinator.Try())
	})
}

func TestTheContextBoundsTheWaitOnly(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		a := c.Mutex(lockPath).Acquire(ctx)
		if _, err := a.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		b := c.Mutex(lockPath).Acquire(ctx)
		untaken := c.Mutex("/locks/other").Acquire(ctx)
		synctest.Wait()
		cancel(cause)
		<-b.Done()
		<-untaken.Done()
		synctest.Wait()
		if !errors.Is(b.Err(), cause) || !errors.Is(untaken.Err(), cause) {
			t.Errorf("Err = %v and %v, want the cause", b.Err(), untaken.Err())
		}
		if !a.Valid() || coordtest.IsClosed(a.Done()) || len(srv.Children(lockPath)) != 1 || len(srv.Children("/locks/other")) != 0 {
			t.Errorf("valid %v, children %v and %v", a.Valid(), srv.Children(lockPath), srv.Children("/locks/other"))
		}
		late := c.Mutex(lockPath).Acquire(ctx)
		<-late.Done()
		if !errors.Is(late.Err(), cause) {
			t.Errorf("with a context that had ended: %v", late.Err())
		}
	})
}

func TestMaxWait(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		a, _ := coordtest.Hold(t, c.Mutex(lockPath), coordinator.WithMaxWait(time.Minute))
		start := time.Now()
		b := c.Mutex(lockPath).Acquire(t.Context(), coordinator.WithMaxWait(time.Minute))
		<-b.Done()
		if !errors.Is(b.Err(), coordinator.ErrTimeout) || time.Since(start) != time.Minute || !a.Valid() {
			t.Errorf("Err = %v after %v, the holder's lock valid: %v", b.Err(), time.Since(start), a.Valid())
		}
		none := c.Mutex(lockPath).Acquire(t.Context(), coordinator.WithMaxWait(0))
		<-none.Done()
		if !errors.Is(none.Err(), coordinator.ErrTimeout) {
			t.Errorf("no wait at all: %v", none.Err())
		}
	})
}

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

func TestDo(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		mine := errors.New("mine")
		err := c.Mutex(lockPath).Do(t.Context(), func(ctx context.Context, g events.Grant) error {
			if g.Token == 0 || ctx.Err() != nil || len(srv.Children(lockPath)) != 1 {
				t.Errorf("%+v, %v", g, ctx.Err())
			}
			return mine
		})
		synctest.Wait()
		if !errors.Is(err, mine) || len(srv.Children(lockPath)) != 0 {
			t.Errorf("Do = %v with %v left", err, srv.Children(lockPath))
		}
	})
}

func TestDoAfterALossKeepsTheNodeUntilTheFunctionHasReturned(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		mine := errors.New("mine")
		var inside []string
		err := c.Mutex(lockPath).Do(t.Context(), func(ctx context.Context, _ events.Grant) error {
			// The answers stay away for longer than the lease, while the server
			// keeps hearing from the session.
			srv.Intercept(func(zktest.Request) zktest.Action { return zktest.Swallow() })
			<-ctx.Done()
			srv.Intercept(nil)
			time.Sleep(2 * time.Second) // the function takes its time to stop
			inside = srv.Children(lockPath)
			var lost *coordinator.LostError
			if cause := context.Cause(ctx); !errors.As(cause, &lost) || lost.Path != lockPath {
				t.Errorf("cause = %v", cause)
			}
			return mine
		})
		if !errors.Is(err, coordinator.ErrLeaseRanOut) || !errors.Is(err, mine) {
			t.Errorf("Do = %v", err)
		}
		time.Sleep(time.Second)
		if len(inside) != 1 || len(srv.Children(lockPath)) != 0 {
			t.Errorf("children while it stopped: %v, afterwards: %v", inside, srv.Children(lockPath))
		}
	})
}

func TestDoLetsAPanicThrough(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		func() {
			defer func() {
				if r := recover(); r != "boom" {
					t.Errorf("recovered %v", r)
				}
			}()
			_ = c.Mutex(lockPath).Do(t.Context(), func(context.Context, events.Grant) error { panic("boom") })
		}()
		synctest.Wait()
		if left := srv.Children(lockPath); len(left) != 0 {
			t.Errorf("left: %v", left)
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

func TestAskingForALockThatTheContextHoldsIsADeadlock(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		a, _ := coordtest.Hold(t, c.Mutex(lockPath))
		b, _ := coordtest.Hold(t, c.Mutex("/locks/inner"))
		ctx := context.WithoutCancel(b.Context(a.Context(t.Context())))
		again := c.Mutex(lockPath).Acquire(ctx)
		<-again.Done()
		if !errors.Is(again.Err(), coordinator.ErrDeadlock) {
			t.Errorf("Err = %v", again.Err())
		}
		elsewhere := other.Mutex(lockPath).Acquire(ctx) // another owner: it queues
		synctest.Wait()
		if coordtest.IsClosed(elsewhere.Done()) {
			t.Errorf("another coordinator's: %v", elsewhere.Err())
		}
		a.Release()
		if _, err := elsewhere.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		elsewhere.Release()
		coordtest.Hold(t, c.Mutex(lockPath)) // not held any more: no deadlock
		if _, err := c.Mutex(lockPath).Acquire(ctx, coordinator.Try()).Wait(t.Context()); !errors.Is(err, coordinator.ErrNotAcquired) {
			t.Errorf("with the context of a released lock: %v", err)
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
