package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/examples/internal/program"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// play runs the contenders during f, in virtual time on a server in memory, with a
// session timeout of 4 s.
func play(t *testing.T, f func(t *testing.T, s *stage)) {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) {
		where, closed, err := inside(4 * time.Second)
		eventstest.Must(t, err)
		begin(t, where, f)
		left := where.zk.Inside.Sessions()
		eventstest.Expect(t, len(left) == 0, "sessions left: %#x, want none", left)
		time.Sleep(10 * time.Minute) // the server removes empty directories periodically
		nodes := where.zk.Inside.Tree()
		eventstest.Expect(t, len(nodes) == 0, "nodes left: %q, want none", nodes)
		eventstest.Must(t, closed())
	})
}

func begin(t *testing.T, where *servers, f func(t *testing.T, s *stage)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := newStage(where, []string{"ann", "bob", "cid"})
	ended := make(chan error, 1)
	go func() { ended <- s.play(ctx) }()
	for _, name := range s.names {
		s.await(ctx, name)
	}
	f(t, s)
	cancel()
	eventstest.ErrorIs(t, <-ended, nil, "the end of the play")
}

// after causes the fault unless what is empty, and then waits.
func (s *stage) after(t *testing.T, what, who string, long time.Duration) {
	t.Helper()
	if what != "" {
		eventstest.ErrorIs(t, s.do(what, who), nil, "%s %s", what, who)
	}
	time.Sleep(long)
	synctest.Wait()
}

// believe returns the states of the contenders of a side.
func (s *stage) believe(side string) string {
	var words []string
	s.log.look(func(p *picture) {
		for _, one := range p.Sides {
			for _, l := range one.Lanes {
				if one.Key == side {
					words = append(words, fmt.Sprint(l.last().State))
				}
			}
		}
	})
	return strings.Join(words, " ")
}

// act is a fault, the time to wait after it, and the states that ann, bob and cid then
// have for each lock.
type act struct {
	what, who      string
	long           time.Duration
	naive, zkgrant string // zkgrant: the same as naive if empty
}

// Each row is a play. counts is how often each lock has had two holders; -1 means any
// number.
func TestWhatTheContendersBelieve(t *testing.T) {
	const s, m, h = time.Second, time.Minute, time.Hour
	const anns, bobs, cids = "holds waits waits", "waits holds waits", "waits waits holds"
	turn := []act{
		{what: doHandOn, who: "ann", long: m, naive: bobs},
		{what: doHandOn, who: "cid", long: s, naive: bobs}, // it has nothing to release
		{what: doHandOn, who: "bob", long: m, naive: cids},
		{what: doHandOn, who: "cid", long: m, naive: anns},
	}
	for name, test := range map[string]struct {
		acts     []act
		counts   [2]int
		needless [2]int // locks given up though the session lived
		look     func(t *testing.T, naive, ours *side)
	}{
		"without faults both locks have one holder in turn": {
			acts: slices.Concat([]act{{long: h, naive: anns}}, turn, turn, turn),
		},
		"a cut shows two holders of the naive lock only": {
			acts: []act{
				{what: doCutHolder, long: 20 * s, naive: "holds holds waits", zkgrant: "lost holds waits"},
				{what: doCutHolder}, // bob
				{what: doHealAll, long: 20 * s, naive: bobs},
			},
			counts: [2]int{1, 0},
			look: func(t *testing.T, naive, ours *side) {
				if m := ours.Margins; len(m) != 1 || m[0].Who != "ann" || m[0].Granted <= m[0].Lost {
					t.Errorf("losses before the next grant: %v, want ann's", m)
				}
				eventstest.Expect(t, naive.Together >= 10*s,
					"the naive lock had two holders for %v, want most of the 20s of the cut", naive.Together)
			},
		},
		"a careful naive lock has one holder": {
			acts: []act{
				{what: doCareful},
				{what: doCutHolder, long: 20 * s, naive: "lost holds waits"},
				{what: doHealAll, long: 20 * s, naive: bobs},
			},
		},
		// A server restart costs it the lock, although its session survives.
		"a careful naive lock pays for each disconnect": {
			acts: []act{
				{what: doCareful},
				{what: doStrike, long: m, naive: bobs, zkgrant: anns},
				{what: doStrike, long: m, naive: cids, zkgrant: anns},
				{what: doCareless},
				{what: doStrike, long: m, naive: cids, zkgrant: anns},
			},
			needless: [2]int{2, 0},
		},
		"a killed contender holds until its session ends": {
			acts: []act{
				{what: doKill, who: "ann", long: 20 * s, naive: "away holds waits"},
				{what: doStart, who: "ann", long: 20 * s, naive: bobs},
				{what: doStart, who: "ann"}, // it is running
				{what: doPause, who: "bob", long: s},
				{what: doKill, who: "bob", long: 20 * s, naive: "waits away holds"},
			},
		},
		"a short cut loses nothing": {acts: []act{
			{what: doCut, who: "ann", long: s / 2}, {what: doCut, who: "ann", long: s / 2},
			{what: doHeal, who: "ann", long: m, naive: anns},
		}},
		"a contender that stood still asks before its next step": {
			acts: []act{
				{what: doPause, who: "ann", long: 20 * s, naive: "still holds waits"},
				{what: doWake, who: "ann", long: 20 * s, naive: bobs},
				{what: doPause, who: "ann", long: h}, // a waiter
				{what: doWake, who: "ann", long: m, naive: bobs},
			},
			counts: [2]int{1, 0},
		},
		// A contender cannot foresee that its session is ended from outside.
		"an ended session is told": {
			acts: []act{
				{what: doExpire, who: "ann", long: 20 * s, naive: bobs},
				{what: doExpire, who: "ann", long: 20 * s, naive: bobs}, // a waiter
			},
			counts: [2]int{1, -1},
			look: func(t *testing.T, naive, ours *side) {
				if ours.Together >= naive.Together || ours.Behind != ours.Times || naive.Behind != 1 {
					t.Errorf("two holders for %v (%d behind a back) and %v (%d of %d); want once with the naive lock, and longer",
						naive.Together, naive.Behind, ours.Together, ours.Behind, ours.Times)
				}
			},
		},
		"a restart of the server loses nothing": {
			acts: []act{{what: doStrike, long: m, naive: anns}},
			look: func(t *testing.T, naive, ours *side) {
				for _, side := range []*side{naive, ours} {
					alone := 0
					for _, b := range side.lane("ann").Bars {
						eventstest.Expect(t, b.State != lost, "ann lost the %s lock: %+v", side.Key, b)
						// At the start, the Grant may be reported before the connection.
						if b.Alone && b.State == holds && b.To > b.From {
							alone++
						}
					}
					eventstest.Equal(t, alone, 1, "how often ann held the %s lock without a connection", side.Key)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				for _, a := range test.acts {
					s.after(t, a.what, a.who, a.long)
					if a.zkgrant == "" {
						a.zkgrant = a.naive
					}
					for side, want := range map[string]string{naiveSide: a.naive, zkgrantSide: a.zkgrant} {
						if got := s.believe(side); want != "" && got != want {
							t.Errorf("after %+v, the contenders of the %s lock: %s; want %s", a, side, got, want)
						}
					}
				}
				s.log.look(func(p *picture) {
					naive, ours := p.Sides[0], p.Sides[1]
					if naive.Times != test.counts[0] || test.counts[1] >= 0 && ours.Times != test.counts[1] {
						t.Errorf("the locks had two holders %d and %d times, want %v", naive.Times, ours.Times, test.counts)
					}
					needless := [2]int{naive.Needless, ours.Needless}
					eventstest.Equal(t, needless, test.needless, "locks given up though the session lived")
					if test.look != nil {
						test.look(t, naive, ours)
					}
				})
			})
		})
	}
}

// owners returns how many shards each contender owns and works on, and which shards have
// no such owner.
func (s *stage) owners() (each map[string]int, free []int) {
	each = map[string]int{}
	s.log.look(func(p *picture) {
		for i, one := range p.Shards {
			owned := false
			for _, o := range one.Owners {
				if o.Open && !o.Still {
					each[o.Who]++
					owned = true
				}
			}
			if !owned {
				free = append(free, i)
			}
		}
	})
	return each, free
}

func (s *stage) twice() (n int) {
	s.log.look(func(p *picture) { n = p.Twice })
	return n
}

func TestShardsMove(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		for _, step := range []struct {
			what, who string
			want      string
		}{
			{"", "", "map[ann:2 bob:2 cid:2]"},
			{doKill, "ann", "map[bob:3 cid:3]"},
			{doStart, "ann", "map[ann:2 bob:2 cid:2]"},
			{doPause, "bob", "map[ann:3 cid:3]"},
			{doWake, "bob", "map[ann:2 bob:2 cid:2]"},
			{doCut, "cid", "map[ann:3 bob:3]"},
			{doHeal, "cid", "map[ann:2 bob:2 cid:2]"},
			{doExpire, "ann", "map[ann:2 bob:2 cid:2]"},
			{doStrike, "", "map[ann:2 bob:2 cid:2]"},
			{doHandOn, "ann", "map[ann:2 bob:2 cid:2]"}, // only the locks are released
			{doKill, "ann", "map[bob:3 cid:3]"},
			{doKill, "bob", "map[cid:6]"},
		} {
			before := s.twice()
			s.after(t, step.what, step.who, time.Minute)
			if n := s.twice() - before; n > 0 && step.what != doExpire { // its owner is notified as late as the others
				t.Errorf("after %s %s a shard had two owners %d times, want none", step.what, step.who, n)
			}
			eventstest.Equal(t, fmt.Sprint(s.owners()), step.want+" []",
				"the owners and the free shards a minute after %s %s", step.what, step.who)
		}
	})
}

func TestEachContendersNodesHaveItsName(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		var names []string
		server := s.where.zk.Inside
		for _, side := range []string{naiveSide, zkgrantSide} {
			for _, node := range server.Children(lockPath + "/" + side) {
				data, _ := server.Data(lockPath + "/" + side + "/" + node)
				names = append(names, string(data))
			}
		}
		slices.Sort(names)
		eventstest.Equal(t, names, []string{"ann", "ann", "bob", "bob", "cid", "cid"}, "the nodes' data")
	})
}

func TestFaultsThatCannotBeAreRefused(t *testing.T) {
	refused := func(s *stage, when, what, who string) {
		eventstest.ErrorIs(t, s.do(what, who), errRefused, "%s, %s %s", when, what, who)
	}
	refused(newStage(&servers{zk: &program.ZooKeeper{}}, nil), "before the play", doCutHolder, "")
	play(t, func(t *testing.T, s *stage) {
		for _, fault := range [][2]string{{doCut, "nobody"}, {"nothing", "ann"}, {"", ""}, {doneStrike, ""}} {
			refused(s, "at once", fault[0], fault[1])
		}
		s.after(t, doCut, "ann", time.Second)
		refused(s, "when the holder is cut off", doCutHolder, "")
		s.after(t, doHealAll, "", 10*time.Second)
		s.after(t, doPause, "ann", time.Second)
		refused(s, "when ann stands still", doHandOn, "ann")
		s.after(t, doWake, "ann", time.Second)
		s.after(t, doKill, "bob", time.Second)
		refused(s, "when bob was killed", doCut, "bob")
		s.after(t, doStrike, "", 0)
		refused(s, "when the server is down", doStrike, "")
		time.Sleep(time.Minute)
	})
}

// A contender that was cut off for a long time has no connection on which to end its
// sessions, so the server expires them.
func TestTheEndTakesNoLongerThanTheTimeout(t *testing.T) {
	for _, test := range []struct {
		fault string
		long  time.Duration
		left  bool // sessions may be left
	}{
		{doCut, 100 * time.Millisecond, false}, {doCut, time.Minute, true},
		{doPause, 100 * time.Millisecond, false}, {doPause, time.Minute, true},
		{doStrike, 0, true},
	} {
		eventstest.Case(t, fmt.Sprint(test.fault, " for ", test.long), func(t *testing.T) {
			where, closed, err := inside(4 * time.Second)
			eventstest.Must(t, err)
			var told time.Time
			begin(t, where, func(t *testing.T, s *stage) {
				s.after(t, test.fault, "ann", test.long)
				told = time.Now()
			})
			took, left := time.Since(told), where.zk.Inside.Sessions()
			eventstest.Expect(t, took <= 4*time.Second,
				"the end took %v, want no more than the session timeout, 4s", took)
			eventstest.Expect(t, len(left) == 0 || test.left, "sessions left: %#x, want none", left)
			eventstest.Must(t, closed())
		})
	}
}

// At full length there are three real servers, and the test kills their leader.
func TestRealServers(t *testing.T) {
	eventstest.NeedsServers(t)
	const tick = 600 * time.Millisecond
	e := ensemble.Start(t, eventstest.Amount(1, 3), ensemble.Tick(tick))
	zk, err := program.Open(e.Connect(), ticks*tick)
	eventstest.Must(t, err)
	where := &servers{zk: zk, tick: tick, Fault: "Kill the leader"}
	where.strike = func(ctx context.Context) error { return killLeader(ctx, e) }
	begin(t, where, func(t *testing.T, s *stage) {
		become := func(when string, there func(p *picture) bool) {
			t.Helper()
			eventstest.Eventually(t, when, func() (yes bool) {
				s.log.look(func(p *picture) { yes = there(p) })
				return yes
			}, func() string { return "naive: " + s.believe(naiveSide) + "; zkgrant: " + s.believe(zkgrantSide) })
		}
		eventstest.Must(t, s.do(doCutHolder, ""))
		become("the naive lock has two holders, and zkgrant's is the next one", func(p *picture) bool {
			ours := p.Sides[1].holders()
			return len(p.Sides[0].holders()) == 2 && len(ours) == 1 && ours[0] != "ann"
		})
		eventstest.Must(t, s.do(doHealAll, ""))
		become("each lock has one holder", oneHolder)
		if eventstest.Full() {
			eventstest.Must(t, s.do(doStrike, ""))
			become("the killed leader is back", func(p *picture) bool { return !p.Struck })
			become("each lock has one holder", oneHolder) // another holder, if the election took longer than the lease
		}
		s.log.look(func(p *picture) {
			if naive, ours := p.Sides[0], p.Sides[1]; naive.Times == 0 || ours.Times > 0 {
				t.Errorf("two holders %d times with the naive lock, %v, and %d times with zkgrant, %v; want some, and 0",
					naive.Times, naive.Overlaps, ours.Times, ours.Overlaps)
			}
		})
		var bars int
		s.log.look(func(p *picture) { bars = len(p.Sides[1].lane("cid").Bars) })
		eventstest.Must(t, s.do(doExpire, "cid"))
		become("cid has heard of the end of its session", func(p *picture) bool { return len(p.Sides[1].lane("cid").Bars) > bars })
		become("each lock has one holder again", oneHolder)
	})
}

// oneHolder reports whether each lock has one holder, and all other contenders wait.
func oneHolder(p *picture) bool {
	return !slices.ContainsFunc(p.Sides, func(s *side) bool {
		return len(s.holders()) != 1 || slices.ContainsFunc(s.Lanes, func(l *lane) bool {
			return l.last().State != holds && l.last().State != waits
		})
	})
}
