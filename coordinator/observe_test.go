package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"
	"sync/atomic"
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

// wantLeader fails the test unless the observer was just told of the leader with this
// data. An empty text: no leader.
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

// TestObserversEnd with their contexts, with the coordinator, and where the path cannot
// be read: the channel is closed.
func TestObserversEnd(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		core, logs := observer.New(zap.WarnLevel)
		c := coordtest.Connect(t, srv, coordinator.WithLogger(zap.New(core)))
		e := c.Election(electionPath)
		isOver := func(what string, seen <-chan events.Leader) {
			t.Helper()
			if _, ok, _ := said(seen); ok {
				said(seen) // what was not read yet comes before
			}
			if _, _, closed := said(seen); !closed {
				t.Errorf("%s: the channel is open, want it closed", what)
			}
		}
		for i := range 100 { // before, while and after it is first looked
			short, end := context.WithCancel(t.Context())
			if i%3 == 0 {
				end()
			}
			seen := e.Observe(short)
			if i%3 == 1 {
				wantLeader(t, srv, seen, "")
			}
			end()
			isOver("a context that ends", seen)
		}
		if n := logs.Len(); n != 0 {
			t.Errorf("observers that have ended led to %d warnings, want none", n)
		}
		stays := e.Observe(t.Context())
		wantLeader(t, srv, stays, "")
		ann := campaign(c, "ann")
		wantLeader(t, srv, stays, "ann")

		create := func(node string, perms int32) {
			t.Helper()
			_, err := coordtest.Admin(t, srv.Addr(), srv.DialContext).Create(node, nil, zk.FlagPersistent, zk.WorldACL(perms))
			eventstest.Must(t, err)
		}
		isOver("no path", c.Election("service").Observe(t.Context()))
		create("/closed", zk.PermAll&^zk.PermRead)
		isOver("a path that may not be read", c.Election("/closed").Observe(t.Context()))
		if _, err := c.Election("/closed").Queue(t.Context()); !errors.Is(err, coordinator.ErrNoAuth) {
			t.Errorf("Queue of a path that may not be read: %v, want ErrNoAuth", err)
		}
		create("/hidden", zk.PermAll)
		hidden := c.Election("/hidden").Observe(t.Context())
		wantLeader(t, srv, hidden, "")
		create("/hidden/lock-0000000000", zk.PermAll&^zk.PermRead)
		isOver("a leader that may not be read", hidden)
		if n := logs.FilterMessage("cannot read the election's leader").Len(); n != 3 {
			t.Errorf("%d warnings that the leader cannot be seen, want 3", n)
		}
		wantQuiet(t, stays)
		coordtest.NotLost(t, ann)
		eventstest.Must(t, c.Close())
		isOver("a coordinator that was closed", stays)
		isOver("a coordinator that is closed", e.Observe(t.Context()))
	})
}

// TestAChangeRightBehindAReading: its event comes together with the answer. Whichever is
// handled first, the change is not overlooked.
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
	first := leaderOf(h.srv)
	switch how {
	case "path":
		if !h.srv.Exists(electionPath) {
			must(h.srv.Create(electionPath, nil))
		}
	case "join":
		must(h.srv.Create(fmt.Sprintf("%s/lock-%010d", electionPath, h.joined), fmt.Appendf(nil, "candidate %d", h.joined)))
		h.joined++
	case "leave":
		if first.Node != "" {
			must(h.srv.Delete(first.Node))
		}
	case "proclaim":
		if first.Node != "" {
			must(h.srv.SetData(first.Node, append(first.Data, '!')))
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
		if first.Node != "" && path.Base(first.Node) != "lock-0000000000" {
			must(h.srv.Create(first.Node, []byte("not the first")))
		}
	}
}

// TestObserveAtEachStep makes a change before each request of an observer, while it
// begins and while something else changes. In the end it has heard of the leader, in
// order and within a few requests.
func TestObserveAtEachStep(t *testing.T) {
	const most = 60
	moves := []string{"path", "join", "leave", "proclaim", "remove", "anew"}
	begun := [][]string{nil, {"join", "join", "leave"}, {"path"}, {"join"}, {"join", "join", "join"}}
	for _, at := range begun[:eventstest.Amount(2, len(begun))] {
		for _, then := range moves {
			for _, meanwhile := range append([]string{"cut before", "cut after", "expire"}, moves...) {
				for step, requests := 1, 1; requests >= step; step++ {
					requests = 0
					coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
						h := &hustings{srv: srv}
						for _, how := range at {
							h.move(how)
						}
						c := coordtest.Connect(t, srv)
						srv.Intercept(func(q zktest.Request) zktest.Action {
							if !isA(zktest.OpExists, zktest.OpGetData, zktest.OpGetChildren2)(q) {
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
				}
			}
		}
	}
}

// wantTheTruth observes while changes come, and wants to have heard of the leader in the
// end, in order and nothing twice.
func wantTheTruth(t *testing.T, h *hustings, c *coordinator.Coordinator, then string) {
	t.Helper()
	seen, heard := c.Election(electionPath).Observe(t.Context()), &chronicle{}
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
	heard.wantLast(t, "the observer", leaderOf(h.srv))
}

// TestWhatObserversCost: nothing while others come and go behind the leader, and the same
// for any number of observers in one coordinator.
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
					eventstest.Must(t, ann.SetData(t.Context(), []byte("ann again")))
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

// TestObserversLeaveOneWatch behind, which the next one uses, and nothing when it has
// fired.
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

// follow reads until the channel is closed.
func (c *chronicle) follow(seen <-chan events.Leader) {
	for l := range seen {
		c.mu.Lock()
		c.heard = append(c.heard, l)
		c.mu.Unlock()
	}
}

func (c *chronicle) all() []events.Leader {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.heard)
}

// check fails the test if a past leader leads again, if a token goes back, or if a leader
// is told twice. The token tells a leader apart from another of the same name.
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

// wantLast checks that the observer has heard of the leader at last.
func (c *chronicle) wantLast(t *testing.T, observer string, leader events.Leader) {
	t.Helper()
	if heard := c.all(); len(heard) == 0 || !sameLeader(heard[len(heard)-1], leader) {
		t.Errorf("%s heard %+v at last, want the leader %+v", observer, heard[max(0, len(heard)-1):], leader)
	}
}

// sameLeader reports whether two are one, with one word.
func sameLeader(a, b events.Leader) bool { return a.Node == b.Node && string(a.Data) == string(b.Data) }

// leaderOf returns the leader, as the server has it.
func leaderOf(srv *zktest.Server) (l events.Leader) {
	var first events.Name
	for _, child := range srv.Children(electionPath) {
		if n, ok := events.ParseName(child); ok && (first.Text == "" || events.CompareNames(n, first) < 0) {
			first = n
		}
	}
	if first.Text != "" {
		l.Node = path.Join(electionPath, first.Text)
		l.Data, _ = srv.Data(l.Node)
	}
	return l
}

// realElections has candidates of three sessions lead in turn on a real ensemble.
// Observers at each server hear of it: in order, each leader with a greater token, and
// the last one in the end.
func realElections(t *testing.T, e *ensemble.Ensemble) {
	rounds, ctx := eventstest.Amount(15, 40), coordtest.RealContext(t)
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
		following.Go(func() { h.follow(seen) })
	}
	var token, ahead atomic.Int64
	for i := range 3 {
		election := coordtest.ConnectReal(t, e.Addr(i)).Election(electionPath)
		leading.Go(func() {
			for n := range rounds { // Terms would pause between terms that are so short
				term := election.Acquire(ctx, named(fmt.Sprint("candidate ", i)))
				grant, err := term.Wait(ctx)
				if err != nil {
					t.Errorf("term %d of candidate %d begins with %v, want nil", n, i, err)
					return
				}
				if token.Swap(grant.Token) >= grant.Token || ahead.Add(1) != 1 {
					t.Errorf("candidate %d leads with the token %d, want a greater one than the one before, and to lead alone",
						i, grant.Token)
				}
				eventstest.Check(t, term.SetData(ctx, fmt.Appendf(nil, "candidate %d, term %d", i, n)))
				ahead.Add(-1)
				coordtest.End(term)
			}
		})
	}
	leading.Wait()
	last := coordtest.ConnectReal(t, e.Connect()).Election(electionPath).Acquire(ctx, named("last"))
	leader := events.Leader{Node: coordtest.GrantOf(t, last).Node, Data: []byte("last")}
	for i, h := range chronicles {
		who := fmt.Sprint("observer ", i)
		eventstest.Eventually(t, who+" hears of the last", func() bool {
			heard := h.all()
			return len(heard) > 0 && heard[len(heard)-1].Node == leader.Node
		})
		h.check(t, who)
		h.wantLast(t, who, leader)
		t.Logf("%s: %d leaders of %d terms", who, len(h.all()), 3*rounds+1)
	}
	end()
	following.Wait()
}
