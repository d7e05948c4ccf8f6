package reliability

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// The environment of `make reliability`.
const (
	// MeasureVariable, if 1, requests as many trials as a figure needs.
	MeasureVariable = "ZKGRANT_RELIABILITY"
	// FileVariable names the file to which figures are appended, one line of JSON each.
	FileVariable = "ZKGRANT_FIGURES"
)

// Figure is a result of a measurement.
type Figure struct {
	Row  Row
	Test string
	Text string
}

// Report logs a figure with the test. Under `make reliability` it also adds it to the
// file, unless the test has failed: a failed test's figure does not show what is
// promised.
func Report(tb testing.TB, row Row, format string, args ...any) {
	tb.Helper()
	figure := Figure{Row: row, Test: tb.Name(), Text: fmt.Sprintf(format, args...)}
	tb.Logf("%s: %s", row, figure.Text)
	name := os.Getenv(FileVariable)
	if name == "" || tb.Failed() {
		return
	}
	line, err := json.Marshal(figure)
	eventstest.Check(tb, err)
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		tb.Errorf("handing a figure on: %v", err)
		return
	}
	_, err = file.Write(append(line, '\n')) // one call, so that the lines of several test processes do not mix
	eventstest.Check(tb, errors.Join(err, file.Close()))
}

// Counts prints how often each outcome occurred, in alphabetical order.
func Counts(of map[string]int) string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, fmt.Sprintf("%d %s", of[what], what))
	}
	return strings.Join(parts, ", ")
}

// Trials returns the number of trials of a test: quick by default, full at full length,
// and measured under `make reliability`.
func Trials(quick, full, measured int) int {
	if os.Getenv(MeasureVariable) == "1" {
		return measured
	}
	return eventstest.Amount(quick, full)
}
