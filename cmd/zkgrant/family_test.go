//go:build unix

package main

import "testing"

// TestAFamilyIsListedUntilItIsSettled: a listing misses the child of a process that ended
// while it was read. So a family has ended only if no other process has ended since.
func TestAFamilyIsListedUntilItIsSettled(t *testing.T) {
	zombie, alive := stat{state: 'Z', threads: 1}, stat{state: 'S', threads: 1}
	for name, c := range map[string]struct {
		listings [][]stat // the last one stays
		listed   int
		settled  bool
	}{
		"nobody":                        {[][]stat{{}}, 1, true},
		"one lives":                     {[][]stat{{zombie, alive}}, 1, true},
		"zombies that nobody waits for": {[][]stat{{zombie, zombie}}, 2, true},
		"one forked and ended": {
			[][]stat{{zombie}, {zombie, zombie}, {zombie, zombie, alive}}, 3, true,
		},
		"one forked and ended, and then its child did": {[][]stat{{zombie}, {zombie, zombie}}, 3, true},
	} {
		n := 0
		found, settled := settle(func() []stat {
			n++
			return c.listings[min(n, len(c.listings))-1]
		})
		if want := c.listings[len(c.listings)-1]; n != c.listed || settled != c.settled || len(found) != len(want) {
			t.Errorf("%s: listed %d times, found %d, settled %v; want %d, %d, %v",
				name, n, len(found), settled, c.listed, len(want), c.settled)
		}
	}
	var chain []stat
	if _, settled := settle(func() []stat { chain = append(chain, zombie); return chain }); settled {
		t.Error("processes that fork and end faster than they are listed are settled, want not")
	}
}
