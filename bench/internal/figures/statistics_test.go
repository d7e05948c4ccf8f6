package figures

import (
	"math"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStatistics(t *testing.T) {
	t.Parallel()
	hundred := make([]int64, 100)
	for i := range hundred {
		hundred[i] = int64(100 - i)
	}
	slope := func(x, y []float64) float64 {
		if v, ok := Slope(x, y); ok {
			return v
		}
		return math.NaN()
	}
	none := math.NaN()
	for what, c := range map[string]struct{ got, want float64 }{
		"the percentile of one value":          {Percentile([]int64{7}, 0.99), 7},
		"the percentile of three":              {Percentile([]int64{3, 1, 2}, 0.5), 2},
		"the percentile of four":               {Percentile([]int64{4, 3, 1, 2}, 0.5), 2},
		"the 50th of a hundred":                {Percentile(hundred, 0.50), 50},
		"the 99th of a hundred":                {Percentile(hundred, 0.99), 99},
		"the last of a hundred":                {Percentile(hundred, 1), 100},
		"the first of a hundred":               {Percentile(hundred, 0), 1},
		"that they are not sorted in place":    {float64(hundred[0]), 100},
		"the percentile of nothing":            {Percentile(nil, 0.5), none},
		"the median of an odd number":          {Median([]float64{9, 1, 5}), 5},
		"the median of an even number":         {Median([]float64{9, 1, 5, 7}), 6},
		"the median of nothing":                {Median(nil), none},
		"the slope of 7+3x":                    {slope([]float64{0, 1, 5, 20}, []float64{7, 10, 22, 67}), 3},
		"the slope of points off a line":       {slope([]float64{0, 1, 2}, []float64{1, 1, 4}), 1.5},
		"the slope of one point":               {slope([]float64{5}, []float64{5}), none},
		"the slope of points above each other": {slope([]float64{5, 5}, []float64{1, 2}), none},
	} {
		if math.Abs(c.got-c.want) > 1e-9 || math.IsNaN(c.got) != math.IsNaN(c.want) {
			t.Errorf("%s is %v, want %v", what, c.got, c.want)
		}
	}
	for want, v := range map[string]float64{"0": 0, "2": 2, "0.45": 0.45, "1.30": 1.3, "12.3": 12.34, "1235": 1234.5} {
		if got := Number(v); got != want {
			t.Errorf("Number(%v) = %q, want %q", v, got, want)
		}
	}
}
