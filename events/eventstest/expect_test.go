package eventstest_test

import (
	"io"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// failures counts the failures of a test that is expected to fail.
type failures struct {
	testing.TB
	n int
}

func (f *failures) Helper()               {}
func (f *failures) Errorf(string, ...any) { f.n++ }

func TestAssertionsFail(t *testing.T) {
	for want := range 2 {
		f := &failures{TB: t}
		right := want == 0
		eventstest.Expect(f, right, "a condition")
		eventstest.Equal(f, []string{"a"}, []string{map[bool]string{true: "a"}[right]}, "a list")
		eventstest.Contains(f, "text", map[bool]string{true: "ex", false: "no"}[right], "a text")
		eventstest.ErrorIs(f, map[bool]error{true: io.EOF}[right], io.EOF, "an error")
		if f.n != 4*want {
			t.Errorf("conditions that hold: %v; of 4 assertions %d fail, want %d", right, f.n, 4*want)
		}
	}
}
