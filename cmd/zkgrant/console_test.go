//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// onTerminal returns a console on a terminal of that many columns, and what it has printed.
func onTerminal(t *testing.T, columns uint16) (c *console, printed func() string) {
	t.Helper()
	master, tty, err := pty.Open()
	eventstest.Must(t, err)
	eventstest.Must(t, pty.Setsize(master, &pty.Winsize{Rows: 24, Cols: columns}))
	t.Cleanup(func() { eventstest.Check(t, tty.Close()); eventstest.Check(t, master.Close()) })
	c = newConsole(tty, &settings{})
	c.terminal, c.color = true, false // whatever TERM is here
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
