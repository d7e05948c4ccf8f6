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

func newTally() *tally { return &tally{grants: map[uint64]events.Grant{}, ends: map[uint64]error{}} }

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

// turnedAway has callers ask for a lock each, and turn away when all are granted: they read no Grant, and rely on the bound of their
// wait. It returns how many of the locks are held after settled.
func turnedAway(t *testing.T, c *coordinator.Coordinator, y *tally, bound waitBound, settled func()) (held int) {
	t.Helper()
	const callers = 40
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var all []*coordinator.Acquisition
	for i := range callers {
		all = append(all, c.Mutex(fmt.Sprint("/requests/", i)).Acquire(ctx, bound.options...))
	}
	eventstest.Eventually(t, "each Grant was read on the stream", func() bool {
		grants, _ := y.counts()
		return grants == callers
	}, func() string { return fmt.Sprint(y.counts()) })
	if bound.cancel {
		cancel(errTurnedAway)
	}
	settled()
	for _, a := range all {
		if a.Valid() {
			held++
			a.Release()
		} else if err := a.Err(); coordtest.IsClosed(a.Done()) && !errors.Is(err, bound.want) {
			t.Errorf("an acquisition whose wait has ended returned %v, want %v", err, bound.want)
		}
	}
	return held
}

var errTurnedAway = errors.New("the request was cancelled")

// waitBound is what ends the wait of a caller that reads no Grant.
type waitBound struct {
	options []coordinator.AcquireOption
	cancel  bool
	want    error
}

// TestEventsTakeNothing: a bystander that reads every event changes nothing for callers whose wait ends before they have read their
// Grant. Each lock is taken back. The bystander reads the Grant, and then its Ended with the reason.
func TestEventsTakeNothing(t *testing.T) {
	for what, bound := range map[string]waitBound{
		"the context ends": {cancel: true, want: errTurnedAway},
		"MaxWait runs out": {options: []coordinator.AcquireOption{coordinator.WithMaxWait(30 * time.Second)}, want: coordinator.ErrTimeout},
	} {
		t.Run(what, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				y := newTally()
				news := c.Events(t.Context())
				go y.read(news)
				held := turnedAway(t, c, y, bound, func() { time.Sleep(time.Minute) })
				if held != 0 {
					t.Errorf("a minute after 40 waits have ended %d locks are held, want none", held)
				}
				time.Sleep(time.Second)
				if _, ends := y.counts(); ends != 40 || len(srv.Children("/requests/0")) > 0 {
					t.Errorf("when all is over the stream has told %d ends, and there are %q; want 40, and no node",
						ends, srv.Children("/requests/0"))
				}
				for id, err := range y.ends {
					if _, granted := y.grants[id]; !granted || !errors.Is(err, bound.want) {
						t.Errorf("acquisition %d: granted in the stream: %v, ended with %v; want the Grant, then %v", id, granted, err, bound.want)
					}
				}
			})
		})
	}
}

func TestRealEventsTakeNothing(t *testing.T) {
	eventstest.NeedsServers(t)
	c := coordtest.ConnectReal(t, ensemble.Start(t, 1).Connect())
	y := newTally()
	news := c.Events(t.Context())
	go y.read(news)
	held := turnedAway(t, c, y, waitBound{cancel: true, want: errTurnedAway}, func() {
		eventstest.Eventually(t, "each end was read on the stream", func() bool {
			_, ends := y.counts()
			return ends == 40
		}, func() string { return fmt.Sprint(y.counts()) })
	})
	if held != 0 {
		t.Errorf("when 40 waits have ended %d locks are held, want none", held)
	}
}
