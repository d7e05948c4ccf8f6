// Package text says in words what the servers say in numbers and bytes.
package text

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/zkgrant/zkgrant/events"
)

// unprintable are the characters that steer a terminal, turn a line round, or show as nothing.
var unprintable = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x00, Hi: 0x1f, Stride: 1}, {Lo: 0x7f, Hi: 0x9f, Stride: 1}, {Lo: 0xad, Hi: 0xad, Stride: 1},
		{Lo: 0x061c, Hi: 0x061c, Stride: 1}, {Lo: 0x180e, Hi: 0x180e, Stride: 1}, {Lo: 0x200b, Hi: 0x200f, Stride: 1},
		{Lo: 0x2028, Hi: 0x202e, Stride: 1}, {Lo: 0x2060, Hi: 0x206f, Stride: 1}, {Lo: 0xfeff, Hi: 0xfeff, Stride: 1},
		{Lo: 0xfff9, Hi: 0xfffb, Stride: 1},
	},
	LatinOffset: 3,
}

// Printable makes text from the servers harmless for a terminal.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unprintable, r) {
			return '\ufffd'
		}
		return r
	}, text)
}

// JSON returns a value as one line of JSON that is harmless for a terminal: what is not printable is escaped.
func JSON(value any) (string, error) {
	marshalled, err := json.Marshal(value)
	var line strings.Builder
	for _, r := range string(marshalled) { // all but ASCII is within its strings
		if unicode.Is(unprintable, r) {
			fmt.Fprintf(&line, `\u%04x`, r)
		} else {
			line.WriteRune(r)
		}
	}
	return line.String(), err
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
