package text

import (
	"encoding/json"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Characters that control a terminal, change the text direction or are invisible never
// reach a terminal. --json escapes them.
func TestNothingHiddenReachesATerminal(t *testing.T) {
	for _, r := range "\x00\x1b\x1f\x7f\u0080\u009b\u009f\u00ad\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202e\u2060\u2066\u2069\ufeff" {
		text := "ann" + string(r)
		if got, want := Printable(text), "ann\ufffd"; got != want {
			t.Errorf("of %U Printable leaves %+q, want %+q", r, got, want)
		}
		line, err := JSON(map[string]string{"data": text})
		if err != nil {
			t.Fatal(err)
		}
		if Printable(line) != line {
			t.Errorf("JSON writes %U as it is: %+q", r, line)
		}
		var back map[string]string
		if err := json.Unmarshal([]byte(line), &back); err != nil || back["data"] != text {
			t.Errorf("%s is read as %+q (%v), want %+q", line, back["data"], err, text)
		}
	}
	if got, want := Printable("one\ntwo\tthree\r\n"), `one\ntwo\tthree`+"\ufffd"+`\n`; got != want {
		t.Errorf("Printable makes %q of lines, want %q", got, want)
	}
	for _, text := range []string{"Zoë, 日本 ✓ 🔒", "\u00a0"} {
		if got := Printable(text); got != text {
			t.Errorf("Printable makes %+q of %+q", got, text)
		}
	}
}
