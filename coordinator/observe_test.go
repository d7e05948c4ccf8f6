package coordinator_test

import (
	"context"
	"errors"
	"fmt"
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
