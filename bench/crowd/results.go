package main

import (
	"fmt"
	"image/color"
	"strings"
	"time"

	"gonum.org/v1/plot/plotter"

	"github.com/zkgrant/zkgrant/bench/internal/figures"
)

// Results is everything that was measured in one run.
type Results struct {
	Quick       bool              `json:"quick"`
	Cores       int               `json:"cores"`
	RAMDisk     bool              `json:"ram_disk"`
	Versions    map[string]string `json:"versions"`
	Descriptors uint64            `json:"descriptors"` // the limit per process
	Sessions    int               `json:"sessions"`
	Processes   int               `json:"processes"`
	Timeout     time.Duration     `json:"timeout_ns"`
	Tick        time.Duration     `json:"tick_ns"`
	Interval    time.Duration     `json:"interval_ns"` // between two probes of a session
	Bound       time.Duration     `json:"bound_ns"`    // the longest outage that costs no lock
	Memory      int64             `json:"memory_per_session"`
	Holds       []Hold            `json:"holds"` // after the sessions were started, and after a storm
	Faults      []Fault           `json:"faults"`
	Storms      []Storm           `json:"storms"`
	Rungs       []Hold            `json:"rungs"` // ordered by number of sessions
}

// Hold has the measurements of sessions that hold a lock each. Times are in milliseconds,
// CPU time in cores.
type Hold struct {
	Sessions int       `json:"sessions"`
	Seconds  float64   `json:"seconds"`
	Asked    float64   `json:"writes_asked_per_second"` // sessions / interval
	Writes   float64   `json:"writes_per_second"`
	P50      float64   `json:"p50_ms"`
	P99      float64   `json:"p99_ms"`
	Gap      float64   `json:"gap_ms"` // the longest time in which a session had no write answered
	Lost     int       `json:"lost"`
	Broken   string    `json:"broken,omitempty"` // the reason if nothing was measured
	Leader   int       `json:"leader"`           // its index in Servers
	Servers  []float64 `json:"server_cores"`
	Clients  float64   `json:"client_cores"`
}

// Fault has the measurements of a server that was killed and restarted. Times are in
// milliseconds since the kill.
type Fault struct {
	What   string  `json:"what"`
	First  float64 `json:"first_ms"`  // until the first answer to a write that was sent after the kill
	Last   float64 `json:"last_ms"`   // until every session had such an answer
	Gap    float64 `json:"gap_ms"`    // the longest time in which a session had no write answered
	Outage float64 `json:"outage_ms"` // until every server served again, and every session was served
	Lost   int     `json:"lost"`
}

// Storm has the measurements of sessions that all expired at once. Times are in
// milliseconds.
type Storm struct {
	What    string  `json:"what"`
	Held    int     `json:"held"`       // locks
	Told    int     `json:"told"`       // losses reported while the connections were cut
	Before  int     `json:"before"`     // losses reported before the holder's node was gone
	Sooner  float64 `json:"sooner_ms"`  // the minimum time by which they were earlier
	Expired float64 `json:"expired_ms"` // from the cut until the last node was gone
	Again   float64 `json:"again_ms"`   // from the heal until every session queued or held
	Handed  float64 `json:"handed_ms"`  // until the lock was handed on to the last session; 0 if each has its own lock
}

func (r *Results) intervalMillis() float64 { return millis(r.Interval.Nanoseconds()) }

func (r *Results) page() string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	length, disk, versions := figures.Run(r.Quick, r.RAMDisk, r.Versions)
	p("# A crowd of sessions\n\nWritten by `go run ./crowd` in bench. [crowd/doc.go](crowd/doc.go) says what is measured, and how.\n")
	p("- a %s run on %d cores, which %d servers and all sessions share; the servers' data is %s, without fsync", length, r.Cores, servers, disk)
	p("- %s", versions)
	p("- %d sessions in %d processes, T = %v, tick %v, a probe each %v; %.0f kB of memory a session, its share of a process included",
		r.Sessions, r.Processes, r.Timeout, r.Tick, r.Interval, float64(r.Memory)/1e3)
	p("- no limit of connections for each address (maxClientCnxns=0); a process may have %d descriptors", r.Descriptors)
	p("\n## Hold\n\nEach session holds a lock. A write is a probe; its time is from the request to the answer. Processor time is in cores.\n" +
		"In the first row the sessions arrived one after another. The second row is the same crowd after a storm.\n")
	r.holds(p, r.Holds)
	p("\n## Restarts\n\nTimes since the kill (SIGKILL), in ms. An outage that costs no lock may last %v ([why](../docs/production.md#the-lease)).\n",
		r.Bound.Round(time.Millisecond))
	p("| | first write answered | every session answered | longest gap of a session | all servers serve | lost |\n|---|---:|---:|---:|---:|---:|")
	for _, f := range r.Faults {
		p("| %s | %.0f | %.0f | %.0f | %.0f | %d |", f.What, f.First, f.Last, f.Gap, f.Outage, f.Lost)
	}
	p("\n## Storms\n\nEvery connection is cut until every session has expired, and then all connect anew. Times in ms.\n")
	p("| | held | notified of the loss | notified before the node was gone | least lead | all expired | all hold or wait again | handed over from first to last |")
	p("|---|---:|---:|---:|---:|---:|---:|---:|")
	for _, s := range r.Storms {
		handed := "–"
		if s.Handed > 0 {
			handed = fmt.Sprintf("%.0f", s.Handed)
		}
		p("| %s | %d | %d | %d | %.0f | %.0f | %.0f | %s |", s.What, s.Held, s.Told, s.Before, s.Sooner, s.Expired, s.Again, handed)
	}
	p("\n## The knee\n\nThe ensemble stops serving a crowd where a lock is lost, less than %.0f %% of the writes are answered, or the p99 is above the\n"+
		"interval of probes.\n", 100*delivered)
	r.holds(p, r.Rungs)
	p("\n![time of a probe by number of sessions](crowd.svg)\n")
	served, stopped := r.knee()
	switch {
	case served == nil:
		p("Even the smallest crowd was too large.")
	case stopped == nil:
		p("No knee was found: %d sessions with %.0f writes a second were served.", served.Sessions, served.Writes)
	default:
		p("The knee is between %.0f and %.0f writes a second: %d sessions were served, and %d were not.", served.Writes, stopped.Asked,
			served.Sessions, stopped.Sessions)
	}
	r.extrapolate(p, served)
	return b.String()
}

// holds writes a table with a line for each hold.
func (r *Results) holds(p func(string, ...any), all []Hold) {
	p("| sessions | writes/s asked | answered | p50 ms | p99 ms | longest gap ms | leader | each follower | clients | lost | |")
	p("|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|")
	for _, h := range all {
		p("| %d | %.0f | %.0f | %.1f | %.1f | %.0f | %.2f | %.2f | %.2f | %d | %s |", h.Sessions, h.Asked, h.Writes, h.P50, h.P99, h.Gap,
			h.Servers[h.Leader], h.followers(), h.Clients, h.Lost, h.stops(r.intervalMillis()))
	}
}

// extrapolate writes what the measured costs imply for crowds that were not measured.
func (r *Results) extrapolate(p func(string, ...any), served *Hold) {
	if served == nil {
		return
	}
	c := served.perWrite()
	p("\n## Computed, not measured\n\n    writes/s = sessions × %d / T\n", probePart)
	p("In the largest crowd that was served, with %.0f writes/s, a write costs the leader %.0f µs of processor time, each follower %.0f µs, and a\n"+
		"client %.0f µs. Where fewer writes come together each costs more. The last columns compare with that crowd.\n",
		served.Writes, 1e6*c.leader, 1e6*c.follower, 1e6*c.client)
	p("| sessions | T | writes/s | leader, cores | each follower, cores | of what was served here | T that would be served here |\n" +
		"|---:|---:|---:|---:|---:|---:|---:|")
	for _, sessions := range []int{10_000, 100_000} {
		for _, timeout := range []float64{10, 30, 60} {
			w := writesOf(sessions, timeout)
			p("| %d | %.0f s | %.0f | %.2f | %.2f | %.1f× | %.0f s |", sessions, timeout, w, w*c.leader, w*c.follower, w/served.Writes,
				timeoutOf(sessions, served.Writes))
		}
	}
}

func (r *Results) draw(folder string) error {
	p50 := figures.Line{Name: "p50", Color: color.RGBA{G: 0x72, B: 0xb2, A: 0xff}}
	p99 := figures.Line{Name: "p99", Color: color.RGBA{R: 0xd5, G: 0x5e, A: 0xff}}
	for _, h := range r.Rungs {
		p50.Points = append(p50.Points, plotter.XY{X: float64(h.Sessions), Y: h.P50})
		p99.Points = append(p99.Points, plotter.XY{X: float64(h.Sessions), Y: h.P99})
	}
	p, err := figures.Lines("Time of a probe", "ms", "sessions", []figures.Line{p50, p99})
	return figures.SaveAs(folder, "crowd.svg", p, err)
}
