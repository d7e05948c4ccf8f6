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

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// said is what an observer has heard and not read yet.
func said(seen <-chan events.Leader) (l events.Leader, ok, closed bool) {
	synctest.Wait()
	return coordtest.HeardSoFar(seen)
}

// wantLeader fails the test unless the observer was just told of the leader with this data. An empty text: no leader.
func wantLeader(t *testing.T, srv *zktest.Server, seen <-chan events.Leader, data string) (l events.Leader) {
	t.Helper()
	l, ok, closed := said(seen)
	switch {
	case !ok || closed:
		t.Fatalf("the observer hears nothing (its channel is closed: %v), want %q", closed, data)
	case string(l.Data) != data || (data == "") != (l.Node == "") || (data == "") != (l.Token == 0):
		t.Fatalf("the observer hears that %+v leads, want %q", l, data)
	case data != "" && !srv.Exists(l.Node):
		t.Fatalf("the observer hears that %+v leads, and its node is gone; want one that is there", l)
	}
	return l
}

// wantQuiet fails the test if the observer was told anything.
func wantQuiet(t *testing.T, seen <-chan events.Leader) {
	t.Helper()
	if l, ok, closed := said(seen); ok || closed {
		t.Fatalf("the observer hears %+v (its channel is closed: %v), want nothing", l, closed)
	}
}

// TestObserversEnd with their contexts, with the coordinator, and where the path cannot be read: the channel is closed.
func TestObserversEnd(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		core, logs := observer.New(zap.WarnLevel)
		c := coordtest.Connect(t, srv, coordinator.WithLogger(zap.New(core)))
		e := c.Election(electionPath)
		over, end := context.WithCancel(t.Context())
		end()
		isOver := func(what string, seen <-chan events.Leader) {
			t.Helper()
			if _, ok, _ := said(seen); ok {
				said(seen) // what was not read yet comes before
			}
			if _, _, closed := said(seen); !closed {
				t.Errorf("%s: the channel is open, want it closed", what)
			}
		}
		isOver("a context that is over", e.Observe(over))
		some, end := context.WithCancel(t.Context())
		ends, stays := e.Observe(some), e.Observe(t.Context())
		wantLeader(t, srv, ends, "")
		wantLeader(t, srv, stays, "")
		end()
		isOver("a context that ends", ends)
		ann := campaign(c, "ann")
		wantLeader(t, srv, stays, "ann")
		for i := range 100 { // before, while and after it is first looked
			short, end := context.WithCancel(t.Context())
			seen := e.Observe(short)
			if i%2 == 0 {
				synctest.Wait()
			}
			end()
			isOver("one of many", seen)
		}
		if n := logs.Len(); n != 0 {
			t.Errorf("observers that have ended led to %d warnings, want none", n)
		}
		isOver("no path", c.Election("service").Observe(t.Context()))

		adm := coordtest.Admin(t, srv.Addr(), srv.DialContext)
		if _, err := adm.Create("/closed", nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll&^zk.PermRead)); err != nil {
			t.Fatal(err)
		}
		isOver("a path that may not be read", c.Election("/closed").Observe(t.Context()))
		if _, err := c.Election("/closed").Queue(t.Context()); !errors.Is(err, coordinator.ErrNoAuth) {
			t.Errorf("Queue of a path that may not be read: %v, want ErrNoAuth", err)
		}
		if _, err := adm.Create("/hidden", nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		hidden := c.Election("/hidden").Observe(t.Context())
		wantLeader(t, srv, hidden, "")
		if _, err := adm.Create("/hidden/lock-0000000000", nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll&^zk.PermRead)); err != nil {
			t.Fatal(err)
		}
		isOver("a leader that may not be read", hidden)
		if n := logs.FilterMessage("cannot read the election's leader").Len(); n != 3 {
			t.Errorf("%d warnings that the leader cannot be seen, want 3", n)
		}
		wantQuiet(t, stays)
		if !ann.Valid() {
			t.Error("the leader has lost the election to its observers, want it held")
		}
		eventstest.Must(t, c.Close())
		isOver("a coordinator that was closed", stays)
		isOver("a coordinator that is closed", e.Observe(t.Context()))
	})
}

// TestAChangeRightBehindAReading: its event comes together with the answer. Whichever is handled first, the change is not
// overlooked.
func TestAChangeRightBehindAReading(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		ann := campaign(c, "ann")
		grant := coordtest.Soon(t, ann)
		session := other.SessionID()
		srv.Intercept(func(q zktest.Request) zktest.Action {
			if q.Session == session && q.Op == zktest.OpGetData {
				return zktest.Delay(time.Second) // it is executed, and the watch armed
			}
			return zktest.Pass()
		})
		for round := range 50 {
			ctx, end := context.WithCancel(t.Context())
			seen := other.Election(electionPath).Observe(ctx)
			wantQuiet(t, seen)
			word := fmt.Sprint("word ", round)
			eventstest.Must(t, srv.SetData(grant.Node, []byte(word)))
			time.Sleep(time.Minute)
			wantLeader(t, srv, seen, word)
			end()
			synctest.Wait()
			eventstest.Must(t, srv.SetData(grant.Node, []byte("nothing is armed any more")))
			synctest.Wait()
		}
	})
}

// hustings is an election without candidates of ours, which the test moves.
type hustings struct {
	srv *zktest.Server

	mu     sync.Mutex // held while something is moved, which is seen before it is done
	joined int
}

// first returns the leader's node; empty: there is no leader.
func (h *hustings) first() string {
	names := h.srv.Children(electionPath) // they are made with numbers of ten digits, and nothing else
	slices.Sort(names)
	if len(names) == 0 {
		return ""
	}
	return path.Join(electionPath, names[0])
}

// move changes something, if there is anything to change.
func (h *hustings) move(how string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.moving(how)
}

func (h *hustings) moving(how string) {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	first := h.first()
	switch how {
	case "path":
		if !h.srv.Exists(electionPath) {
			must(h.srv.Create(electionPath, nil))
		}
	case "join":
		must(h.srv.Create(fmt.Sprintf("%s/lock-%010d", electionPath, h.joined), fmt.Appendf(nil, "candidate %d", h.joined)))
		h.joined++
	case "leave":
		if first != "" {
			must(h.srv.Delete(first))
		}
	case "proclaim":
		if first != "" {
			data, _ := h.srv.Data(first)
			must(h.srv.SetData(first, append(data, '!')))
		}
	case "remove":
		for _, name := range h.srv.Children(electionPath) {
			must(h.srv.Delete(path.Join(electionPath, name)))
		}
		if h.srv.Exists(electionPath) {
			must(h.srv.Delete(electionPath))
		}
	case "anew": // another path of the same name, in which the second candidate has the leader's name
		h.moving("remove")
		h.joined = max(h.joined, 1)
		must(h.srv.Create(electionPath+"/lock-0000000000", []byte("anew")))
		if first != "" && path.Base(first) != "lock-0000000000" {
			must(h.srv.Create(first, []byte("not the first")))
		}
	}
}

// TestObserveAtEachStep makes a change before each request of an observer, while it begins and while something else changes. In the
// end it has heard of the leader, in order and within a few requests.
func TestObserveAtEachStep(t *testing.T) {
	const most = 60
	moves := []string{"path", "join", "leave", "proclaim", "remove", "anew"}
	breaks := []string{"cut before", "cut after", "expire"}
	fired := 0
	begun := [][]string{nil, {"join", "join", "leave"}, {"path"}, {"join"}, {"join", "join", "join"}}
	for _, at := range begun[:eventstest.Amount(2, len(begun))] {
		for _, then := range moves {
			for _, meanwhile := range slices.Concat(moves, breaks) {
				for step := 1; ; step++ {
					requests := 0
					coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
						h := &hustings{srv: srv}
						for _, how := range at {
							h.move(how)
						}
						c := coordtest.Connect(t, srv)
						srv.Intercept(func(q zktest.Request) zktest.Action {
							if q.Op != zktest.OpExists && q.Op != zktest.OpGetData && q.Op != zktest.OpGetChildren2 {
								return zktest.Pass()
							}
							if requests++; requests != step {
								return zktest.Pass()
							}
							switch meanwhile {
							case "cut before":
								return zktest.CutBefore()
							case "cut after":
								return zktest.CutAfter()
							case "expire":
								_ = srv.Expire(q.Session)
							default:
								h.move(meanwhile)
							}
							return zktest.Pass()
						})
						wantTheTruth(t, h, c, then)
					})
					if t.Failed() || requests > most {
						t.Fatalf("after %v: %s, and %s at request %d: %d requests, want at most %d", at, then, meanwhile, step, requests, most)
					}
					if requests < step {
						break
					}
					fired++
				}
			}
		}
	}
	t.Logf("%d times something happened", fired)
}

// wantTheTruth observes while changes come, and wants to have heard of the leader in the end, in order and nothing twice.
func wantTheTruth(t *testing.T, h *hustings, c *coordinator.Coordinator, then string) {
	t.Helper()
	seen := c.Election(electionPath).Observe(t.Context())
	heard := &chronicle{}
	listen := func() {
		time.Sleep(time.Minute)
		for l, ok, _ := said(seen); ok; l, ok, _ = said(seen) {
			heard.heard = append(heard.heard, l)
		}
	}
	listen()
	h.move(then)
	listen()
	heard.check(t, "the observer")
	var last events.Leader
	if n := len(heard.heard); n > 0 {
		last = heard.heard[n-1]
	}
	data, _ := h.srv.Data(h.first())
	if node := h.first(); len(heard.heard) == 0 || last.Node != node || node != "" && string(last.Data) != string(data) {
		t.Errorf("the observer heard %d leaders, the last %+v, want %q with %q", len(heard.heard), last, node, data)
	}
}

// TestWhatObserversCost: nothing while others come and go behind the leader, and the same for any number of observers in one
// coordinator.
func TestWhatObserversCost(t *testing.T) {
	for _, observers := range []int{1, 100} {
		t.Run(fmt.Sprint(observers), func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				cs, ms := coordtest.Metered(t, srv, 1)
				c := coordtest.Connect(t, srv)
				var seen []<-chan events.Leader
				costs := func(what string, requests, evs int, change func()) {
					t.Helper()
					before := ms[0].Read()
					change()
					if n := ms[0].Read().Minus(before); n.Requests != requests || n.Events != evs {
						t.Errorf("%s: %+v, want %d requests and %d events", what, n, requests, evs)
					}
				}
				all := func(data string) {
					t.Helper()
					for _, s := range seen {
						wantLeader(t, srv, s, data)
					}
				}
				costs("to begin without a path", 2, 0, func() { // list, and watch for the path
					seen = append(seen, cs[0].Election(electionPath).Observe(t.Context()))
				})
				costs("another observer", 0, 0, func() {
					for range observers - 1 {
						seen = append(seen, cs[0].Election(electionPath).Observe(t.Context()))
					}
				})
				all("")
				costs("a path", 2, 1, func() { // list, and list again with a watch
					eventstest.Must(t, srv.Create(electionPath, nil))
				})
				var ann, bob, cleo, dan *coordinator.Acquisition
				costs("a leader", 2, 1, func() { ann = campaign(c, "ann") }) // list, read
				all("ann")
				costs("candidates", 0, 0, func() { bob, cleo, dan = campaign(c, "bob"), campaign(c, "cleo"), campaign(c, "dan") })
				costs("one that leaves", 0, 0, func() { cleo.Release() })
				costs("a word", 1, 1, func() { // read
					eventstest.Must(t, c.Election(electionPath).Proclaim(t.Context(), ann, []byte("ann again")))
				})
				all("ann again")
				costs("another leader", 2, 1, func() { ann.Release() }) // list, read
				all("bob")
				costs("one that leaves from behind", 0, 0, func() { dan.Release() })
				costs("no leader", 2, 1, func() { bob.Release() }) // list, and list again with a watch
				all("")
				costs("an hour", 0, 0, func() { time.Sleep(time.Hour) })
			})
		})
	}
}

// TestObserversLeaveOneWatch behind, which the next one uses, and nothing when it has fired.
func TestObserversLeaveOneWatch(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs, ms := coordtest.Metered(t, srv, 1)
		c := coordtest.Connect(t, srv)
		ann := campaign(c, "ann")
		coordtest.Soon(t, ann)
		time.Sleep(time.Minute) // its own node is watched by now
		before := srv.Watches()
		for range 1000 {
			ctx, end := context.WithCancel(t.Context())
			wantLeader(t, srv, cs[0].Election(electionPath).Observe(ctx), "ann")
			end()
			synctest.Wait()
		}
		if n := srv.Watches() - before; n != 1 {
			t.Errorf("after a thousand observers %d watches are left, want 1", n)
		}
		sent := ms[0].Read()
		ann.Release()
		synctest.Wait()
		if n, asked := srv.Watches(), ms[0].Read().Minus(sent); n != 0 || asked.Requests != 0 || asked.Events != 1 {
			t.Errorf("when the leader has gone there are %d watches, after %+v; want none, one event and no request", n, asked)
		}
		seen := cs[0].Election(electionPath).Observe(t.Context())
		wantLeader(t, srv, seen, "")
		campaign(c, "bob")
		wantLeader(t, srv, seen, "bob")
	})
}

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
			terms := 0
			for term, err := range election.Terms(ctx, coordinator.WithData(fmt.Appendf(nil, "candidate %d", i))) {
				if err != nil {
					t.Errorf("a term of candidate %d begins with %v, want nil", i, err)
					return
				}
				if token := term.Grant().Token; w.token.Swap(token) >= token {
					t.Errorf("candidate %d leads with the token %d, want a greater one than the one before", i, token)
				}
				if w.writers.Add(1); w.writers.Load() != 1 {
					t.Errorf("candidate %d leads beside another one, want it alone", i)
				}
				if err := election.Proclaim(ctx, term, fmt.Appendf(nil, "candidate %d, term %d", i, terms)); err != nil {
					t.Errorf("candidate %d proclaims: %v, want nil", i, err)
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
