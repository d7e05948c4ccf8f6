package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// tally is a reader of a stream that only counts, as for metrics.
type tally struct {
	mu     sync.Mutex
	grants map[uint64]events.Grant
	ends   map[uint64]error
}

func (y *tally) read(news <-chan events.Event) {
	for ev := range news {
		y.mu.Lock()
		switch ev := ev.(type) {
		case events.Grant:
			y.grants[ev.ID] = ev
		case events.Ended:
			y.ends[ev.ID] = ev.Err
		case events.Lost:
			y.ends[ev.ID] = ev.Err
		}
		y.mu.Unlock()
	}
}

func (y *tally) counts() (grants, ends int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	return len(y.grants), len(y.ends)
}

// turnedAway has callers ask for a lock each, and turn away when all are granted: they read no Grant, and rely on the end of their
// context. It returns how many of the locks are held after settled.
func turnedAway(t *testing.T, c *coordinator.Coordinator, y *tally, settled func()) (held int) {
	t.Helper()
	const callers = 40
	gone := errors.New("the request was cancelled")
	ctx, cancel := context.WithCancelCause(t.Context())
	var all []*coordinator.Acquisition
	for i := range callers {
		all = append(all, c.Mutex(fmt.Sprint("/requests/", i)).Acquire(ctx))
	}
	eventstest.Eventually(t, "each Grant was read on the stream", func() bool {
		grants, _ := y.counts()
		return grants == callers
	}, func() string { return fmt.Sprint(y.counts()) })
	cancel(gone)
	settled()
	for _, a := range all {
		if a.Valid() {
			held++
			a.Release()
		} else if err := a.Err(); coordtest.IsClosed(a.Done()) && !errors.Is(err, gone) {
			t.Errorf("an acquisition with a cancelled wait ended with %v, want %v", err, gone)
		}
	}
	return held
}

// TestAPassiveStreamTakesNothing: a program that reads the stream passively for its metrics changes nothing for callers with
// contexts that end before they have read their Grant. If the stream is not passive all these locks stay held.
func TestAPassiveStreamTakesNothing(t *testing.T) {
	for what, test := range map[string]struct {
		options []coordinator.StreamOption
		held    int
	}{
		"passive":     {[]coordinator.StreamOption{coordinator.Passive()}, 0},
		"not passive": {[]coordinator.StreamOption{nil}, 40},
	} {
		t.Run(what, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				y := &tally{grants: map[uint64]events.Grant{}, ends: map[uint64]error{}}
				news := c.Events(t.Context(), test.options...)
				go y.read(news)
				held := turnedAway(t, c, y, func() { time.Sleep(time.Minute) })
				if held != test.held {
					t.Errorf("a minute after 40 waits have ended %d locks are held, want %d", held, test.held)
				}
				time.Sleep(time.Second)
				if _, ends := y.counts(); ends != 40 || len(srv.Children("/requests/0")) > 0 {
					t.Errorf("when all is over the stream has told %d ends, and there are %q; want 40, and no node",
						ends, srv.Children("/requests/0"))
				}
			})
		})
	}
}

func TestRealPassiveStreamTakesNothing(t *testing.T) {
	eventstest.NeedsServers(t)
	c := coordtest.ConnectReal(t, ensemble.Start(t, 1).Connect())
	y := &tally{grants: map[uint64]events.Grant{}, ends: map[uint64]error{}}
	news := c.Events(t.Context(), coordinator.Passive())
	go y.read(news)
	held := turnedAway(t, c, y, func() {
		eventstest.Eventually(t, "each end was read on the stream", func() bool {
			_, ends := y.counts()
			return ends == 40
		}, func() string { return fmt.Sprint(y.counts()) })
	})
	if held != 0 {
		t.Errorf("when 40 waits have ended %d locks are held, want none", held)
	}
}
