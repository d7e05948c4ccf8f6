package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// String returns the time in seconds.
func (m Millis) String() string {
	if m%1000 == 0 {
		return fmt.Sprintf("%d s", int64(m)/1000)
	}
	return fmt.Sprintf("%.1f s", float64(m)/1000)
}

// String returns the median in seconds, and the extremes if they differ at that
// precision.
func (s Spread) String() string {
	median := fmt.Sprintf("%.1f s", float64(s.Median)/1000)
	if extent := s.extent(); extent != "" {
		return median + " (" + extent + ")"
	}
	return median
}

// extent returns the extremes in seconds, or "" if they are equal.
func (s Spread) extent() string {
	low, high := fmt.Sprintf("%.1f", float64(s.Min)/1000), fmt.Sprintf("%.1f", float64(s.Max)/1000)
	if low == high {
		return ""
	}
	return low + "–" + high
}

// countRuns returns how many runs the figures are from.
func countRuns(n int) string {
	if n == 1 {
		return "one run"
	}
	return fmt.Sprintf("median of %d runs (lowest–highest)", n)
}

// verdict returns a summary of the result, the spread of the figure in it, and whether
// there were two holders at once.
func (m Measured) verdict() (words, extent string, harm bool) {
	late := 0
	for _, r := range m.Runs {
		_, let := r.Moments[granted]
		if before, told := r.Moments[lead]; let && (!told || before <= 0) {
			late++
		}
	}
	let, s := m.spread(granted).Came, m.spread(lead)
	switch {
	case let == 0:
		return "nobody was granted", "", false
	case late == 0:
		return fmt.Sprintf("told %.1f s before", float64(s.Median)/1000), s.extent(), false
	case late < let:
		return fmt.Sprintf("two holders in %d of %d runs", late, let), "", true
	case s.Came == 0:
		return "two holders, and never told", "", true
	default:
		s = Spread{Median: -s.Median, Min: -s.Max, Max: -s.Min, Came: s.Came}
		return fmt.Sprintf("two holders for %.1f s", float64(s.Median)/1000), s.extent(), true
	}
}

// word returns the library's own word for a report to the holder.
func (m Measured) word(w what) string {
	for _, r := range m.Runs {
		for _, t := range r.Told {
			if t.Who == holder && t.What == w {
				return t.Own
			}
		}
	}
	return string(w)
}

func (f *Figures) print(w io.Writer) error {
	fmt.Fprintf(w, "silent partition from 0 to %s, session timeout %s, tick %s, ZooKeeper %s, Java %s\n",
		f.Healed, f.Timeout, f.Tick, f.Versions["zookeeper"], f.Versions["java"])
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprint(table, "ms since the cut\truns")
	for _, of := range moments() {
		fmt.Fprintf(table, "\t%s", of)
	}
	for _, m := range f.Measured {
		fmt.Fprintf(table, "\n%s\t%d", strings.TrimSpace(m.Name+" "+f.Versions[m.Key]), len(m.Runs))
		for _, of := range moments() {
			fmt.Fprintf(table, "\t%s", m.spread(of).cell(len(m.Runs)))
		}
	}
	fmt.Fprintln(table)
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	for _, m := range f.Measured {
		words, extent, _ := m.verdict()
		if extent != "" {
			words += " (" + extent + ")"
		}
		fmt.Fprintf(w, "%s: %s\n", m.Name, words)
	}
	for _, key := range f.leftOut() {
		fmt.Fprintf(w, "%s IS LEFT OUT: %s\n", nameOf(key), f.LeftOut[key])
	}
	return nil
}

// cell returns the spread in milliseconds.
func (s Spread) cell(runs int) string {
	switch {
	case s.Came == 0:
		return "-"
	case s.Came < runs:
		return fmt.Sprintf("%d (%d–%d), never in %d", int64(s.Median), int64(s.Min), int64(s.Max), runs-s.Came)
	case s.Min == s.Max:
		return fmt.Sprint(int64(s.Median))
	default:
		return fmt.Sprintf("%d (%d–%d)", int64(s.Median), int64(s.Min), int64(s.Max))
	}
}
