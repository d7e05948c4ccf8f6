package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/text"
)

// console says what happens: lines for people, or with --json an object a line. Its methods may be called from any
// goroutine.
type console struct {
	file     *os.File
	settings *settings
	terminal bool
	color    bool

	connected atomic.Bool // there has been a session

	mu        sync.Mutex
	showing   bool              // the last line is a progress, which the next thing replaces
	elsewhere func(line string) // where lines go instead, if it is not nil
}

func newConsole(file *os.File, s *settings) *console {
	terminal := isTerminal(file)
	return &console{file: file, settings: s, terminal: terminal, color: terminal && os.Getenv("NO_COLOR") == ""}
}

func isTerminal(file *os.File) bool {
	return term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb"
}

// report is what --json writes.
type report struct {
	Time    time.Time `json:"time"`
	Event   string    `json:"event"`
	Path    string    `json:"path,omitempty"`
	Node    string    `json:"node,omitempty"`
	Token   int64     `json:"token,omitempty"`
	Session string    `json:"session,omitempty"`
	Ahead   int       `json:"ahead,omitempty"`
	Seconds float64   `json:"seconds,omitempty"` // waited, held, or left
	Reason  string    `json:"reason,omitempty"`
	Error   string    `json:"error,omitempty"`

	loud bool // said without --verbose, too
	bad  bool
	good bool
}

const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	dim    = "\x1b[2m"
	plain  = "\x1b[0m"
	erase  = "\r\x1b[K"
)

// say writes a report: the format and its arguments are what people read.
func (c *console) say(r report, format string, args ...any) {
	if c.settings.json {
		r.Time = time.Now()
		line, err := text.JSON(r)
		if err != nil { // it has only strings and numbers
			panic(err)
		}
		c.write(line)
		return
	}
	if !r.loud && !c.settings.verbose {
		return
	}
	line := printable(fmt.Sprintf(format, args...))
	switch {
	case c.color && r.bad:
		line = red + line + plain
	case c.color && r.good:
		line = green + line + plain
	}
	c.write("zkgrant: " + line)
}

func (c *console) write(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.elsewhere != nil {
		c.elsewhere(line)
		return
	}
	if c.showing {
		line, c.showing = erase+line, false
	}
	// There is nobody to tell that there is nobody to tell.
	_, _ = fmt.Fprintln(c.file, line)
}

// divert has lines go elsewhere while something else has the screen.
func (c *console) divert(elsewhere func(line string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.elsewhere = elsewhere
}

// progress shows a line that the next one replaces, on a terminal only.
func (c *console) progress(format string, args ...any) {
	if !c.terminal || c.settings.json {
		return
	}
	line := printable(fmt.Sprintf(format, args...))
	if c.color {
		line = dim + line + plain
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.showing = true
	_, _ = fmt.Fprint(c.file, erase+"zkgrant: "+line)
}

// hide takes a progress away.
func (c *console) hide() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.showing {
		c.showing = false
		_, _ = fmt.Fprint(c.file, erase)
	}
}

// printable makes text from the servers harmless for a terminal.
func printable(s string) string { return text.Printable(s) }

// warnings takes the library's log: why there is no session yet. What follows is told by events.
type warnings struct{ *console }

func (w warnings) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelError || level >= slog.LevelWarn && !w.connected.Load()
}

func (w warnings) Handle(_ context.Context, r slog.Record) error {
	var line strings.Builder
	line.WriteString(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&line, ", %s: %v", a.Key, a.Value)
		return true
	})
	w.say(report{Event: "warned", Error: line.String(), loud: true}, "%s", line.String())
	return nil
}

func (w warnings) WithAttrs([]slog.Attr) slog.Handler { return w }

func (w warnings) WithGroup(string) slog.Handler { return w }

// object writes a value as one line of JSON.
func object(w io.Writer, value any) error {
	line, err := text.JSON(value)
	if err == nil {
		_, err = fmt.Fprintln(w, line)
	}
	return err
}

// since is a duration as people say it.
func since(d time.Duration) string { return text.Since(d) }

// sessionID is a session as the servers' logs name it.
func sessionID(id int64) string { return text.SessionID(id) }
