package figures

import (
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	plotWidth  = 16 * vg.Centimeter
	plotHeight = 10 * vg.Centimeter
	plotMargin = 1 * vg.Centimeter
)

// SaveAs writes the plot as SVG, unless drawing it has failed with err.
func SaveAs(folder, name string, p *plot.Plot, err error) error {
	if err == nil {
		err = save(p, filepath.Join(folder, name))
	}
	if err != nil {
		return fmt.Errorf("drawing %s: %w", name, err)
	}
	return nil
}

// save writes the plot as SVG, with a margin on the right: the last label of an axis is
// wider than the axis.
func save(p *plot.Plot, name string) error {
	canvas := vgsvg.New(plotWidth+plotMargin, plotHeight)
	p.Draw(draw.Crop(draw.New(canvas), 0, -plotMargin, 0, 0))
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = canvas.WriteTo(file)
	return errors.Join(err, file.Close())
}

// NewPlot returns an empty plot.
func NewPlot(title, unit string) *plot.Plot {
	p := plot.New()
	p.Title.Text = title
	p.Title.Padding = vg.Points(6)
	p.Y.Label.Text = unit
	for _, style := range []*draw.TextStyle{
		&p.Title.TextStyle, &p.Legend.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label,
	} {
		style.Font.Variant = "Sans"
	}
	return p
}

// Line is a line of a plot. Points are in the order of X.
type Line struct {
	Name   string // in the legend
	Color  color.Color
	Points plotter.XYs
}

// Lines draws lines with a dot at each point, on two logarithmic scales. Such a scale has
// no 0, so points at 0 are left out, and so are lines without any other point.
func Lines(title, unit, label string, lines []Line) (*plot.Plot, error) {
	p := NewPlot(title, unit)
	p.X.Label.Text = label
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	drawn := false
	for _, l := range lines {
		points := slices.DeleteFunc(l.Points, func(at plotter.XY) bool { return at.Y <= 0 })
		if len(points) == 0 {
			continue
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, err
		}
		line.Color, dots.Color = l.Color, l.Color
		line.Width = vg.Points(2)
		dots.Shape = draw.CircleGlyph{}
		p.Add(line, dots)
		p.Legend.Add(l.Name, line, dots)
		drawn = true
	}
	if drawn { // from one power of ten to another, so that both ends are labelled and the legend has room
		p.X.Min, p.X.Max = decades(p.X.Min, p.X.Max)
		p.Y.Min, p.Y.Max = decades(p.Y.Min, 2*p.Y.Max)
		p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
		p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	}
	return p, nil
}

// decades returns the powers of ten around the range.
func decades(least, most float64) (below, above float64) {
	return math.Pow(10, math.Floor(math.Log10(least))), math.Pow(10, math.Ceil(math.Log10(most)))
}
