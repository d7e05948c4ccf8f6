package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestEventsTakeNothing: reading every event changes nothing for callers whose wait ends
// before they have read their Grant.
func TestEventsTakeNothing(t *testing.T) {
	const callers = 40
	turnedAway := errors.New("the request was cancelled")
	bounded := []coordinator.AcquireOption{coordinator.MaxWait(30 * time.Second)}
	for want, options := range map[error][]coordinator.AcquireOption{turnedAway: nil, coordinator.ErrTimeout: bounded} {
		coordtest.Case(t, want.Error(), func(t *testing.T, srv *zktest.Server) {
			c := coordtest.Connect(t, srv)
			stream := c.Events(t.Context())
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			for i := range callers {
				c.Mutex(fmt.Sprint("/requests/", i)).Acquire(ctx, options...)
			}
			grants, ends := map[uint64]bool{}, map[uint64]error{}
			read := func() {
				for _, ev := range told(stream) {
					switch ev := ev.(type) {
					case events.Grant:
						grants[ev.ID] = true
					case events.Ended:
						ends[ev.ID] = ev.Err
					}
				}
			}
			if read(); len(grants) != callers || len(ends) != 0 {
				t.Fatalf("the stream tells of %d grants and %d ends, want %d and none", len(grants), len(ends), callers)
			}
			if options == nil {
				cancel(turnedAway)
			}
			time.Sleep(time.Minute)
			read()
			expect(t, len(ends) == callers, "the stream tells of %d ends, want %d", len(ends), callers)
			for id, err := range ends {
				expect(t, grants[id] && errors.Is(err, want),
					"%d: granted in the stream: %v, ended with %v; want the Grant, then %v", id, grants[id], err, want)
			}
			for i := range callers {
				expectNone(t, srv.Children(fmt.Sprint("/requests/", i)), "nodes of lock %d when the waits have ended", i)
			}
		})
	}
}
