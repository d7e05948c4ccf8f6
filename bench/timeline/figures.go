package main

import (
	"maps"
	"slices"
	"time"
)

// The keys of the libraries, on the command line and in the file of figures.
const (
	keyCurator = "curator"
	keyStock   = "go-zookeeper"
	keyOurs    = "zkgrant"
)

type library struct {
	Key  string `json:"key"`
	Name string `json:"name"` // in the picture
	API  string `json:"api"`  // the API that is measured
}

// libraries returns all libraries, in the order of the picture.
func libraries() []library {
	return []library{
		{Key: keyCurator, Name: "Apache Curator", API: "InterProcessMutex"},
		{Key: keyStock, Name: "go-zookeeper", API: "zk.Lock"},
		{Key: keyOurs, Name: "zkgrant", API: "Mutex"},
	}
}

// Millis is a time in milliseconds, since the cut or between two events.
type Millis int64

// Figures has all measurements, as stored in timeline.json.
type Figures struct {
	Timeout  Millis            `json:"session_timeout_ms"`
	Tick     Millis            `json:"tick_ms"`
	Healed   Millis            `json:"healed_ms"`
	Versions map[string]string `json:"versions"`
	LeftOut  map[string]string `json:"left_out,omitempty"` // by key, the reason why a library is missing
	Measured []Measured        `json:"libraries"`
}

// Measured has the measurements of one library.
type Measured struct {
	library
	Runs []Run `json:"runs"`
}

// Run has the measurements of one library in one run: when each moment first came after
// the cut, if it came.
type Run struct {
	Moments map[moment]Millis `json:"moments_ms"`
	Told    []Told            `json:"told"`
}

// Told is one report, in the library's own words.
type Told struct {
	At   Millis `json:"ms"`
	Who  who    `json:"who"`
	What what   `json:"what"`
	Own  string `json:"own"`
}

// moment is an event after the cut, named as in the table.
type moment string

const (
	suspended moment = "holder: suspended"
	invalid   moment = "holder: not valid" // according to Valid, which only zkgrant has
	lost      moment = "holder: lost"
	expired   moment = "server: expired"
	granted   moment = "next: granted"
	lead      moment = "lead of lost" // from the report to the holder to the grant; negative while there are two holders
)

// moments returns all moments, in the order of the table.
func moments() []moment { return []moment{suspended, invalid, lost, expired, granted, lead} }

// momentOf returns the moment of a note, or "".
func momentOf(n note) moment {
	switch {
	case n.who == holder && n.what == toldSuspended:
		return suspended
	case n.who == holder && n.what == toldInvalid:
		return invalid
	case n.who == holder && n.what == toldLost:
		return lost
	case n.who == observer && n.what == toldLost:
		return expired
	case n.who == next && n.what == toldGranted:
		return granted
	default:
		return ""
	}
}

// newRun evaluates the notes of one library.
func newRun(key string, notes []note, cut time.Time) Run {
	r := Run{Moments: make(map[moment]Millis)}
	for _, n := range notes {
		if n.library != key {
			continue
		}
		at := Millis(n.at.Sub(cut).Round(time.Millisecond) / time.Millisecond)
		r.Told = append(r.Told, Told{At: at, Who: n.who, What: n.what, Own: n.own})
		if m := momentOf(n); m != "" {
			if _, came := r.Moments[m]; !came {
				r.Moments[m] = at
			}
		}
	}
	slices.SortStableFunc(r.Told, func(a, b Told) int { return int(a.At - b.At) })
	if told, came := r.Moments[lost]; came {
		if at, came := r.Moments[granted]; came {
			r.Moments[lead] = at - told
		}
	}
	return r
}

// Spread has the median and the extremes over the runs in which a moment came.
type Spread struct {
	Median, Min, Max Millis
	Came             int // the number of these runs; if 0, the other fields are 0
}

// spread returns the spread of a moment over all runs.
func (m Measured) spread(of moment) Spread {
	var came []Millis
	for _, r := range m.Runs {
		if at, ok := r.Moments[of]; ok {
			came = append(came, at)
		}
	}
	n := len(came)
	if n == 0 {
		return Spread{}
	}
	slices.Sort(came)
	return Spread{Median: (came[(n-1)/2] + came[n/2]) / 2, Min: came[0], Max: came[n-1], Came: n}
}

// suspendedInTime reports whether every holder was notified about its broken connection
// before the next contender was granted the lock.
func (f *Figures) suspendedInTime() bool {
	for _, m := range f.Measured {
		for _, r := range m.Runs {
			told, came := r.Moments[suspended]
			if at, let := r.Moments[granted]; let && (!came || told >= at) {
				return false
			}
		}
	}
	return true
}

func nameOf(key string) string {
	for _, l := range libraries() {
		if l.Key == key {
			return l.Name
		}
	}
	return key
}

// leftOut returns the keys of the libraries that were left out, in order.
func (f *Figures) leftOut() []string { return slices.Sorted(maps.Keys(f.LeftOut)) }
