// Package text formats values from the servers for people.
package text

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// hidden reports whether a character controls a terminal, changes the text direction, or
// is invisible.
func hidden(r rune) bool {
	switch r {
	case '\u00ad', '\u061c', '\u180e', '\ufeff':
		return true
	}
	return r < ' ' || r >= 0x7f && r <= 0x9f || r >= '\u200b' && r <= '\u200f' || r >= '\u2028' && r <= '\u202e' ||
		r >= '\u2060' && r <= '\u206f' || r >= '\ufff9' && r <= '\ufffb'
}

// Printable makes text from the servers safe to print on a terminal, as a single line.
func Printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if hidden(r) && r != '\n' && r != '\t' {
			return '\ufffd'
		}
		return r
	}, text)
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(text)
}

// JSON returns a value as one line of JSON that is safe to print on a terminal. It
// escapes hidden characters.
func JSON(value any) (string, error) {
	marshalled, err := json.Marshal(value)
	var line strings.Builder
	for _, r := range string(marshalled) { // only strings contain anything but ASCII
		if hidden(r) {
			fmt.Fprintf(&line, `\u%04x`, r)
		} else {
			line.WriteRune(r)
		}
	}
	return line.String(), err
}

// Since formats a duration for people.
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

// Kind returns the kind of a contender, named as for --kind.
func Kind(k events.Kind) string { return strings.TrimSuffix(k.String(), " lock") }

// SessionID formats a session as the servers' logs do.
func SessionID(id int64) string { return "0x" + strconv.FormatUint(uint64(id), 16) }

// MayBeIdle reports whether a contender's node has the lock, but perhaps no holder at
// present: the node of a cached lock stays between two holders.
func MayBeIdle(c events.Contender) bool { return c.Holding && c.Cached }

// State returns whether a contender holds or waits, in words.
func State(c events.Contender) string {
	switch {
	case MayBeIdle(c):
		return "holds, may be idle"
	case c.Holding:
		return "holds"
	default:
		return "waits"
	}
}
