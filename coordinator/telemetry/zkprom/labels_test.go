package zkprom

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestLabelsOfPaths: below one parent so many locks have their own label, and one more makes one label of them all.
func TestLabelsOfPaths(t *testing.T) {
	t.Parallel()
	l := newLabels(2)
	for i, step := range []struct {
		path, label string
		replaced    []string
	}{
		{"/jobs/a", "/jobs/a", nil},
		{"/jobs/b", "/jobs/b", nil},
		{"/jobs/a", "/jobs/a", nil},
		{"/top", "/top", nil},
		{"/jobs/c", "/jobs/*", []string{"/jobs/a", "/jobs/b"}},
		{"/jobs/a", "/jobs/*", nil},
		{"/jobs/a/below", "/jobs/a/below", nil},
		{"/stars/*", "/stars/*", nil},
		{"/stars/a", "/stars/a", nil},
		{"/stars/b", "/stars/*", []string{"/stars/*", "/stars/a"}},
		{"bad", "*", nil},
		{"", "*", nil},
		{"/not\xffutf-8", "*", nil},
		{"/" + strings.Repeat("long", 100), "*", nil},
	} {
		label, replaced := l.of(step.path)
		slices.Sort(replaced)
		if label != step.label || !reflect.DeepEqual(replaced, step.replaced) {
			t.Errorf("step %d: the label of %q is %q and replaces %q, want %q and %q", i, step.path, label, replaced, step.label, step.replaced)
		}
	}
}

// TestLabelsAreBounded whatever the paths are, and whatever a user's function makes of them.
func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	for _, most := range []int{0, 1, 20, 50} {
		l, chosen := newLabels(most), newLabels(most)
		live, given := map[string]bool{}, map[string]bool{}
		for i := range 20_000 {
			label, replaced := l.of(fmt.Sprintf("/users/%d/tasks/%d", i/70, i))
			live[label] = true
			for _, old := range replaced {
				delete(live, old)
			}
			given[chosen.given(fmt.Sprint(i))] = true
		}
		bound := max(100, 10*most) + 1
		if len(live) > bound || len(given) > bound || len(live) < 100 || len(given) != bound {
			t.Errorf("with %d below one parent, 20,000 paths have %d labels, and %d if a function chooses; want at least 100 and at most %d",
				most, len(live), len(given), bound)
		}
		if len(l.parents) > bound {
			t.Errorf("with %d below one parent, %d parents are remembered, want at most %d", most, len(l.parents), bound)
		}
	}
}

// TestAnOptionIsForWhatItChanges: what has no effect does not compile.
func TestAnOptionIsForWhatItChanges(t *testing.T) {
	t.Parallel()
	for _, o := range []any{WithPollInterval(0), WithPollTimeout(0)} {
		if _, is := o.(Option); is {
			t.Errorf("%T is an option of New, which does not walk", o)
		}
	}
	for _, o := range []LabelOption{WithMaxLocks(3), WithLockLabel(func(string) string { return "" })} {
		if reflect.DeepEqual(configOf([]Option{o}), configOf(nil)) || reflect.DeepEqual(queueConfigOf([]QueueOption{o}), queueConfigOf(nil)) {
			t.Errorf("%T changes nothing", o)
		}
	}
}
