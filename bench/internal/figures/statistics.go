package figures

import (
	"math"
	"slices"
)

// Percentile returns the nearest-rank percentile of the values. share is from 0 to 1.
// Without values it returns NaN.
func Percentile(values []int64, share float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(share * float64(len(sorted))))
	return float64(sorted[min(max(rank, 1), len(sorted))-1])
}

// Median returns the middle value, or the mean of the two middle values.
func Median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Slope returns the least-squares slope of y over x, and false if x is constant.
func Slope(x, y []float64) (float64, bool) {
	var meanX, meanY, products, squares float64
	for i := range x {
		meanX += x[i] / float64(len(x))
		meanY += y[i] / float64(len(x))
	}
	for i := range x {
		products += (x[i] - meanX) * (y[i] - meanY)
		squares += (x[i] - meanX) * (x[i] - meanX)
	}
	return products / squares, squares > 0
}
