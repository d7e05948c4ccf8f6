package session

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// This file is about the data of a contender's node. A revocation request comes first,
// and the session timeout of a revocable contender last. Between them are the user's
// data. A request has one of two forms:
//
//	__REVOKE__                  Curator's: as soon as possible
//	__REVOKE__ <grace>\n<data>  ours: within that many milliseconds; then the rest of the data
//
// Curator compares the data with its message, and would not recognize our form. Its
// message replaces everything that the holder had stored.

// revokeMessage is what Curator's Revoker writes. It replaces the holder's own data.
const revokeMessage = "__REVOKE__"

// mostGrace is the longest grace.
const mostGrace = 100 * 365 * 24 * time.Hour

// wish is a revocation request in the data of a node. The zero value is none.
type wish struct {
	stands  bool
	bounded bool          // it has a grace:
	grace   time.Duration // from when the holder reads it
}

// read returns the revocation request in the data of a node, and the rest of the data.
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

// data returns the request as it is written, followed by the rest of the node's data.
func (w wish) data(rest []byte) []byte {
	if !w.bounded {
		return []byte(revokeMessage)
	}
	return append(fmt.Appendf(nil, "%s %d\n", revokeMessage, w.grace/time.Millisecond), rest...)
}

// within returns a request with that grace.
func within(grace time.Duration) wish {
	grace = min(max(grace, 0), mostGrace)
	return wish{stands: true, bounded: true, grace: (grace + time.Millisecond - 1).Truncate(time.Millisecond)}
}

// Reserved reports whether data begin like a revocation request, and would be taken for
// one.
func Reserved(data []byte) bool { return bytes.HasPrefix(data, []byte(revokeMessage)) }

// timeoutKey and timeoutEnd are around a contender's session timeout, in the data of each
// node with [events.MarkRevocable]. A revoker cannot ask a server for the timeout, and
// has to wait until the holder's lease has run out.
//
//	zkgrant-timeout <milliseconds>ms\n            a node without data
//	<data>\nzkgrant-timeout <milliseconds>ms\n    a node with data, which may be empty
//
// It is in the data and not in the name, which has room for a few bits only. It is a line
// of text, because people read the data, and kazoo takes them for UTF-8. It is at the
// end, because a request is at the beginning, and the writer of a request leaves what
// follows it unchanged. The line names its library and ends with a line feed, so no user
// stores it by accident. If one does, a second line follows, and only the last one
// counts.
//
// The line is missing from nodes of earlier versions and of other libraries. It is also
// missing if Curator's Revoker has overwritten the data.
const timeoutKey, timeoutEnd = "zkgrant-timeout ", "ms\n"

// TimeoutSize is the largest size of the line, in bytes.
const TimeoutSize = 1 + len(timeoutKey) + 10 + len(timeoutEnd)

// withTimeout returns the user's data followed by the line. No data and empty data stay
// different.
func withTimeout(user []byte, timeout time.Duration) []byte {
	data := make([]byte, 0, len(user)+TimeoutSize)
	if user != nil {
		data = append(append(data, user...), '\n')
	}
	return fmt.Appendf(data, "%s%d%s", timeoutKey, min(max(timeout.Milliseconds(), 0), math.MaxInt32), timeoutEnd)
}

// splitTimeout is the inverse of withTimeout. Without a line the data are the user's, and
// the timeout is 0.
func splitTimeout(data []byte) (user []byte, timeout time.Duration) {
	at := bytes.LastIndex(data, []byte(timeoutKey))
	if at < 0 || at > 0 && data[at-1] != '\n' {
		return data, 0
	}
	digits, ok := bytes.CutSuffix(data[at+len(timeoutKey):], []byte(timeoutEnd))
	millis, err := strconv.ParseInt(string(digits), 10, 32)
	if !ok || err != nil || millis < 0 || strconv.FormatInt(millis, 10) != string(digits) {
		return data, 0
	}
	timeout = time.Duration(millis) * time.Millisecond
	if at == 0 {
		return nil, timeout
	}
	return data[: at-1 : at-1], timeout
}

// revocable reports whether a node of this library has the mark, and so the line.
func revocable(node string) bool {
	marks, ours := events.MarksOf(node)
	return ours && marks&events.MarkRevocable != 0
}

// timeoutIn returns the holder's session timeout from its node's data, or 0. The data are
// without a revocation request.
func timeoutIn(node string, data []byte) time.Duration {
	if !revocable(node) {
		return 0
	}
	_, timeout := splitTimeout(data)
	return timeout
}

// UserData returns the data that the owner of the node has stored. It omits a revocation
// request that was written before or over them, and the session timeout of a revocable
// node.
func UserData(node string, data []byte) []byte {
	_, user := read(data)
	if revocable(node) {
		user, _ = splitTimeout(user)
	}
	return user
}
