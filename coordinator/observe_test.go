package coordinator_test

import (
	"context"
	"fmt"
	"path"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// said returns the next report that an observer or a watcher has not read yet.
func said[T any](seen <-chan T) (report T, ok, closed bool) {
	synctest.Wait()
	return coordtest.HeardSoFar(seen)
}

// wantLeader fails the test unless the observer was just notified of the leader with this
// data. Empty data: no leader.
func wantLeader(t *testing.T, srv *zktest.Server, seen <-chan events.Leader, data string) {
	t.Helper()
	l, ok, closed := said(seen)
	if !ok || string(l.Data) != data || (data == "") != (l.Node == "") || (data == "") != (l.Token == 0) ||
		data != "" && !srv.Exists(l.Node) {
		t.Fatalf("the observer hears %v, %+v (its channel is closed: %v), want %q, with a node that is there",
			ok, l, closed, data)
	}
}

// wantQuiet fails the test if an observer or a watcher was notified of anything.
func wantQuiet[T any](t *testing.T, when string, seen <-chan T) {
	t.Helper()
	report, ok, closed := said(seen)
	expect(t, !ok && !closed, "%s, and it hears %+v (closed: %v), want nothing", when, report, closed)
}

// isOver fails the test unless the channel of an observer or a watcher is closed.
func isOver[T any](t *testing.T, what string, seen <-chan T) {
	t.Helper()
	_, ok, closed := said(seen)
	if ok { // the one unread report comes first
		_, _, closed = said(seen)
	}
	expect(t, closed, "%s: the channel is open, want it closed", what)
}

// endWithTheirContexts begins observers or watchers whose contexts end before, during and
// after the first look, and wants their channels closed.
func endWithTheirContexts[T any](t *testing.T, begin func(ctx context.Context) <-chan T) {
	t.Helper()
	for i := range 100 {
		ctx, end := context.WithCancel(t.Context())
		if i%3 == 0 {
			end()
		}
		seen := begin(ctx)
		if i%3 == 1 {
			synctest.Wait()
		}
		end()
		isOver(t, "a context that ends", seen)
	}
}

// TestObserversEnd with their context, with the coordinator, and if the path cannot be
// read: the channel is closed.
func TestObserversEnd(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, logs := logged(t, srv, zap.WarnLevel)
		e := c.Election(electionPath)
		endWithTheirContexts(t, e.Observe)
		expectEqual(t, logs.Len(), 0, "warnings of observers that have ended")
		stays := e.Observe(t.Context())
		wantLeader(t, srv, stays, "")
		ann := campaign(c, "ann")
		wantLeader(t, srv, stays, "ann")

		create := func(node string, perms int32) {
			t.Helper()
			_, err := coordtest.Admin(t, srv.Addr(), srv.DialContext).Create(node, nil, zk.FlagPersistent, zk.WorldACL(perms))
			eventstest.Must(t, err)
		}
		isOver(t, "no path", c.Election("service").Observe(t.Context()))
		create("/closed", zk.PermAll&^zk.PermRead)
		isOver(t, "a path that may not be read", c.Election("/closed").Observe(t.Context()))
		create("/hidden", zk.PermAll)
		hidden := c.Election("/hidden").Observe(t.Context())
		wantLeader(t, srv, hidden, "")
		create("/hidden/lock-0000000000", zk.PermAll&^zk.PermRead)
		isOver(t, "a leader that may not be read", hidden)
		expectEqual(t, logs.FilterMessage("cannot read the election's leader").Len(), 3, "warnings about it")
		wantQuiet(t, "other observers have ended", stays)
		coordtest.NotLost(t, ann)
		eventstest.Must(t, c.Close())
		isOver(t, "a coordinator that was closed", stays)
		isOver(t, "a coordinator that is closed", e.Observe(t.Context()))
	})
}

// TestAChangeRightBehindAReading: the event of a change arrives together with the answer
// to a read. Whichever is handled first, the change is not missed.
func TestAChangeRightBehindAReading(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		grant := coordtest.Soon(t, campaign(c, "ann"))
		// Executed, and the watch is armed, but answered late.
		strike(srv, zktest.Delay(time.Second), of(other.SessionID(), zktest.OpGetData))
		for round := range 50 {
			ctx, end := context.WithCancel(t.Context())
			seen := other.Election(electionPath).Observe(ctx)
			wantQuiet(t, "no read is answered yet", seen)
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

// hustings is an election without candidates of ours. The test changes it.
type hustings struct {
	t   *testing.T
	srv *zktest.Server

	mu     sync.Mutex // held during a move, which others may see before it returns
	joined int
}

// move makes a change, if it applies.
func (h *hustings) move(how string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	must := func(err error) { eventstest.Check(h.t, err) }
	const oldest = electionPath + "/lock-0000000000"
	first, there := leaderOf(h.srv), h.srv.Exists(electionPath)
	switch {
	case how == "path" && !there:
		must(h.srv.Create(electionPath, nil))
	case how == "join":
		must(h.srv.Create(fmt.Sprintf("%s/lock-%010d", electionPath, h.joined), fmt.Appendf(nil, "candidate %d", h.joined)))
		h.joined++
	case how == "leave" && first.Node != "":
		must(h.srv.Delete(first.Node))
	case how == "proclaim" && first.Node != "":
		must(h.srv.SetData(first.Node, append(first.Data, '!')))
	case how == "remove" || how == "anew":
		for _, name := range h.srv.Children(electionPath) {
			must(h.srv.Delete(path.Join(electionPath, name)))
		}
		if there {
			must(h.srv.Delete(electionPath))
		}
	}
	if how == "anew" { // a new directory at the path, in which the second candidate has the old leader's name
		h.joined = max(h.joined, 1)
		must(h.srv.Create(oldest, []byte("anew")))
		if first.Node != "" && first.Node != oldest {
			must(h.srv.Create(first.Node, []byte("not the first")))
		}
	}
}

// TestObserveAtEachStep makes a change before each request of an observer, while it
// begins and while something else changes. At the end, the observer knows the leader; its
// reports came in order, and took few requests.
func TestObserveAtEachStep(t *testing.T) {
	const most = 60
	moves := []string{"path", "join", "leave", "proclaim", "remove", "anew"}
	begun := [][]string{nil, {"join", "join", "leave"}, {"path"}, {"join"}, {"join", "join", "join"}}
	for _, at := range begun[:eventstest.Amount(2, len(begun))] {
		for _, then := range moves {
			for _, meanwhile := range append([]string{"cut before", "cut after", "expired"}, moves...) {
				for step, requests := int32(1), int32(1); requests >= step; step++ {
					coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
						h := &hustings{t: t, srv: srv}
						for _, how := range at {
							h.move(how)
						}
						c := coordtest.Connect(t, srv)
						strikes := mishaps()[meanwhile]
						if strikes == nil {
							strikes = func(*zktest.Server, int64) zktest.Action {
								h.move(meanwhile)
								return zktest.Pass()
							}
						}
						seen := strikeNth(srv, step, strikes, isA(zktest.OpExists, zktest.OpGetData, zktest.OpGetChildren2))
						wantTheTruth(t, h, c, then)
						requests = seen.Load()
					})
					if t.Failed() || requests > most {
						t.Fatalf("after %v: %s, and %s at request %d: %d requests, want at most %d", at, then, meanwhile, step, requests, most)
					}
				}
			}
		}
	}
}

// wantTheTruth observes while changes are made, and checks that the observer knows the
// leader at the end, with reports in order and none repeated.
func wantTheTruth(t *testing.T, h *hustings, c *coordinator.Coordinator, then string) {
	t.Helper()
	seen := c.Election(electionPath).Observe(t.Context())
	var heard []events.Leader
	listen := func() {
		time.Sleep(time.Minute)
		for l, ok, _ := said(seen); ok; l, ok, _ = said(seen) {
			heard = append(heard, l)
		}
	}
	listen()
	h.move(then)
	listen()
	checkHeard(t, "the observer", heard, leaderOf(h.srv))
}

// TestWhatObserversCost: nothing while candidates behind the leader come and go, and the
// same for any number of observers in one coordinator.
func TestWhatObserversCost(t *testing.T) {
	for _, observers := range []int{1, 100} {
		coordtest.Case(t, fmt.Sprint(observers), func(t *testing.T, srv *zktest.Server) {
			cs, ms := coordtest.Metered(t, srv, 1)
			c := coordtest.Connect(t, srv)
			var seen []<-chan events.Leader
			observe := func(n int) {
				for range n {
					seen = append(seen, cs[0].Election(electionPath).Observe(t.Context()))
				}
			}
			costs := func(what string, requests, evs int, change func()) {
				t.Helper()
				n := coordtest.Cost(ms, change)
				expect(t, n.Requests == requests && n.Events == evs,
					"%s: %+v, want %d requests and %d events", what, n, requests, evs)
			}
			all := func(data string) {
				t.Helper()
				for _, s := range seen {
					wantLeader(t, srv, s, data)
				}
			}
			costs("to begin without a path", 2, 0, func() { observe(1) }) // list, and watch for the path
			costs("another observer", 0, 0, func() { observe(observers - 1) })
			all("")
			// List, and list again with a watch.
			costs("a path", 2, 1, func() { eventstest.Must(t, srv.Create(electionPath, nil)) })
			var ann, bob, cleo, dan *coordinator.Acquisition
			costs("a leader", 2, 1, func() { ann = campaign(c, "ann") }) // list, read
			all("ann")
			costs("candidates", 0, 0, func() {
				bob, cleo, dan = campaign(c, "bob"), campaign(c, "cleo"), campaign(c, "dan")
			})
			costs("one that leaves", 0, 0, cleo.Release)
			costs("a word", 1, 1, func() { eventstest.Must(t, ann.SetData(t.Context(), []byte("ann again"))) }) // read
			all("ann again")
			costs("another leader", 2, 1, ann.Release) // list, read
			all("bob")
			costs("one that leaves from behind", 0, 0, dan.Release)
			costs("no leader", 2, 1, bob.Release) // list, and list again with a watch
			all("")
			costs("an hour", 0, 0, func() { time.Sleep(time.Hour) })
		})
	}
}

// TestObserversLeaveOneWatch for the next observer to use, and none once it has fired.
func TestObserversLeaveOneWatch(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs, ms := coordtest.Metered(t, srv, 1)
		c := coordtest.Connect(t, srv)
		ann := campaign(c, "ann")
		coordtest.Soon(t, ann)
		time.Sleep(time.Minute) // by now its own node is watched
		before := srv.Watches()
		for range 1000 {
			ctx, end := context.WithCancel(t.Context())
			wantLeader(t, srv, cs[0].Election(electionPath).Observe(ctx), "ann")
			end()
			synctest.Wait()
		}
		expectEqual(t, srv.Watches()-before, 1, "watches that are left after a thousand observers")
		asked := coordtest.Cost(ms, ann.Release)
		expectEqual(t, srv.Watches(), 0, "watches when the leader has gone")
		expect(t, asked.Requests == 0 && asked.Events == 1, "its end took %+v, want one event", asked)
		seen := cs[0].Election(electionPath).Observe(t.Context())
		wantLeader(t, srv, seen, "")
		campaign(c, "bob")
		wantLeader(t, srv, seen, "bob")
	})
}

// checkHeard fails the test if an observer heard of a past leader again, of a smaller
// token or of the same leader twice in a row, or if the last report is not this leader.
// The token distinguishes leaders of the same name.
func checkHeard(t *testing.T, observer string, heard []events.Leader, leader events.Leader) {
	t.Helper()
	var last events.Leader
	var token int64
	for i, l := range heard {
		switch {
		case i > 0 && l.Node == last.Node && l.Token == last.Token && string(l.Data) == string(last.Data):
			t.Errorf("%s heard %+v twice in a row, want it once", observer, l)
		case l.Token != 0 && (l.Token < token || l.Token == token && l.Node != last.Node):
			t.Errorf("%s heard %+v after %+v, want a greater token", observer, l, last)
		}
		last, token = l, max(token, l.Token)
	}
	expect(t, len(heard) > 0 && last.Node == leader.Node && string(last.Data) == string(leader.Data),
		"%s heard %+v at last, want the leader %+v", observer, last, leader)
}

// leaderOf returns the leader according to the server's nodes.
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

// realElections lets candidates of three sessions lead in turn on a real ensemble. An
// observer at each server hears of the leaders in order, with growing tokens, and of the
// last one at the end.
func realElections(t *testing.T, e *ensemble.Ensemble) {
	rounds, ctx := eventstest.Amount(15, 40), coordtest.RealContext(t)
	var heard [3][]events.Leader // by the observer at each server
	var following, leading sync.WaitGroup
	for i := range heard {
		seen := coordtest.ConnectReal(t, e.Addr(i)).Election(electionPath).Observe(ctx)
		expectEqual(t, (<-seen).Node, "", "the leader before the first campaign")
		following.Go(func() {
			for l := range seen {
				if heard[i] = append(heard[i], l); string(l.Data) == "last" {
					return
				}
			}
		})
	}
	var token, ahead atomic.Int64
	for i := range 3 {
		election := coordtest.ConnectReal(t, e.Addr(i)).Election(electionPath)
		leading.Go(func() {
			for n := range rounds { // Terms would pause between such short terms
				term := election.Acquire(ctx, named(fmt.Sprint("candidate ", i)))
				grant, err := term.Wait(ctx)
				eventstest.Check(t, err)
				expect(t, token.Swap(grant.Token) < grant.Token && ahead.Add(1) == 1,
					"candidate %d leads with the token %d, want a greater one, and to lead alone", i, grant.Token)
				eventstest.Check(t, term.SetData(ctx, fmt.Appendf(nil, "candidate %d, term %d", i, n)))
				ahead.Add(-1)
				coordtest.End(term)
			}
		})
	}
	leading.Wait()
	last := coordtest.ConnectReal(t, e.Connect()).Election(electionPath).Acquire(ctx, named("last"))
	leader := events.Leader{Node: coordtest.GrantOf(t, last).Node, Data: []byte("last")}
	following.Wait()
	for i := range heard {
		checkHeard(t, fmt.Sprint("observer ", i), heard[i], leader)
		t.Logf("observer %d: %d leaders of %d terms", i, len(heard[i]), 3*rounds+1)
	}
}
