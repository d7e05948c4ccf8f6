// Package text says in words what the servers say in numbers and bytes.
package text

import (
	"strconv"
	"strings"
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// Printable makes text from the servers harmless for a terminal.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' || r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' {
			return '\ufffd'
		}
		return r
	}, text)
}

// Since is a duration as people say it.
func Since(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	default:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
}

// Kind is the kind of a contender, as --kind names it.
func Kind(k events.Kind) string { return strings.TrimSuffix(k.String(), " lock") }

// SessionID is a session as the servers' logs name it.
func SessionID(id int64) string { return "0x" + strconv.FormatUint(uint64(id), 16) }
