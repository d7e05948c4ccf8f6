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
	"github.com/zkgrant/zkgrant/session/zktest"
)

// chronicle is what one observer has heard.
type chronicle struct {
	mu    sync.Mutex
	heard []events.Leader
}

// follow reads until the channel is closed, and waits so long behind each word.
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

// check fails the test if somebody leads again who did not any more, if a token goes back, or if something is said twice. The
// Leader of a node is told apart from that of another one by its token.
func (c *chronicle) check(t *testing.T, who string) {
	t.Helper()
	var last events.Leader
	var token int64
	for i, l := range c.all() {
		switch {
		case i > 0 && l.Node == last.Node && l.Token == last.Token && string(l.Data) == string(last.Data):
			t.Errorf("%s: said twice: %+v", who, l)
		case l.Token != 0 && (l.Token < token || l.Token == token && l.Node != last.Node):
			t.Errorf("%s: %+v behind %+v", who, l, last)
		}
		last, token = l, max(token, l.Token)
	}
}

// leaderOf returns who leads, as the server has it.
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

// TestElectionsAtRandom has candidates of four sessions come, speak and go, and in every other run connections and
// sessions go as well. At most one leads at a time. Observers hear in order, each leader once, and the last one in the end; and
// where nothing breaks, the quick one hears all.
func TestElectionsAtRandom(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) { electAtRandom(t, srv, seed, seed%2 == 1) })
		})
	}
}

func electAtRandom(t *testing.T, srv *zktest.Server, seed uint64, faults bool) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	var cs []*coordinator.Coordinator
	for range 4 {
		cs = append(cs, coordtest.Connect(t, srv))
	}
	ctx, end := context.WithCancel(t.Context())
	var following sync.WaitGroup
	chronicles := map[string]*chronicle{}
	observe := func(who string, c *coordinator.Coordinator, pause func() time.Duration) *chronicle {
		h := &chronicle{}
		chronicles[who] = h
		following.Go(func() { h.follow(c.Election(electionPath).Observe(ctx), pause) })
		return h
	}
	quick := observe("quick", cs[3], func() time.Duration { return 0 })
	slowly := rand.New(rand.NewPCG(seed, 2))
	observe("slow", cs[3], func() time.Duration { return time.Duration(slowly.Int64N(int64(time.Minute))) })
	observe("candidate", cs[0], func() time.Duration { return 0 })

	var candidates []*coordinator.Acquisition
	var truth []events.Leader
	settle := func() {
		synctest.Wait()
		valid := 0
		for _, a := range candidates {
			if a.Valid() {
				valid++
			}
		}
		if valid > 1 {
			t.Errorf("%d lead", valid)
		}
		l := leaderOf(srv)
		if n := len(truth); n == 0 || truth[n-1].Node != l.Node || string(truth[n-1].Data) != string(l.Data) {
			truth = append(truth, l)
		}
	}
	settle()
	for step := range 80 {
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
			settle()
		}
		if faults {
			time.Sleep(time.Duration(random.Int64N(int64(3 * time.Second))))
		}
	}
	time.Sleep(10 * time.Minute)
	settle()
	last := truth[len(truth)-1]
	for who, h := range chronicles {
		h.check(t, who)
		heard := h.all()
		if n := len(heard); n == 0 || heard[n-1].Node != last.Node || string(heard[n-1].Data) != string(last.Data) {
			t.Errorf("%s: heard %+v at last, and %+v leads", who, heard[max(0, n-1):], last)
		}
	}
	if heard := quick.all(); !faults && !slices.EqualFunc(heard, truth, func(a, b events.Leader) bool {
		return a.Node == b.Node && string(a.Data) == string(b.Data)
	}) {
		t.Errorf("heard\n%+v\nand not\n%+v", heard, truth)
	}
	end()
	following.Wait()
}

// proclaim has the leader say something, by whichever coordinator it is of.
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
			t.Errorf("%s: %v", what, err)
		}
	}
}

// breakOne breaks something of a session, for a while.
func breakOne(srv *zktest.Server, session int64, random *rand.Rand) {
	wait := time.Duration(random.Int64N(int64(20 * time.Second)))
	switch random.IntN(4) { // nobody ends a session before its time: then a leader would hear of it too late
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
