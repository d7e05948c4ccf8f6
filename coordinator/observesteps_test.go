package coordinator_test

import (
	"fmt"
	"path"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// hustings is an election of nobody's, which the test moves.
type hustings struct {
	srv *zktest.Server

	mu     sync.Mutex // held while something is moved, which is seen before it is done
	joined int
}

// first returns who leads; empty: nobody.
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
	case "anew": // another path of the same name, in which the leader's name is that of one who comes second
		h.moving("remove")
		h.joined = max(h.joined, 1)
		must(h.srv.Create(electionPath+"/lock-0000000000", []byte("anew")))
		if first != "" && path.Base(first) != "lock-0000000000" {
			must(h.srv.Create(first, []byte("not the first")))
		}
	}
}

// TestObserveAtEachStep has something happen before each request that an observer makes, while it begins and while
// something else happens. In the end it has heard who leads, in order and within a few requests.
func TestObserveAtEachStep(t *testing.T) {
	const most = 60
	moves := []string{"path", "join", "leave", "proclaim", "remove", "anew"}
	breaks := []string{"cut before", "cut after", "expire"}
	fired := 0
	for _, at := range [][]string{nil, {"path"}, {"join"}, {"join", "join", "leave"}, {"join", "join", "join"}} {
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
						t.Fatalf("from %v, %s with %s at request %d: %d requests", at, then, meanwhile, step, requests)
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

// wantTheTruth observes while something happens, and wants to have heard who leads in the end, and nobody twice.
func wantTheTruth(t *testing.T, h *hustings, c *coordinator.Coordinator, then string) {
	t.Helper()
	seen := c.Election(electionPath).Observe(t.Context())
	var last events.Leader
	var token int64
	words := 0
	listen := func() {
		time.Sleep(time.Minute)
		for {
			l, ok, _ := said(seen)
			if !ok {
				return
			}
			switch {
			case words > 0 && l.Node == last.Node && l.Token == last.Token && string(l.Data) == string(last.Data):
				t.Errorf("said twice: %+v", l)
			case l.Token != 0 && (l.Token < token || l.Token == token && l.Node != last.Node):
				t.Errorf("%+v leads behind %+v", l, last)
			}
			last, token, words = l, max(token, l.Token), words+1
		}
	}
	listen()
	h.move(then)
	listen()
	data, _ := h.srv.Data(h.first())
	if node := h.first(); words == 0 || last.Node != node || node != "" && string(last.Data) != string(data) {
		t.Errorf("%d words, the last %+v; %q leads with %q", words, last, node, data)
	}
}
