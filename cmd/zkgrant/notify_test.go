//go:build unix

package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// inbox is a service manager's socket, with the messages that were sent to it.
type inbox struct {
	eventstest.Screen

	address string
	socket  *net.UnixConn
}

// manager creates a service manager's socket, in the abstract namespace or as a file, and
// passes its address to each process that the rig starts from now on.
func (g *rig) manager(abstract bool, more ...string) *inbox {
	g.t.Helper()
	m := &inbox{address: fmt.Sprintf("@zkgrant-%d-%s", os.Getpid(), g.t.Name())}
	if !abstract {
		folder, err := os.MkdirTemp("", "n") // the names of tests are too long for a socket
		eventstest.Must(g.t, err)
		g.t.Cleanup(func() { eventstest.Check(g.t, os.RemoveAll(folder)) })
		m.address = filepath.Join(folder, "notify")
	}
	var err error
	m.socket, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.address, Net: "unixgram"})
	eventstest.Must(g.t, err)
	g.t.Cleanup(func() { _ = m.socket.Close() }) // the test may have closed it
	g.env = append(slices.Clone(g.env), append(more, "NOTIFY_SOCKET="+m.address)...)
	return m
}

// fill sends messages until there is no room for another one, and returns the sender.
func (m *inbox) fill(t *testing.T) *manager {
	t.Helper()
	socket, err := dialManager(m.address)
	eventstest.Must(t, err)
	sender := &manager{socket: socket}
	for n := 0; sender.sent == sender.now; n++ {
		sender.turn(notice{status: fmt.Sprint(n)})
	}
	return sender
}

// read adds each message to the screen until the test ends.
func (m *inbox) read(t *testing.T) *inbox {
	t.Helper()
	over := make(chan struct{})
	go func() {
		defer close(over)
		datagram := make([]byte, 4096)
		for {
			n, err := m.socket.Read(datagram)
			if err != nil {
				return
			}
			text := string(datagram[:n])
			if strings.Contains(text, "READY=1") && strings.Contains(text, "STOPPING=1") {
				m.Say("systemd ignores this READY")
			}
			for line := range strings.SplitSeq(text, "\n") {
				m.Say("%s", line)
			}
		}
	}()
	t.Cleanup(func() {
		eventstest.Check(t, m.socket.Close())
		<-over
	})
	return m
}

// reader is a manager that reads.
func (g *rig) reader(more ...string) *inbox {
	g.t.Helper()
	return g.manager(false, more...).read(g.t)
}

// run reports READY once it is in the queue, its place there, and later that it stops.
// The command does not inherit the manager's variables.
func TestTheManagerIsTold(t *testing.T) {
	t.Parallel()
	for _, abstract := range []bool{false, true} {
		if abstract && runtime.GOOS != "linux" {
			continue
		}
		g := double(t)
		first := g.works("run " + lockPath + " -- part wait")
		m := g.manager(abstract, "WATCHDOG_USEC=60000000", "WATCHDOG_PID=1").read(t)
		g.MuteAll(true)
		run := g.begin("run " + lockPath + " -- env")
		m.Await(t, "STATUS=waiting for "+g.servers, 1)
		prints(t, m.String(), "READY", false) // before it is in the queue
		g.MuteAll(false)
		m.Await(t, "READY=1\nSTATUS=waiting for "+lockPath+", 1 ahead\n", 1)
		g.stop(first, syscall.SIGUSR2, 5)
		run.Exits(0)
		m.Await(t, "STOPPING=1", 1)
		matches(t, "run", m, `STATUS=waiting for 127.*\nREADY=1\nSTATUS=waiting for .*\n`+
			`STATUS=holding /locks/run since [0-9-]+ [0-9:]+\nSTOPPING=1\nSTATUS=releasing /locks/run\n$`)
		run.Must(t, "ZKGRANT_PATH=")
		for _, name := range theirs() {
			prints(t, run.String(), name, false)
		}
	}
}

// finished is work that has ended by the time start returns.
type finished struct{ *stay }

func (f finished) start(events.Grant, string, terms) error {
	f.finish()
	return nil
}

// The work may have ended before the loop turns. The manager still gets READY, without
// which a unit with Type=notify fails.
func TestReadyBeforeStopping(t *testing.T) {
	g := double(parallel(t))
	m := g.manager(false).read(t)
	w, c := wants(t, g, 10*time.Second)
	w.isHold = true // READY at the grant, not earlier in the queue
	socket, err := dialManager(m.address)
	eventstest.Must(t, err)
	w.manager = &manager{socket: socket}
	defer w.manager.close()
	work := &stay{over: make(chan struct{})}
	work.finish, work.asked = sync.OnceFunc(func() { close(work.over) }), work.over
	code, err := w.hold(c, &signals{}, finished{work}, "")
	eventstest.Expect(t, code == 0 && err == nil, "it ends with %d, %v; want 0", code, err)
	m.Await(t, "STOPPING=1", 1)
	matches(t, "run", m, `READY=1\nSTATUS=holding .*\nSTOPPING=1\nSTATUS=releasing .*\n`)
}

// The manager is too slow, and READY is dropped. It is sent again before STOPPING, in a
// datagram of its own.
func TestReadyIsSentAgain(t *testing.T) {
	g := double(parallel(t))
	inbox := g.manager(false)
	m := inbox.fill(t)
	m.turn(notice{ready: true})
	inbox.read(t)
	eventstest.Eventually(t, "there is room", func() bool {
		m.turn(notice{stopping: true})
		return m.sent.stopping
	})
	m.close()
	inbox.Await(t, "READY=1\nSTOPPING=1\n", 1)
	prints(t, inbox.String(), "ignores", false)
}

// Waiters of every kind of lock, and elect, report READY in the queue.
func TestEachKindIsReadyInTheQueue(t *testing.T) {
	t.Parallel()
	for waiter, holder := range map[string]string{
		"run --kind read": "run --kind write", "run --kind write": "run --kind write",
		"run --kind unfair": "run --kind unfair", "run --size 1": "run --size 1",
		"run /locks/second": "run", "elect": "elect",
	} {
		g := double(t)
		g.works(holder + " /locks/k -- part wait")
		m := g.reader()
		g.begin(waiter + " /locks/k -- true")
		m.Await(t, "READY=1\nSTATUS=waiting for ", 1)
		m.Must(t, "/locks/k")
	}
}

// With a watchdog, zkgrant sends signs of life while its loop turns, but not while it is
// halted, nor for another process's watchdog.
func TestTheWatchdogIsTold(t *testing.T) {
	g := double(parallel(t))
	m := g.reader("WATCHDOG_USEC=150000")
	run := g.works("run " + lockPath + " -- part wait")
	m.Await(t, "WATCHDOG=1", 6) // at least four of them come from the timer
	other := double(t)
	others := other.reader("WATCHDOG_USEC=150000", "WATCHDOG_PID=1")
	other.begin("run " + lockPath + " -- part wait")
	others.Await(t, "READY=1", 1)
	run.Send(syscall.SIGSTOP)
	halted(t, run.Pid())
	before := m.Count("WATCHDOG=1")
	clock := g.reader()
	g.begin("run " + lockPath + " -- part wait")
	clock.Await(t, "WATCHDOG=1", 6) // signs of life from the queue
	given := m.Count("WATCHDOG=1") - before
	eventstest.Expect(t, given <= 1, "a halted process has given %d signs of life, want none", given)
	run.Send(syscall.SIGCONT)
	m.Await(t, "WATCHDOG=1", before+2)
	prints(t, others.String(), "WATCHDOG=1", false)
	g.stop(run, syscall.SIGUSR2, 5)
}

// A manager that does not read delays nothing: the command is dead before the next holder
// starts. Dropped messages are sent once there is room again.
func TestAManagerThatDoesNotRead(t *testing.T) {
	g := brief(parallel(t))
	m := g.manager(false, "WATCHDOG_USEC=30000")
	m.fill(t).close()
	run := g.works("run " + lockPath + " -- part work FILE deaf")
	g.handsOver(func() { mute(g, nil) })
	run.Exits(codeLost)

	late := g.works("run --session-timeout 10s /locks/other -- part wait")
	m.read(t)
	m.Await(t, "READY=1\nSTATUS=holding /locks/other", 1)
	g.stop(late, syscall.SIGUSR2, 5)
}

// hold reports READY at the grant. It reports each end to the manager first, which then
// has --lead to end the work. Here that takes nearly all of the lead. The work is dead
// before the next grant.
func TestTheManagerOfHold(t *testing.T) {
	t.Parallel()
	// The rest of the lead is for processes that wait for a processor.
	lead := max(250*time.Millisecond, 100*nothing(t).Round(time.Millisecond))
	inParallel(t, map[string]ending{
		"the lease runs out": {end: mute, code: codeLost}, "TERM": {end: sends(syscall.SIGTERM)},
		"a revocation": {end: revokes(fmt.Sprintf("--grace %v ", 8*lead))},
	}, func(t *testing.T, _ string, test ending) {
		g := lasting(t, 4*lead) // the longest lead is a quarter of the timeout
		first := g.works("run -v " + lockPath + " -- part wait")
		started, dead := make(chan *eventstest.Process, 1), make(chan struct{})
		managed := *g
		m := managed.reader()
		m.When("STOPPING=1", 1, func() {
			timeoutStop := lead * 3 / 5 // for work that ignores TERM
			time.AfterFunc(timeoutStop, func() {
				defer close(dead)
				(<-started).Send(syscall.SIGKILL)
			})
		})
		hold := managed.situate("job", fmt.Sprintf("hold --revocable --lead %v %s", lead, lockPath))
		m.Await(t, "STATUS=waiting for "+lockPath, 1)
		prints(t, m.String(), "READY", false) // before the grant
		g.stop(first, syscall.SIGUSR2, 5)
		m.Await(t, "READY=1", 1)
		worker := eventstest.Begin(t, g.command("part work FILE deaf"))
		g.pid(worker, "command")
		started <- worker
		g.handsOver(func() { test.end(g, hold) })
		<-dead
		hold.Exits(test.code)
	})
}

// The paths of a multi-lock may be longer than a manager's limit. It would drop a longer
// datagram with all of its lines.
func TestALongStatusIsCut(t *testing.T) {
	for _, path := range []string{strings.Repeat("/x", 5000), strings.Repeat("/ä", 5000), strings.Repeat("/\u202e", 5000)} {
		text := notice{ready: true, stopping: true, status: "holding " + path}.since(notice{}, true)
		const most = 4096
		eventstest.Expect(t, strings.HasPrefix(text, "READY=1\nSTOPPING=1\nSTATUS=holding /") &&
			strings.HasSuffix(text, "…\nWATCHDOG=1") && utf8.ValidString(text) && len(text) <= most,
			"the datagram has %d bytes, want %d at most, with every line: %.100q…", len(text), most, text)
	}
}

// Signs of life come after a third of the watchdog's timeout, and the interval is never
// 0.
func TestBeats(t *testing.T) {
	eventstest.Equal(t, beats(3*time.Second), time.Second, "the interval for 3s")
	eventstest.Equal(t, beats(time.Microsecond), time.Microsecond, "the interval for 1µs")
}
