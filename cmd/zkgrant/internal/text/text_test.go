package text

import (
	"encoding/json"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Characters that control a terminal, change the text direction or are invisible never
// reach a terminal. --json escapes them.
func TestNothingHiddenReachesATerminal(t *testing.T) {
	for _, r := range "\x00\x1b\x1f\x7f\u0080\u009b\u009f\u00ad\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202e\u2060\u2066\u2069\ufeff" {
		text := "ann" + string(r)
		eventstest.Equal(t, Printable(text), "ann\ufffd", "what Printable leaves of %U", r)
		line, err := JSON(map[string]string{"data": text})
		eventstest.Must(t, err)
		eventstest.Expect(t, Printable(line) == line, "JSON writes %U as it is: %+q", r, line)
		var back map[string]string
		eventstest.Check(t, json.Unmarshal([]byte(line), &back))
		eventstest.Equal(t, back["data"], text, "%s, when it is read", line)
	}
	eventstest.Equal(t, Printable("one\ntwo\tthree\r\n"), `one\ntwo\tthree`+"\ufffd"+`\n`, "lines")
	for _, text := range []string{"Zoë, 日本 ✓ 🔒", "\u00a0"} {
		eventstest.Equal(t, Printable(text), text, "other text")
	}
}
