package recipes

import (
	"slices"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// TestKeepsOut: a holder keeps out the contenders that wait for it, and no older one.
func TestKeepsOut(t *testing.T) {
	for _, trial := range []struct {
		holder, contender string
		want              bool
	}{
		{"_c_a-lock-0000000001", "_c_b-lock-0000000002", true},
		{"_c_a-lock-0000000002", "_c_b-lock-0000000001", false},
		{"_c_a-lock-0000000002", "_c_a-lock-0000000002", false},
		{"_c_a-__READ__0000000001", "_c_b-__READ__0000000002", false},
		{"_c_a-__READ__0000000001", "_c_b-__WRIT__0000000002", true},
		{"_c_a-__WRIT__0000000001", "_c_b-__READ__0000000002", true},
		{"_c_a-__WRIT__0000000001", "_c_a-__READ__0000000001", false}, // becomes a reader in its own place
		{"_c_a-__READ__0000000001", "lock-0000000002", true},
	} {
		holder, _ := events.ParseName(trial.holder)
		contender, ok := events.ParseName(trial.contender)
		if got := KeepsOut(holder, contender); !ok || got != trial.want {
			t.Errorf("%s keeps %s out: %v (a contender: %v), want %v", trial.holder, trial.contender, got, ok, trial.want)
		}
	}
}

// TestBeyond: the contenders in a semaphore's queue for which the free permits are not
// enough, and all contenders after them.
func TestBeyond(t *testing.T) {
	var queue []events.Name
	for _, text := range []string{"c-lock-0000000003", "a-lock-0000000001", "b-lock-0000000002"} {
		name, _ := events.ParseName(text)
		queue = append(queue, name)
	}
	for free, want := range map[int]string{-1: "a b c", 0: "a b c", 1: "b c", 2: "c", 3: "", 9: ""} {
		var got []string
		for _, c := range Beyond(free, queue) {
			got = append(got, c.Text[:1])
		}
		eventstest.Equal(t, strings.Join(got, " "), want, "kept out with %d free permits", free)
	}
}

// TestNewcomersCountOnce, in whatever order they come and go.
func TestNewcomersCountOnce(t *testing.T) {
	var n Newcomers
	for i, step := range []struct {
		kept string
		want bool
	}{{"", false}, {"a", true}, {"a", false}, {"b a", true}, {"b", false}, {"b c d", true}, {"d c b", false}, {"", false}, {"e", true}} {
		got := n.See(slices.Clone(strings.Fields(step.kept)))
		eventstest.Equal(t, got, step.want, "step %d, %q: one has come", i, step.kept)
	}
}
