package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// kind is a kind of trial: what must happen to its locks, and what did.
type kind struct {
	name     string
	timeouts [2]time.Duration // T is between these
	must     bool             // the lock must be lost
	mustNot  bool             // the lock must not be lost
	cached   bool             // the holder's lock is cached, and its grant is a later turn of a kept node
	expires  bool             // the referee must see the servers delete the node
	row      reliability.Row  // of the results; RowFault if it is empty

	ways        ensemble.Direction // in which messages are held up, or late
	least, most float64            // for how long, or by how much, in parts of T
	trials      int                // how many are played, if the kinds differ in that
	voter       bool               // an observer's client knows a voter, too
	direct      bool               // the holder is a client of the leader itself, for comparison

	kept, lost, disturbed int
	lead                  spread // from the loss to the next grant
	expiry                spread // from the loss to the node's deletion
}

func (k *kind) trial(path string, near *coordinator.Coordinator) *trial {
	timeout := k.timeouts[0] + rand.N(k.timeouts[1]-k.timeouts[0]+1)
	name := fmt.Sprintf("%s, %s, T = %.2f s", path, k.name, timeout.Seconds())
	return &trial{kind: k, name: name, path: path, timeout: timeout, near: near}
}

// chance returns a duration between the kind's least and most.
func (tr *trial) chance() time.Duration {
	k := tr.kind
	return time.Duration((k.least + rand.Float64()*(k.most-k.least)) * float64(tr.timeout))
}

func (k *kind) count(t *testing.T, tr *trial) {
	t.Helper()
	switch loss := tr.loss; {
	case tr.granted.IsZero(): // the referee has reported that
	case tr.disturbed:
		k.disturbed++
	case tr.lost.IsZero():
		k.kept++
		tr.expect(t, !k.must && tr.kept, "not lost")
	default:
		k.lost++
		tr.expect(t, !k.mustNot, "lost: %v, want it held", loss.Reason)
		tr.expect(t, !k.expires || !tr.expired.IsZero(), "the servers were not seen to delete the node")
		end, want := tr.held.Err(), coordinator.ErrLeaseRanOut
		ranOut := loss.Reason == events.ReasonLeaseRanOut && errors.Is(loss.Err, want) && errors.Is(end, want)
		tr.expect(t, ranOut, "lost because of %v (%v), and ended with %v", loss.Reason, loss.Err, end)
		same := loss.Token == tr.grant.Token && loss.ID == tr.held.ID()
		tr.expect(t, same, "granted %+v, lost %+v", tr.grant, loss)
		k.lead.add(tr.granted.Sub(tr.lost), tr.timeout)
		if !tr.expired.IsZero() {
			k.expiry.add(tr.expired.Sub(tr.lost), tr.timeout)
		}
	}
}

// report reports the results of the trials of each kind, in its row.
func report(t *testing.T, what string, kinds ...*kind) {
	t.Helper()
	trials := 0
	for _, k := range kinds {
		n := k.kept + k.lost
		trials += n
		text := fmt.Sprintf("%s, %s: %d trials, %d lost", what, k.name, n, k.lost)
		if k.lost > 0 {
			text += fmt.Sprintf(", each before the next grant, by %.3f T at least (median %.3f T)",
				k.lead.at(0), k.lead.at(0.5))
		}
		if len(k.expiry) > 0 {
			text += fmt.Sprintf("; Lost at least %.3f T before the node was deleted", k.expiry.at(0))
		}
		if k.disturbed > 0 {
			text += fmt.Sprintf(" (%d more say nothing: the machine was busy)", k.disturbed)
		}
		if n == 0 {
			t.Log(text)
			continue
		}
		reliability.Report(t, cmp.Or(k.row, reliability.RowFault), "%s", text)
	}
	if trials > 0 {
		for _, row := range []reliability.Row{reliability.RowTwoHolders, reliability.RowWedged} {
			reliability.Report(t, row, "real servers, %s: 0 in %d trials", what, trials)
		}
	}
}

// trial is one lock that passes from a holder, which a fault strikes, to the next holder,
// watched by a referee.
type trial struct {
	kind       *kind
	name       string
	path       string
	timeout    time.Duration // of the holder's session
	away, near *coordinator.Coordinator
	sessions   [2]int64        // of away and near, if the fault must not end them
	proxy      *ensemble.Proxy // between the holder and its server
	second     *ensemble.Proxy // between the holder and another server; nil if it knows none
	disturbed  bool            // the result proves nothing, because the machine was busy
	kept       bool            // the lock was held until the end

	held, wanted *coordinator.Acquisition
	inside       context.Context // the context of the holder's work
	grant        events.Grant
	deleted      <-chan zk.Event            // the held node's deletion, if a client near the leader watches it
	local        []*coordinator.Acquisition // for a cached lock: one waits behind the holder, one acquires when the holder has lost it

	released atomic.Bool   // set before the holder releases by itself
	over     chan struct{} // closed when the next holder has the lock, or never will

	// Written by the referee until over is closed.
	next    events.Grant
	loss    events.Lost
	lost    time.Time // when Lost was read, and so on; zero if that was not seen
	expired time.Time
	granted time.Time
}

// hold makes away hold the trial's lock, and near wait for it. From then on a referee
// watches both. With a raw client, it also sees when the servers delete the node.
func (tr *trial) hold(t *testing.T, raw *zk.Conn) {
	t.Helper()
	tr.over = make(chan struct{})
	ctx := patiently(t)
	if tr.kind.cached {
		for range 2 { // the second node is kept
			a, _ := coordtest.HoldReal(t, tr.lock())
			coordtest.End(a)
		}
	}
	tr.held, tr.grant = coordtest.HoldReal(t, tr.lock())
	tr.inside = tr.held.Context(t.Context())
	if tr.kind.cached {
		if tr.grant.Turn == 0 {
			t.Fatalf("%s: granted %+v, want a later turn of the node that was kept", tr.name, tr.grant)
		}
		tr.local = append(tr.local, tr.lock().Acquire(t.Context()))
	}
	tr.wanted = tr.near.Mutex(tr.path).Acquire(t.Context())
	if raw != nil {
		coordtest.Queued(t, raw, tr.path, 2)
		found, _, deleted, err := raw.ExistsW(tr.grant.Node)
		if err != nil || !found {
			t.Fatalf("%s: %s is there: %v, %v", tr.name, tr.grant.Node, found, err)
		}
		tr.deleted = deleted
	}
	go func() {
		defer close(tr.over)
		tr.referee(t, ctx)
	}()
}

// lock returns the holder's lock. If it is cached, only a loss ends its turns.
func (tr *trial) lock() *coordinator.Lock {
	if !tr.kind.cached {
		return tr.away.Mutex(tr.path)
	}
	return tr.away.Mutex(tr.path, coordinator.Cached(coordinator.CacheHandoffs(1000), coordinator.CacheFor(time.Hour)))
}

// referee records what happens to the lock until the next holder has it, and checks the
// promised order. Lost counts as delivered once it is in its channel, where a reader
// finds it.
func (tr *trial) referee(t *testing.T, ctx context.Context) {
	lost := func(loss events.Lost) {
		tr.loss, tr.lost = loss, time.Now()
		tr.expect(t, !tr.held.Valid(), "lost, and still valid")
		if tr.kind.cached {
			tr.local = append(tr.local, tr.lock().Acquire(t.Context()))
			tr.held.Release()
		}
	}
	told := func() bool { // or it has released by itself
		select {
		case loss := <-tr.held.Lost():
			lost(loss)
		default:
		}
		return !tr.lost.IsZero() || tr.released.Load()
	}
	deleted := tr.deleted
	for {
		select {
		case loss := <-tr.held.Lost():
			lost(loss)
		case ev := <-deleted:
			deleted = nil
			if ev.Type != zk.EventNodeDeleted {
				continue // the raw client is closed
			}
			tr.expired = time.Now()
			tr.expect(t, told(), "the node is gone, and the holder was not told of its loss")
		case tr.next = <-tr.wanted.Granted():
			tr.granted = time.Now()
			tr.expect(t, !tr.held.Valid(), "valid, and granted to the next contender: two holders")
			tr.expect(t, told(), "granted to the next contender, and the holder was not told of its loss")
			tr.expect(t, tr.inside.Err() != nil || tr.released.Load(),
				"granted to the next contender, and the holder's context goes on")
			for _, a := range tr.local {
				g := a.Grant()
				tr.expect(t, g.Token == 0,
					"%+v of the holder's process was granted after %+v, which is lost", g, tr.grant)
			}
			tr.expect(t, tr.next.Token > tr.grant.Token, "token %#x after %#x", tr.next.Token, tr.grant.Token)
			if tr.kind.expires && deleted != nil { // the next contender may be notified of the end first
				select {
				case ev := <-deleted:
					if ev.Type == zk.EventNodeDeleted {
						tr.expired = tr.granted
					}
				case <-ctx.Done():
				}
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

// handOver ends the trial once the fault is over: a holder that still holds releases, the
// next one is granted the lock, and the first one gets it again in its turn. handOver
// reports whether the lock was held until now. It may be called from any goroutine.
func (tr *trial) handOver(t *testing.T) (kept bool) {
	t.Helper()
	kept = tr.held.Valid()
	tr.released.Store(true)
	tr.held.Release()
	<-tr.over
	if tr.granted.IsZero() {
		return kept // the referee has reported it
	}
	ctx, cancel := eventstest.Patient(patience)
	defer cancel()
	again := slices.Concat(tr.local, []*coordinator.Acquisition{tr.lock().Acquire(ctx)})
	tr.wanted.Release()
	for _, a := range again {
		grant, err := a.Wait(ctx)
		if err != nil {
			t.Errorf("%s: wedged: the first holder does not get the lock again: %v", tr.name, err)
			return kept
		}
		tr.expect(t, grant.Token > tr.next.Token, "token %#x after %#x", grant.Token, tr.next.Token)
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

// expect fails the test unless the condition holds. The message begins with the trial.
func (tr *trial) expect(t *testing.T, holds bool, format string, args ...any) {
	t.Helper()
	eventstest.Expect(t, holds, "%s: "+format, append([]any{tr.name}, args...)...)
}

func (tr *trial) reconnected(t *testing.T) bool {
	t.Helper()
	return happens(t, tr.name+" is connected again", func() bool {
		return tr.away.State() == coordinator.StateConnected
	})
}

// settle waits until each holder's session is connected again, has the locks passed on,
// and counts the results.
func settle(t *testing.T, all []*trial) {
	t.Helper()
	each(all, func(tr *trial) { tr.kept = tr.reconnected(t) && tr.handOver(t) })
	count(t, all)
}

func count(t *testing.T, all []*trial) {
	t.Helper()
	for _, tr := range all {
		tr.kind.count(t, tr)
	}
}

// granted waits until all locks that must be lost are granted to other contenders.
func granted(all []*trial) {
	for _, tr := range all {
		if tr.kind.must {
			<-tr.over
		}
	}
}
