package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// chronicle is what one observer has heard.
type chronicle struct {
	mu    sync.Mutex
	heard []events.Leader
}

// follow reads until the channel is closed, and waits so long after each leader.
func (c *chronicle) follow(seen <-chan events.Leader, pause func() time.Duration) {
	for l := range seen {
		c.mu.Lock()
		c.heard = append(c.heard, l)
		c.mu.Unlock()
		time.Sleep(pause())
	}
}

func (c *chronicle) all() []events.Leader {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.heard)
}

// check fails the test if a past leader leads again, if a token goes back, or if a leader is told twice. The token tells a leader
// apart from another of the same name.
func (c *chronicle) check(t *testing.T, observer string) {
	t.Helper()
	var last events.Leader
	var token int64
	for i, l := range c.all() {
		switch {
		case i > 0 && l.Node == last.Node && l.Token == last.Token && string(l.Data) == string(last.Data):
			t.Errorf("%s heard %+v twice in a row, want it once", observer, l)
		case l.Token != 0 && (l.Token < token || l.Token == token && l.Node != last.Node):
			t.Errorf("%s heard %+v after %+v, want a greater token", observer, l, last)
		}
		last, token = l, max(token, l.Token)
	}
}

// leaderOf returns the leader, as the server has it.
func leaderOf(srv *zktest.Server) (l events.Leader) {
	var first events.Name
	for _, child := range srv.Children(electionPath) {
		if n, ok := events.ParseName(child); ok && (first.Text == "" || events.CompareNames(n, first) < 0) {
			first = n
		}
	}
	if first.Text == "" {
		return l
	}
	l.Node = path.Join(electionPath, first.Text)
	l.Data, _ = srv.Data(l.Node)
	return l
}

// TestElectionsAtRandom has candidates of four sessions come, proclaim and go, and in every other run connections and sessions go
// as well. At most one leads at a time. Observers hear in order, each leader once, and the last one in the end. Where nothing
// breaks, the quick one hears all.
func TestElectionsAtRandom(t *testing.T) {
	for seed := range uint64(eventstest.Amount(6, 60)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) { electAtRandom(t, srv, seed, seed%2 == 1) })
		})
	}
}

func electAtRandom(t *testing.T, srv *zktest.Server, seed uint64, faults bool) {
	t.Helper()
	const steps = 80
	random := rand.New(rand.NewPCG(seed, 1))
	var cs []*coordinator.Coordinator
	for range 4 {
		cs = append(cs, coordtest.Connect(t, srv))
	}
	ctx, end := context.WithCancel(t.Context())
	var following sync.WaitGroup
	chronicles := map[string]*chronicle{}
	observe := func(observer string, c *coordinator.Coordinator, pause func() time.Duration) *chronicle {
		h := &chronicle{}
		chronicles[observer] = h
		following.Go(func() { h.follow(c.Election(electionPath).Observe(ctx), pause) })
		return h
	}
	quick := observe("quick", cs[3], func() time.Duration { return 0 })
	slowly := rand.New(rand.NewPCG(seed, 2))
	observe("slow", cs[3], func() time.Duration { return time.Duration(slowly.Int64N(int64(time.Minute))) })
	observe("candidate", cs[0], func() time.Duration { return 0 })

	var candidates []*coordinator.Acquisition
	var truth []events.Leader
	settle := func(step int) {
		synctest.Wait()
		valid := 0
		for _, a := range candidates {
			if a.Valid() {
				valid++
			}
		}
		if valid > 1 {
			t.Errorf("after step %d there are %d leaders, want at most one", step, valid)
		}
		l := leaderOf(srv)
		if n := len(truth); n == 0 || truth[n-1].Node != l.Node || string(truth[n-1].Data) != string(l.Data) {
			truth = append(truth, l)
		}
	}
	settle(-1)
	for step := range steps {
		c := cs[random.IntN(len(cs))]
		switch what := random.IntN(10); {
		case what < 4 || len(candidates) == 0:
			candidates = append(candidates, c.Election(electionPath).Campaign(context.Background(),
				coordinator.WithData(fmt.Appendf(nil, "candidate of step %d", step))))
		case what < 7:
			i := random.IntN(len(candidates))
			candidates[i].Release()
			candidates = slices.Delete(candidates, i, i+1)
		case what < 8:
			for _, a := range candidates {
				select {
				case <-a.Granted():
				default:
				}
				if a.Valid() {
					proclaim(t, cs, a, fmt.Sprint("word of step ", step), faults)
				}
			}
		case faults:
			breakOne(srv, c.SessionID(), random)
		}
		if !faults || random.IntN(3) == 0 {
			settle(step)
		}
		if faults {
			time.Sleep(time.Duration(random.Int64N(int64(3 * time.Second))))
		}
	}
	time.Sleep(10 * time.Minute)
	settle(steps)
	last := truth[len(truth)-1]
	for observer, h := range chronicles {
		h.check(t, observer)
		heard := h.all()
		if n := len(heard); n == 0 || heard[n-1].Node != last.Node || string(heard[n-1].Data) != string(last.Data) {
			t.Errorf("%s heard %+v at last, want the leader %+v", observer, heard[max(0, n-1):], last)
		}
	}
	if heard := quick.all(); !faults && !slices.EqualFunc(heard, truth, func(a, b events.Leader) bool {
		return a.Node == b.Node && string(a.Data) == string(b.Data)
	}) {
		t.Errorf("the quick observer heard\n%+v\nwant\n%+v", heard, truth)
	}
	end()
	following.Wait()
}

// proclaim has the leader proclaim, through its own coordinator.
func proclaim(t *testing.T, cs []*coordinator.Coordinator, a *coordinator.Acquisition, what string, faults bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for _, c := range cs {
		err := c.Election(electionPath).Proclaim(ctx, a, []byte(what))
		if err == nil || errors.Is(err, coordinator.ErrNotCandidate) {
			continue
		}
		if !faults {
			t.Errorf("proclaiming %q: %v, want nil", what, err)
		}
	}
}

// breakOne breaks something of a session, for a while.
func breakOne(srv *zktest.Server, session int64, random *rand.Rand) {
	wait := time.Duration(random.Int64N(int64(20 * time.Second)))
	switch random.IntN(4) { // no session is ended before its time: its leader would hear of that too late
	case 0:
		srv.Cut(session)
	case 1:
		srv.Mute(session, true)
		time.AfterFunc(wait, func() { srv.Mute(session, false) })
	case 2:
		srv.Lag(session, true)
		time.AfterFunc(wait, func() { srv.Lag(session, false) })
	case 3:
		srv.Down(true)
		time.AfterFunc(wait/10, func() { srv.Down(false) })
	}
}

// realElections has candidates of three sessions lead in turn on a real ensemble. One of them dies with its connection. Observers
// at each server hear of it: in order, each leader with a greater token, and the last one in the end.
func realElections(t *testing.T, e *ensemble.Ensemble) {
	rounds := eventstest.Amount(15, 40)
	ctx := coordtest.RealContext(t)
	chronicles := make([]*chronicle, 3)
	var following, leading sync.WaitGroup
	observing, end := context.WithCancel(ctx)
	for i := range chronicles {
		h := &chronicle{}
		chronicles[i] = h
		seen := coordtest.ConnectReal(t, e.Addr(i)).Election(electionPath).Observe(observing)
		if l := <-seen; l.Node != "" {
			t.Errorf("before the first campaign %+v leads, want no leader", l)
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
			for n := range rounds { // Terms would pause between terms that are so short
				term := election.Campaign(ctx, coordinator.WithData(fmt.Appendf(nil, "candidate %d", i)))
				grant, err := term.Wait(ctx)
				if err != nil {
					t.Errorf("term %d of candidate %d begins with %v, want nil", n, i, err)
					return
				}
				if token := grant.Token; w.token.Swap(token) >= token {
					t.Errorf("candidate %d leads with the token %d, want a greater one than the one before", i, token)
				}
				if w.writers.Add(1); w.writers.Load() != 1 {
					t.Errorf("candidate %d leads beside another one, want it alone", i)
				}
				if err := election.Proclaim(ctx, term, fmt.Appendf(nil, "candidate %d, term %d", i, n)); err != nil {
					t.Errorf("candidate %d proclaims: %v, want nil", i, err)
				}
				w.writers.Add(-1)
				term.Release()
				<-term.Done()
			}
		})
	}
	coordtest.Queued(t, coordtest.RawClient(t, e.Addr(0)), electionPath, 4)
	proxy.Hold(ensemble.BothWays)
	if lost := coordtest.LossOf(t, leader); w.token.Load() != 0 {
		t.Errorf("%+v was told when the next one had led already, want it told before", lost)
	}
	leading.Wait()
	proxy.Heal()
	leader.Release()
	if err := coordtest.EndOf(t, leader); !errors.Is(err, coordinator.ErrLeaseRanOut) {
		t.Errorf("the leader that was cut off ended with %v, want ErrLeaseRanOut", err)
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
			t.Errorf("%s heard from %+v to %+v, want from token %d to the last one, %+v", who, heard[0], heard[len(heard)-1], first.Token, grant)
		}
		t.Logf("%s: %d leaders of %d terms", who, len(heard), 3*rounds+2)
	}
	end()
	following.Wait()
}

// theyHear waits until the observer has heard of this leader, and fails if it hears of one that is none of the others.
func theyHear(t *testing.T, seen <-chan events.Leader, data string, others ...string) {
	t.Helper()
	ctx := coordtest.RealContext(t)
	for {
		select {
		case l, ok := <-seen:
			switch {
			case !ok:
				t.Fatalf("the observer hears no more, want %q", data)
			case string(l.Data) == data:
				return
			case !slices.Contains(others, string(l.Data)):
				t.Errorf("the observer hears of %+v, want %q or one of %q", l, data, others)
			}
		case <-ctx.Done():
			t.Fatalf("the observer does not hear of %q within %v of an idle machine, want it heard", data, coordtest.RealMax)
		}
	}
}

// TestRealObserverBehind observes through a follower that is cut off from its leader: it hears what that follower knows, and the
// rest when the follower is back.
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
	eventstest.Must(t, c.Election(electionPath).Proclaim(ctx, bob, []byte("bob again")))
	if l, ok, _ := coordtest.HeardSoFar(seen); ok {
		t.Errorf("through a follower that is cut off an observer hears %+v, want nothing", l)
	}
	links.Heal(behind)
	theyHear(t, seen, "bob again", "bob")
}

// TestRealObserversWhileServersDie: whichever server an observer is connected to, it hears of the leader once that server is back.
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
	eventstest.Must(t, e.Kill(leader))
	ann.Release()
	bob := coordtest.ConnectReal(t, e.Connect()).Election(electionPath).Campaign(ctx, coordinator.WithData([]byte("bob")))
	coordtest.GrantOf(t, bob)
	eventstest.Must(t, e.Restart(leader))
	for _, seen := range all {
		theyHear(t, seen, "bob", "")
	}
}
