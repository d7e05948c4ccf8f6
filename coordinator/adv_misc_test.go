package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestMaxWaitOfATryWhoseGrantIsNotTaken ends it, like every other one.
func TestMaxWaitOfATryWhoseGrantIsNotTaken(t *testing.T) {
	for kind := range groupKinds {
		for _, grouped := range []bool{true, false} {
			coordtest.Case(t, fmt.Sprint(kind, grouped), func(t *testing.T, srv *zktest.Server) {
				c, g := coordtest.Connect(t, srv), newGroup(t)
				acquire := groupKinds[kind](c, "x").Acquire
				if grouped {
					acquire = func(ctx context.Context, options ...coordinator.AcquireOption) *coordinator.Acquisition {
						return g.Acquire(ctx, groupKinds[kind](c, "x"), options...)
					}
				}
				a := acquire(t.Context(), coordinator.Try(), coordinator.MaxWait(time.Second))
				time.Sleep(500 * time.Millisecond)
				expect(t, a.Valid(), "it is not held")
				time.Sleep(2 * time.Second)
				expect(t, !a.Valid() && errors.Is(a.Err(), coordinator.ErrTimeout), "nobody took the Grant within MaxWait: valid %v, Err %v; want ErrTimeout", a.Valid(), a.Err())
				a.Release()
			})
		}
	}
}

// TestAdvTryInAGroup with no server.
func TestAdvTryInAGroup(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, g := coordtest.Connect(t, srv), newGroup(t)
		srv.Mute(c.SessionID(), true)
		for kind := range groupKinds {
			a := g.Acquire(t.Context(), groupKinds[kind](c, "x"), coordinator.Try())
			time.Sleep(time.Minute)
			story := storyOf(told(g.Events()), a.ID())
			expect(t, story == "Ended" && errors.Is(a.Err(), coordinator.ErrNoSession), "%d: %q, %v", kind, story, a.Err())
		}
		srv.Mute(c.SessionID(), false)
	})
}

// TestAdvDisown: queues like any other.
func TestAdvDisown(t *testing.T) {
	for kind := range groupKinds {
		coordtest.Case(t, fmt.Sprint(kind), func(t *testing.T, srv *zktest.Server) {
			c := coordtest.Connect(t, srv)
			h := groupKinds[kind](c, "x")
			a, err := h.Hold(t.Context())
			eventstest.Must(t, err)
			ctx := a.Context(t.Context())
			free := coordinator.Disown(ctx)
			_, has := coordinator.FromContext(free)
			expect(t, !has && coordinator.Disown(t.Context()) == t.Context(), "FromContext has one")
			b := h.Acquire(free)
			time.Sleep(time.Minute)
			expect(t, kind == 4 || kind == 9 || !b.Valid(), "b is valid beside a")
			expect(t, b.Err() == nil, "b: %v", b.Err())
			w := h.Acquire(context.WithoutCancel(free))
			a.Release()
			time.Sleep(time.Minute)
			if kind != 4 && kind != 9 {
				expectError(t, b.Err(), coordinator.ErrReleased, "b")
			}
			b.Release()
			time.Sleep(time.Minute)
			expect(t, w.Valid(), "w is not valid")
			if kind == 2 || kind == 3 { // entered again through another ctx of its own
				x := h.Acquire(w.Context(free))
				time.Sleep(time.Second)
				expect(t, x.Err() != nil, "x: ctx has ended")
				x = h.Acquire(w.Context(context.WithoutCancel(free)))
				time.Sleep(time.Second)
				expect(t, x.Valid(), "x is not valid")
				x.Release()
			}
			w.Release()
		})
	}
}
