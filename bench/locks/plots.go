package main

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/zkgrant/zkgrant/bench/internal/figures"
)

// colourOf returns a library's colour, the same in every plot. The colours are
// distinguishable for colour-blind readers, too.
func colourOf(key string) color.Color {
	switch key {
	case keyOurs:
		return color.RGBA{R: 0xd5, G: 0x5e, A: 0xff}
	case keyStock:
		return color.RGBA{G: 0x72, B: 0xb2, A: 0xff}
	case keyCurator:
		return color.RGBA{G: 0x9e, B: 0x73, A: 0xff}
	case keyKazoo:
		return color.RGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff}
	case keyEtcd:
		return color.RGBA{R: 0xe6, G: 0x9f, A: 0xff}
	default:
		return color.Gray{Y: 0x80}
	}
}

func (r *Results) draw(folder string) error {
	for name, made := range map[string]func() (*plot.Plot, error){
		"cycle.svg": func() (*plot.Plot, error) {
			return r.bars("Uncontended acquire and release, as the caller feels it", "µs, median", figureCycle)
		},
		"memory.svg": func() (*plot.Plot, error) {
			return r.bars("Memory of a held lock", "bytes", figureMemory)
		},
		"handoff.svg": func() (*plot.Plot, error) {
			return r.lines("Handing the lock on: from the release to the next grant", "µs, median", figureHandoff)
		},
		"bytes.svg": func() (*plot.Plot, error) {
			return r.lines("Bytes sent and received to hand the lock on", "bytes", figureBytes)
		},
	} {
		p, err := made()
		if err := figures.SaveAs(folder, name, p, err); err != nil {
			return err
		}
	}
	return nil
}

// bars draws one figure, with a bar for each library that has it.
func (r *Results) bars(title, unit, figure string) (*plot.Plot, error) {
	p := figures.NewPlot(title, unit)
	p.Y.Min = 0
	var names []string
	for _, m := range r.Libraries {
		value, ok := r.value(m.Key, figure)
		if !ok {
			continue
		}
		if _, err := addBar(p, barAt{x: float64(len(names)), width: 1.4 * vg.Centimeter, text: figures.Number(value), lift: 3}, m.Key, value); err != nil {
			return nil, err
		}
		names = append(names, m.Name)
	}
	if len(names) == 0 {
		return p, nil
	}
	p.NominalX(names...)
	p.Y.Max *= 1.08 // room for the numbers
	return p, nil
}

// barAt is the position of a bar, and the text above it.
type barAt struct {
	x             float64
	width, offset vg.Length // offset is from x to the bar's middle
	text          string
	size, lift    float64 // of the text, in points; 0 for the default
}

func addBar(p *plot.Plot, at barAt, key string, value float64) (*plotter.BarChart, error) {
	bar, err := plotter.NewBarChart(plotter.Values{value}, at.width)
	if err != nil {
		return nil, err
	}
	bar.XMin, bar.Offset, bar.Color, bar.LineStyle.Width = at.x, at.offset, colourOf(key), 0
	label, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: at.x, Y: value}}, Labels: []string{at.text}})
	if err != nil {
		return nil, err
	}
	label.TextStyle[0].Font.Variant = "Sans"
	if at.size > 0 {
		label.TextStyle[0].Font.Size = vg.Points(at.size)
	}
	label.TextStyle[0].XAlign = draw.XCenter
	label.Offset = vg.Point{X: at.offset, Y: vg.Points(at.lift)}
	p.Add(bar, label)
	return bar, nil
}

// lines draws a figure over the length of the queue, with a line for each library, on
// logarithmic scales.
func (r *Results) lines(title, unit string, figure func(queue int) string) (*plot.Plot, error) {
	var lines []figures.Line
	for _, m := range r.Libraries {
		line := figures.Line{Name: m.Name, Color: colourOf(m.Key)}
		for _, queue := range r.queues() {
			if value, ok := r.value(m.Key, figure(queue)); ok {
				line.Points = append(line.Points, plotter.XY{X: float64(queue), Y: value})
			}
		}
		lines = append(lines, line)
	}
	p, err := figures.Lines(title, unit, "waiting", lines)
	if err == nil {
		p.Legend.Padding = vg.Points(2)
	}
	return p, err
}
