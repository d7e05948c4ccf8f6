package main

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// signalTable is what each signal to zkgrant does to zkgrant and its command. The first
// matching row counts. The phases:
//
//	waiting  it is in the queue
//	holding  it holds the lock, and the command works
//	losing   the servers are unreachable; the command was asked to end, and ignores that
//
// The outcomes:
//
//	waits    it keeps waiting, and runs the command once granted
//	ends     it exits with 128 plus the signal's number, and has left the queue
//	halts    it and its command are halted, and continue on CONT
//	dies     it dies, and its command is dead before the next holder starts
//	passes   the command gets the signal, and keeps working under the lock
//	holds    the command gets nothing, and keeps working under the lock
//	stops    only zkgrant is halted; the command is dead before the next holder starts;
//	         after CONT it exits with 123
//	loses    it exits with 123, and the command is dead before the next holder starts
const signalTable = `
signal  where           waiting  holding  losing
INT     background      waits    holds    loses
QUIT    background      waits    holds    loses
HUP     nohup           waits    holds    loses
INT     *               ends     passes   loses
TERM    *               ends     passes   loses
HUP     *               ends     passes   loses
QUIT    *               ends     passes   loses
USR1    *               ends     passes   loses
USR2    *               ends     passes   loses
WINCH   *               waits    passes   loses
CONT    *               waits    passes   loses
TSTP    session-leader  waits    holds    loses
TSTP    process-1       waits    holds    loses
TSTP    *               halts    halts    loses
PIPE    *               waits    holds    loses
ALRM    *               waits    holds    loses
CHLD    *               waits    holds    loses
TTOU    *               waits    holds    loses
TTIN    session-leader  waits    holds    loses
TTIN    process-1       waits    holds    loses
TTIN    *               halts    stops    stops
STOP    *               halts    stops    stops
KILL    *               dies     dies     dies
`

// cell is a cell of the table.
type cell struct{ signal, where, phase, want string }

func (c cell) String() string { return c.signal + "/" + c.where + "/" + c.phase }

func (c cell) number() syscall.Signal { return unix.SignalNum("SIG" + c.signal) }

// cells returns every cell, ordered by signal.
func cells() (all []cell) {
	rows := strings.Split(strings.TrimSpace(signalTable), "\n")
	phases := strings.Fields(rows[0])[2:]
	seen := map[string]bool{}
	for _, row := range rows[1:] {
		f := strings.Fields(row)
		for _, where := range situations() {
			if fits := f[1] == where || f[1] == "*"; !fits || seen[f[0]+where] {
				continue
			}
			seen[f[0]+where] = true
			for i, phase := range phases {
				all = append(all, cell{f[0], where, phase, f[2+i]})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b cell) int { return strings.Compare(a.signal, b.signal) })
	return all
}

// TestEachSignal tries all cells of the table at full length, otherwise one cell for each
// signal, a different one each day.
func TestEachSignal(t *testing.T) {
	t.Parallel()
	all := cells()
	if !eventstest.Full() {
		day := time.Now().YearDay()
		per := len(situations()) * 3
		var some []cell
		for i := 0; i < len(all); i += per {
			some = append(some, all[i+(day*5+i/per*7)%per])
		}
		all = some
	}
	together(t, all, cell.comes)
}

func (c cell) comes(t *testing.T) {
	t.Helper()
	map[string]func(*testing.T){"waiting": c.waiting, "holding": c.holding, "losing": c.losing}[c.phase](t)
}

func (c cell) waiting(t *testing.T) {
	g := double(t)
	held := g.coordinator().Mutex(lockPath).Acquire(context.Background())
	eventstest.Receive(t, held.Granted(), "the lock")
	run := g.situate(c.where, "run "+lockPath+" -- part player FILE")
	eventstest.Eventually(t, "both are in the queue", func() bool { return len(g.Children(lockPath)) == 2 })
	run.Send(c.number())
	switch c.want {
	case "ends":
		run.Exits(codeSignal + int(c.number()))
		g.nodes(1, "when the waiter has ended")
	case "dies":
		run.Exits(codeSignal + int(c.number()))
	case "halts", "waits":
		if c.want == "halts" {
			halted(t, run.Pid())
			run.Send(syscall.SIGCONT)
		}
		held.Release()
		g.pid(run.Process, "command")
		eventstest.Check(t, run.stop())
		run.Exits(5)
		return
	default:
		t.Errorf("the table wants %s", c.want)
	}
	prints(t, run.String(), "ready", false)
}

func (c cell) holding(t *testing.T) {
	g := double(t)
	if g.env = append(g.env, "ZKGRANT_SESSION_TIMEOUT=20s"); c.want == "stops" || c.want == "dies" {
		g = brief(t)
	}
	run, command := g.holds(c.where, "run "+lockPath+" -- part player FILE")
	got := "command got " + c.number().String()
	g.handsOver(func() {
		run.Send(c.number())
		switch c.want {
		case "passes":
			run.Await(t, got, 1)
		case "holds":
			run.Send(syscall.SIGWINCH) // it is forwarded later
			run.Await(t, "command got "+syscall.SIGWINCH.String(), 1)
			prints(t, run.String(), got, false)
		case "halts":
			halted(t, run.Pid(), command)
			run.Send(syscall.SIGCONT)
			run.Await(t, "command got "+syscall.SIGCONT.String(), 1)
		case "stops":
			halted(t, run.Pid())
			return
		case "dies":
			run.Exits(codeSignal + int(c.number()))
			return
		default:
			t.Errorf("the table wants %s", c.want)
		}
		eventstest.Check(t, run.stop())
		run.Exits(5)
	})
	if c.want == "stops" {
		g.stop(run.Process, syscall.SIGCONT, codeLost)
	}
}

func (c cell) losing(t *testing.T) {
	const most = 5
	for n := 1; !c.loses(t); n++ {
		if n == most {
			t.Fatalf("the command was killed %d times before it was asked to end", n)
		}
	}
}

// loses reports whether the command was asked to end. If the machine is so busy that
// zkgrant is late, the command is killed at once.
func (c cell) loses(t *testing.T) bool {
	t.Helper()
	const told, killed = "command got terminated", "LOST "
	g := brief(t)
	run, _ := g.holds(c.where, "run --grace 250ms "+lockPath+" -- part player FILE")
	g.handsOver(func() {
		mute(g, nil)
		eventstest.Eventually(t, "the command is asked to end", func() bool { return run.Count(told)+run.Count(killed) > 0 })
		run.send(c.number())
	})
	if run.Count(told) == 0 {
		run.send(syscall.SIGCONT)
		_ = run.ExitCode() // the signal may have come before its own
		return false
	}
	switch c.want {
	case "stops":
		run.send(syscall.SIGCONT)
		run.Exits(codeLost)
	case "loses":
		run.Exits(codeLost)
	case "dies":
		run.Exits(codeSignal + int(c.number()))
	default:
		t.Errorf("the table wants %s", c.want)
	}
	return true
}

// chance is the seed of a random run.
type chance uint64

func (c chance) String() string { return strconv.FormatUint(uint64(c), 10) }

// In random runs the session ends, with a random signal before, during or after that. The
// command is always dead before the next holder starts. Half of the commands ignore the
// request to end. ZKGRANT_SEED repeats one run.
func TestALossKillsFirst(t *testing.T) {
	t.Parallel()
	seed, n := uint64(time.Now().UnixNano()), eventstest.Amount(20, 200)
	if text := os.Getenv("ZKGRANT_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		eventstest.Must(t, err)
		n = 1
	}
	var runs []chance
	for i := range n {
		runs = append(runs, chance(seed+uint64(i)))
	}
	t.Logf("ZKGRANT_SEED=%d and the %d that follow", seed, n-1)
	together(t, runs, chance.play)
}

func (c chance) play(t *testing.T) {
	random := rand.New(rand.NewPCG(uint64(c), 0))
	all := cells()
	cell := all[random.IntN(len(all))]
	if cell.where == "process-1" && os.Getuid() != 0 {
		cell.where = "session-leader"
	}
	cut := random.IntN(2) == 0
	const before, span = 200 * time.Millisecond, 1500 * time.Millisecond
	at := time.Duration(random.Int64N(int64(span)))
	temper := map[bool]string{true: "deaf", false: "obedient"}[c%2 == 0]
	part := []string{"work", "leader", "script"}[random.IntN(3)]
	t.Logf("ZKGRANT_SEED=%d: %s %v after the loss began, %s %s, cut %t",
		uint64(c), cell, at-before, temper, part, cut)

	g := brief(t)
	run, _ := g.holds(cell.where, "run "+lockPath+" -- part "+part+" FILE "+temper)
	_, holder := g.first()
	var sends *time.Timer
	g.handsOver(func() {
		time.AfterFunc(before, func() {
			if g.Mute(holder, true); cut {
				g.Cut(holder)
			}
		})
		sends = time.AfterFunc(at, func() { run.send(cell.number()) })
	})
	sends.Stop()
	run.send(syscall.SIGCONT)
	const dumped = 2 // the Go runtime's exit code for QUIT
	codes := []int{codeLost, codeSignal + int(syscall.SIGKILL), 0, codeSignal + int(cell.number()), dumped}
	code := run.ExitCode()
	eventstest.Expect(t, slices.Contains(codes, code), "exit code %d, want one of %v", code, codes)
}
