package top

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/columns"
	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/text"
	"github.com/zkgrant/zkgrant/coordinator"
)

// Text styles.
//
//nolint:gochecknoglobals // they are constants
var (
	bold    = ansi.NewStyle(ansi.AttrBold)
	dim     = ansi.NewStyle(ansi.AttrFaint)
	reverse = ansi.NewStyle(ansi.AttrReverse)
	red     = ansi.NewStyle(ansi.AttrRedForegroundColor)
	green   = ansi.NewStyle(ansi.AttrGreenForegroundColor)
	yellow  = ansi.NewStyle(ansi.AttrYellowForegroundColor)
)

// layout is how many lines the parts of the screen get. The other lines are the title,
// the column names, the status and the keys.
type layout struct {
	rows   int // of the table
	detail int // including its rule; 0 for no detail
}

func (m model) layout() layout {
	const others, least = 4, 6 // the lines of neither; a detail of three lines below a table of three
	body := max(m.height-others, 1)
	if body < least {
		return layout{rows: body}
	}
	return layout{rows: body - body/2, detail: body / 2}
}

// view returns the screen: lines that fit.
func (m model) view() string {
	if m.width < 1 || m.height < 1 {
		return ""
	}
	l := m.layout()
	lines := append([]string{m.title()}, m.table(l.rows)...)
	if l.detail > 0 {
		lines = append(lines, m.detail(l.detail)...)
	}
	lines = append(lines, m.statusLine(), m.keys())
	if len(lines) > m.height { // the first lines and the status matter most
		lines = append(lines[:m.height-1], lines[len(lines)-2])
	}
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, m.width, "…")
	}
	return strings.Join(lines, "\n")
}

func (m model) title() string {
	left := bold.Styled("zkgrant top") + " " + text.Printable(m.Root)
	waiters, unread := 0, 0
	for _, r := range m.locks {
		waiters += r.waiters
		if r.err != nil {
			unread++
		}
	}
	switch {
	case m.at.IsZero():
	case len(m.rows) < len(m.locks):
		left += fmt.Sprintf("  %d of %s, filter %s", len(m.rows), count(len(m.locks), "lock"), m.filter)
	default:
		left += fmt.Sprintf("  %s, %s", count(len(m.locks)-unread, "lock"), count(waiters, "waiter"))
	}
	if m.nodes > 0 {
		left += yellow.Styled(", still searching: " + count(m.nodes, "node"))
	}
	if unread > 0 {
		left += red.Styled(fmt.Sprintf(", %d unreadable", unread))
	}
	right := m.connection()
	gap := m.width - ansi.StringWidth(left) - ansi.StringWidth(right)
	if gap < 1 {
		left, gap = ansi.Truncate(left, max(0, m.width-ansi.StringWidth(right)-1), "…"), 1
	}
	return left + strings.Repeat(" ", gap) + right
}

// connection returns the state of the session, and the age of the rows if they are not
// fresh.
func (m model) connection() string {
	words := map[coordinator.State]string{
		coordinator.StateConnected: green.Styled("connected"), coordinator.StateSuspended: red.Styled("suspended"),
	}[m.state]
	if words == "" {
		words = red.Styled("no session")
	}
	if age := m.now.Sub(m.at); !m.at.IsZero() && age > m.fresh() {
		words += red.Styled(", as of " + text.Since(age) + " ago")
	}
	return words
}

// fresh returns the age up to which rows count as fresh. A walk usually takes at most a
// few seconds.
func (m model) fresh() time.Duration { return 2*m.Interval + 5*time.Second }

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}

// statusLine returns the filter, the question, or the last message.
func (m model) statusLine() string {
	switch m.mode {
	case filtering:
		return "filter: " + m.filter + reverse.Styled(" ")
	case confirming:
		format := "revoke %s? Grace %v, " + count(m.target.holders, "holder") + ". y/n"
		around := ansi.StringWidth(fmt.Sprintf(format, "", m.Grace))
		return yellow.Styled(fmt.Sprintf(format, columns.Tail(text.Printable(m.target.Path), m.width-around), m.Grace))
	case browsing:
	}
	status := text.Printable(m.status)
	if m.bad {
		return red.Styled(status)
	}
	return green.Styled(status)
}

func (m model) keys() string {
	switch m.mode {
	case filtering:
		return dim.Styled("enter keep  esc clear")
	case confirming:
		return dim.Styled("y revokes  any other key cancels")
	case browsing:
	}
	return dim.Styled("q quit  r revoke  / filter  ↑↓ select  sort by: w waited  h held  n waiters  p path")
}

// detail returns the queue of the selected lock, holders first.
func (m model) detail(lines int) []string {
	all := make([]string, 0, lines)
	if len(m.rows) == 0 {
		return append(all, slices.Repeat([]string{""}, lines)...)
	}
	r := m.rows[m.cursor]
	room := max(lines-2, 0)
	sum := fmt.Sprintf(" %s, %d hold, %d wait ", r.Kind, r.holders, r.waiters)
	if shown := min(room, len(r.Contenders)); shown < len(r.Contenders) {
		sum += fmt.Sprintf("(%d shown) ", shown)
	}
	if age := m.now.Sub(r.Seen); !r.Seen.IsZero() && age > m.fresh() {
		sum += "seen " + text.Since(age) + " ago "
	}
	rule := "── " + columns.Tail(text.Printable(r.Path), m.width-3-ansi.StringWidth(sum)) + sum
	all = append(all, dim.Styled(rule+strings.Repeat("─", max(0, m.width-ansi.StringWidth(rule)))))
	if r.err != nil {
		for _, line := range strings.Split(ansi.Hardwrap(text.Printable(r.err.Error()), m.width, false), "\n") {
			all = append(all, red.Styled(line))
		}
	} else {
		all = append(all, m.queue(r, room)...)
	}
	all = append(all, slices.Repeat([]string{""}, lines)...)
	return all[:lines]
}

func (m model) queue(r row, room int) []string {
	all := []columns.Column{
		{Name: "STATE", Least: 5}, {Name: "KIND", Least: 4, Drop: 2}, {Name: "SINCE", Least: 5, Right: true}, {Name: "TOKEN", Least: 10, Right: true, Drop: 3},
		{Name: "SESSION", Least: 8, Drop: 4}, {Name: "WHO", Least: 8},
	}
	var cells [][]string
	for _, c := range r.Contenders[:min(room, len(r.Contenders))] {
		cells = append(cells, []string{text.State(c), text.Kind(c.Kind), text.Since(m.now.Sub(c.Since)), strconv.FormatInt(c.Token, 10),
			text.SessionID(c.Session), text.Printable(string(c.Data))})
	}
	lines := columns.Align(all, cells, m.width)
	for i := range lines {
		switch {
		case i == 0:
			lines[i] = dim.Styled(lines[i])
		case r.Contenders[i-1].Holding:
			lines[i] = green.Styled(lines[i])
		}
	}
	return lines
}

// table returns the column names, and as many rows as fit.
func (m model) table(room int) []string {
	all := []columns.Column{
		{Name: "PATH", Least: 10, Tail: true}, {Name: "KIND", Least: 9, Drop: 4}, {Name: "SIZE", Least: 4, Right: true, Drop: 5},
		{Name: "HOLD", Least: 4, Right: true, Drop: 1}, {Name: "HELD", Least: 8, Right: true, Drop: 2}, {Name: "WAIT", Least: 5, Right: true},
		{Name: "WAITED", Least: 8, Right: true}, {Name: "HELD BY", Least: 10, Drop: 3},
	}
	sorted := map[order]int{byWait: 6, byHold: 4, byQueue: 5, byPath: 0}[m.order]
	all[sorted].Name = "▾" + all[sorted].Name
	shown := m.rows[m.offset:min(m.offset+room, len(m.rows))]
	cells := make([][]string, len(shown))
	for i, r := range shown {
		cells[i] = m.cells(r)
	}
	lines := columns.Align(all, cells, m.width-2)
	for i := range lines {
		switch {
		case i == 0:
			lines[i] = dim.Styled("  " + lines[i])
		case m.offset+i-1 == m.cursor:
			lines[i] = reverse.Styled("> " + lines[i] + strings.Repeat(" ", max(0, m.width-2-ansi.StringWidth(lines[i]))))
		case shown[i-1].err != nil:
			lines[i] = "  " + red.Styled(lines[i])
		default:
			lines[i] = "  " + lines[i]
		}
	}
	switch {
	case len(m.rows) > 0:
	case m.at.IsZero(), m.nodes > 0 && len(m.locks) == 0:
		lines = append(lines, "  reading")
	case len(m.locks) > 0:
		lines = append(lines, "  no lock matches the filter")
	default:
		lines = append(lines, "  no locks below "+text.Printable(m.Root))
	}
	return append(lines, slices.Repeat([]string{""}, room+1-min(len(lines), room+1))...)
}

func (m model) cells(r row) []string {
	if r.err != nil {
		return []string{text.Printable(r.Path), r.Kind.String(), "", "", "", "", "", text.Printable(cmp.Or(errors.Unwrap(r.err), r.err).Error())}
	}
	age := func(since time.Time) string {
		if since.IsZero() {
			return ""
		}
		return text.Since(m.now.Sub(since))
	}
	size, who := "", ""
	if r.Size > 0 {
		size = strconv.Itoa(r.Size)
	}
	for _, c := range r.Contenders {
		if c.Holding {
			who = text.Printable(string(c.Data))
			if text.MayBeIdle(c) {
				who = strings.TrimPrefix(who+", may be idle", ", ")
			}
			break
		}
	}
	if r.holders > 1 {
		who += fmt.Sprintf(" and %d more", r.holders-1)
	}
	return []string{text.Printable(r.Path), r.Kind.String(), size, strconv.Itoa(r.holders), age(r.holds), strconv.Itoa(r.waiters), age(r.waits), who}
}
