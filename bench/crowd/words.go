package main

import (
	"maps"
	"time"
)

// verb is the kind of an order to a process of the crowd, which answers each order with
// one report.
type verb string

const (
	// verbOpen connects the sessions.
	verbOpen verb = "open"
	// verbHold makes every session request its lock, again after each loss.
	verbHold verb = "hold"
	// verbHand makes every session release its lock once it is granted, and then rest.
	verbHand verb = "hand"
	// verbMark resets all counts since the mark.
	verbMark verb = "mark"
	// verbCut closes every connection, and refuses new ones until verbHeal.
	verbCut verb = "cut"
	// verbHeal allows connections again.
	verbHeal verb = "heal"
	// verbLook only reports.
	verbLook verb = "look"
	// verbTimes reports, with the duration of each write.
	verbTimes verb = "times"
	// verbFates reports, with the lost nodes.
	verbFates verb = "fates"
)

// order is an order to a process: a line of JSON.
type order struct {
	Verb    verb    `json:"verb"`
	Opening opening `json:"opening,omitzero"` // for verbOpen
	Path    string  `json:"path,omitempty"`   // for verbHold: the parent of each session's lock
	Shared  bool    `json:"shared,omitempty"` // for verbHold: Path is one lock for all sessions

	// Spread, for verbHold, is the time over which the sessions' requests are spread.
	Spread time.Duration `json:"spread,omitempty"`
}

// opening describes the sessions to open.
type opening struct {
	Servers string        `json:"servers"`
	First   int           `json:"first"` // the number of the first one, among all processes
	N       int           `json:"n"`
	Of      int           `json:"of"` // in all processes
	Timeout time.Duration `json:"timeout"`
	Tick    time.Duration `json:"tick"`
}

// report is a process's answer: a line of JSON. Instants are nanoseconds of Unix time,
// which all processes of a machine share.
type report struct {
	Err     string `json:"err,omitempty"` // if not empty, the other fields are meaningless
	Holding int    `json:"holding"`       // sessions that hold a lock now
	Resting int    `json:"resting"`       // sessions that neither hold nor request a lock
	Lost    int    `json:"lost"`          // losses so far

	// Since the mark:
	Writes    int   `json:"writes"`     // answered writes
	Gap       int64 `json:"gap"`        // the longest time in which a session had no write answered, in nanoseconds
	Stood     int   `json:"stood"`      // sessions that queued up or were granted
	LastStood int64 `json:"last_stood"` // when the last one of them did so
	LastGrant int64 `json:"last_grant"` // when the last session was granted; 0 if none was
	Back      int   `json:"back"`       // sessions with an answer to a write that was sent after the mark
	FirstBack int64 `json:"first_back"` // when the first one of them had it; 0 if there is none
	LastBack  int64 `json:"last_back"`  // when the last one had

	Times []int64          `json:"times,omitempty"` // verbTimes: duration of each answered write, in microseconds
	Fates map[string]int64 `json:"fates,omitempty"` // verbFates: by node, when its holder was notified of the loss
}

func (r *report) add(other report) {
	if r.Err == "" {
		r.Err = other.Err
	}
	r.Holding += other.Holding
	r.Resting += other.Resting
	r.Lost += other.Lost
	r.Writes += other.Writes
	r.Gap = max(r.Gap, other.Gap)
	r.Stood += other.Stood
	r.LastStood = max(r.LastStood, other.LastStood)
	r.LastGrant = max(r.LastGrant, other.LastGrant)
	r.Back += other.Back
	if r.FirstBack == 0 || other.FirstBack != 0 && other.FirstBack < r.FirstBack {
		r.FirstBack = other.FirstBack
	}
	r.LastBack = max(r.LastBack, other.LastBack)
	r.Times = append(r.Times, other.Times...)
	if r.Fates == nil {
		r.Fates = make(map[string]int64)
	}
	maps.Copy(r.Fates, other.Fates)
}
