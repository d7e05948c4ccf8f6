package zkprom

import (
	"slices"
	"time"
)

// histogram counts durations. It can be added to another one, which Prometheus's own
// cannot.
type histogram struct {
	bounds []float64
	counts []uint64 // of each bucket alone; the last one has no bound
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

// add adds what another histogram with the same bounds has counted.
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

// cumulative returns how many were at most as long as each bound.
func (h *histogram) cumulative() map[float64]uint64 {
	all := make(map[float64]uint64, len(h.bounds))
	var n uint64
	for i, bound := range h.bounds {
		n += h.counts[i]
		all[bound] = n
	}
	return all
}
