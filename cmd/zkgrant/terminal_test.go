//go:build unix

package main

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// terminal is a program with a terminal of its own.
type terminal struct {
	t      *testing.T
	master *os.File // a write is typed
	cmd    *exec.Cmd
	ended  chan struct{}

	mu     sync.Mutex
	screen *vt.Emulator    // its own SafeEmulator leaves String and IsAltScreen without its mutex
	raw    strings.Builder // all output
}

const width, height = 100, 24

// beginTerminal starts the program on a terminal of 100 columns and 24 lines.
func beginTerminal(t *testing.T, environment []string, args ...string) *terminal {
	t.Helper()
	return onTerminal(t, environment, exec.Command(program, args...))
}

// beginShell starts an interactive shell on such a terminal, in which "zkgrant" is the program.
func beginShell(t *testing.T) *terminal {
	t.Helper()
	term := onTerminal(t, []string{"PS1=prompt> ", "ENV="}, exec.Command("sh", "-i"))
	term.types("zkgrant() { " + program + ` "$@"; }` + "\n")
	return term
}

func onTerminal(t *testing.T, environment []string, cmd *exec.Cmd) *terminal {
	t.Helper()
	cmd.Env = append(append(os.Environ(), "TERM=xterm-256color"), environment...)
	master, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: height, Cols: width})
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, master: master, cmd: cmd, ended: make(chan struct{}), screen: vt.NewEmulator(width, height)}
	answers, ok := term.screen.InputPipe().(io.Closer)
	if !ok {
		t.Fatal("what the terminal answers cannot be ended")
	}
	var pumps sync.WaitGroup
	pumps.Go(func() { _, _ = io.Copy(term, master) })        // ends with the program
	pumps.Go(func() { _, _ = io.Copy(master, term.screen) }) // the terminal's own output; ends with it
	go func() {
		_ = cmd.Wait() // ProcessState has the result
		close(term.ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-term.ended
		if t.Failed() {
			t.Logf("%v shows\n%s", cmd.Args, term.text())
		}
		_ = master.Close()
		_ = answers.Close() // the pump reads without a mutex whether the screen is closed
		pumps.Wait()
	})
	return term
}

// Write takes the program's output.
func (term *terminal) Write(p []byte) (int, error) {
	term.mu.Lock()
	defer term.mu.Unlock()
	term.raw.Write(p)
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

// alternate tells whether the program shows the alternate screen.
func (term *terminal) alternate() bool {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.screen.IsAltScreen()
}

// printed is all output so far.
func (term *terminal) printed() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.raw.String()
}

// shows waits until each text is on the screen.
func (term *terminal) shows(want ...string) {
	term.t.Helper()
	for _, w := range want {
		eventstest.Eventually(term.t, "the screen shows "+w, func() bool { return strings.Contains(term.text(), w) })
	}
}

// resizes gives the terminal another size.
func (term *terminal) resizes(width, height uint16) {
	term.t.Helper()
	term.mu.Lock()
	term.screen.Resize(int(width), int(height))
	term.mu.Unlock()
	eventstest.Must(term.t, pty.Setsize(term.master, &pty.Winsize{Rows: height, Cols: width}))
}

// types types the keys.
func (term *terminal) types(keys string) {
	term.t.Helper()
	if _, err := io.WriteString(term.master, keys); err != nil {
		term.t.Fatal(err)
	}
}

// exits waits for the end of the program, and checks its code.
func (term *terminal) exits(code int) {
	term.t.Helper()
	eventstest.Receive(term.t, term.ended, "the end of the program")
	if got := term.cmd.ProcessState.ExitCode(); got != code {
		term.t.Errorf("exit code %d, want %d", got, code)
	}
}

// On a terminal a waiter shows how many are ahead, a loss is red, and Ctrl-C ends the wait. NO_COLOR removes the colours.
func TestTerminal(t *testing.T) {
	for _, colours := range []bool{true, false} {
		server := zktest.Start(t)
		var environment []string
		if !colours {
			environment = []string{"NO_COLOR=1"}
		}
		line := append([]string{"run", "--servers", server.Addr(), lockPath}, commandLine("wait")...)
		holder := beginTerminal(t, environment, line...)
		holder.shows("command ")
		waiter := beginTerminal(t, environment, line...)
		waiter.shows("zkgrant: waiting for /locks/run, 1 ahead, ")
		for _, node := range server.Children(lockPath) {
			if strings.HasSuffix(node, "0000000000") {
				eventstest.Check(t, server.Expire(server.Owner(lockPath+"/"+node)))
			}
		}
		holder.shows("zkgrant: LOST /locks/run: session expired")
		holder.exits(codeLost)
		waiter.shows("ready")
		if got := waiter.text(); strings.Contains(got, "waiting") {
			t.Errorf("the holder still shows that it waits:\n%s", got)
		}
		waiter.types("\x03")
		waiter.shows("command got " + syscall.SIGINT.String())
		waiter.types("\x1c") // Ctrl-\
		waiter.shows("command got " + syscall.SIGQUIT.String())
		eventstest.Check(t, waiter.cmd.Process.Signal(syscall.SIGTERM))
		waiter.exits(0)
		if got := strings.Contains(holder.printed(), red) && strings.Contains(waiter.printed(), dim); got != colours {
			t.Errorf("NO_COLOR %v: coloured %t, want %t", environment, got, colours)
		}
	}
}

// With --stdin the command has the terminal, and zkgrant has it again afterwards.
func TestCommandHasTheTerminal(t *testing.T) {
	server := zktest.Start(t)
	term := beginTerminal(t, nil, "run", "-v", "--servers", server.Addr(), "--stdin", "--shell", lockPath, "--", `echo name?; read name; echo "hello $name"`)
	term.shows("name?")
	term.types("zoe\n")
	term.shows("hello zoe", "gave /locks/run back")
	term.exits(0)
	without := beginTerminal(t, nil, "run", "--servers", server.Addr(), "--shell", lockPath, "--", `read name || echo "no name"`)
	without.shows("no name")
	without.exits(0)
}
