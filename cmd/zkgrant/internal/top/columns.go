package top

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// The looks of text.
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

// column is one of a table.
type column struct {
	name  string
	least int  // its least width
	right bool // numbers
	tail  bool // what does not fit loses its beginning
	drop  int  // the higher, the earlier it makes room for others; 0: it stays
}

const gap = 2 // between columns

// align returns a line of names and a line for each row of cells, none wider than width if that can be. Columns that do not fit are left
// out.
func align(columns []column, cells [][]string, width int) []string {
	kept, need := fitting(columns, width)
	widths := make(map[int]int, len(kept))
	for _, i := range kept {
		widths[i] = columns[i].least
	}
	for _, i := range kept { // the first ones get what they need first
		wanted := ansi.StringWidth(columns[i].name)
		for _, row := range cells {
			wanted = max(wanted, ansi.StringWidth(row[i]))
		}
		more := max(0, min(wanted-columns[i].least, width-need))
		widths[i] += more
		need += more
	}
	line := func(row []string) string {
		parts := make([]string, 0, len(kept))
		for _, i := range kept {
			parts = append(parts, columns[i].fit(row[i], widths[i]))
		}
		return strings.TrimRight(strings.Join(parts, strings.Repeat(" ", gap)), " ")
	}
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	lines := []string{line(names)}
	for _, row := range cells {
		lines = append(lines, line(row))
	}
	return lines
}

// fitting returns the indices of the columns whose least widths fit, and how wide they are together.
func fitting(columns []column, width int) (kept []int, need int) {
	for i, c := range columns {
		kept = append(kept, i)
		need += c.least + gap
	}
	need -= gap
	for need > width {
		first := slices.MaxFunc(kept, func(a, b int) int { return columns[a].drop - columns[b].drop })
		if columns[first].drop == 0 {
			break
		}
		need -= columns[first].least + gap
		kept = slices.DeleteFunc(kept, func(i int) bool { return i == first })
	}
	return kept, need
}

// fit makes a cell so wide.
func (c column) fit(cell string, width int) string {
	switch {
	case c.tail && cell != c.name:
		cell = tail(cell, width)
	default:
		cell = ansi.Truncate(cell, width, "…")
	}
	blanks := strings.Repeat(" ", max(0, width-ansi.StringWidth(cell)))
	if c.right {
		return blanks + cell
	}
	return cell + blanks
}

// tail is the end of a text if it has not enough room.
func tail(text string, width int) string {
	if over := ansi.StringWidth(text) - width; over > 0 && width > 0 {
		return ansi.TruncateLeft(text, over+1, "…")
	}
	return text
}
