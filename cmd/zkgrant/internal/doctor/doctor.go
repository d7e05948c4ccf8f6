// Package doctor judges observations of a ZooKeeper ensemble and its locks. It does no
// I/O.
package doctor

import (
	"slices"
	"time"
)

// Level is the severity of a finding.
type Level string

// The levels of findings.
const (
	OK   Level = "ok"   // as it should be
	Note Level = "note" // worth knowing, or could not be seen
	Warn Level = "warn" // leaves less reserve, or will become bad
	Bad  Level = "bad"  // breaks mutual exclusion, a wait, the timely report of a loss, or the servers
)

// Finding is one result of a check.
type Finding struct {
	Level   Level  `json:"level"`
	Check   string `json:"check"` // the name of the check, for programs
	Subject string `json:"subject"`
	Seen    string `json:"seen"`
	Do      string `json:"do,omitempty"`
}

// Observation is everything that was seen.
type Observation struct {
	Asked   time.Duration // the requested session timeout
	Granted time.Duration // the negotiated session timeout; 0 if there was no session
	Tick    time.Duration // the upper bound for the servers' tickTime that the locks assume
	Servers []Server      // of the connect string
	Tree    *Tree         // nil if no path was examined
}

// Server is what was seen of one server.
type Server struct {
	Addr      string            // as in the connect string
	At        string            // the address at which it was reached; empty if unknown
	Reached   bool              // it has accepted a connection
	Refusal   string            // why there is no session with it; empty if there was one
	RoundTrip time.Duration     // the median of several pings; 0 if not measured
	Least     time.Duration     // the shortest session timeout that it agrees to; 0 if unknown
	Most      time.Duration     // the longest session timeout that it agrees to; 0 if unknown
	ReadOnly  bool              // the session is read-only
	Answers   map[string]string // to the four-letter words
	Later     string            // the second answer to srvr
	Between   time.Duration     // the minimum time between the two answers
	Clock     *Clock            // nil if unknown
}

// Clock compares a server's clock with this machine's.
type Clock struct {
	Ahead  time.Duration // how far the server's clock is ahead
	Within time.Duration // the largest error of Ahead
}

// Findings judges an observation in parts: servers, ensemble, timing, clocks, four-letter
// words, locks and sessions. Each part starts with its worst findings.
func Findings(o Observation) []Finding {
	var all []Finding
	for _, part := range [...]func(Observation) []Finding{servers, ensemble, timing, clocks, words, locks, sessions} {
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
