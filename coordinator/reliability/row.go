package reliability

import "fmt"

// Row is a property that is measured.
type Row uint8

// The rows of the table, in its order.
const (
	RowPartition Row = iota + 1
	RowStaleFollower
	RowTwoHolders
	RowSpuriousLost
	RowOrphans
	RowWedged
	RowContinued
	RowStaleWrites
	RowMuteServer
	RowLeaks
	RowHistories
	RowFault
)

// description says what a row measures, and its goal.
type description struct{ name, property, goal string }

func descriptions() []description {
	return []description{
		RowPartition:     {"partition", "silent partition longer than T: Lost against the next holder's Grant", "before it in every trial, by T/25 at least"},
		RowStaleFollower: {"stale follower", "holder behind a follower that has lost its leader", "no overlap; Lost before the real expiry in every trial"},
		RowTwoHolders:    {"two holders", "two valid holders at once", "0"},
		RowSpuriousLost:  {"spurious lost", "Lost without need, T = 10 s: short outage, rolling restart, leader killed", "0"},
		RowOrphans:       {"orphans", "nodes left or doubled after a frame was lost, at every frame boundary", "0"},
		RowWedged:        {"wedged", "waiters that got nothing after everything had healed", "0"},
		RowContinued:     {"continued", "process halted beyond T and continued: until Lost is delivered", "p99 at most 5 ms; Valid never wrong"},
		RowStaleWrites:   {"stale writes", "writes of a past holder that were accepted", "0 with Txn, and where tokens are compared"},
		RowMuteServer:    {"mute server", "reconnect past a server that accepts and says nothing", "at most T/3"},
		RowLeaks:         {"leaks", "left after 10,000 acquired, cancelled and expired", "nothing; no more watches than live predecessors"},
		RowHistories:     {"histories", "recorded histories against the model of a fenced mutex", "all legal"},
		RowFault:         {"fault", "other faults of real servers", "no two holders, no waiter wedged"},
	}
}

// Rows returns every row, in the order of the table.
func Rows() []Row {
	var all []Row
	for r := RowPartition; r.known(); r++ {
		all = append(all, r)
	}
	return all
}

func (r Row) known() bool { return r > 0 && int(r) < len(descriptions()) }

func (r Row) describe() description {
	if !r.known() {
		return description{name: "no row"}
	}
	return descriptions()[r]
}

// String is the row's short name.
func (r Row) String() string { return r.describe().name }

// Property says what the row measures.
func (r Row) Property() string { return r.describe().property }

// Goal says what has to be reached.
func (r Row) Goal() string { return r.describe().goal }

// MarshalText returns the short name.
func (r Row) MarshalText() ([]byte, error) {
	if !r.known() {
		return nil, fmt.Errorf("reliability: no row %d", uint8(r))
	}
	return []byte(r.String()), nil
}

// UnmarshalText reads the short name.
func (r *Row) UnmarshalText(text []byte) error {
	for _, row := range Rows() {
		if row.String() == string(text) {
			*r = row
			return nil
		}
	}
	return fmt.Errorf("reliability: no row %q", text)
}
