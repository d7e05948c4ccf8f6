package main

import (
	"strconv"

	"github.com/zkgrant/zkgrant/bench/internal/figures"
)

// The names of a library's figures in the results. Times are in microseconds unless the
// name says otherwise.
const (
	figureCycle      = "cycle_p50_us"
	figureCycleTail  = "cycle_p99_us"
	figureAwaited    = "awaited_p50_us"
	figureAwaitTail  = "awaited_p99_us"
	figurePatient    = "patient_p50_us"
	figureRequests   = "requests_per_cycle"
	figureMemory     = "bytes_per_held_lock"
	figureGoroutines = "goroutines_more"
	figureHeld       = "locks_held"
	figureExpire     = "last_loss_after_first_ms"
)

// The figures that exist for several numbers of locks or of waiters.
func figureRate(locks int) string        { return "cycles_per_second_" + strconv.Itoa(locks) }
func figureManyAwaited(locks int) string { return "awaited_cycles_per_second_" + strconv.Itoa(locks) }
func figureServer(locks int) string      { return "server_cpu_us_per_cycle_" + strconv.Itoa(locks) }
func figureClient(locks int) string      { return "client_cpu_us_per_cycle_" + strconv.Itoa(locks) }
func figureReads(locks int) string       { return "read_calls_per_cycle_" + strconv.Itoa(locks) }
func figureWrites(locks int) string      { return "write_calls_per_cycle_" + strconv.Itoa(locks) }
func figureAllocs(locks int) string      { return "allocations_per_cycle_" + strconv.Itoa(locks) }
func figureHandoff(queue int) string     { return "handoff_p50_us_" + strconv.Itoa(queue) }
func figureBytes(queue int) string       { return "bytes_per_handoff_" + strconv.Itoa(queue) }
func figureWakeUps(queue int) string     { return "watches_fired_per_handoff_" + strconv.Itoa(queue) }
func figureAsked(queue int) string       { return "requests_per_handoff_" + strconv.Itoa(queue) }
func figureCross(waiting int) string     { return "cross_session_p50_us_" + strconv.Itoa(waiting) }
func figureAwaitedServer(n int) string   { return "awaited_" + figureServer(n) }
func figureAwaitedClient(n int) string   { return "awaited_" + figureClient(n) }

// Results has the measurements of one run.
type Results struct {
	Quick     bool              `json:"quick"`
	Rounds    int               `json:"rounds"`
	Cores     int               `json:"cores"`
	RAMDisk   bool              `json:"ram_disk"`
	Versions  map[string]string `json:"versions"`
	LeftOut   map[string]string `json:"left_out,omitempty"` // by key, the reason why a library is missing
	Libraries []Measured        `json:"libraries"`
}

// Measured has the measurements of one library.
type Measured struct {
	library
	Rounds map[string][]float64 `json:"rounds"` // by figure, one value for each round
}

// value returns the median over the rounds.
func (r *Results) value(key, figure string) (float64, bool) {
	for _, m := range r.Libraries {
		if m.Key == key && len(m.Rounds[figure]) > 0 {
			return figures.Median(m.Rounds[figure]), true
		}
	}
	return 0, false
}
