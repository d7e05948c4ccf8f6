package main

import (
	"math"
	"slices"
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
		if got := percentile(c.values, c.share); got != c.want {
			t.Errorf("percentile(%d values, %v) = %v, want %v", len(c.values), c.share, got, c.want)
		}
	}
	if hundred[0] != 100 {
		t.Error("the values were sorted in place")
	}
	if got := percentile(nil, 0.5); !math.IsNaN(got) {
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
		if got := median(c.values); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.values, got, c.want)
		}
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("the median of nothing is %v, want NaN", got)
	}
}

func TestEverybodyIsFirstOnce(t *testing.T) {
	t.Parallel()
	all := []int{0, 1, 2, 3}
	for round := range 9 {
		order := rotate(all, round)
		if order[0] != round%4 || !slices.Equal(slices.Sorted(slices.Values(order)), all) {
			t.Errorf("round %d: %v; want all, and %d first", round, order, round%4)
		}
	}
	if got := rotate([]int(nil), 3); len(got) != 0 {
		t.Errorf("rotate of nothing = %v, want nothing", got)
	}
}

func TestSlope(t *testing.T) {
	t.Parallel()
	if got, ok := slope([]float64{0, 1, 5, 20}, []float64{7, 10, 22, 67}); !ok || math.Abs(got-3) > 1e-9 {
		t.Errorf("the slope of 7+3x is %v, %v; want 3", got, ok)
	}
	if got, ok := slope([]float64{0, 1, 2}, []float64{1, 1, 4}); !ok || math.Abs(got-1.5) > 1e-9 {
		t.Errorf("the slope of what is no line is %v, %v; want 1.5", got, ok)
	}
	for _, x := range [][]float64{nil, {5}, {5, 5}} {
		if got, ok := slope(x, x); ok {
			t.Errorf("the slope over %v is %v, want none", x, got)
		}
	}
}
