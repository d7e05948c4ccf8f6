package main

import (
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/zkgrant/zkgrant/coordinator/telemetry/zkprom/promtest"
)

// Sizes in points. A picture has 96 pixels an inch.
const (
	columns = 24 // of Grafana's grid
	column  = 46
	row     = 27
	gap     = 4
	inset   = 8
	title   = 18
	key     = 13 // a line of the legend
	keys    = 4  // lines of the legend at most
	letter  = 9
)

var (
	ground  = color.RGBA{0xf4, 0xf5, 0xf5, 0xff}
	white   = color.RGBA{0xff, 0xff, 0xff, 0xff}
	border  = color.RGBA{0xdc, 0xde, 0xe2, 0xff}
	grid    = color.RGBA{0xe9, 0xea, 0xec, 0xff}
	ink     = color.RGBA{0x24, 0x29, 0x2e, 0xff}
	faint   = color.RGBA{0x6e, 0x74, 0x7c, 0xff}
	palette = []color.RGBA{
		{0x1f, 0x78, 0xc1, 0xff}, {0xe0, 0x75, 0x2d, 0xff}, {0x50, 0x86, 0x42, 0xff}, {0xbf, 0x1b, 0x00, 0xff}, {0x70, 0x5d, 0xa0, 0xff},
		{0xcc, 0xa3, 0x00, 0xff}, {0x06, 0x8a, 0x8a, 0xff}, {0xba, 0x43, 0xa9, 0xff}, {0x58, 0x14, 0x0c, 0xff}, {0x6d, 0x1f, 0x62, 0xff},
	}
)

// paint writes the picture as PNG.
func paint(file, name string, panels []panel) error {
	rows := 2 // for the dashboard's title
	for _, p := range panels {
		rows = max(rows, p.GridPos.Y+p.GridPos.H+2)
	}
	width, height := vg.Length(columns*column), vg.Length(rows*row)
	image := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(96), vgimg.UseBackgroundColor(ground))
	all := draw.New(image)
	write(all, name, vg.Point{X: inset, Y: height - 1.25*row}, 16, ink, true)
	for i := range panels {
		p := &panels[i]
		left, top := vg.Length(p.GridPos.X*column), height-vg.Length((p.GridPos.Y+2)*row)
		c := draw.Canvas{Canvas: image, Rectangle: vg.Rectangle{
			Min: vg.Point{X: left + gap, Y: top - vg.Length(p.GridPos.H*row) + gap},
			Max: vg.Point{X: left + vg.Length(p.GridPos.W*column) - gap, Y: top - gap},
		}}
		p.paint(c)
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = vgimg.PngCanvas{Canvas: image}.WriteTo(out)
	return errors.Join(err, out.Close())
}

func (p *panel) paint(c draw.Canvas) {
	if p.Type == "row" {
		write(c, p.Title, vg.Point{X: c.Min.X + gap, Y: c.Center().Y - letter/2}, letter+2, ink, true)
		return
	}
	c.FillPolygon(white, box(c.Rectangle))
	c.StrokeLines(draw.LineStyle{Color: border, Width: 0.75}, append(box(c.Rectangle), c.Min))
	write(c, p.Title, vg.Point{X: c.Min.X + inset, Y: c.Max.Y - title}, letter+1.5, ink, true)
	c = draw.Crop(c, inset, -inset, gap, -title-gap)
	if p.Type == "state-timeline" {
		p.bands(c)
		return
	}
	used := p.legend(c)
	p.plot(draw.Crop(c, 0, 0, used, -gap))
}

// box returns the corners.
func box(r vg.Rectangle) []vg.Point {
	return []vg.Point{r.Min, {X: r.Max.X, Y: r.Min.Y}, r.Max, {X: r.Min.X, Y: r.Max.Y}}
}

func style(size float64, ink color.Color, bold bool) draw.TextStyle {
	s := draw.TextStyle{Color: ink, Font: font.From(plot.DefaultFont, font.Length(size)), Handler: plot.DefaultTextHandler}
	s.Font.Variant = "Sans"
	if bold {
		s.Font.Weight = 3
	}
	return s
}

func write(c draw.Canvas, text string, at vg.Point, size float64, ink color.Color, bold bool) {
	c.FillText(style(size, ink, bold), at, text)
}

// legend draws the names below, and returns its height.
func (p *panel) legend(c draw.Canvas) vg.Length {
	const dash, space, rest = 10, 12, 60
	face := style(letter, faint, false)
	type place struct {
		x    vg.Length
		line int
	}
	places := make([]place, 0, len(p.lines))
	x, at := vg.Length(0), 0
	for _, l := range p.lines {
		w := dash + gap + face.Width(l.name)
		room := c.Size().X
		if at == keys-1 {
			room -= rest
		}
		if x > 0 && x+w > room {
			x, at = 0, at+1
		}
		places = append(places, place{x, at})
		x += w + space
	}
	lines := min(at+1, keys)
	for i, l := range p.lines {
		if places[i].line >= keys {
			write(c, fmt.Sprintf("and %d more", len(p.lines)-i), vg.Point{X: c.Max.X - rest + space, Y: c.Min.Y}, letter, faint, false)
			break
		}
		y := c.Min.Y + vg.Length(lines-1-places[i].line)*key
		x := c.Min.X + places[i].x
		c.StrokeLine2(draw.LineStyle{Color: palette[i%len(palette)], Width: 2.5}, x, y+letter/2-1, x+dash, y+letter/2-1)
		write(c, l.name, vg.Point{X: x + dash + gap, Y: y + 0.5}, letter, faint, false)
	}
	return vg.Length(lines)*key + gap
}

// plot draws the lines.
func (p *panel) plot(c draw.Canvas) {
	pl := plot.New()
	pl.BackgroundColor = white
	lines := plotter.NewGrid()
	lines.Horizontal.Color, lines.Vertical.Color = grid, grid
	pl.Add(lines)
	custom := p.FieldConfig.Defaults.Custom
	below := map[int64]float64{}
	type drawn struct {
		line *plotter.Line
		area *plotter.Polygon
	}
	var all []drawn
	for i, l := range p.lines {
		for _, part := range parts(l.points) {
			upper, lower := make(plotter.XYs, len(part)), make(plotter.XYs, len(part))
			for k, point := range part {
				x := point.At.Sub(p.from).Seconds()
				base := 0.0
				if custom.Stacking.Mode == "normal" {
					base = below[point.At.UnixMilli()]
					below[point.At.UnixMilli()] += point.Value
				}
				upper[k], lower[k] = plotter.XY{X: x, Y: base + point.Value}, plotter.XY{X: x, Y: base}
			}
			if custom.LineInterpolation == "stepAfter" {
				upper, lower = steps(upper), steps(lower)
			}
			one := drawn{}
			shade := palette[i%len(palette)]
			one.line = &plotter.Line{XYs: upper, LineStyle: draw.LineStyle{Color: shade, Width: 1.25}}
			if custom.FillOpacity > 0 {
				ring := append(plotter.XYs{}, upper...)
				for k := len(lower) - 1; k >= 0; k-- {
					ring = append(ring, lower[k])
				}
				light := color.NRGBA{shade.R, shade.G, shade.B, uint8(custom.FillOpacity * math.MaxUint8 / 100)}
				one.area = &plotter.Polygon{XYs: []plotter.XYs{ring}, Color: light}
			}
			all = append(all, one)
		}
	}
	for _, d := range all {
		if d.area != nil {
			pl.Add(d.area)
		}
	}
	for _, d := range all {
		pl.Add(d.line)
	}
	pl.X.Min, pl.X.Max = 0, p.to.Sub(p.from).Seconds()
	pl.Y.Min = 0
	if pl.Y.Max <= 0 || math.IsInf(pl.Y.Max, 0) {
		pl.Y.Max = 1
	}
	pl.Y.Max *= 1.05
	pl.X.Tick.Marker = plot.TickerFunc(seconds)
	pl.Y.Tick.Marker = plot.TickerFunc(func(least, most float64) []plot.Tick { return ticks(least, most, p.FieldConfig.Defaults.Unit) })
	for _, axis := range []*plot.Axis{&pl.X, &pl.Y} {
		axis.LineStyle.Width, axis.Tick.LineStyle.Width, axis.Tick.Length = 0, 0, 2
		axis.Tick.Label.Font.Variant, axis.Tick.Label.Font.Size, axis.Tick.Label.Color = "Sans", letter, faint
		axis.Padding = 4
	}
	pl.Draw(c)
}

// parts splits a line where points are missing, or are no numbers.
func parts(points []promtest.Point) [][]promtest.Point {
	var all [][]promtest.Point
	var last time.Time
	for _, point := range points {
		if math.IsNaN(point.Value) || math.IsInf(point.Value, 0) {
			continue
		}
		if len(all) == 0 || point.At.Sub(last) > step*3/2 {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], point)
		last = point.At
	}
	return all
}

// steps keeps each value until the next point.
func steps(points plotter.XYs) plotter.XYs {
	var all plotter.XYs
	for i, point := range points {
		if i > 0 {
			all = append(all, plotter.XY{X: point.X, Y: points[i-1].Y})
		}
		all = append(all, point)
	}
	return all
}

func seconds(_, most float64) (all []plot.Tick) {
	const every = 10
	for x := 0.0; x <= most; x += every {
		all = append(all, plot.Tick{Value: x, Label: fmt.Sprintf("%.0f s", x)})
	}
	return all
}

// ticks are about four, at round values.
func ticks(_, most float64, unit string) (all []plot.Tick) {
	size := math.Pow(10, math.Floor(math.Log10(most/2)))
	for _, times := range []float64{1, 2, 5, 10} {
		if most/(size*times) <= 4.5 {
			size *= times
			break
		}
	}
	for y := 0.0; y <= most; y += size {
		all = append(all, plot.Tick{Value: y, Label: labelOf(y, unit)})
	}
	return all
}

func labelOf(y float64, unit string) string {
	switch {
	case y == 0:
		return "0"
	case unit == "s" && y < 1:
		return fmt.Sprintf("%.4g ms", y*1000)
	case unit == "s":
		return fmt.Sprintf("%.4g s", y)
	case unit == "ops", unit == "reqps":
		return fmt.Sprintf("%.4g/s", y)
	default:
		return fmt.Sprintf("%.4g", y)
	}
}

// bands draws a row for each line, filled where it is above 0.
func (p *panel) bands(c draw.Canvas) {
	face := style(letter, faint, false)
	wide := vg.Length(0)
	for _, l := range p.lines {
		wide = max(wide, face.Width(l.name))
	}
	area := draw.Crop(c, wide+inset, 0, key+gap, -gap)
	scale := func(at time.Time) vg.Length {
		return area.Min.X + area.Size().X*vg.Length(at.Sub(p.from).Seconds()/p.to.Sub(p.from).Seconds())
	}
	for _, tick := range seconds(0, p.to.Sub(p.from).Seconds()) {
		x := scale(p.from.Add(time.Duration(tick.Value * float64(time.Second))))
		c.StrokeLine2(draw.LineStyle{Color: grid, Width: 0.5}, x, area.Min.Y, x, area.Max.Y)
		write(c, tick.Label, vg.Point{X: x - face.Width(tick.Label)/2, Y: c.Min.Y + gap}, letter, faint, false)
	}
	high := area.Size().Y / vg.Length(max(1, len(p.lines)))
	for i, l := range p.lines {
		top := area.Max.Y - high*vg.Length(i)
		write(c, l.name, vg.Point{X: c.Min.X, Y: top - high/2 - letter/2}, letter, faint, false)
		for _, band := range bandsOf(l.points) {
			c.FillPolygon(palette[2], box(vg.Rectangle{
				Min: vg.Point{X: scale(band[0]), Y: top - high*0.85}, Max: vg.Point{X: min(scale(band[1]), area.Max.X), Y: top - high*0.15},
			}))
		}
	}
}

// bandsOf lists from when to when a value was above 0.
func bandsOf(points []promtest.Point) (all [][2]time.Time) {
	for _, point := range points {
		switch end := len(all) - 1; {
		case point.Value <= 0:
		case end >= 0 && !point.At.After(all[end][1]):
			all[end][1] = point.At.Add(step)
		default:
			all = append(all, [2]time.Time{point.At, point.At.Add(step)})
		}
	}
	return all
}
