//go:build !race

package recipes

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"
)

// A config is a world to explore: who takes part, and what may go wrong.
type config struct {
	name    string
	clients int
	left    budget
	flags   []uint8
	memory  int // how many of those ahead a waiter remembers; 0 is as many as it does
	options
}

// remembering makes a machine remember no more than so many of those ahead, because
// no world is large enough for what it does remember.
func remembering(most int, step stepFunc) stepFunc {
	return func(m Machine, in Input) (Machine, []Effect) {
		next, effects := step(m, in)
		if next.state == Waiting {
			clear(next.older[most:])
		}
		return next, effects
	}
}

// bigRun names the environment variable that asks for every pair of faults with
// three contenders each: about 125 million worlds, three and a half minutes of
// one core, and 5 GB of memory. Without it there are 40 million, for which a
// minute and 1.5 GB are enough.
const bigRun = "ZKGRANT_EXPLORE_BIG"

// most is how many worlds a configuration may have. The test fails beyond, for
// a visit that was cut short proves nothing.
const most = 20_000_000

// faults are the kinds of faults, of each of which one may happen.
func faults() []config {
	return []config{
		{name: "withdraw", left: budget{withdraw: 1}},
		{name: "cut", left: budget{cut: 1}},
		{name: "expire", left: budget{expire: 1}},
		{name: "lapse", left: budget{lapse: 1}},
		{name: "kill", left: budget{kill: 1}},
		{name: "remove", left: budget{remove: 1}},
		{name: "foreign", left: budget{foreign: 1}},
		{name: "refuse", left: budget{refuse: 1}},
		{name: "guest", left: budget{guest: 1}},
		{name: "reap", left: budget{reap: 1}},
	}
}

func (b budget) plus(o budget) budget {
	return budget{
		cut: b.cut + o.cut, lapse: b.lapse + o.lapse, expire: b.expire + o.expire, kill: b.kill + o.kill,
		remove: b.remove + o.remove, withdraw: b.withdraw + o.withdraw, foreign: b.foreign + o.foreign, refuse: b.refuse + o.refuse,
		guest: b.guest + o.guest, reap: b.reap + o.reap, change: b.change + o.change,
	}
}

// pairs returns a configuration for every pair of faults, a fault with itself
// included.
func pairs() []config {
	var all []config
	for i, a := range faults() {
		for _, b := range faults()[i:] {
			all = append(all, config{name: a.name + " + " + b.name, clients: 3, left: a.left.plus(b.left), options: options{eager: true}})
		}
	}
	return all
}

// more are the configurations that are no mere pairs.
func more() []config {
	keep := []uint8{flagKeep, flagKeep, flagKeep}
	try := []uint8{flagTry, flagTry}
	strict := []uint8{flagStrict, flagStrict, flagStrict}
	strictKeep := []uint8{flagStrict | flagKeep, flagStrict | flagKeep}
	return []config{
		{name: "no fault", clients: 3},
		{name: "expire, from the start", clients: 3, left: budget{expire: 1}},
		{name: "kill, from the start", clients: 3, left: budget{kill: 1}},
		{name: "two cuts, watches set again", clients: 3, left: budget{cut: 2}, options: options{rearm: true}},
		{name: "remove + cut, own node watched", clients: 2, left: budget{cut: 1, remove: 2}, options: options{rearm: true, ownWatch: true}},
		{name: "remove + cut, told after the reconnect", clients: 2, left: budget{cut: 2, remove: 1}, options: options{clings: true}},
		{name: "kill, own node watched", clients: 3, left: budget{kill: 1}, options: options{ownWatch: true, eager: true}},
		{name: "keep: expire", clients: 3, left: budget{expire: 1}, flags: keep},
		{name: "keep: lapse + cut", clients: 3, left: budget{lapse: 1, cut: 1}, flags: keep},
		{name: "keep: remove, own node watched", clients: 3, left: budget{remove: 1}, flags: keep, options: options{ownWatch: true}},
		{name: "strict: cut + withdraw", clients: 3, left: budget{cut: 1, withdraw: 1}, flags: strict, options: options{eager: true}},
		{name: "strict: two cuts + lapse", clients: 2, left: budget{cut: 2, lapse: 1}, flags: strict},
		{name: "strict: cut + remove, own node watched", clients: 2, left: budget{cut: 1, remove: 1}, flags: strict, options: options{ownWatch: true}},
		{name: "strict, keep: cut + expire", clients: 2, left: budget{cut: 1, expire: 1}, flags: strictKeep},
		{name: "try: cut", clients: 3, left: budget{cut: 1}, flags: try, options: options{eager: true}},
		{name: "try: expire", clients: 3, left: budget{expire: 1}, flags: try, options: options{eager: true}},
		{name: "ghost creates: expire", clients: 3, left: budget{expire: 1}, options: options{ghost: true, eager: true}},
		{name: "ghost creates: two expire", clients: 2, left: budget{expire: 2}, options: options{ghost: true}},
		{name: "lapse + withdraw + cut, told in time", clients: 2, left: budget{lapse: 2, withdraw: 1, cut: 1}},
		{name: "requests overtake: withdraw + cut", clients: 3, left: budget{withdraw: 1, cut: 1}, options: options{loose: true, eager: true}},
		{name: "requests overtake: remove + cut", clients: 3, left: budget{remove: 1, cut: 1}, options: options{loose: true, eager: true}},
		{name: "requests overtake: expire", clients: 3, left: budget{expire: 1}, options: options{loose: true, eager: true}},
		{name: "two of much", clients: 2, left: budget{cut: 2, lapse: 1, withdraw: 1, refuse: 1}, options: options{eager: true}},
		{name: "one of much", clients: 2, left: budget{cut: 1, expire: 1, lapse: 1, withdraw: 1}, options: options{eager: true}},
	}
}

// TestExplore visits every interleaving of the configurations.
func TestExplore(t *testing.T) {
	if testing.Short() {
		t.Skip("takes about a minute; run without -short")
	}
	big := os.Getenv(bigRun) != ""
	var states, steps int
	began := time.Now()
	for _, cfg := range slices.Concat(more(), directories(), pairs()) {
		f := explore(Machine.Step, cfg, most)
		states, steps = states+f.states, steps+f.steps
		t.Logf("%d contenders, %-32s %v", cfg.clients, cfg.name, f)
		if f.truncated {
			t.Errorf("%s: more than %d worlds", cfg.name, most)
		}
		if f.violation != "" {
			t.Fatalf("%s: %s\n%s", cfg.name, f.violation, strings.Join(f.trace, "\n"))
		}
	}
	took := time.Since(began)
	fmt.Printf("explored %d worlds, %d transitions in %.1fs (%.0fk worlds/s); no violation\n",
		states, steps, took.Seconds(), float64(states)/took.Seconds()/1000)
	if !big {
		t.Logf("set %s=1 for every pair of faults with three contenders", bigRun)
	}
}

func TestExploreWorldHasNoPadding(t *testing.T) {
	if got, want := unsafe.Sizeof(client{}), uintptr(4+8*maxRequests+12); got != want {
		t.Errorf("a client takes %d bytes, its fields %d", got, want)
	}
	if got, want := unsafe.Sizeof(world{}), maxClients*unsafe.Sizeof(client{})+3*maxNodes+2*(maxLag+1)+5+11+2; got != want {
		t.Errorf("a world takes %d bytes, its fields %d", got, want)
	}
}
