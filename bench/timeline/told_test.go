package main

import "testing"

func TestWhatWasToldIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	for w := toldGranted; w <= toldFailed; w++ {
		for _, own := range []string{"", "LOST", "Lost: lease ran out"} {
			got, gotOwn, ok, err := parseTold(formatTold(w, own))
			if got != w || gotOwn != own || !ok || err != nil {
				t.Errorf("written and read again, %v, %q is %v, %q, %v, %v; want the same", w, own, got, gotOwn, ok, err)
			}
		}
	}
	for line, want := range map[string]what{
		"told granted":         toldGranted,
		"told lost  LOST ":     toldLost,
		"":                     0,
		"granted":              0,
		"OpenJDK: told lost":   0,
		"told":                 0,
		"toldgranted anything": 0,
	} {
		if got, _, ok, err := parseTold(line); got != want || ok != (want != 0) || err != nil {
			t.Errorf("parseTold(%q) = %v, %v, %v; want %v", line, got, ok, err, want)
		}
	}
	for _, line := range []string{"told ", "told nothing of value", "told lostX"} {
		if _, _, ok, err := parseTold(line); ok || err == nil {
			t.Errorf("parseTold(%q): %v, %v; want false and an error", line, ok, err)
		}
	}
	if got := formatTold(toldFailed, "two\nlines"); got != "told failed two lines" {
		t.Errorf("formatTold of two lines = %q, want one line", got)
	}
}
