package zkotel_test

import (
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// marks are what a test knows of a hold: it began between the first two, and ended between the last two.
type marks struct{ asked, granted, lost time.Time }

// TestRealSpansAndMetrics: with a real server, a waiter loses its place, a holder is asked for its lock and keeps it, and another one is cut
// off. Spans and metrics tell what the acquisitions have told.
func TestRealSpansAndMetrics(t *testing.T) {
	eventstest.NeedsServers(t)
	e := ensemble.Start(t, 1)
	proxy := ensemble.StartProxy(t, e.Addr(0))
	raw := coordtest.RawClient(t, e.Addr(0))
	p := newProbe()
	c := coordtest.ConnectReal(t, proxy.Addr(), coordinator.WithHooks(p), coordinator.WithSessionTimeout(2*time.Second), coordinator.WithTickTime(500*time.Millisecond))
	other := coordtest.ConnectReal(t, e.Connect())
	ctx := coordtest.RealContext(t)

	// A waiter's node is deleted, and it queues up again.
	first, held := coordtest.Hold(t, other.Mutex(lockPath))
	waiter := c.Mutex(lockPath).Acquire(ctx)
	eventstest.Eventually(t, "the waiter knows how many are ahead", func() bool { return p.metrics(t)["queue.ahead lock=/locks/reindex"] == 1 })
	for _, node := range coordtest.Queued(t, raw, lockPath, 2) {
		if path := lockPath + "/" + node; path != held.Node {
			eventstest.Must(t, raw.Delete(path, -1))
		}
	}
	eventstest.Eventually(t, "the waiter has queued up again", func() bool {
		all := p.metrics(t)
		return all["requeued lock=/locks/reindex"] == 1 && all["queue.ahead lock=/locks/reindex"] == 1
	})
	ended(t, first)
	grant, err := waiter.Wait(ctx)
	eventstest.Must(t, err)
	ended(t, waiter)

	// A holder does not obey.
	var keeps, cuts marks
	keeps.asked = time.Now()
	kept, _ := coordtest.Hold(t, c.Mutex("/kept", coordinator.Revocable()))
	keeps.granted = time.Now()
	eventstest.Must(t, other.Revoke(ctx, "/kept", 100*time.Millisecond))
	revoked := eventstest.Receive(t, kept.Lost(), "the loss of the lock that is asked for")
	keeps.lost = time.Now()

	// A holder is cut off.
	cuts.asked = time.Now()
	cut, _ := coordtest.Hold(t, c.Mutex("/cut"))
	cuts.granted = time.Now()
	proxy.Hold(ensemble.BothWays)
	lost := eventstest.Receive(t, cut.Lost(), "the loss of the lock after the partition")
	cuts.lost = time.Now()
	proxy.Heal()

	for i, want := range []struct {
		path  string
		grant events.Grant
		seen  marks
		kind  string
	}{
		{lockPath, grant, marks{}, ""},
		{"/kept", kept.Grant(), keeps, "revoked"},
		{"/cut", cut.Grant(), cuts, "lease_ran_out"},
	} {
		acquire, hold := p.spans("acquire")[i], p.spans("hold")[i]
		if path := valueOf(acquire, "zkgrant.lock.path").AsString(); path != want.path {
			t.Fatalf("acquisition %d is of %s, want %s", i, path, want.path)
		}
		if links := hold.Links(); len(links) != 1 || links[0].SpanContext.SpanID() != acquire.SpanContext().SpanID() {
			t.Errorf("the hold of %s has the links %v, want one to its acquire", want.path, links)
		}
		if token := valueOf(hold, "zkgrant.lock.token").AsInt64(); token != want.grant.Token || token == 0 {
			t.Errorf("the hold of %s has the token %d, want %d", want.path, token, want.grant.Token)
		}
		if id := valueOf(hold, "zkgrant.session.id").AsString(); id != hex(want.grant.Session) {
			t.Errorf("the hold of %s has the session %s, want %s", want.path, id, hex(want.grant.Session))
		}
		isLost := want.kind != ""
		if kind := valueOf(hold, "error.type").AsString(); kind != want.kind || (hold.Status().Code == codes.Error) != isLost {
			t.Errorf("the hold of %s has the error %q and the status %v, want %q", want.path, kind, hold.Status(), want.kind)
		}
		// A hook hears of the Grant and of the loss before the caller does.
		if from, to := hold.StartTime(), hold.EndTime(); isLost && (from.Before(want.seen.asked) || from.After(want.seen.granted) ||
			to.Before(want.seen.granted) || to.After(want.seen.lost)) {
			t.Errorf("the hold of %s lasts from %v to %v, want between %v, %v and %v", want.path, from, to, want.seen.asked, want.seen.granted, want.seen.lost)
		}
	}
	names := map[string]int{}
	for _, e := range p.spans("acquire")[0].Events() {
		names[e.Name]++
	}
	if names["queued"] < 2 || names["requeued"] != 1 {
		t.Errorf("the acquire of the waiter has the events %v, want queued, requeued and queued again", names)
	}
	must(t, "at the end", p.metrics(t), map[string]float64{
		"lost lock=/kept reason=revoked": 1, "lost lock=/cut reason=lease_ran_out": 1, "revoked lock=/kept": 1,
		"requeued lock=/locks/reindex":                                        1,
		"acquire.duration kind=mutex lock=/locks/reindex outcome=granted":     1,
		"acquire.duration.sum kind=mutex lock=/locks/reindex outcome=granted": grant.Waited.Seconds(),
		"hold.duration.sum end=lost kind=mutex lock=/cut":                     lost.Held.Seconds(),
		"hold.duration.sum end=lost kind=mutex lock=/kept":                    revoked.Held.Seconds(),
		"session.events event=lease_ran_out":                                  1,
	})
	if p.Live() != 0 {
		t.Errorf("behind the ends the hook knows %d acquisitions, want 0", p.Live())
	}
}
