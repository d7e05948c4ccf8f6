//go:build unix

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// inbox is a service manager's socket, and what was sent to it.
type inbox struct {
	eventstest.Screen

	address string
	socket  *net.UnixConn
}

// serviceManager listens on a socket, with a name that begins with @ in the abstract name space.
func serviceManager(t *testing.T, abstract bool) *inbox {
	t.Helper()
	m := &inbox{}
	if m.address = fmt.Sprintf("@zkgrant-%d-%s", os.Getpid(), t.Name()); !abstract {
		folder, err := os.MkdirTemp("", "n") //nolint:usetesting // the names of tests are too long for a socket
		eventstest.Must(t, err)
		t.Cleanup(func() { eventstest.Check(t, os.RemoveAll(folder)) })
		m.address = filepath.Join(folder, "notify")
	}
	var err error
	m.socket, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.address, Net: "unixgram"})
	eventstest.Must(t, err)
	t.Cleanup(func() { _ = m.socket.Close() }) // again
	return m
}

// read shows what is sent, line by line, until the test ends. each is called before that.
func (m *inbox) read(t *testing.T, each func(line string)) {
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
			for line := range strings.SplitSeq(string(datagram[:n]), "\n") {
				if each != nil {
					each(line)
				}
				m.Say("%s", line)
			}
		}
	}()
	t.Cleanup(func() {
		eventstest.Check(t, m.socket.Close())
		<-over
	})
}

func (m *inbox) environment(more ...string) []string {
	return append([]string{"NOTIFY_SOCKET=" + m.address}, more...)
}

// run is ready when it stands in the queue, says where, and says that it stops. The command
// does not inherit the manager.
func TestTheManagerIsTold(t *testing.T) {
	t.Parallel()
	for _, abstract := range []bool{false, true} {
		if abstract && runtime.GOOS != "linux" {
			continue
		}
		m := serviceManager(t, abstract)
		m.read(t, nil)
		server := zktest.Start(t)
		first := locked(t, server, nil, "wait")
		ready(t, first, "command")
		server.MuteAll(true)
		line := []string{"run", "--servers", server.Addr(), lockPath, "--", "sh", "-c", "env; echo the command"}
		run := beginWith(t, nil, m.environment("WATCHDOG_USEC=60000000", "WATCHDOG_PID=1"), line...)
		m.Await(t, "STATUS=waiting for "+server.Addr(), 1)
		if m.Count("READY") > 0 {
			t.Error("run is ready before it stands in the queue")
		}
		server.MuteAll(false)
		m.Await(t, "READY=1\nSTATUS=waiting for "+lockPath+", 1 ahead\n", 1)
		first.Send(syscall.SIGUSR2)
		first.Exits(5)
		run.Exits(0)
		m.Await(t, "STOPPING=1", 1)
		const want = `(?s)STATUS=waiting for 127[^\n]*\nREADY=1\nSTATUS=waiting for [^\n]*\nSTATUS=holding /locks/run since [0-9-]+ [0-9:]+\nSTOPPING=1\nSTATUS=giving back /locks/run\n$`
		if !regexp.MustCompile(want).MatchString(m.String()) {
			t.Errorf("the manager was told\n%s\nwant %s", m.String(), want)
		}
		run.Must(t, "the command")
		for _, name := range theirs() {
			if strings.Contains(run.String(), name) {
				t.Errorf("the command finds %s, want nothing of the manager:\n%s", name, run)
			}
		}
	}
}

// A waiter of every kind of lock is ready in the queue, and so is elect.
func TestEachKindIsReadyInTheQueue(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	for i, line := range [][]string{
		{"run", "--kind", "read"}, {"run", "--kind", "write"}, {"run", "--kind", "unfair"}, {"run", "--size", "2"}, {"run", "/locks/second"}, {"elect"},
	} {
		path := fmt.Sprintf("/locks/kind%d", i)
		line = append(line, "--servers", server.Addr(), path)
		holders := [][]string{line}
		switch line[2] {
		case "read":
			holders = [][]string{slices.Concat([]string{"run", "--kind", "write"}, line[3:])}
		case "2":
			holders = append(holders, line)
		}
		for _, holder := range holders {
			ready(t, begin(t, "", append(slices.Clone(holder), commandLine("wait")...)...), "command")
		}
		m := serviceManager(t, false)
		m.read(t, nil)
		beginWith(t, nil, m.environment(), append(slices.Clone(line), "--", "true")...)
		m.Await(t, "READY=1\nSTATUS=waiting for ", 1)
		m.Must(t, path)
	}
}

// With a watchdog there are signs of life while the loop turns, and none of a process that is
// halted, nor for another process's watchdog.
func TestTheWatchdogIsTold(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	m, other := serviceManager(t, false), serviceManager(t, false)
	m.read(t, nil)
	other.read(t, nil)
	line := append([]string{"run", "--servers", server.Addr(), lockPath}, commandLine("wait")...)
	run := beginWith(t, nil, m.environment("WATCHDOG_USEC=150000"), line...)
	ready(t, run, "command")
	m.Await(t, "WATCHDOG=1", 6) // four of them are the loop's own, whatever else turns it
	beginWith(t, nil, other.environment("WATCHDOG_USEC=150000", "WATCHDOG_PID=1"), line...)
	other.Await(t, "READY=1", 1)
	run.Send(syscall.SIGSTOP)
	halted(t, run.Pid())
	before := m.Count("WATCHDOG=1")
	clock := serviceManager(t, false)
	clock.read(t, nil)
	beginWith(t, nil, clock.environment("WATCHDOG_USEC=150000"), line...)
	clock.Await(t, "WATCHDOG=1", 6) // it waits in the queue, and lives
	if after := m.Count("WATCHDOG=1"); after > before+1 {
		t.Errorf("a halted process has given %d signs of life, want none", after-before)
	}
	run.Send(syscall.SIGCONT)
	m.Await(t, "WATCHDOG=1", before+2)
	if n := other.Count("WATCHDOG=1"); n > 0 {
		t.Errorf("%d signs of life for the watchdog of another process, want none", n)
	}
	run.Send(syscall.SIGUSR2)
	run.Exits(5)
}

// A manager that does not read holds nothing up: the command is dead before the next holder
// starts. What was dropped is sent when there is room again.
func TestAManagerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	m := serviceManager(t, false)
	filler, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.address, Net: "unixgram"})
	eventstest.Must(t, err)
	eventstest.Must(t, filler.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
	for err == nil {
		_, err = filler.Write([]byte("FILLER=1"))
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	eventstest.Check(t, filler.Close())

	server := zktest.Start(t, zktest.Tick(100*time.Millisecond))
	file := filepath.Join(t.TempDir(), "work")
	run := beginWith(t, nil, m.environment("WATCHDOG_USEC=30000"), append(brief(server, lockPath), commandLine("work", file, "deaf")...)...)
	ready(t, run, "command")
	holder := owner(t, server)
	next := begin(t, "", append(brief(server, "-v", lockPath), commandLine("mark", file)...)...)
	next.Await(t, "1 ahead", 1)
	server.Mute(holder, true)
	next.Exits(0)
	alone(t, file)
	server.Mute(holder, false)
	run.Exits(codeLost)

	const other = lockPath + "/other"
	late := beginWith(t, nil, m.environment(), append(brief(server, other), commandLine("wait")...)...)
	ready(t, late, "command")
	m.read(t, nil)
	m.Await(t, "READY=1\nSTATUS=holding "+other, 1)
	late.Send(syscall.SIGUSR2)
	late.Exits(5)
}

// A manager that cannot be reached is no reason not to work.
func TestNoSuchManager(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	for address, want := range map[string]string{"/nowhere": "no such file", "vsock:2:1": "want a path, or @ and a name"} {
		run := beginWith(t, nil, []string{"NOTIFY_SOCKET=" + address}, append([]string{"run", "--servers", server.Addr(), lockPath}, commandLine("exit", "7")...)...)
		run.Exits(7)
		run.Must(t, "NOTIFY_SOCKET: ", want)
	}
}

// hold is ready at the grant. It reports each end to the manager first. The manager then has the
// lead to end the work, which takes nearly all of it here. The work is dead before the next grant.
func TestTheManagerOfHold(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]struct {
		happens func(*testing.T, *zktest.Server, *eventstest.Process, int64)
		code    int
	}{
		"the lease runs out": {func(_ *testing.T, s *zktest.Server, _ *eventstest.Process, holder int64) { s.Mute(holder, true) }, codeLost},
		"TERM":               {func(_ *testing.T, _ *zktest.Server, p *eventstest.Process, _ int64) { p.Send(syscall.SIGTERM) }, 0},
		"a revocation": {func(t *testing.T, s *zktest.Server, _ *eventstest.Process, _ int64) {
			begin(t, "", "revoke", "--servers", s.Addr(), "--grace", "2s", lockPath)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := zktest.Start(t, zktest.Tick(100*time.Millisecond))
			file := filepath.Join(t.TempDir(), "work")
			first := begin(t, "", append(brief(server, "-v", lockPath), commandLine("wait")...)...)
			ready(t, first, "command")

			m := serviceManager(t, false)
			started := make(chan *eventstest.Process, 1)
			dead := make(chan struct{})
			m.read(t, func(line string) {
				if line == "STOPPING=1" {
					const timeoutStop = 150 * time.Millisecond // of work that does not obey TERM
					time.AfterFunc(timeoutStop, func() {
						defer close(dead)
						(<-started).Send(syscall.SIGKILL)
					})
				}
			})
			in, out, err := os.Pipe()
			eventstest.Must(t, err)
			line := []string{"hold", "--servers", server.Addr(), "--session-timeout", "1s", "--tick-time", "100ms", "--revocable", "--lead", "250ms", lockPath}
			hold := beginWith(t, in, m.environment(), line...)
			eventstest.Check(t, in.Close())
			m.Await(t, "STATUS=waiting for "+lockPath, 1)
			if m.Count("READY") > 0 {
				t.Error("hold is ready before the grant")
			}
			first.Send(syscall.SIGUSR2)
			first.Exits(5)
			m.Await(t, "READY=1", 1)
			worker := eventstest.Begin(t, exec.Command(os.Args[0], asCommand, "work", file, "deaf"))
			ready(t, worker, "command")
			started <- worker
			holder := owner(t, server)
			next := begin(t, "", append(brief(server, "-v", lockPath), commandLine("mark", file)...)...)
			next.Await(t, "1 ahead", 1)
			ends.happens(t, server, hold, holder)
			next.Exits(0)
			<-dead
			alone(t, file)
			server.Mute(holder, false)
			hold.Exits(ends.code)
			eventstest.Check(t, out.Close())
		})
	}
}

// hold refuses a lead of more than a quarter of the session timeout.
func TestALeadThatDoesNotFit(t *testing.T) {
	t.Parallel()
	for _, lead := range []string{"2.501s", "-1s"} {
		hold := begin(t, "", "hold", "--servers", "127.0.0.1:1", "--lead", lead, lockPath)
		hold.Exits(codeFailed)
		hold.Must(t, "--lead "+lead, "a quarter of the session timeout")
	}
}

// A third of the watchdog's time is less than the half that is allowed, and never nothing.
func TestBeats(t *testing.T) {
	for watchdog, want := range map[time.Duration]time.Duration{3 * time.Second: time.Second, time.Microsecond: time.Microsecond} {
		if got := beats(watchdog); got != want {
			t.Errorf("a sign of life every %v for a watchdog of %v, want %v", got, watchdog, want)
		}
	}
}
