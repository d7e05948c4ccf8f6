package eventstest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// Expect fails the test unless the condition holds.
func Expect(tb testing.TB, holds bool, format string, args ...any) {
	tb.Helper()
	if !holds {
		tb.Errorf(format, args...)
	}
}

// Equal fails the test unless both are deeply equal. what says which value it is, and
// when it was read.
func Equal[T any](tb testing.TB, got, want T, what string, args ...any) {
	tb.Helper()
	form := "%s: got %+v, want %+v"
	switch any(got).(type) {
	case string, []string:
		form = "%s: got %q, want %q"
	}
	if !reflect.DeepEqual(got, want) {
		tb.Errorf(form, fmt.Sprintf(what, args...), got, want)
	}
}

// Contains fails the test unless the text contains the part.
func Contains(tb testing.TB, text, part, what string, args ...any) {
	tb.Helper()
	if !strings.Contains(text, part) {
		tb.Errorf("%s: want %q in\n%s", fmt.Sprintf(what, args...), part, text)
	}
}

// ErrorIs fails the test unless err matches want, or both are nil.
func ErrorIs(tb testing.TB, err, want error, what string, args ...any) {
	tb.Helper()
	if !errors.Is(err, want) {
		tb.Errorf("%s: %v, want %v", fmt.Sprintf(what, args...), err, want)
	}
}
