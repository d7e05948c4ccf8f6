package figures

import (
	"math"
	"testing"
)

func TestPercentile(t *testing.T) {
	t.Parallel()
	hundred := make([]int64, 100)
	for i := range hundred {
		hundred[i] = int64(100 - i)
	}
	for _, c := range []struct {
		values []int64
		share  float64
		want   float64
	}{
		{[]int64{7}, 0.5, 7},
		{[]int64{7}, 0.99, 7},
		{[]int64{3, 1, 2}, 0.5, 2},
		{[]int64{4, 3, 1, 2}, 0.5, 2},
		{hundred, 0.5, 50},
		{hundred, 0.99, 99},
		{hundred, 1, 100},
		{hundred, 0, 1},
	} {
		if got := Percentile(c.values, c.share); got != c.want {
			t.Errorf("Percentile(%d values, %v) = %v, want %v", len(c.values), c.share, got, c.want)
		}
	}
	if hundred[0] != 100 {
		t.Error("the values were sorted in place")
	}
	if got := Percentile(nil, 0.5); !math.IsNaN(got) {
		t.Errorf("of no values: %v, want NaN", got)
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{5}, 5},
		{[]float64{9, 1, 5}, 5},
		{[]float64{9, 1, 5, 7}, 6},
	} {
		if got := Median(c.values); got != c.want {
			t.Errorf("Median(%v) = %v, want %v", c.values, got, c.want)
		}
	}
	if got := Median(nil); !math.IsNaN(got) {
		t.Errorf("the median of nothing is %v, want NaN", got)
	}
}

func TestSlope(t *testing.T) {
	t.Parallel()
	if got, ok := Slope([]float64{0, 1, 5, 20}, []float64{7, 10, 22, 67}); !ok || math.Abs(got-3) > 1e-9 {
		t.Errorf("the slope of 7+3x is %v, %v; want 3", got, ok)
	}
	if got, ok := Slope([]float64{0, 1, 2}, []float64{1, 1, 4}); !ok || math.Abs(got-1.5) > 1e-9 {
		t.Errorf("the slope of points off a line is %v, %v; want 1.5", got, ok)
	}
	for _, x := range [][]float64{nil, {5}, {5, 5}} {
		if got, ok := Slope(x, x); ok {
			t.Errorf("the slope over %v is %v, want none", x, got)
		}
	}
}
