package zkprom

import (
	"slices"
	"time"
)

// histogram counts durations. Unlike Prometheus's own type, it can be added to another
// one.
type histogram struct {
	bounds []float64
	counts []uint64 // per bucket, not cumulative; the last one has no bound
	count  uint64
	sum    float64
}

func newHistogram(bounds []float64) *histogram {
	return &histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

func (h *histogram) observe(d time.Duration) {
	seconds := max(0, d.Seconds())
	at, _ := slices.BinarySearch(h.bounds, seconds)
	h.counts[at]++
	h.count++
	h.sum += seconds
}

// add adds the counts of another histogram with the same bounds.
func (h *histogram) add(o *histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.count += o.count
	h.sum += o.sum
}

func (h *histogram) clone() *histogram {
	return &histogram{bounds: h.bounds, counts: slices.Clone(h.counts), count: h.count, sum: h.sum}
}

// cumulative returns, for each bound, how many durations were at most that long.
func (h *histogram) cumulative() map[float64]uint64 {
	all := make(map[float64]uint64, len(h.bounds))
	var n uint64
	for i, bound := range h.bounds {
		n += h.counts[i]
		all[bound] = n
	}
	return all
}
