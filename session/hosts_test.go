package session

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func testRand() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

func TestHostsGoRoundInOneShuffledOrder(t *testing.T) {
	names := []string{"a:1", "b:1", "c:1", "d:1", "e:1"}
	given := slices.Clone(names)
	h := newHosts(names, testRand())
	if !slices.Equal(names, given) {
		t.Fatalf("the caller's list was changed to %v", names)
	}
	if err := h.Init([]string{"elsewhere:1"}); err != nil {
		t.Fatal(err)
	}
	if h.Len() != len(names) {
		t.Fatalf("Len() = %d", h.Len())
	}
	var first []string
	for i := range 3 * len(names) {
		name, retryStart := h.Next()
		if retryStart {
			t.Fatalf("step %d: the client would sleep", i)
		}
		if i < len(names) {
			first = append(first, name)
		} else if want := first[i%len(names)]; name != want {
			t.Fatalf("step %d: %s, want %s", i, name, want)
		}
		if i == 6 {
			h.Connected() // changes nothing: the next one in the ring comes next
		}
	}
	if sorted := slices.Sorted(slices.Values(first)); !slices.Equal(sorted, given) {
		t.Fatalf("one round is %v", first)
	}
}

func TestHostsAreShuffledByTheGivenSource(t *testing.T) {
	names := []string{"a:1", "b:1", "c:1"}
	starts := map[string]int{}
	rng := testRand()
	for range 300 {
		name, _ := newHosts(names, rng).Next()
		starts[name]++
	}
	for _, name := range names {
		if n := starts[name]; n < 60 {
			t.Errorf("%s is first %d times of 300", name, n)
		}
	}
	one, _ := newHosts(names, testRand()).Next()
	two, _ := newHosts(names, testRand()).Next()
	if one != two {
		t.Error("the same source gives different orders")
	}
}

func TestHostsRefuseAnEmptyList(t *testing.T) {
	if err := newHosts(nil, testRand()).Init([]string{"a:1"}); err == nil {
		t.Fatal("accepted")
	}
}
