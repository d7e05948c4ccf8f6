package main

import (
	"fmt"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"

	"github.com/zkgrant/zkgrant/bench/internal/figures"
)

// Distance has the measurements by distance from one run.
type Distance struct {
	Results
	Echo map[int][]float64 `json:"echo_us"` // the times of echoes by distance
}

// figureFar names the figure for the time of an errand at a place, in microseconds.
func figureFar(place, errand string, ms int) string {
	return fmt.Sprintf("%s_%s_p50_us_%d", place, errand, ms)
}

// trips returns the cost in round trips: the least-squares slope of the errand's time
// over the time of an echo.
func (s *Distance) trips(key, place, errand string) (float64, bool) {
	var echoes, times []float64
	for _, ms := range distances() {
		if took, ok := s.value(key, figureFar(place, errand, ms)); ok && len(s.Echo[ms]) > 0 {
			echoes, times = append(echoes, figures.Median(s.Echo[ms])), append(times, took)
		}
	}
	return figures.Slope(echoes, times)
}

// placesFar returns the places, with their names in the tables and plots.
func placesFar() []struct{ key, name, plot string } {
	return []struct{ key, name, plot string }{
		{placeAlone, "standalone server", "distance.svg"},
		{placeFollower, "beside a follower", "distance-follower.svg"},
	}
}

// write writes the section about distance.
func (s *Distance) write(b *strings.Builder) {
	var asked, echoed []string
	for _, ms := range distances() {
		asked = append(asked, fmt.Sprint(ms))
		echoed = append(echoed, figures.Number(figures.Median(s.Echo[ms])/1000))
	}
	fmt.Fprintf(b, "\n## By distance\n\nRound trips of %s ms, made by one proxy for all libraries. An echo through it takes %s ms.\n"+
		"*Standalone server*: the clients are that far away from it. *Beside a follower*: the clients are near one of three\n"+
		"servers, and its leader is that far away.\n\n", list(asked), list(echoed))
	s.writeRun(b)
	b.WriteString("\n### Cost in round trips\n\nHow the time grows with an echo's, by least squares over all distances. " +
		"2.0 is two round trips.\n–: the library has no such lock. Only zkgrant has a release that need not be awaited.\n\n")
	s.writeTrips(b)
	for _, place := range placesFar() {
		fmt.Fprintf(b, "\n![cost in round trips, %s](%s)", place.name, place.plot)
	}
	b.WriteString("\n\n### Time by distance\n\n" + multiples)
	s.writeTable(b, s.rows())
}

// tenths formats a number of round trips. A number near zero is 0.0, whatever its sign.
func tenths(v float64) string { return strings.Replace(fmt.Sprintf("%.1f", v), "-0.0", "0.0", 1) }

// list joins words with commas and "and".
func list(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// writeTrips writes the table of round trips.
func (s *Distance) writeTrips(b *strings.Builder) {
	s.writeHead(b)
	for _, place := range placesFar() {
		for _, e := range errands() {
			line, seen := fmt.Sprintf("| %s: %s |", place.name, e.name), false
			for _, m := range s.Libraries {
				value, ok := s.trips(m.Key, place.key, e.key)
				if seen = seen || ok; ok {
					line += " " + tenths(value) + " |"
				} else {
					line += " – |"
				}
			}
			if seen {
				b.WriteString(line + "\n")
			}
		}
	}
}

func (s *Distance) rows() (all []row) {
	for _, place := range placesFar() {
		for _, e := range errands() {
			for _, ms := range distances() {
				all = append(all, row{fmt.Sprintf("%s: %s, %d ms", place.name, e.name, ms), figureFar(place.key, e.key, ms), "µs"})
			}
		}
	}
	return all
}

func (s *Distance) draw(folder string) error {
	for _, place := range placesFar() {
		p, err := s.groups("Cost in round trips, "+place.name, place.key)
		if err = figures.SaveAs(folder, place.plot, p, err); err != nil {
			return err
		}
	}
	return nil
}

// tallest is the largest number of round trips in the plot. A higher bar is cut off and
// labelled with its number.
const tallest = 10

// groups draws a group of bars for each errand, with a bar for each library that supports
// it.
func (s *Distance) groups(title, place string) (*plot.Plot, error) {
	const width = 0.32 * vg.Centimeter
	p := figures.NewPlot(title, fmt.Sprintf("round trips; bars end at %d", tallest))
	p.Legend.Top = true
	p.Legend.Padding = vg.Points(2)
	p.Y.Min = 0
	var names []string
	for i, e := range errands() {
		names = append(names, e.short)
		for j, m := range s.Libraries {
			value, ok := s.trips(m.Key, place, e.key)
			if !ok {
				continue
			}
			at := barAt{
				x: float64(i), width: width, offset: width * vg.Length(float64(j)-float64(len(s.Libraries)-1)/2),
				text: tenths(value), size: 6, lift: 2,
			}
			bar, err := addBar(p, at, m.Key, min(value, tallest))
			if err != nil {
				return nil, err
			}
			if i == 0 {
				p.Legend.Add(m.Name, bar)
			}
		}
	}
	p.NominalX(names...)
	p.Y.Max = tallest * 1.08
	return p, nil
}
