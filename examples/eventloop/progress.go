package main

import (
	"fmt"
	"io"
	"strings"
)

// progress prints lines and a bar below them: on a terminal in one line that is
// written again and again, elsewhere once for each fifth of the way.
type progress struct {
	out      io.Writer
	terminal bool
	shown    int  // fifths that were printed
	open     bool // the cursor is behind the bar
}

// bar shows that so much of the total is done, and what else there is to say.
func (p *progress) bar(done, total int, format string, args ...any) {
	const width = 20
	fifth := 5 * done / total
	if !p.terminal && fifth == p.shown {
		return
	}
	p.shown = fifth
	full := width * done / total
	bar := strings.Repeat("#", full) + strings.Repeat(".", width-full)
	text := fmt.Sprintf("[%s] %3d%%  %s", bar, 100*done/total, fmt.Sprintf(format, args...))
	if p.terminal {
		fmt.Fprintf(p.out, "\r%s\x1b[K", text) // the rest of the line is erased
		p.open = true
	} else {
		fmt.Fprintln(p.out, text)
	}
}

// line prints a line that stays.
func (p *progress) line(format string, args ...any) {
	p.end()
	fmt.Fprintf(p.out, format+"\n", args...)
}

// end leaves the bar as it is and goes to the next line.
func (p *progress) end() {
	if p.open {
		fmt.Fprintln(p.out)
		p.open = false
	}
}
