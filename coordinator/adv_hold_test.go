package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestAdvHold: ctx ends while the Grant arrives. Either Hold returns the lock, or nothing is held.
func TestAdvHold(t *testing.T) {
	for kind := range groupKinds {
		coordtest.Case(t, fmt.Sprint(kind), func(t *testing.T, srv *zktest.Server) {
			c := coordtest.Connect(t, srv)
			gone := errors.New("gone")
			got, not := 0, 0
			for i := range 600 {
				ctx, cancel := context.WithCancelCause(t.Context())
				go func() {
					switch i % 3 {
					case 0:
						time.Sleep(time.Duration(rand.IntN(2)))
					case 1:
						for range rand.IntN(300) {
							runtime.Gosched()
						}
					}
					cancel(gone)
				}()
				h := groupKinds[kind](c, "x")
				a, err := h.Hold(ctx)
				switch {
				case err == nil:
					got++
					if !a.Valid() {
						t.Fatal("not valid")
					}
					<-ctx.Done()
					synctest.Wait()
					if !a.Valid() {
						t.Fatal("not valid after the end of ctx")
					}
					if err := a.ReleaseAndWait(t.Context()); err != nil {
						t.Fatal(err)
					}
				case errors.Is(err, gone) && a == nil:
					not++
				default:
					t.Fatal(a, err)
				}
				cancel(nil)
			}
			a, err := groupKinds[kind](c, "x").Hold(t.Context(), coordinator.MaxWait(5*time.Second))
			if err != nil {
				t.Fatal("a hold leaked:", err)
			}
			a.Release()
			t.Log(got, not)
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			if left := contenders(srv); len(left) > 0 {
				t.Fatal(left)
			}
		})
	}
}

// TestAdvDo with a mute server, panics, Goexit, and contexts that have ended.
func TestAdvDo(t *testing.T) {
	for kind := range groupKinds {
		coordtest.Case(t, fmt.Sprint(kind), func(t *testing.T, srv *zktest.Server) {
			c := coordtest.Connect(t, srv)
			h := groupKinds[kind](c, "x")
			gone, mine := errors.New("gone"), errors.New("mine")
			free := func(what string) {
				t.Helper()
				if a, err := h.Hold(t.Context(), coordinator.MaxWait(30*time.Second)); err != nil {
					t.Fatalf("%s: %v", what, err)
				} else {
					coordtest.End(a)
				}
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(gone)
			ran := false
			err := h.Do(ctx, func(context.Context, events.Grant) error { ran = true; return nil })
			if ran || !errors.Is(err, gone) {
				t.Fatal("ended before:", ran, err)
			}
			free("ended before")
			func() {
				defer func() {
					if r := recover(); r != "boo" {
						t.Fatal(r)
					}
				}()
				_ = h.Do(t.Context(), func(context.Context, events.Grant) error { panic("boo") })
			}()
			free("panic")
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = h.Do(t.Context(), func(context.Context, events.Grant) error { runtime.Goexit(); return nil })
			}()
			<-done
			free("Goexit")
			// during, and mute
			for _, bounded := range []bool{true, false} {
				ctx, cancel := context.WithCancelCause(t.Context())
				if bounded {
					var stop context.CancelFunc
					ctx, stop = context.WithTimeoutCause(ctx, 500*time.Millisecond, gone)
					defer stop()
				}
				var began time.Time
				err = h.Do(ctx, func(inner context.Context, _ events.Grant) error {
					srv.Mute(c.SessionID(), true)
					began = time.Now()
					if !bounded {
						cancel(gone)
						<-inner.Done()
						if context.Cause(inner) != gone {
							t.Error(context.Cause(inner))
						}
					}
					return mine
				})
				if took := time.Since(began); took > 1100*time.Millisecond || !errors.Is(err, mine) {
					t.Fatalf("mute, bounded %v: %v after %v", bounded, err, took)
				}
				t.Log(bounded, err, time.Since(began))
				srv.Mute(c.SessionID(), false)
				cancel(nil)
				free("mute")
			}
			// the lock is lost within
			err = h.Do(t.Context(), func(inner context.Context, _ events.Grant) error {
				_ = srv.Expire(c.SessionID())
				<-inner.Done()
				return context.Cause(inner)
			})
			if !errors.Is(err, coordinator.ErrSessionExpired) {
				t.Fatal(err)
			}
			free("lost")
			// re-entry
			err = h.Do(t.Context(), func(inner context.Context, _ events.Grant) error {
				cx, cancel := context.WithTimeout(inner, time.Second)
				defer cancel()
				return h.Do(cx, func(context.Context, events.Grant) error { return nil })
			})
			t.Log("re-entry", err)
			free("re-entry")
			// released within
			err = h.Do(t.Context(), func(inner context.Context, _ events.Grant) error {
				a, _ := coordinator.FromContext(inner)
				a.Release()
				<-inner.Done()
				return mine
			})
			if !errors.Is(err, mine) {
				t.Fatal(err)
			}
			free("released within")
			// closed within
			err = h.Do(t.Context(), func(inner context.Context, _ events.Grant) error {
				go c.Close()
				<-inner.Done()
				return mine
			})
			if !errors.Is(err, mine) || !errors.Is(err, coordinator.ErrClosed) {
				t.Fatal(err)
			}
			c.Close()
			if left := contenders(srv); len(left) > 0 {
				t.Fatal(left)
			}
		})
	}
}
