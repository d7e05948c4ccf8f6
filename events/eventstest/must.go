package eventstest

import "testing"

// Must ends the test if a step that only prepares the next one has failed.
func Must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Check fails the test on an error, and may be called from any goroutine.
func Check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Error(err)
	}
}
