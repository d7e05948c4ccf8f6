// Package doctor judges what was seen of a ZooKeeper ensemble and of the locks on it. It looks at nothing itself.
package doctor

import (
	"slices"
	"time"
)

// Level says how bad a finding is.
type Level string

// The levels of findings.
const (
	OK   Level = "ok"   // as it should be
	Note Level = "note" // worth knowing, or not to be seen
	Warn Level = "warn" // it costs reserve, or will become bad
	Bad  Level = "bad"  // exclusion, a wait, or a loss in time is broken
)

// Finding is one thing that was found.
type Finding struct {
	Level   Level  `json:"level"`
	Check   string `json:"check"` // which check, for programs
	Subject string `json:"subject"`
	Seen    string `json:"seen"`
	Do      string `json:"do,omitempty"`
}

// Observation is what was seen.
type Observation struct {
	Asked   time.Duration // the session timeout that was asked for
	Granted time.Duration // what a server made of it; 0 if there was no session
	Tick    time.Duration // what the locks are told that the servers' tickTime is at most
	Servers []Server      // those of the connect string
	Tree    *Tree         // nil if no path was looked at
}

// Server is what was seen of a server.
type Server struct {
	Addr      string
	Reached   bool              // it has taken a connection
	Refusal   string            // why there is no session with it; empty if there was one
	RoundTrip time.Duration     // the median of some; 0 if it was not measured
	Least     time.Duration     // the session timeout for those who ask for less; 0 if unknown
	Most      time.Duration     // the session timeout for those who ask for more; 0 if unknown
	ReadOnly  bool              // the session reads only
	Answers   map[string]string // to the four-letter words
	Later     string            // the answer to srvr when it was asked again
	Between   time.Duration     // how much later, at least
	Clock     *Clock            // nil if it was not seen
}

// Clock compares a server's clock with this machine's.
type Clock struct {
	Ahead  time.Duration // of the server's clock
	Within time.Duration // the error of Ahead, at most
}

// Findings judges an observation, the worst first within each part: the servers, the ensemble, the session, the locks.
func Findings(o Observation) []Finding {
	var all []Finding
	for _, part := range [...]func(Observation) []Finding{servers, ensemble, timing, clocks, words, locks} {
		found := part(o)
		slices.SortStableFunc(found, func(a, b Finding) int { return b.Level.rank() - a.Level.rank() })
		all = append(all, found...)
	}
	return all
}

func (l Level) rank() int { return slices.Index([]Level{OK, Note, Warn, Bad}, l) }

// Worst returns the worst level among the findings.
func Worst(findings []Finding) Level {
	worst := OK
	for _, f := range findings {
		if f.Level.rank() > worst.rank() {
			worst = f.Level
		}
	}
	return worst
}
