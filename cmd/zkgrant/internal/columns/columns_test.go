package columns_test

import (
	"slices"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/columns"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A column is as wide as its widest cell if there is room. If not, the last columns
// become narrower, columns with a Drop are left out, and cut cells are marked.
func TestAlign(t *testing.T) {
	all := []columns.Column{
		{Name: "PATH", Least: 6, Tail: true}, {Name: "N", Least: 2, Right: true, Drop: 1}, {Name: "WHO", Least: 4, Drop: 2},
	}
	cells := [][]string{{"/locks/長い", "1", "somebody"}, {"/b", "200", ""}}
	for _, test := range []struct {
		width int
		want  []string
	}{
		{100, []string{"PATH           N  WHO", "/locks/長い    1  somebody", "/b           200"}},
		{22, []string{"PATH           N  WHO", "/locks/長い    1  som…", "/b           200"}},
		{18, []string{"PATH       N  WHO", "…ks/長い   1  som…", "/b        2…"}},
		{15, []string{"PATH          N", "/locks/長い   1", "/b           2…"}},
		{10, []string{"PATH     N", "…/長い   1", "/b      2…"}},
		{7, []string{"PATH", "…s/長い", "/b"}},
		{2, []string{"PATH", "…/長い", "/b"}},
	} {
		got := columns.Align(all, cells, test.width)
		eventstest.Expect(t, slices.Equal(got, test.want),
			"%d wide: got %q, want %q", test.width, got, test.want)
		for _, line := range got {
			eventstest.Expect(t, test.width < 6 || ansi.StringWidth(line) <= test.width,
				"%q is wider than %d", line, test.width)
		}
	}
}
