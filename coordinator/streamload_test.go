package coordinator_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// ledger follows what one subscriber is told and finds what must not be.
type ledger struct {
	t       *testing.T
	granted map[uint64]int64 // token of the Grant
	final   map[uint64]string
	total   int // events
}

func newLedger(t *testing.T) *ledger {
	t.Helper()
	return &ledger{t: t, granted: map[uint64]int64{}, final: map[uint64]string{}}
}

// note takes the next event.
func (l *ledger) note(ev events.Event) {
	l.t.Helper()
	l.total++
	switch ev := ev.(type) {
	case events.Grant:
		if l.granted[ev.ID] != 0 || l.final[ev.ID] != "" {
			l.t.Fatalf("%d: Grant after Grant %d and %q", ev.ID, l.granted[ev.ID], l.final[ev.ID])
		}
		l.granted[ev.ID] = ev.Token
	case events.Lost:
		if l.granted[ev.ID] != ev.Token || l.final[ev.ID] != "" {
			l.t.Fatalf("%d: Lost of %d after Grant %d and %q", ev.ID, ev.Token, l.granted[ev.ID], l.final[ev.ID])
		}
		l.final[ev.ID] = "Lost"
	case events.Ended:
		if l.final[ev.ID] != "" {
			l.t.Fatalf("%d: Ended after %s", ev.ID, l.final[ev.ID])
		}
		l.final[ev.ID] = "Ended"
	case events.Queued, events.Requeued:
		// Neither can come after the end, but one of a withdrawn acquisition may be
		// on its way when it is read; the order is the lock actor's test.
	}
}

// TestStreamOf5000Locks has one loop with 5,000 locks and 300 waiters. The loop stops
// reading in the middle, while others work, locks are released and lost, connections
// come and go, and nodes are removed by hand. When it reads again it finds every Grant
// that was taken and every end, paired, and hardly anything beside them.
func TestStreamOf5000Locks(t *testing.T) {
	const locks, waiters, early, others, released = 5000, 300, 2000, 50, 500
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		shard := func(i int) string { return fmt.Sprintf("/shards/%d", i) }
		for i := range locks {
			if err := srv.Create(shard(i), nil); err != nil {
				t.Fatal(err)
			}
		}
		blocker, _ := coordtest.Hold(t, coordtest.Connect(t, srv).Mutex(lockPath))
		defer blocker.Release()
		c := coordtest.Connect(t, srv)
		stream := c.Events(t.Context())
		seen := newLedger(t)
		all := make([]*coordinator.Acquisition, 0, locks+waiters)
		for i := range locks {
			all = append(all, c.Mutex(shard(i)).Acquire(t.Context()))
		}
		for len(seen.granted) < early {
			seen.note(<-stream)
		}
		for range waiters {
			all = append(all, c.Mutex(lockPath).Acquire(t.Context()))
		}
		synctest.Wait()
		if got := len(srv.Children(lockPath)); got != waiters+1 {
			t.Fatalf("%d of %d wait", got, waiters)
		}

		// From here on the loop reads nothing.
		before := seen.total
		start := time.Now()
		var worked []*coordinator.Acquisition
		for range others {
			a, _ := coordtest.Hold(t, c.Mutex("/locks/other"))
			worked = append(worked, a)
			a.Release()
			<-a.Done()
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("the others were held up for %v", took)
		}
		for round := range 8 { // noise: each round is a Requeued and a Queued of each waiter
			for _, child := range srv.Children(lockPath) {
				if node := lockPath + "/" + child; srv.Owner(node) == c.SessionID() {
					if err := srv.Delete(node); err != nil {
						t.Fatal(err)
					}
				}
			}
			synctest.Wait()
			if round%3 == 0 {
				srv.Cut(c.SessionID())
				time.Sleep(2 * time.Second)
			}
		}
		for _, a := range all[:released] {
			a.Release()
		}
		taken := map[uint64]bool{}
		for _, a := range all[early-100 : locks-1000] { // by channel, as another part of the program might
			select {
			case <-a.Granted():
				taken[a.ID()] = true
			default:
				t.Fatalf("%d is not granted", a.ID())
			}
		}
		if err := srv.Expire(c.SessionID()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		for _, a := range all[:locks] {
			if a.Valid() || !coordtest.IsClosed(a.Done()) {
				t.Fatalf("%d: valid %v, over %v", a.ID(), a.Valid(), coordtest.IsClosed(a.Done()))
			}
		}

		// And from here on it does again.
		closed := make(chan error)
		go func() { closed <- c.Close() }()
		for ev := range stream {
			seen.note(ev)
		}
		if err := <-closed; err != nil {
			t.Errorf("Close = %v", err)
		}
		lost := 0
		for _, a := range all {
			id := a.ID()
			if seen.final[id] == "" {
				t.Fatalf("%d: no end", id)
			}
			if taken[id] && seen.granted[id] == 0 {
				t.Fatalf("%d: its Grant was taken, and the stream did not have it", id)
			}
			if seen.final[id] == "Lost" {
				lost++
			} else if taken[id] {
				t.Fatalf("%d: lost, and the stream has %s", id, seen.final[id])
			}
		}
		for _, a := range worked {
			if seen.granted[a.ID()] == 0 || seen.final[a.ID()] != "Ended" {
				t.Fatalf("%d was held and released; the stream had Grant %d and %q", a.ID(), seen.granted[a.ID()], seen.final[a.ID()])
			}
		}
		if len(seen.final) != locks+waiters+others || lost < early-released {
			t.Errorf("%d ends, %d of them losses", len(seen.final), lost)
		}
		// The promise is three of each live acquisition. Here a waiter's are a Queued, a
		// Requeued and its end; the others were never queued and have a Grant, unless the
		// loop has read it, and an end. Of the session there is one of each of four kinds.
		after := seen.total - before
		if most := 3*waiters + 2*(locks+others) - early + 4; after > most {
			t.Errorf("%d events were kept, more than %d", after, most)
		}
		t.Logf("%d events before the pause, %d after it, %d losses", before, after, lost)
	})
}
