package main

import (
	_ "embed"
	"fmt"
	"io"
	"strings"
	"text/template"
)

// The picture has two lanes for each library, one below the other: the holder's and the
// next contender's, over a common time axis. Plotting libraries do not offer such a
// chart, so it is a template. It does not depend on installed fonts.
//
//go:embed picture.svg.tmpl
var pictureTemplate string

// Sizes in the picture's own units, which are pixels unless it is scaled.
const (
	pictureWidth   = 1040.0
	axisLeft       = 210.0
	axisRight      = pictureWidth - 20
	groupsTop      = 92.0
	groupHeight    = 104.0
	barHeight      = 20.0
	holderLane     = 40.0 // the middle of the bar
	nextLane       = 76.0
	breakWidth     = 22.0
	legendHeight   = 48.0
	footnoteHeight = 18.0
	// Beyond this there is no room for a label to the right of a mark.
	labelsTurn = axisLeft + 0.6*(axisRight-axisLeft)
)

// axis maps times to positions. If the part between early and late, in which nothing
// happens, is long, the axis skips it.
type axis struct {
	first, early Millis  // the first part's ends
	late, last   Millis  // the second part's; none if late is not after early
	unit         float64 // width of a millisecond
}

func newAxis(f *Figures) axis {
	const second = 1000
	a := axis{first: -second, early: 8 * second, late: f.Healed - second, last: f.Healed + second}
	for _, m := range f.Measured {
		for _, of := range moments() {
			if at := m.spread(of).Max; of == lead {
				continue
			} else if at < a.late {
				a.early = max(a.early, at)
			} else {
				a.last = max(a.last, at)
			}
		}
	}
	a.early = (a.early/second + 1) * second
	a.last = (a.last/second + 1) * second
	width := axisRight - axisLeft
	if a.broken() {
		a.unit = (width - breakWidth) / float64(a.early-a.first+a.last-a.late)
	} else {
		a.unit = width / float64(a.last-a.first)
	}
	return a
}

func (a axis) broken() bool { return a.late > a.early }

// x returns the position of a time. A skipped time is in the break.
func (a axis) x(at Millis) float64 {
	at = min(max(at, a.first), a.last)
	if !a.broken() || at <= a.early {
		return axisLeft + float64(at-a.first)*a.unit
	}
	if at < a.late {
		return a.breakX() + breakWidth/2
	}
	return axisRight - float64(a.last-at)*a.unit
}

// breakX returns where the break begins.
func (a axis) breakX() float64 { return axisLeft + float64(a.early-a.first)*a.unit }

// ticks returns a mark for each full second on the axis.
func (a axis) ticks() []mark {
	var marks []mark
	for at := Millis(0); at <= a.last; at += 1000 {
		if a.broken() && at >= a.early && at <= a.late {
			continue
		}
		marks = append(marks, mark{X: a.x(at), Text: fmt.Sprint(int64(at) / 1000)})
	}
	return marks
}

// picture is what the template draws.
type picture struct {
	Width, Height   float64
	Right           float64 // where the axis ends
	Top, Depth      float64 // where the lanes begin, and how far down they go; positions below are relative to Top, too
	Scale           float64 // where the numbers of the axis are
	Legend          float64
	Bar             float64 // height of a bar
	Title, Subtitle string
	Ticks           []mark
	Cut, Healed     float64
	Broken          bool
	Break           float64 // where the axis has its break
	Groups          []group
	Footnotes       []footnote
}

// footnote is a line below the legend.
type footnote struct {
	Y    float64
	Text string
}

// mark is an event at a time, with a label.
type mark struct {
	X        float64
	Min, Max float64 // the spread; equal if there is none to show
	Lane     float64 // the middle of the bar that the spread is drawn on
	Text     string
	TextX    float64
	TextY    float64
	Anchor   string // whether the label starts or ends at TextX
}

// span is a part of a lane; empty if it has no width.
type span struct{ X, Width float64 }

func between(from, to float64) span { return span{from, max(0, to-from)} }

// group is the two lanes of a library.
type group struct {
	Y                     float64
	Name, API             string
	Verdict, Extent       string // a summary, and the spread of the figure in it
	Harm                  bool   // there are two holders at once
	Holds, Wrong, Nexts   span
	Marks                 []mark // with words
	Suspended, Lost, Ends *mark  // with a shape for each kind
}

func draw(w io.Writer, f *Figures) error {
	t, err := template.New("picture").Funcs(template.FuncMap{
		"px": func(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") },
	}).Parse(pictureTemplate)
	if err != nil {
		return fmt.Errorf("drawing: %w", err)
	}
	if err := t.Execute(w, newPicture(f)); err != nil {
		return fmt.Errorf("drawing: %w", err)
	}
	return nil
}

func newPicture(f *Figures) *picture {
	a := newAxis(f)
	runs := 0
	for _, m := range f.Measured {
		runs = max(runs, len(m.Runs))
	}
	depth := float64(len(f.Measured)) * groupHeight
	p := &picture{
		Width: pictureWidth, Right: axisRight, Top: groupsTop, Depth: depth,
		Scale: depth + 18, Legend: groupsTop + depth + 50, Bar: barHeight,
		Title: "A holder is cut off from ZooKeeper without a word: when does it hear, and when is the next one let in?",
		Subtitle: fmt.Sprintf("ZooKeeper %s, session timeout %s, tick %s; seconds since the cut, %s",
			f.Versions["zookeeper"], f.Timeout, f.Tick, countRuns(runs)),
		Ticks: a.ticks(), Cut: a.x(0), Healed: a.x(f.Healed), Broken: a.broken(), Break: a.breakX(),
		Footnotes: footnotes(f),
	}
	for i, m := range f.Measured {
		p.Groups = append(p.Groups, newGroup(m, f.Versions[m.Key], a, float64(i)*groupHeight))
	}
	p.Height = p.Legend + legendHeight + float64(len(p.Footnotes))*footnoteHeight
	return p
}

// footnotes returns notes about what the picture does not show.
func footnotes(f *Figures) []footnote {
	texts := []string{"A dropped connection alone does not say whether the lock is lost."}
	if f.suspendedInTime() {
		texts[0] += " Treating it as a loss is in time here with each library,"
		texts = append(texts, "and costs the lock at every disconnect.")
	}
	for _, key := range f.leftOut() {
		texts = append(texts, fmt.Sprintf("Left out: %s. %s", nameOf(key), f.LeftOut[key]))
	}
	var notes []footnote
	for i, text := range texts {
		notes = append(notes, footnote{Y: legendHeight + float64(i)*footnoteHeight, Text: text})
	}
	return notes
}

func newGroup(m Measured, version string, a axis, y float64) group {
	told, end, let := m.spread(suspended), m.spread(lost), m.spread(granted)
	g := group{Y: y, Name: m.Name, API: strings.TrimSpace(version + " " + m.API)}
	g.Verdict, g.Extent, g.Harm = m.verdict()
	// Put the label of the holder's first report on the left, so that it does not overlap
	// the second one's.
	swapped := end.Came > 0 && end.Median < told.Median
	knows, entered := axisRight, axisRight
	if told.Came > 0 {
		g.Suspended = newMark(a, told, holderLane, m.word(toldSuspended), !swapped)
		g.Marks = append(g.Marks, *g.Suspended)
	}
	if end.Came > 0 {
		g.Lost = newMark(a, end, holderLane, m.word(toldLost), swapped || a.x(end.Median) > labelsTurn)
		g.Marks = append(g.Marks, *g.Lost)
		knows = g.Lost.X
	}
	if s := m.spread(expired); s.Came > 0 {
		g.Ends = newMark(a, s, nextLane, "", true)
	}
	if let.Came > 0 {
		m := newMark(a, let, nextLane, "next one granted", true)
		g.Marks = append(g.Marks, *m)
		entered = m.X
	}
	g.Holds = between(axisLeft, min(knows, entered))
	g.Wrong = between(entered, knows)
	g.Nexts = between(entered, axisRight)
	return g
}

// newMark returns a mark, with the words and the time to its left or right.
func newMark(a axis, s Spread, lane float64, words string, toTheLeft bool) *mark {
	m := &mark{X: a.x(s.Median), Min: a.x(s.Min), Max: a.x(s.Max), Lane: lane, Text: words + " " + s.String()}
	left, right := m.X, m.X
	m.TextY = lane - 18 // above the bar
	if lane == nextLane {
		m.TextY = lane + 4
		left, right = m.Min, m.Max // clear of the spread, which is at the same height
	}
	m.TextX, m.Anchor = right+8, "start"
	if toTheLeft {
		m.TextX, m.Anchor = left-8, "end"
	}
	return m
}
