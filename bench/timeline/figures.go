package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"
)

// Millis is a time in milliseconds, since the cut or between two events.
type Millis int64

// Figures is everything that was measured, as in the file of figures.
type Figures struct {
	Timeout  Millis            `json:"session_timeout_ms"`
	Tick     Millis            `json:"tick_ms"`
	Healed   Millis            `json:"healed_ms"`
	Versions map[string]string `json:"versions"`
	LeftOut  map[string]string `json:"left_out,omitempty"` // libraries by key, and why
	Measured []Measured        `json:"libraries"`
}

// Measured is what was measured of one library.
type Measured struct {
	Key     string  `json:"key"`
	Name    string  `json:"name"`
	API     string  `json:"api"`
	Summary Summary `json:"summary"`
	Runs    []Run   `json:"runs"`
}

// Run is what was measured of one library in one run: the first time of each event after the cut, nil if it never came.
type Run struct {
	Suspended *Millis `json:"holder_told_suspended_ms"`
	Invalid   *Millis `json:"holder_not_valid_ms,omitempty"` // as it answered; only zkgrant can be asked
	Lost      *Millis `json:"holder_told_lost_ms"`
	Expired   *Millis `json:"server_expired_ms"`
	Granted   *Millis `json:"next_holder_granted_ms"`
	Lead      *Millis `json:"lead_ms"` // from the report to the holder to the grant; negative while there are two holders
	Told      []Told  `json:"told"`
}

// Told is one report, in the words of the library.
type Told struct {
	At   Millis `json:"ms"`
	Who  string `json:"who"`
	What string `json:"what"`
	Own  string `json:"own"`
}

// Summary is the spread of each figure over all runs.
type Summary struct {
	Suspended Spread `json:"holder_told_suspended"`
	Invalid   Spread `json:"holder_not_valid"`
	Lost      Spread `json:"holder_told_lost"`
	Expired   Spread `json:"server_expired"`
	Granted   Spread `json:"next_holder_granted"`
	Lead      Spread `json:"lead"`
}

// Spread is the median and the extremes of the runs in which the event came.
type Spread struct {
	Median Millis `json:"median_ms"`
	Min    Millis `json:"min_ms"`
	Max    Millis `json:"max_ms"`
	Came   int    `json:"came"` // the number of these runs; if 0, the others are 0
}

// newRun reads the notes of one library's run.
func newRun(key string, notes []note, cut time.Time) Run {
	var r Run
	for _, n := range notes {
		if n.library != key {
			continue
		}
		at := Millis(n.at.Sub(cut).Round(time.Millisecond) / time.Millisecond)
		r.Told = append(r.Told, Told{At: at, Who: n.who.String(), What: n.what.String(), Own: n.own})
		var first **Millis
		switch {
		case n.who == holder && n.what == toldSuspended:
			first = &r.Suspended
		case n.who == holder && n.what == toldInvalid:
			first = &r.Invalid
		case n.who == holder && n.what == toldLost:
			first = &r.Lost
		case n.who == observer && n.what == toldLost:
			first = &r.Expired
		case n.who == next && n.what == toldGranted:
			first = &r.Granted
		default:
			continue
		}
		if *first == nil {
			*first = &at
		}
	}
	slices.SortStableFunc(r.Told, func(a, b Told) int { return int(a.At - b.At) })
	if r.Lost != nil && r.Granted != nil {
		lead := *r.Granted - *r.Lost
		r.Lead = &lead
	}
	return r
}

// summarize finds the spread of each figure.
func summarize(runs []Run) Summary {
	of := func(figure func(Run) *Millis) Spread {
		var came []Millis
		for _, r := range runs {
			if at := figure(r); at != nil {
				came = append(came, *at)
			}
		}
		return spread(came)
	}
	return Summary{
		Suspended: of(func(r Run) *Millis { return r.Suspended }),
		Invalid:   of(func(r Run) *Millis { return r.Invalid }),
		Lost:      of(func(r Run) *Millis { return r.Lost }),
		Expired:   of(func(r Run) *Millis { return r.Expired }),
		Granted:   of(func(r Run) *Millis { return r.Granted }),
		Lead:      of(func(r Run) *Millis { return r.Lead }),
	}
}

// spread sorts the values.
func spread(values []Millis) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	slices.Sort(values)
	n := len(values)
	return Spread{Median: (values[(n-1)/2] + values[n/2]) / 2, Min: values[0], Max: values[n-1], Came: n}
}

// suspendedInTime reports whether every holder heard of trouble with its connection before the next contender was granted the lock.
func (f *Figures) suspendedInTime() bool {
	for _, m := range f.Measured {
		for _, r := range m.Runs {
			if r.Granted != nil && (r.Suspended == nil || *r.Suspended >= *r.Granted) {
				return false
			}
		}
	}
	return true
}

// save writes the figures. Only what was measured differs between the files of two runs.
func (f *Figures) save(file string) error {
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the figures: %w", err)
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// load reads what save has written.
func load(file string) (*Figures, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the figures: %w", err)
	}
	f := new(Figures)
	if err := json.Unmarshal(text, f); err != nil {
		return nil, fmt.Errorf("reading the figures in %s: %w", file, err)
	}
	return f, nil
}
