package session

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// This file is about the session timeout of a holder, which stands in the data of each node with [events.MarkRevocable], behind the user's
// data. A revoker cannot ask a server for it, and has to wait until the holder's lease has run out.
//
//	zkgrant-timeout <milliseconds>ms\n            a node without data
//	<data>\nzkgrant-timeout <milliseconds>ms\n    a node with data, which may be empty
//
// It stands in the data and not in the name, which has room for a few bits only. It is a line of text, because people read the data, and
// kazoo takes them for UTF-8. It stands at the end, because a wish stands at the beginning, and a wish's writer leaves what is behind it as
// it was. The line names its library and ends with a line feed, so no user stores it by accident. If one does, a second line follows, and
// only the last one counts.
//
// The line is missing from nodes of earlier versions and of other libraries. It is also missing if Curator's Revoker has overwritten the
// data.

const timeoutKey, timeoutEnd = "zkgrant-timeout ", "ms\n"

// TimeoutSize is how many bytes the line takes at most.
const TimeoutSize = 1 + len(timeoutKey) + 10 + len(timeoutEnd)

// withTimeout returns the user's data with the line behind them. No data and empty data stay different.
func withTimeout(user []byte, timeout time.Duration) []byte {
	data := make([]byte, 0, len(user)+TimeoutSize)
	if user != nil {
		data = append(append(data, user...), '\n')
	}
	return fmt.Appendf(data, "%s%d%s", timeoutKey, min(max(timeout.Milliseconds(), 0), math.MaxInt32), timeoutEnd)
}

// splitTimeout is the inverse of withTimeout. Without a line the data are the user's, and the timeout is 0.
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

// timeoutIn returns the holder's session timeout from its node's data, or 0. The data are without a wish.
func timeoutIn(node string, data []byte) time.Duration {
	if !revocable(node) {
		return 0
	}
	_, timeout := splitTimeout(data)
	return timeout
}

// UserData returns what the owner of the node has stored in it. A wish that was written before it, or in its place, is left out, and so is
// the session timeout of a node that can be revoked.
func UserData(node string, data []byte) []byte {
	_, user := read(data)
	if revocable(node) {
		user, _ = splitTimeout(user)
	}
	return user
}
