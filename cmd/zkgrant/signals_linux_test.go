package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// signalTable says what becomes of zkgrant and its command at each signal that zkgrant is sent.
// The first row that fits counts. The phases:
//
//	waiting  it is in the queue
//	holding  it holds the lock, and the command works
//	losing   there is no contact, the command was asked to end, and ignores that
//
// What comes of it:
//
//	waits    it waits on, and runs the command once it is granted
//	ends     it ends with 128 and the signal's number, and has left the queue
//	halts    it and its command are halted, and go on at a CONT
//	dies     it is dead, and its command is before the next holder starts
//	passes   the command gets the signal, and works on with the lock
//	holds    the command gets nothing, and works on with the lock
//	stops    it is halted, not the command, which is dead before the next holder starts;
//	         after a CONT it ends with 123
//	loses    it ends with 123, and the command is dead before the next holder starts
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

// cells returns every cell, ordered by signal, situation and phase.
func cells() (all []cell) {
	rows := strings.Split(strings.TrimSpace(signalTable), "\n")
	phases := strings.Fields(rows[0])[2:]
	var signals []string
	for _, row := range rows[1:] {
		if name := strings.Fields(row)[0]; !slices.Contains(signals, name) {
			signals = append(signals, name)
		}
	}
	for _, signal := range signals {
		for _, where := range situations() {
			for _, row := range rows[1:] {
				if f := strings.Fields(row); f[0] == signal && (f[1] == where || f[1] == "*") {
					for i, phase := range phases {
						all = append(all, cell{signal, where, phase, f[2+i]})
					}
					break
				}
			}
		}
	}
	return all
}

// situations are those in which zkgrant runs.
func situations() []string {
	return []string{"job", "session-leader", "process-1", "background", "nohup", "pipe-full", "pipe-gone", "tty-stopped"}
}

// situated is zkgrant in one situation, in front of a command that works on a file.
type situated struct {
	*eventstest.Process

	cmd  *exec.Cmd
	stop func() // ends the command's input
}

// situate starts zkgrant.
func situate(t *testing.T, where string, args []string) *situated {
	t.Helper()
	shell := func(before string) *exec.Cmd {
		cmd := exec.Command("sh", append([]string{"-c", before + `exec "$@"`, "sh", program}, args...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		return cmd
	}
	var cmd *exec.Cmd
	var stderr *os.File
	switch where {
	case "job":
		cmd = shell("")
	case "session-leader":
		cmd = shell("")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	case "process-1":
		cmd = first(t, args...)
	case "background": // of a script
		cmd = shell("trap '' INT QUIT; ")
	case "nohup":
		cmd = shell("trap '' HUP; ")
	default:
		cmd = shell("exec 2>&3 3>&-; ")
		stderr = map[string]func(*testing.T) *os.File{"pipe-full": fullPipe, "pipe-gone": brokenPipe, "tty-stopped": stoppedTerminal}[where](t)
		cmd.ExtraFiles = []*os.File{stderr}
	}
	in, out, err := os.Pipe()
	eventstest.Must(t, err)
	cmd.Stdin = in
	p := eventstest.Begin(t, cmd)
	eventstest.Check(t, in.Close())
	if stderr != nil {
		eventstest.Check(t, stderr.Close())
	}
	stop := sync.OnceFunc(func() { eventstest.Check(t, out.Close()) })
	t.Cleanup(stop)
	return &situated{p, cmd, stop}
}

// send sends the signal to zkgrant, which may have ended.
func (s *situated) send(sig syscall.Signal) { _ = s.cmd.Process.Signal(sig) }

// queued waits until so many contenders are in the queue.
func queued(t *testing.T, server *zktest.Server, n int) {
	t.Helper()
	eventstest.Eventually(t, fmt.Sprint(n, " contenders are in the queue"), func() bool { return len(server.Children(lockPath)) == n })
}

// Each cell of the table: all of them at full length, else each signal once, in another cell each day.
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
	together(t, all, func(t *testing.T, c cell) {
		switch c.phase {
		case "waiting":
			c.waiting(t)
		case "holding":
			c.holding(t)
		default:
			c.losing(t)
		}
	})
}

// together runs a test for each of many, a few at the same time.
func together[T fmt.Stringer](t *testing.T, many []T, test func(*testing.T, T)) {
	t.Helper()
	const atOnce = 6
	room := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for _, one := range many {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			t.Run(one.String(), func(t *testing.T) { test(t, one) })
		})
	}
	all.Wait()
}

func (c cell) waiting(t *testing.T) {
	server := zktest.Start(t)
	holder, err := coordinator.Connect(t.Context(), server.Addr())
	eventstest.Must(t, err)
	defer func() { eventstest.Check(t, holder.Close()) }()
	held := holder.Mutex(lockPath).Acquire(context.Background())
	eventstest.Receive(t, held.Granted(), "the lock")
	run := situate(t, c.where, append([]string{"run", "--servers", server.Addr(), lockPath}, commandLine("player", filepath.Join(t.TempDir(), "work"))...))
	queued(t, server, 2)
	run.Send(c.number())
	switch c.want {
	case "ends":
		run.Exits(codeSignal + int(c.number()))
		nodes(t, server, 1, "when the waiter has ended")
	case "dies":
		run.Exits(-1)
	case "halts", "waits":
		if c.want == "halts" {
			halted(t, run.Pid())
			run.Send(syscall.SIGCONT)
		}
		held.Release()
		ready(t, run.Process, "command")
		run.stop()
		run.Exits(5)
	default:
		t.Errorf("the table wants %s", c.want)
	}
	if c.want == "ends" || c.want == "dies" {
		if said := run.String(); strings.Contains(said, "ready") {
			t.Errorf("the command was started:\n%s", said)
		}
	}
}

// begun starts zkgrant with a command that works on a file, and another one that marks it next.
func (c cell) begun(t *testing.T, server *zktest.Server, flags []string) (run *situated, next *eventstest.Process, command int, file string) {
	file = filepath.Join(t.TempDir(), "work")
	args := append([]string{"run", "--servers", server.Addr()}, flags...)
	run = situate(t, c.where, append(append(args, lockPath), commandLine("player", file)...))
	command = ready(t, run.Process, "command")
	next = begin(t, "", append(append(args, lockPath), commandLine("mark", file)...)...)
	queued(t, server, 2)
	return run, next, command, file
}

// second are flags for a session of a second.
func second() []string { return []string{"--session-timeout", "1s", "--tick-time", "100ms"} }

func (c cell) holding(t *testing.T) {
	server, flags := zktest.Start(t), []string{"--session-timeout", "20s"}
	if c.want == "stops" || c.want == "dies" {
		server, flags = zktest.Start(t, zktest.Tick(100*time.Millisecond)), second()
	}
	run, next, command, file := c.begun(t, server, flags)
	run.Send(c.number())
	got := "command got " + c.number().String()
	code := 5
	switch c.want {
	case "passes":
		run.Await(t, got, 1)
		run.stop()
	case "holds":
		run.Send(syscall.SIGWINCH) // is passed on later
		run.Await(t, "command got "+syscall.SIGWINCH.String(), 1)
		if said := run.String(); strings.Contains(said, got) {
			t.Errorf("the command got the signal:\n%s", said)
		}
		run.stop()
	case "halts":
		halted(t, run.Pid(), command)
		run.Send(syscall.SIGCONT)
		run.Await(t, "command got "+syscall.SIGCONT.String(), 1)
		run.stop()
	case "stops":
		halted(t, run.Pid())
		marks(t, next, server, file)
		run.Send(syscall.SIGCONT)
		code = codeLost
	case "dies":
		code = -1
	default:
		t.Errorf("the table wants %s", c.want)
	}
	run.Exits(code)
	marks(t, next, server, file)
	alone(t, file)
}

func (c cell) losing(t *testing.T) {
	server := zktest.Start(t, zktest.Tick(100*time.Millisecond))
	run, next, _, file := c.begun(t, server, append(second(), "--grace", "250ms"))
	holder := oldest(t, server)
	server.Mute(holder, true)
	run.Await(t, "command got "+syscall.SIGTERM.String(), 1)
	run.send(c.number())
	marks(t, next, server, file)
	alone(t, file)
	server.Mute(holder, false)
	switch c.want {
	case "stops":
		run.send(syscall.SIGCONT)
		run.Exits(codeLost)
	case "loses":
		run.Exits(codeLost)
	case "dies":
		run.Exits(-1)
	default:
		t.Errorf("the table wants %s", c.want)
	}
}

// oldest returns the session of the lock's first node.
func oldest(t *testing.T, server *zktest.Server) int64 {
	t.Helper()
	nodes := server.Children(lockPath)
	slices.SortFunc(nodes, func(a, b string) int { return strings.Compare(a[len(a)-10:], b[len(b)-10:]) })
	return server.Owner(lockPath + "/" + nodes[0])
}

// marks waits until the next holder has marked the file. On a busy machine that may lose its own
// session of a second before it has: then another one comes.
func marks(t *testing.T, next *eventstest.Process, server *zktest.Server, file string) {
	t.Helper()
	const most = 10
	for n := 1; ; n++ {
		switch code := next.ExitCode(); {
		case code == 0:
			return
		case code != codeLost || n == most:
			t.Fatalf("the next holder ends with %d at try %d, want 0", code, n)
		}
		args := append(append([]string{"run", "--servers", server.Addr()}, second()...), lockPath)
		next = begin(t, "", append(args, commandLine("mark", file)...)...)
	}
}

// chance is a random run: its seed.
type chance uint64

func (c chance) String() string { return strconv.FormatUint(uint64(c), 10) }

// In random runs of the table the session ends, and whatever signal comes before, meanwhile or
// afterwards: the command is dead before the next holder starts. Half of the commands ignore
// what asks them to end. ZKGRANT_SEED plays one run.
func TestALossKillsFirst(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	n := eventstest.Amount(20, 200)
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
	together(t, runs, func(t *testing.T, c chance) { t.Helper(); c.play(t) })
}

func (c chance) play(t *testing.T) {
	random := rand.New(rand.NewPCG(uint64(c), 0))
	all := cells()
	cell := all[random.IntN(len(all))]
	if cell.where == "process-1" && os.Getuid() != 0 {
		cell.where = "session-leader"
	}
	deaf, cut := c%2 == 0, random.IntN(2) == 0
	const before, span = 200 * time.Millisecond, 1500 * time.Millisecond
	at := time.Duration(random.Int64N(int64(span)))
	temper := map[bool]string{true: "deaf", false: "obedient"}[deaf]
	part := []string{"work", "leader", "script"}[random.IntN(3)]
	t.Logf("ZKGRANT_SEED=%d: %s %v after the loss began, %s %s, cut %t", uint64(c), cell, at-before, temper, part, cut)

	server := zktest.Start(t, zktest.Tick(100*time.Millisecond))
	file := filepath.Join(t.TempDir(), "work")
	args := append([]string{"run", "--servers", server.Addr()}, second()...)
	run := situate(t, cell.where, append(append(args, lockPath), commandLine(part, file, temper)...))
	ready(t, run.Process, "command")
	next := begin(t, "", append(append(args, lockPath), commandLine("mark", file)...)...)
	queued(t, server, 2)
	holder := oldest(t, server)
	loses := time.AfterFunc(before, func() {
		if server.Mute(holder, true); cut {
			server.Cut(holder)
		}
	})
	defer loses.Stop()
	sends := time.AfterFunc(at, func() { run.send(cell.number()) })
	defer sends.Stop()
	marks(t, next, server, file)
	alone(t, file)
	sends.Stop()
	run.send(syscall.SIGCONT)
	server.Mute(holder, false)
	const dumped = 2 // what the Go runtime makes of QUIT
	run.ends(t, codeLost, -1, 0, codeSignal+int(cell.number()), dumped)
}

// ends waits for the end of zkgrant, with one of the codes.
func (s *situated) ends(t *testing.T, codes ...int) {
	t.Helper()
	if code := s.ExitCode(); !slices.Contains(codes, code) {
		t.Errorf("exit code %d, want one of %v", code, codes)
	}
}
