package main

import (
	"slices"
	"testing"
)

func TestEachLibraryIsFirstOnce(t *testing.T) {
	t.Parallel()
	all := []int{0, 1, 2, 3}
	for round := range 9 {
		order := rotate(all, round)
		if order[0] != round%4 || !slices.Equal(slices.Sorted(slices.Values(order)), all) {
			t.Errorf("round %d: %v; want all, and %d first", round, order, round%4)
		}
	}
	if got := rotate([]int(nil), 3); len(got) != 0 {
		t.Errorf("rotate of nothing = %v, want nothing", got)
	}
}
