// Package columns aligns the columns of a table, by the width that text has on a
// terminal.
package columns

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Column describes a column of a table.
type Column struct {
	Name  string
	Least int  // the minimum width
	Right bool // aligned to the right, for numbers
	Tail  bool // a cell that does not fit is cut at its beginning
	Drop  int  // columns with higher numbers are left out first; 0: never
}

const gap = 2 // between columns

// Align returns a header line and a line for each row of cells, no wider than width if
// possible. It leaves out columns that do not fit.
func Align(columns []Column, cells [][]string, width int) []string {
	kept, need := fitting(columns, width)
	widths := make(map[int]int, len(kept))
	for _, i := range kept {
		widths[i] = columns[i].Least
	}
	for _, i := range kept { // the first columns get the width that they need first
		wanted := ansi.StringWidth(columns[i].Name)
		for _, row := range cells {
			wanted = max(wanted, ansi.StringWidth(row[i]))
		}
		more := max(0, min(wanted-columns[i].Least, width-need))
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
		names[i] = c.Name
	}
	lines := []string{line(names)}
	for _, row := range cells {
		lines = append(lines, line(row))
	}
	return lines
}

// fitting returns the indices of the columns whose minimum widths fit, and their total
// width.
func fitting(columns []Column, width int) (kept []int, need int) {
	for i, c := range columns {
		kept = append(kept, i)
		need += c.Least + gap
	}
	need -= gap
	for need > width {
		first := slices.MaxFunc(kept, func(a, b int) int { return columns[a].Drop - columns[b].Drop })
		if columns[first].Drop == 0 {
			break
		}
		need -= columns[first].Least + gap
		kept = slices.DeleteFunc(kept, func(i int) bool { return i == first })
	}
	return kept, need
}

// fit cuts or pads a cell to the width.
func (c Column) fit(cell string, width int) string {
	switch {
	case c.Tail && cell != c.Name:
		cell = Tail(cell, width)
	default:
		cell = Head(cell, width)
	}
	blanks := strings.Repeat(" ", max(0, width-ansi.StringWidth(cell)))
	if c.Right {
		return blanks + cell
	}
	return cell + blanks
}

// Head returns the text, cut at its end if it does not fit.
func Head(text string, width int) string { return ansi.Truncate(text, width, "…") }

// Tail returns the text, cut at its beginning if it does not fit.
func Tail(text string, width int) string {
	if over := ansi.StringWidth(text) - width; over > 0 && width > 0 {
		return ansi.TruncateLeft(text, over+1, "…")
	}
	return text
}

// Width returns the width of a text on a terminal.
func Width(text string) int { return ansi.StringWidth(text) }
