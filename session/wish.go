package session

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

// This file is about how a lock is asked back: by the data of the holder's node. There are two forms.
//
//	__REVOKE__                  Curator's: as soon as may be
//	__REVOKE__ <grace>\n<data>  ours: within so many milliseconds; behind that, what the node had, its timeout included (see timeoutline.go)
//
// Curator compares the data with its message, and would not know our form. Its message takes the place of all that the holder had stored.

// revokeMessage is what Curator's Revoker writes. It takes the place of the holder's own data.
const revokeMessage = "__REVOKE__"

// mostGrace is the longest grace.
const mostGrace = 100 * 365 * 24 * time.Hour

// wish is what the data of a node say of a wish to have its lock back. The zero value is no wish.
type wish struct {
	stands  bool
	bounded bool          // it says how much time there is:
	grace   time.Duration // from when the holder hears of it
}

// read returns the wish in the data of a node, and the rest of the data.
func read(data []byte) (w wish, rest []byte) {
	rest, ok := bytes.CutPrefix(data, []byte(revokeMessage))
	if !ok {
		return wish{}, data
	}
	if len(rest) == 0 {
		return wish{stands: true}, nil
	}
	header, rest, ok := bytes.Cut(rest, []byte("\n"))
	digits, spaced := bytes.CutPrefix(header, []byte(" "))
	if !ok || !spaced {
		return wish{}, data
	}
	millis, err := strconv.ParseUint(string(digits), 10, 63)
	if err != nil {
		return wish{}, data
	}
	grace := mostGrace
	if millis < uint64(mostGrace/time.Millisecond) {
		grace = time.Duration(millis) * time.Millisecond
	}
	return wish{stands: true, bounded: true, grace: grace}, rest
}

// data returns the wish as it is written, before what else the node holds.
func (w wish) data(rest []byte) []byte {
	if !w.bounded {
		return []byte(revokeMessage)
	}
	return append(fmt.Appendf(nil, "%s %d\n", revokeMessage, w.grace/time.Millisecond), rest...)
}

// within returns the wish to have a lock back in so much time.
func within(grace time.Duration) wish {
	grace = min(max(grace, 0), mostGrace)
	return wish{stands: true, bounded: true, grace: (grace + time.Millisecond - 1).Truncate(time.Millisecond)}
}

// Reserved reports whether data begin like such a wish, and would be taken for one.
func Reserved(data []byte) bool { return bytes.HasPrefix(data, []byte(revokeMessage)) }
