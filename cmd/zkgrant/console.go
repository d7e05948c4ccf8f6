package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/columns"
	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/text"
	"github.com/zkgrant/zkgrant/session"
)

// console reports what happens, as text lines or, with --json, as one object per line.
// Its methods may be called from any goroutine.
type console struct {
	file     *os.File
	settings *settings
	terminal bool
	color    bool

	connected atomic.Bool // there was a session at some point

	mu        sync.Mutex
	elsewhere func(line string) // if not nil, receives the lines instead

	out printer
}

func newConsole(file *os.File, s *settings) *console {
	terminal := isTerminal(file)
	c := &console{file: file, settings: s, terminal: terminal, color: terminal && os.Getenv("NO_COLOR") == ""}
	c.out.to, c.out.dropped = file, c.dropped
	return c
}

// isTerminal reports whether colours and progress may be shown.
func isTerminal(file *os.File) bool {
	return term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb"
}

// report is one message. --json writes it as an object.
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
	Lines   int       `json:"lines,omitempty"` // how many could not be written

	Processes []int `json:"processes,omitempty"`

	usage  string // printed after the text line
	loud   bool   // also printed without --verbose
	always bool   // also printed with --quiet, like failures and losses
	bad    bool
	good   bool
}

const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	dim    = "\x1b[2m"
	plain  = "\x1b[0m"
	erase  = "\r\x1b[K"
)

// say writes a report. The format and its arguments make the text line. It does not wait
// until the line is written.
func (c *console) say(r report, format string, args ...any) {
	if line := c.line(r, format, args...); line != "" {
		c.write(line)
	}
}

// dropped returns the line that counts the lines that could not be written.
func (c *console) dropped(lines int) string {
	return c.line(report{Event: "dropped", Lines: lines, loud: true}, "%d lines could not be written", lines)
}

// line returns the line for a report, or "" if the flags suppress it.
func (c *console) line(r report, format string, args ...any) string {
	if c.settings.quiet && !r.always && !slices.Contains([]string{"failed", "lost", "dropped"}, r.Event) {
		return ""
	}
	if c.settings.json {
		r.Time = time.Now()
		line, err := text.JSON(r)
		if err != nil { // a report has only strings and numbers
			panic(err)
		}
		return line
	}
	if !r.loud && !c.settings.verbose {
		return ""
	}
	line := printable(fmt.Sprintf(format, args...))
	switch {
	case c.color && r.bad:
		line = red + line + plain
	case c.color && r.good:
		line = green + line + plain
	}
	if r.usage != "" {
		line += "\nusage: " + printable(r.usage)
	}
	return "zkgrant: " + line
}

// write passes a line to the printer. It never waits for the file.
func (c *console) write(line string) {
	c.mu.Lock()
	elsewhere := c.elsewhere
	c.mu.Unlock()
	if elsewhere != nil {
		elsewhere(line)
		return
	}
	c.out.line(line)
}

// divert redirects lines while another part of the program owns the screen.
func (c *console) divert(elsewhere func(line string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.elsewhere = elsewhere
}

// progress shows a line that the next one replaces. It does nothing without a terminal.
func (c *console) progress(format string, args ...any) {
	if !c.terminal || c.settings.json || c.settings.quiet {
		return
	}
	line := "zkgrant: " + printable(fmt.Sprintf(format, args...))
	if width, _, err := term.GetSize(int(c.file.Fd())); err == nil && width > 1 { // a wrapped line could not be erased
		line = columns.Head(line, width-1)
	}
	if c.color {
		line = dim + line + plain
	}
	c.out.progress(line)
}

// hide removes the progress line.
func (c *console) hide() { c.out.progress("") }

// give removes the progress line and waits for that, because other output goes to the
// same terminal next. It waits only briefly for a terminal that accepts nothing.
func (c *console) give() {
	if c.hide(); c.terminal {
		c.out.flush(time.Second / 10)
	}
}

// printable makes text from the servers harmless for a terminal.
func printable(s string) string { return text.Printable(s) }

// warnings receives the library's log, which explains why there is no session yet. Later
// on, events replace its warnings, unless --verbose is set. Exception: no event reports
// that servers leave a lock waiting.
type warnings struct{ *console }

func (w warnings) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelError || level >= slog.LevelWarn && !w.settings.quiet
}

func (w warnings) Handle(_ context.Context, r slog.Record) error {
	if r.Level < slog.LevelError && !w.settings.verbose && w.connected.Load() && r.Message != session.TurnedAway {
		return nil
	}
	var line strings.Builder
	line.WriteString(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&line, ", %s: %v", a.Key, a.Value)
		return true
	})
	w.say(report{Event: "warned", Error: line.String(), loud: true, always: true}, "%s", line.String())
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

// since formats a duration for people.
func since(d time.Duration) string { return text.Since(d) }

// sessionID formats a session as the servers' logs do.
func sessionID(id int64) string { return text.SessionID(id) }
