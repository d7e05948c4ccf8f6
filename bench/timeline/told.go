package main

import (
	"fmt"
	"strings"
)

// what is the kind of a report. The kinds are the same for all libraries.
type what int

const (
	// toldGranted: the lock is held.
	toldGranted what = iota + 1
	// toldSuspended: the connection is in trouble. It says nothing about the lock.
	toldSuspended
	// toldInvalid: the library, asked every millisecond, answers that the lock is not held any more.
	toldInvalid
	// toldLost: the lock, or the session that held it, is gone.
	toldLost
	// toldConnected: there is a connection with a session again, or for the first time.
	toldConnected
	// toldOther: anything else worth writing down.
	toldOther
	// toldFailed: the contender cannot go on.
	toldFailed
)

// String is the printed word of the kind.
func (w what) String() string {
	switch w {
	case toldGranted:
		return "granted"
	case toldSuspended:
		return "suspended"
	case toldInvalid:
		return "invalid"
	case toldLost:
		return "lost"
	case toldConnected:
		return "connected"
	case toldOther:
		return "other"
	case toldFailed:
		return "failed"
	default:
		return fmt.Sprintf("what(%d)", int(w))
	}
}

// prefix begins every report. A virtual machine may print other lines.
const prefix = "told "

// formatTold is the line of a report, in the library's own words.
func formatTold(w what, own string) string {
	return strings.TrimRight(prefix+w.String()+" "+strings.ReplaceAll(own, "\n", " "), " ")
}

// parseTold reads such a line. Any other line is not ok. A line with the prefix that cannot be read is an error.
func parseTold(line string) (w what, own string, ok bool, err error) {
	rest, ok := strings.CutPrefix(line, prefix)
	if !ok {
		return 0, "", false, nil
	}
	word, own, _ := strings.Cut(rest, " ")
	for w := toldGranted; w <= toldFailed; w++ {
		if word == w.String() {
			return w, strings.TrimSpace(own), true, nil
		}
	}
	return 0, "", false, fmt.Errorf("a contender says %q, and %q is not known", line, word)
}
