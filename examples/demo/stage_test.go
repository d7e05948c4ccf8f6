package main

import (
	"context"
	"errors"
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

// play lets the contenders contend during f, in virtual time on a server in memory, with a session timeout of 4 s.
func play(t *testing.T, f func(t *testing.T, s *stage)) {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) {
		where, closed, err := inside(4 * time.Second)
		eventstest.Must(t, err)
		begin(t, where, f)
		if left := where.zk.Inside.Sessions(); len(left) > 0 {
			t.Errorf("sessions left: %#x, want none", left)
		}
		time.Sleep(10 * time.Minute) // the server looks for empty directories now and then
		if left := where.zk.Inside.Tree(); len(left) > 0 {
			t.Errorf("nodes left: %q, want none", left)
		}
		eventstest.Must(t, closed())
	})
}

// begin lets three contenders contend during f.
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
	if err := <-ended; err != nil {
		t.Errorf("the play ended with %v, want no error", err)
	}
}

// after causes the fault, and returns when so much time has passed.
func (s *stage) after(t *testing.T, what, who string, long time.Duration) {
	t.Helper()
	if err := s.do(what, who); err != nil {
		t.Errorf("%s %s: %v", what, who, err)
	}
	time.Sleep(long)
	synctest.Wait()
}

// believe returns what the contenders of a side believe, in words.
func (s *stage) believe(side string) (words string) {
	s.log.look(func(p *picture) {
		for _, one := range p.Sides {
			for _, l := range one.Lanes {
				if one.Key == side {
					words += fmt.Sprintf(" %s %s", l.Who, l.last().State)
				}
			}
		}
	})
	return strings.TrimSpace(words)
}

// must fails the test unless the contenders of each side believe what is wanted.
func (s *stage) must(t *testing.T, when string, want map[string]string) {
	t.Helper()
	for side, words := range want {
		if got := s.believe(side); got != words {
			t.Errorf("%s, the contenders of the %s lock: %s; want %s", when, side, got, words)
		}
	}
}

// counted fails the test unless there were two holders that often.
func (s *stage) counted(t *testing.T, want map[string]int) {
	t.Helper()
	s.log.look(func(p *picture) {
		for _, side := range p.Sides {
			if n, ok := want[side.Key]; ok && side.Times != n {
				t.Errorf("the %s lock had two holders %d times, %v: %v; want %d", side.Key, side.Times, side.Together, side.Overlaps, n)
			}
		}
	})
}

// both is the same for each lock.
func both[T any](what T) map[string]T { return map[string]T{naiveSide: what, zkgrantSide: what} }

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
		if want := []string{"ann", "ann", "bob", "bob", "cid", "cid"}; !slices.Equal(names, want) {
			t.Errorf("the nodes have the data %q, want %q", names, want)
		}
	})
}

func TestWithoutFaultsBothLocksHaveOneHolderInTurn(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		time.Sleep(time.Hour)
		for range 3 {
			s.must(t, "in ann's turn", both("ann holds bob waits cid waits"))
			s.after(t, doHandOn, "ann", time.Minute)
			s.must(t, "in bob's turn", both("ann waits bob holds cid waits"))
			s.after(t, doHandOn, "cid", time.Second) // it has nothing to hand on
			s.after(t, doHandOn, "bob", time.Minute)
			s.must(t, "in cid's turn", both("ann waits bob waits cid holds"))
			s.after(t, doHandOn, "cid", time.Minute)
		}
		s.counted(t, both(0))
	})
}

func TestACutShowsTwoHoldersOfTheNaiveLockOnly(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.after(t, doCutHolder, "", 20*time.Second)
		s.must(t, "cut off", map[string]string{naiveSide: "ann holds bob holds cid waits", zkgrantSide: "ann lost bob holds cid waits"})
		if err := s.do(doCutHolder, ""); err != nil { // bob
			t.Errorf("cutting the next holder off: %v", err)
		}
		s.after(t, doHealAll, "", 20*time.Second)
		s.must(t, "healed", both("ann waits bob holds cid waits"))
		s.counted(t, map[string]int{naiveSide: 1, zkgrantSide: 0})
		s.log.look(func(p *picture) {
			if m := p.Sides[1].Margins; len(m) != 1 || m[0].Who != "ann" || m[0].Granted <= m[0].Lost {
				t.Errorf("losses before the next grant: %v, want ann's", m)
			}
			if p.Sides[0].Together < 10*time.Second {
				t.Errorf("the naive lock had two holders for %v, want most of the 20s of the cut", p.Sides[0].Together)
			}
		})
	})
}

func TestAShortCutLosesNothing(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.after(t, doCut, "ann", 500*time.Millisecond)
		s.after(t, doCut, "ann", 500*time.Millisecond)
		s.after(t, doHeal, "ann", time.Minute)
		s.must(t, "healed", both("ann holds bob waits cid waits"))
		s.counted(t, both(0))
	})
}

func TestAContenderThatStoodStillAsksBeforeItsNextStep(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.after(t, doPause, "ann", 20*time.Second)
		s.must(t, "standing still", both("ann still bob holds cid waits"))
		s.counted(t, both(0))
		if err := s.do(doHandOn, "ann"); !errors.Is(err, errRefused) {
			t.Errorf("giving back while standing still: %v, want %v", err, errRefused)
		}
		s.after(t, doWake, "ann", 20*time.Second)
		s.must(t, "going on", both("ann waits bob holds cid waits"))
		s.counted(t, map[string]int{naiveSide: 1, zkgrantSide: 0})
		s.after(t, doPause, "ann", time.Hour) // a waiter
		s.after(t, doWake, "ann", time.Minute)
		s.must(t, "going on", both("ann waits bob holds cid waits"))
	})
}

// A contender cannot know in advance that its session is ended from outside.
func TestAnEndedSessionIsTold(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.after(t, doExpire, "ann", 20*time.Second)
		s.must(t, "afterwards", both("ann waits bob holds cid waits"))
		s.log.look(func(p *picture) {
			naive, ours := p.Sides[0], p.Sides[1]
			if naive.Times != 1 || ours.Together >= naive.Together || ours.Behind != ours.Times || naive.Behind != 1 {
				t.Errorf("two holders for %v (%d, %d of them behind a back) and %v (%d, %d); want once with the naive lock, and for longer",
					naive.Together, naive.Times, naive.Behind, ours.Together, ours.Times, ours.Behind)
			}
		})
		s.after(t, doExpire, "ann", 20*time.Second) // a waiter
		s.must(t, "when a waiter's session has ended", both("ann waits bob holds cid waits"))
	})
}

func TestARestartOfTheServerLosesNothing(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.after(t, doStrike, "", 0)
		if err := s.do(doStrike, ""); !errors.Is(err, errRefused) {
			t.Errorf("striking the servers twice: %v, want %v", err, errRefused)
		}
		time.Sleep(time.Minute)
		s.must(t, "after the restart", both("ann holds bob waits cid waits"))
		s.counted(t, both(0))
		s.log.look(func(p *picture) {
			alone := 0
			for _, side := range p.Sides {
				for _, b := range side.lane("ann").Bars {
					if b.State == lost {
						t.Errorf("ann lost the %s lock: %+v", side.Key, b)
					}
					if b.Alone && b.State == holds && b.To > b.From { // at the start a holder may be granted before it hears of its connection
						alone++
					}
				}
			}
			if alone != 2 {
				t.Errorf("ann held without a connection %d times, want once with each lock", alone)
			}
		})
	})
}

func TestFaultsThatCannotBeAreRefused(t *testing.T) {
	before := newStage(&servers{zk: &program.ZooKeeper{}}, nil)
	if err := before.do(doCutHolder, ""); !errors.Is(err, errRefused) {
		t.Errorf("before the play: %v, want %v", err, errRefused)
	}
	play(t, func(t *testing.T, s *stage) {
		for _, fault := range [][2]string{{doCut, "nobody"}, {"nothing", "ann"}, {"", ""}, {doneStrike, ""}} {
			if err := s.do(fault[0], fault[1]); !errors.Is(err, errRefused) {
				t.Errorf("%v: %v, want %v", fault, err, errRefused)
			}
		}
		s.after(t, doCut, "ann", time.Second)
		if err := s.do(doCutHolder, ""); !errors.Is(err, errRefused) {
			t.Errorf("cutting off a holder that is cut off: %v, want %v", err, errRefused)
		}
		s.after(t, doHealAll, "", 10*time.Second)
	})
}

// A contender that was cut off for long has no connection to end its sessions, and leaves them to the server.
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
		t.Run(fmt.Sprint(test.fault, " for ", test.long), func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				where, closed, err := inside(4 * time.Second)
				eventstest.Must(t, err)
				var told time.Time
				begin(t, where, func(t *testing.T, s *stage) {
					s.after(t, test.fault, "ann", test.long)
					told = time.Now()
				})
				if took := time.Since(told); took > 4*time.Second {
					t.Errorf("the end took %v, want no more than the session timeout, 4s", took)
				}
				if left := where.zk.Inside.Sessions(); len(left) > 0 && !test.left {
					t.Errorf("sessions left: %#x, want none", left)
				}
				eventstest.Must(t, closed())
			})
		})
	}
}

// On real servers. At full length there are three of them, and the test kills their leader.
func TestRealServers(t *testing.T) {
	eventstest.NeedsServers(t)
	const tick = 600 * time.Millisecond
	e := ensemble.Start(t, eventstest.Amount(1, 3), ensemble.Tick(tick))
	zk, err := program.Open(e.Connect(), ticks*tick)
	eventstest.Must(t, err)
	where := &servers{zk: zk, tick: tick, Fault: "Kill the leader"}
	where.strike = func(ctx context.Context) error { return killLeader(ctx, e) }
	begin(t, where, func(t *testing.T, s *stage) {
		press := func(what, who string) {
			t.Helper()
			if err := s.do(what, who); err != nil {
				t.Fatalf("%s %s: %v", what, who, err)
			}
		}
		become := func(when string, there func(p *picture) bool) {
			t.Helper()
			eventstest.Eventually(t, when, func() (yes bool) {
				s.log.look(func(p *picture) { yes = there(p) })
				return yes
			}, func() string { return "naive: " + s.believe(naiveSide) + "; zkgrant: " + s.believe(zkgrantSide) })
		}
		press(doCutHolder, "")
		become("the naive lock has two holders, and zkgrant's is the next one", func(p *picture) bool {
			ours := p.Sides[1].holders()
			return len(p.Sides[0].holders()) == 2 && len(ours) == 1 && ours[0] != "ann"
		})
		press(doHealAll, "")
		become("each lock has one holder", oneHolder)
		if eventstest.Full() {
			press(doStrike, "")
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
		press(doExpire, "cid")
		become("cid has heard of the end of its session", func(p *picture) bool { return len(p.Sides[1].lane("cid").Bars) > bars })
		become("each lock has one holder again", oneHolder)
	})
}

// oneHolder tells whether each lock has one holder, and only waiters besides.
func oneHolder(p *picture) bool {
	return !slices.ContainsFunc(p.Sides, func(s *side) bool {
		return len(s.holders()) != 1 || slices.ContainsFunc(s.Lanes, func(l *lane) bool {
			return l.last().State != holds && l.last().State != waits
		})
	})
}
