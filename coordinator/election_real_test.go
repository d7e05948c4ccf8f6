package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// TestRealElection has candidates of three sessions lead in turn on a real ensemble, one of them dies with its connection, and
// observers at each server hear of it: in order, each with a greater token, and the last one in the end.
func TestRealElection(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel()
	const rounds = 40
	e := ensemble.Start(t, 3)
	ctx := coordtest.RealContext(t)
	chronicles := make([]*chronicle, 3)
	var following, leading sync.WaitGroup
	observing, end := context.WithCancel(ctx)
	for i := range chronicles {
		h := &chronicle{}
		chronicles[i] = h
		seen := coordtest.ConnectReal(t, e.Addr(i)).Election(electionPath).Observe(observing)
		if l := <-seen; l.Node != "" {
			t.Errorf("%+v leads", l)
		}
		following.Go(func() { h.follow(seen, func() time.Duration { return 0 }) })
	}
	proxy := ensemble.StartProxy(t, e.Addr(0))
	cutOff := coordtest.ConnectReal(t, proxy.Addr(), coordinator.WithSessionTimeout(2*time.Second))
	leader := cutOff.Election(electionPath).Campaign(ctx, coordinator.WithData([]byte("cut off")))
	first := coordtest.GrantOf(t, leader)
	w := &watchman{t: t}
	for i := range 3 {
		election := coordtest.ConnectReal(t, e.Addr(i)).Election(electionPath)
		leading.Go(func() {
			terms := 0
			for term, err := range election.Terms(ctx, coordinator.WithData(fmt.Appendf(nil, "candidate %d", i))) {
				if err != nil {
					t.Error(err)
					return
				}
				if token := term.Grant().Token; w.token.Swap(token) >= token {
					t.Errorf("candidate %d: token %d goes back", i, token)
				}
				if w.writers.Add(1); w.writers.Load() != 1 {
					t.Error("two lead")
				}
				if err := election.Proclaim(ctx, term, fmt.Appendf(nil, "candidate %d, term %d", i, terms)); err != nil {
					t.Error(err)
				}
				w.writers.Add(-1)
				if terms++; terms == rounds {
					return
				}
			}
		})
	}
	coordtest.Queued(t, coordtest.RawClient(t, e.Addr(0)), electionPath, 4)
	proxy.Hold(ensemble.BothWays)
	if lost := coordtest.LossOf(t, leader); w.token.Load() != 0 {
		t.Errorf("%+v, and somebody else has led", lost)
	}
	leading.Wait()
	proxy.Heal()
	leader.Release()
	if err := coordtest.EndOf(t, leader); !errors.Is(err, coordinator.ErrLeaseRanOut) {
		t.Errorf("the one that was cut off: %v", err)
	}
	eventstest.Eventually(t, "the one that was cut off is back", func() bool { return cutOff.State() == coordinator.StateConnected })
	last := coordtest.ConnectReal(t, e.Connect()).Election(electionPath).Campaign(ctx, coordinator.WithData([]byte("last")))
	grant := coordtest.GrantOf(t, last)
	for i, h := range chronicles {
		who := fmt.Sprint("observer ", i)
		eventstest.Eventually(t, who+" hears of the last", func() bool {
			heard := h.all()
			return len(heard) > 0 && heard[len(heard)-1].Node == grant.Node
		})
		h.check(t, who)
		heard := h.all()
		if heard[0].Token != first.Token || heard[len(heard)-1].Token != grant.Token || string(heard[len(heard)-1].Data) != "last" {
			t.Errorf("%s: from %+v to %+v", who, heard[0], heard[len(heard)-1])
		}
		t.Logf("%s: %d words of %d terms", who, len(heard), 3*rounds+2)
	}
	end()
	following.Wait()
}

// theyHear waits until the observer has heard that, and fails if it hears of somebody who is none of them.
func theyHear(t *testing.T, seen <-chan events.Leader, data string, others ...string) {
	t.Helper()
	deadline := time.After(coordtest.RealMax)
	for {
		select {
		case l, ok := <-seen:
			switch {
			case !ok:
				t.Fatal("the channel is closed")
			case string(l.Data) == data:
				return
			case !slices.Contains(others, string(l.Data)):
				t.Errorf("%+v leads", l)
			}
		case <-deadline:
			t.Fatalf("nobody hears of %q", data)
		}
	}
}

// TestRealObserverBehind observes through a follower that is cut off from its leader: it hears what that one knows, and the
// rest when it has found the others again.
func TestRealObserverBehind(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel()
	links := ensemble.NewLinks(t)
	e := ensemble.Start(t, 3, links.Setting(), ensemble.SyncLimit(40))
	ctx := coordtest.RealContext(t)
	followers, err := e.Followers(ctx)
	if err != nil {
		t.Fatal(err)
	}
	behind, ahead := followers[0], followers[1]
	c := coordtest.ConnectReal(t, e.Addr(ahead))
	ann := c.Election(electionPath).Campaign(ctx, coordinator.WithData([]byte("ann")))
	coordtest.GrantOf(t, ann)
	bob := c.Election(electionPath).Campaign(ctx, coordinator.WithData([]byte("bob")))
	coordtest.Queued(t, coordtest.RawClient(t, e.Addr(behind)), electionPath, 2)
	seen := coordtest.ConnectReal(t, e.Addr(behind)).Election(electionPath).Observe(ctx)
	theyHear(t, seen, "ann")
	links.Isolate(behind)
	ann.Release()
	coordtest.GrantOf(t, bob)
	if err := c.Election(electionPath).Proclaim(ctx, bob, []byte("bob again")); err != nil {
		t.Fatal(err)
	}
	if l, ok, _ := heardSoFar(seen); ok {
		t.Errorf("%+v is known to a server that hears nobody", l)
	}
	links.Heal(behind)
	theyHear(t, seen, "bob again", "bob")
}

// TestRealObserversWhileServersDie: whichever server an observer is connected to, it hears who leads once that one is back.
func TestRealObserversWhileServersDie(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel()
	e := ensemble.Start(t, 3)
	ctx := coordtest.RealContext(t)
	var all []<-chan events.Leader
	for i := range 3 {
		all = append(all, coordtest.ConnectReal(t, e.Addr(i)).Election(electionPath).Observe(ctx))
	}
	c := coordtest.ConnectReal(t, e.Connect())
	ann := c.Election(electionPath).Campaign(ctx, coordinator.WithData([]byte("ann")))
	coordtest.GrantOf(t, ann)
	for _, seen := range all {
		theyHear(t, seen, "ann", "")
	}
	leader, err := e.Leader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Kill(leader); err != nil {
		t.Fatal(err)
	}
	ann.Release()
	bob := coordtest.ConnectReal(t, e.Connect()).Election(electionPath).Campaign(ctx, coordinator.WithData([]byte("bob")))
	coordtest.GrantOf(t, bob)
	if err := e.Restart(leader); err != nil {
		t.Fatal(err)
	}
	for _, seen := range all {
		theyHear(t, seen, "bob", "")
	}
}
