package recipes

import (
	"testing"

	"github.com/zkgrant/zkgrant/events"
)

// TestTheNumberDecidesAndNotTheText: what stands before the number is a random GUID,
// or another client's idea of a name, and sorts in every way there is.
func TestTheNumberDecidesAndNotTheText(t *testing.T) {
	var orders [][]string
	var permute func(rest, done []string)
	permute = func(rest, done []string) {
		if len(rest) == 0 {
			orders = append(orders, append([]string(nil), done...))
		}
		for i, head := range rest {
			others := append(append([]string(nil), rest[:i]...), rest[i+1:]...)
			permute(others, append(done, head))
		}
	}
	permute([]string{"_c_0a-lock-", "_c_f7-lock-", "lock-", "x-17-"}, nil)
	for _, heads := range orders {
		var queue []events.Name
		for i, seq := range []string{"0000000007", "0000000008", "0000000010", "0000000100"} {
			name, ok := events.ParseName(heads[i] + seq)
			if !ok {
				t.Fatalf("%s%s is no contender", heads[i], seq)
			}
			queue = append(queue, name)
		}
		for i, me := range queue {
			answer := Mutex{}.Blockers(queue, me)
			if i == 0 && len(answer) > 0 || i > 0 && (len(answer) != 1 || answer[0] != queue[i-1]) {
				t.Errorf("in %v %q is blocked by %v", queue, me.Text, answer)
			}
			if got := ahead(Mutex{}, queue, me); got != i {
				t.Errorf("in %v %d stand ahead of %q", queue, got, me.Text)
			}
		}
	}
}
