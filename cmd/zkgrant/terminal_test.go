//go:build unix

package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
	xterm "golang.org/x/term"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// terminal is a program with a terminal of its own.
type terminal struct {
	t       *testing.T
	master  *os.File // what is written to it is typed
	cmd     *exec.Cmd
	ended   chan struct{}
	printed eventstest.Screen // all output

	mu     sync.Mutex
	screen *vt.Emulator // guarded by mu: vt.SafeEmulator does not lock String and IsAltScreen
}

const width, height = 100, 24

// terminal runs a line on a terminal of 100 columns and 24 lines.
func (g *rig) terminal(line string, more ...string) *terminal {
	g.t.Helper()
	cmd := g.command(line, more...)
	cmd.Env, cmd.Stdin, cmd.SysProcAttr = append(cmd.Env, "TERM=xterm-256color"), nil, nil
	master, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: height, Cols: width})
	eventstest.Must(g.t, err)
	term := &terminal{
		t: g.t, master: master, cmd: cmd, ended: make(chan struct{}), screen: vt.NewEmulator(width, height),
	}
	var pumps sync.WaitGroup
	pumps.Go(func() { _, _ = io.Copy(term, master) })        // ends with the program
	pumps.Go(func() { _, _ = io.Copy(master, term.screen) }) // the terminal's replies; ends with it
	go func() {
		_ = cmd.Wait() // ProcessState has the result
		close(term.ended)
	}()
	g.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-term.ended
		if g.t.Failed() {
			g.t.Logf("%v shows\n%s", cmd.Args, term.text())
		}
		_ = master.Close()
		_ = term.screen.InputPipe().(io.Closer).Close() // not screen.Close, which would race with the pump
		pumps.Wait()
	})
	return term
}

// Write takes the program's output.
func (term *terminal) Write(p []byte) (int, error) {
	_, _ = term.printed.Write(p) // it cannot fail
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.screen.Write(p)
}

// text is the screen's text, without trailing blanks and empty lines.
func (term *terminal) text() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	var all []string
	for line := range strings.Lines(term.screen.String()) {
		all = append(all, strings.TrimRight(line, " \r\n"))
	}
	return strings.TrimRight(strings.Join(all, "\n"), "\n")
}

func (term *terminal) alternate() bool {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.screen.IsAltScreen()
}

// shows waits until each text is on the screen.
func (term *terminal) shows(want ...string) {
	term.t.Helper()
	for _, w := range want {
		eventstest.Eventually(term.t, "the screen shows "+w, func() bool { return strings.Contains(term.text(), w) })
	}
}

func (term *terminal) resizes(width, height uint16) {
	term.t.Helper()
	term.mu.Lock()
	term.screen.Resize(int(width), int(height))
	term.mu.Unlock()
	eventstest.Must(term.t, pty.Setsize(term.master, &pty.Winsize{Rows: height, Cols: width}))
}

func (term *terminal) types(keys string) {
	term.t.Helper()
	_, err := io.WriteString(term.master, keys)
	eventstest.Must(term.t, err)
}

// exits waits for the end of the program, and checks its code.
func (term *terminal) exits(code int) {
	term.t.Helper()
	eventstest.Receive(term.t, term.ended, "the end of the program")
	eventstest.Equal(term.t, eventstest.ExitCode(term.cmd.ProcessState), code, "exit code")
}

// The command can read from a terminal without colours.
func TestADumbTerminal(t *testing.T) {
	g := double(parallel(t))
	run := g.terminal("env TERM=dumb zkgrant run --stdin --shell "+lockPath+" --", `echo name?; read name; echo "hello $name"`)
	run.shows("name?")
	run.types("ann\r")
	run.shows("hello ann")
	run.exits(0)
}

// On a terminal, a waiter shows how many contenders are ahead, a loss is red, and
// NO_COLOR removes the colours. With --stdin the command has the terminal.
func testTerminals(t *testing.T, g *rig) {
	for _, colours := range []bool{true, false} {
		g := *g
		if !colours {
			g.env = append(g.env, "NO_COLOR=1")
		}
		holder := g.terminal("zkgrant run -v /terminal -- part wait")
		holder.shows("granted /terminal", "command ")
		queue := g.terminal("zkgrant queue /terminal")
		queue.shows("holds")
		queue.exits(0)
		waiter := g.terminal("zkgrant run --stdin --shell /terminal --",
			`echo name?; read name; echo "hello $name"`)
		waiter.shows("zkgrant: waiting for /terminal, 1 ahead, ")
		holder.types("\x03")
		holder.shows("command got " + syscall.SIGINT.String())
		holder.types("\x1c") // Ctrl-\
		holder.shows("command got " + syscall.SIGQUIT.String())
		if g.Server != nil {
			g.expire("/terminal")
			holder.shows("zkgrant: LOST /terminal: session expired")
			holder.exits(codeLost)
			prints(t, holder.printed.String(), red, colours)
		} else {
			eventstest.Check(t, holder.cmd.Process.Signal(syscall.SIGTERM))
			holder.exits(0)
		}
		waiter.shows("name?")
		prints(t, waiter.text(), "waiting", false)
		waiter.types("zoe\n")
		waiter.shows("hello zoe")
		waiter.exits(0)
		for colour, term := range map[string]*terminal{green + "holds": queue, dim: waiter, green: holder} {
			prints(t, term.printed.String(), colour, colours)
		}
		g.ends(codeNotHeld, "queue --held /terminal")
	}
	without := g.terminal("zkgrant run --shell /terminal --", `read name || echo "no name"`)
	without.shows("no name")
	without.exits(0)
}

// A command that the kernel cannot execute has had the terminal. The script around zkgrant
// gets it back.
func TestTheTerminalOfACommandThatDoesNotBegin(t *testing.T) {
	g := double(parallel(t))
	command := filepath.Join(t.TempDir(), "command")
	becomes("#!/no/such/interpreter\n")(g, 0, command)
	term := g.terminal("sh -c", "zkgrant run --stdin "+lockPath+" -- "+command+`; read name; echo "hello $name"`)
	term.shows("zkgrant: exec ")
	term.types("zoe\n")
	term.shows("hello zoe")
	term.exits(0)
}

// The kernel halts a background command that reads from the terminal, or writes to it
// after `stty tostop`. zkgrant then passes it the terminal, if it has that itself.
func TestAHaltedCommandGetsTheTerminal(t *testing.T) {
	t.Parallel()
	const reads = `read name < /dev/tty; echo "hello $name"`
	inParallel(t, map[string]string{
		"reads": reads, "writes": "echo name?; " + reads, "sets": "stty -tostop < /dev/tty; " + reads,
	}, func(t *testing.T, name, command string) {
		setting := map[bool]string{true: "tostop", false: "-tostop"}[name == "writes"]
		term := double(t).terminal("sh -c", `stty `+setting+`; exec "$@"`, "sh",
			"zkgrant", "run", "-v", "--shell", lockPath, "--", command)
		term.shows("granted /locks/run")
		term.types("zoe\n")
		term.shows("hello zoe", "released /locks/run")
		term.exits(0)
	})
}

// In the background, zkgrant takes the terminal from nobody. It reports once that the
// command needs it. In the foreground it passes it on. Ctrl-Z then halts both, and the
// shell continues both.
func TestTheTerminalInAShell(t *testing.T) {
	g := double(parallel(t))
	g.env = append(g.env, "PS1=prompt> ", "ENV=")
	term := g.terminal("sh -i")
	types := func(line, shows string) {
		t.Helper()
		term.types(line)
		term.shows(shows)
	}
	types("zkgrant run -v --session-timeout 20s --stdin --shell "+lockPath+
		` -- 'echo "name?"; read name; echo "hello $name"; read name; echo "bye $name"' &`+"\n",
		"the command is stopped: it needs the terminal, but zkgrant is in the background; use fg")
	types("echo shell has $((6*7))\n", "shell has 42")
	types("fg\nzoe\n", "hello zoe")
	g.nodes(1, "while the command runs")
	types("\x1a", "Stopped")
	types("echo shell has $((6*8))\n", "shell has 48")
	types("fg\nbob\n", "bye bob")
	term.shows("released /locks/run")
	eventstest.Equal(t, term.printed.Count("it needs the terminal"), 1, "hints about the terminal")
	term.types("exit\n")
	term.exits(0)
}

// With --stdin, the command reads from a terminal that is not zkgrant's own, too. It
// cannot be put into the foreground there.
func TestTheInputIsAnotherTerminal(t *testing.T) {
	g := double(parallel(t))
	other, tty := openTerminal(t)
	term := g.terminal("sh -c", "zkgrant run --stdin --shell "+lockPath+` -- 'echo "name?"; read name; echo "hello $name"' <`+tty.Name())
	term.shows("name?")
	_, err := other.WriteString("zoe\n")
	eventstest.Must(t, err)
	term.shows("hello zoe")
	term.exits(0)
}

// If no shell would continue them, Ctrl-Z halts neither zkgrant nor its command,
// whichever of them has the terminal. Without a terminal, the kernel does not halt the
// command either, as it would not without zkgrant.
func TestCtrlZWhereNobodyContinues(t *testing.T) {
	t.Parallel()
	flags := map[string]string{"zkgrant": "--stdin=false", "the command": "--stdin"}
	inParallel(t, flags, func(t *testing.T, _, flag string) {
		// A shell that is just starting a process may wait for that halted process,
		// without being halted itself.
		term := double(t).terminal("zkgrant run -v "+flag+" --shell "+lockPath+" --",
			`trap 'echo went on' CONT; trap 'kill $! 2>/dev/null; exit 5' USR2; `+
				`sleep 600 & echo ready; while :; do wait $!; done`)
		term.shows("ready")
		term.types("\x1a")
		if flag == "--stdin" {
			term.shows("went on")
		}
		eventstest.Check(t, term.cmd.Process.Signal(syscall.SIGUSR2))
		term.exits(5)
	})
	run := double(t).situate("session-leader", "run --shell "+lockPath+" --",
		`kill -TSTP $$; kill -TTIN $$; kill -TTOU $$; echo went on`)
	over(t, run.Process, 0, "went on")
}

// The live view shows holders and waiters, revokes a lock, survives a broken connection
// and a small terminal, and restores the terminal.
func testTop(t *testing.T, g *rig) {
	one, _, _ := strings.Cut(g.servers, ",")
	proxy := ensemble.StartProxy(t, one)
	c, named := g.coordinator(), func(name string) coordinator.AcquireOption { return coordinator.Data([]byte(name)) }
	holder := c.Mutex("/top/a", coordinator.Revocable()).Acquire(t.Context(), named("the \x1b[31mfirst"))
	defer holder.Release()
	eventstest.Receive(t, holder.Granted(), "the lock")
	waiter := c.Mutex("/top/a").Acquire(t.Context(), named("the second"))
	defer waiter.Release()
	permits := c.Semaphore("/top/b", 3).Acquire(t.Context(), coordinator.Permits(2), named("a worker"))
	defer permits.Release()
	eventstest.Receive(t, permits.Granted(), "the permits")

	view := g.terminal("zkgrant top --interval 50ms --grace 1m /top --servers " + proxy.Addr())
	view.shows("2 locks, 1 waiter", "connected", "> /top/a", "  /top/b      semaphore     3     1", "the �[31mfirst", "waits  lock")
	prints(t, view.printed.String(), "\x1b[31mfirst", false) // data from the servers is made safe
	for _, step := range [][]string{
		{"/b\r", "1 of 2 locks, filter b", "> /top/b"},
		{"\x1b", "2 locks, 1 waiter"},
		{"k", "> /top/a"},
	} {
		view.types(step[0])
		view.shows(step[1:]...)
	}
	view.types("ry")
	eventstest.Receive(t, holder.Revoked(), "the request")
	view.shows("revoking /top/a, with a grace of 1m0s")
	holder.Release()
	view.shows("all holders that were asked have released or lost /top/a", "2 locks, 0 waiters")
	view.types("ry") // the second holder is not revocable
	view.shows("is not revocable")

	view.resizes(40, 10)
	view.shows("> /top/a", "…")
	eventstest.Eventually(t, "the small screen has a line for the keys", func() bool {
		all := strings.Split(view.text(), "\n")
		return len(all) == 10 && strings.HasPrefix(all[9], "q quit")
	})
	view.resizes(width, height)
	proxy.Refuse(true)
	proxy.Cut()
	view.shows("suspended")
	proxy.Refuse(false)
	view.shows("connected", "the second")
	view.types("\x03")
	view.exits(0)
	view.isLeft()
}

// isLeft checks that the terminal was restored.
func (term *terminal) isLeft() {
	t := term.t
	t.Helper()
	other, _ := openTerminal(t)
	want, err := xterm.GetState(int(other.Fd()))
	eventstest.Must(t, err)
	got, err := xterm.GetState(int(term.master.Fd()))
	eventstest.Must(t, err)
	eventstest.Expect(t, reflect.DeepEqual(got, want), "the terminal is left with %+v, want %+v", got, want)
	eventstest.Eventually(t, "the screen is as it was", func() bool { return term.text() == "" && !term.alternate() })
	prints(t, term.printed.String(), "\x1b[?25h", true) // the cursor is shown
}

// q and TERM end the view and its session, like Ctrl-C. NO_COLOR removes the colours,
// whatever its value. With invalid flags, top exits at once.
func TestTopEnds(t *testing.T) {
	g := double(parallel(t))
	for _, colours := range []bool{true, false} {
		view := g.terminal("zkgrant top /")
		view.shows("no locks below /", "connected")
		if colours {
			eventstest.Check(t, view.cmd.Process.Signal(syscall.SIGTERM))
		} else {
			view.types("q")
		}
		view.exits(0)
		sessions := g.Sessions()
		eventstest.Expect(t, len(sessions) == 0, "the sessions %x are left, want none", sessions)
		prints(t, view.printed.String(), green, colours)
		g.env = append(g.env, "NO_COLOR=yes")
	}
	for flag, want := range map[string]string{
		"--interval=0": "--interval", "--grace=-1s": "--grace", "locks": "path", "--json": "needs a terminal",
	} {
		view := g.terminal("zkgrant top " + flag)
		view.shows(want)
		view.exits(codeFailed)
	}
}

// onTerminal returns a console on a terminal with that many columns. printed returns its
// output.
func onTerminal(t *testing.T, columns uint16) (c *console, printed func() string) {
	t.Helper()
	master, tty := openTerminal(t)
	eventstest.Must(t, pty.Setsize(master, &pty.Winsize{Rows: 24, Cols: columns}))
	c = newConsole(tty, &settings{})
	c.terminal, c.color = true, false // regardless of TERM
	return c, func() string {
		_, err := tty.WriteString("end")
		eventstest.Must(t, err)
		all := ""
		for buffer := make([]byte, 4096); !strings.Contains(all, "end"); {
			n, err := master.Read(buffer)
			eventstest.Must(t, err)
			all += string(buffer[:n])
		}
		before, _, _ := strings.Cut(all, "end")
		return before
	}
}

// A line that follows a progress is printed only once the progress has been erased.
func TestAProgressGivesWay(t *testing.T) {
	c, printed := onTerminal(t, 80)
	for range 20 {
		c.progress("reading")
		c.out.flush(long)
		before := printed()
		c.give()
		if after := printed(); !strings.HasSuffix(before, "reading") || after != erase {
			t.Fatalf("before give %q is printed, and then %q; want a progress, and then %q", before, after, erase)
		}
	}
}

// A progress stays one line, so that it can be removed.
func TestAProgressIsOneLine(t *testing.T) {
	const columns = 40
	c, printed := onTerminal(t, columns)
	c.progress("waiting for %s, 5s", strings.Repeat("10.255.255.1:2181,", 5))
	c.out.flush(long)
	line := strings.TrimPrefix(printed(), erase)
	if n := len([]rune(line)); n == 0 || n >= columns || !strings.HasSuffix(line, "…") {
		t.Errorf("on %d columns the progress is %q, want less than a line of it", columns, line)
	}
}
