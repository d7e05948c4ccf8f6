package faults

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// trial is one lock on its way from a holder, which a fault strikes, to the next holder, under the eyes of a referee.
type trial struct {
	name       string
	path       string
	timeout    time.Duration // of the holder's session
	away, near *coordinator.Coordinator
	cached     bool // the holder's lock is cached, and its grant a later turn of a node that was kept

	held, wanted *coordinator.Acquisition
	inside       context.Context // with which the holder works
	grant        events.Grant
	deleted      <-chan zk.Event            // of the held node, if a client near the leader watches it
	local        []*coordinator.Acquisition // of a cached lock: one waits behind the holder, one asks when the holder has lost it

	released atomic.Bool   // set before the holder gives the lock back by itself
	over     chan struct{} // closed when the next holder has the lock, or never will

	// The referee's until over is closed.
	next    events.Grant
	loss    events.Lost
	flipped time.Time // when Valid turned false, lost: when Lost was read, and so on; zero if it was not seen
	lost    time.Time
	expired time.Time
	granted time.Time
}

// hold has the trial's lock held by away and wanted by near. From then on a referee watches both. With a raw client
// the referee also sees when the servers delete the node.
func (tr *trial) hold(t *testing.T, raw *zk.Conn) {
	t.Helper()
	tr.over = make(chan struct{})
	ctx := patiently(t)
	if tr.cached {
		tr.keep(t)
	}
	tr.held = tr.lock().Acquire(t.Context())
	grant, err := tr.held.Wait(ctx)
	if err != nil {
		t.Fatalf("%s: %v", tr.name, err)
	}
	tr.grant, tr.inside = grant, tr.held.Context(t.Context())
	if tr.cached {
		if grant.Turn == 0 {
			t.Fatalf("%s: granted %+v, want a later turn of the node that was kept", tr.name, grant)
		}
		tr.local = append(tr.local, tr.lock().Acquire(t.Context()))
	}
	tr.wanted = tr.near.Mutex(tr.path).Acquire(t.Context())
	if raw != nil {
		queued(t, raw, tr.path, 2)
		found, _, deleted, err := raw.ExistsW(grant.Node)
		if err != nil || !found {
			t.Fatalf("%s: %s is there: %v, %v", tr.name, grant.Node, found, err)
		}
		tr.deleted = deleted
	}
	go func() {
		defer close(tr.over)
		tr.referee(t, ctx)
	}()
}

// lock is the holder's. If it is cached, only a loss ends its turns.
func (tr *trial) lock() *coordinator.Lock {
	if !tr.cached {
		return tr.away.Mutex(tr.path)
	}
	return tr.away.Mutex(tr.path, coordinator.Cached(coordinator.CacheHandoffs(1000), coordinator.CacheFor(time.Hour)))
}

// keep acquires the lock twice: the second node is kept.
func (tr *trial) keep(t *testing.T) {
	t.Helper()
	for range 2 {
		a := tr.lock().Acquire(t.Context())
		if _, err := a.Wait(patiently(t)); err != nil {
			t.Fatalf("%s: %v", tr.name, err)
		}
		a.Release()
		<-a.Done()
	}
}

// referee notes what happens to the lock until the next holder has it, and checks the promised order. Lost counts as
// delivered when it is in its channel: a reader of the channel finds it.
func (tr *trial) referee(t *testing.T, ctx context.Context) {
	lost := func(loss events.Lost) {
		tr.loss, tr.lost = loss, time.Now()
		if tr.flipped.IsZero() {
			tr.flipped = tr.lost
		}
		if tr.held.Valid() {
			t.Errorf("%s: lost, and still valid", tr.name)
		}
		if tr.cached {
			tr.local = append(tr.local, tr.lock().Acquire(t.Context()))
			tr.held.Release()
		}
	}
	look := func() {
		select {
		case loss := <-tr.held.Lost():
			lost(loss)
		default:
		}
	}
	flip := time.NewTimer(time.Until(tr.held.Deadline()))
	defer flip.Stop()
	deleted := tr.deleted
	for {
		select {
		case loss := <-tr.held.Lost():
			lost(loss)
		case <-flip.C:
			if tr.held.Valid() {
				flip.Reset(time.Until(tr.held.Deadline()))
			} else if tr.flipped.IsZero() {
				tr.flipped = time.Now()
			}
		case ev := <-deleted:
			deleted = nil
			if ev.Type != zk.EventNodeDeleted {
				continue // the raw client is closed
			}
			tr.expired = time.Now()
			if look(); tr.lost.IsZero() && !tr.released.Load() {
				t.Errorf("%s: the node is gone, and the holder was not told of its loss", tr.name)
			}
		case tr.next = <-tr.wanted.Granted():
			tr.granted = time.Now()
			if tr.held.Valid() {
				t.Errorf("%s: valid, and granted to the next contender: two holders", tr.name)
			}
			if look(); tr.lost.IsZero() && !tr.released.Load() {
				t.Errorf("%s: granted to the next contender, and the holder was not told of its loss", tr.name)
			}
			if tr.inside.Err() == nil && !tr.released.Load() {
				t.Errorf("%s: granted to the next contender, and the holder's context goes on", tr.name)
			}
			for _, a := range tr.local {
				if g := a.Grant(); g.Token != 0 {
					t.Errorf("%s: %+v of the holder's process was granted after %+v, which is lost", tr.name, g, tr.grant)
				}
			}
			if tr.next.Token <= tr.grant.Token {
				t.Errorf("%s: token %#x after %#x", tr.name, tr.next.Token, tr.grant.Token)
			}
			return
		case <-tr.wanted.Done():
			t.Errorf("%s: the waiter ended: %v", tr.name, tr.wanted.Err())
			return
		case <-ctx.Done():
			t.Errorf("%s: wedged: the lock has no holder after %v (was lost: %t)", tr.name, patience, !tr.lost.IsZero())
			return
		}
	}
}

// handOver ends the trial once the fault is over: a holder that still holds gives the lock back, the next one gets it,
// and the first one gets it back in its turn. It reports whether the lock was held up to now. It may be called from
// any goroutine.
func (tr *trial) handOver(t *testing.T) (kept bool) {
	t.Helper()
	kept = tr.held.Valid()
	tr.released.Store(true)
	tr.held.Release()
	<-tr.over
	if tr.granted.IsZero() {
		return kept // the referee has reported it
	}
	ctx, cancel := patient()
	defer cancel()
	again := slices.Concat(tr.local, []*coordinator.Acquisition{tr.lock().Acquire(ctx)})
	tr.wanted.Release()
	for _, a := range again {
		grant, err := a.Wait(ctx)
		if err != nil {
			t.Errorf("%s: wedged: the first holder does not get the lock again: %v", tr.name, err)
			return kept
		}
		if grant.Token <= tr.next.Token {
			t.Errorf("%s: token %#x after %#x", tr.name, grant.Token, tr.next.Token)
		}
		a.Release()
	}
	for _, a := range append(again, tr.held, tr.wanted) {
		select {
		case <-a.Done():
		case <-ctx.Done():
			t.Errorf("%s: an acquisition does not end", tr.name)
		}
	}
	return kept && tr.lost.IsZero()
}

// reconnected waits until the first holder's session has a connection.
func (tr *trial) reconnected(t *testing.T) bool {
	t.Helper()
	return happens(t, tr.name+" is connected again", func() bool {
		return tr.away.State() == coordinator.StateConnected
	})
}
