// Package doctor judges what was seen of a ZooKeeper ensemble and of its locks. It does
// no I/O.
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
	Note Level = "note" // worth knowing, or could not be seen
	Warn Level = "warn" // costs reserve, or will turn bad
	Bad  Level = "bad"  // breaks exclusion, a wait, the timely report of a loss, or the servers
)

// Finding is one result of a check.
type Finding struct {
	Level   Level  `json:"level"`
	Check   string `json:"check"` // the name of the check, for programs
	Subject string `json:"subject"`
	Seen    string `json:"seen"`
	Do      string `json:"do,omitempty"`
}

// Observation is what was seen.
type Observation struct {
	Asked   time.Duration // the session timeout asked for
	Granted time.Duration // the session timeout that a server has agreed to; 0 if there was no session
	Tick    time.Duration // the tickTime of the servers, at most, as the locks are told
	Servers []Server      // of the connect string
	Tree    *Tree         // nil if no path was looked at
}

// Server is what was seen of one server.
type Server struct {
	Addr      string            // as in the connect string
	At        string            // where it was reached; empty if unknown
	Reached   bool              // it has accepted a connection
	Refusal   string            // why there is no session with it; empty if there was one
	RoundTrip time.Duration     // the median of several; 0 if it was not measured
	Least     time.Duration     // the shortest session timeout that it agrees to; 0 if unknown
	Most      time.Duration     // the longest session timeout that it agrees to; 0 if unknown
	ReadOnly  bool              // the session can only read
	Answers   map[string]string // to the four-letter words
	Later     string            // the second answer to srvr
	Between   time.Duration     // the time from the first answer to the second, at least
	Clock     *Clock            // nil if it is unknown
}

// Clock compares a server's clock with this machine's.
type Clock struct {
	Ahead  time.Duration // how far the server's clock is ahead
	Within time.Duration // the largest error of Ahead
}

// Findings judges an observation, in parts: the servers, the ensemble, the session, the
// locks, their sessions. Each part begins with the worst.
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
