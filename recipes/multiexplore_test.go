package recipes

import (
	"fmt"
	"hash/maphash"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// A multiConfig is a world of multi-locks to explore.
type multiConfig struct {
	name string
	env  multiEnv
	left multiBudget
}

// exploreMulti visits every world of a configuration, breadth first.
func exploreMulti(cfg multiConfig, step stepFunc) (f finding) {
	e := newMultiEnv(cfg.env.roles)
	e.bug, e.late, e.writer = cfg.env.bug, cfg.env.late, cfg.env.writer
	if step != nil {
		e.step = step
	}
	began := time.Now()
	defer func() { f.took = time.Since(began); runtime.GC() }()
	root := e.open(cfg.left)
	for c := range e.roles {
		e.take(&root, multiStep{kind: stepStart, client: uint8(c)})
	}
	worlds, parents, steps := []multiWorld{root}, []uint32{0}, []multiStep{{}}
	seed := maphash.MakeSeed()
	index := map[uint64][]uint32{maphash.Comparable(seed, root): {0}} // by hash, for the worlds are in one place already
	var back [][2]uint32                                              // from, to: progress
	var goals []uint32
	explain := func(i uint32, last *multiStep) (trace []string) {
		var path []multiStep
		if last != nil {
			path = append(path, *last)
		}
		for ; i != 0; i = parents[i] {
			path = append(path, steps[i])
		}
		w := root
		e.log = func(c int, text string) { trace = append(trace, fmt.Sprintf("      %c: %s", 'a'+c, text)) }
		for k := len(path) - 1; k >= 0; k-- {
			trace = append(trace, fmt.Sprintf("%2d. step %v of %c on %d", len(path)-k, path[k].kind, 'a'+path[k].client, path[k].arg))
			e.take(&w, path[k])
		}
		return append(trace, fmt.Sprintf("nodes %016b", w.past[0]))
	}
	for i := uint32(0); int(i) < len(worlds); i++ {
		if len(worlds) > mostMulti {
			f.states, f.truncated = len(worlds), true
			return f
		}
		w := worlds[i]
		progress := false
		for _, s := range e.enabled(&w) {
			next := w
			f.steps++
			if bad := e.take(&next, s); bad != "" {
				f.states, f.violation, f.trace = len(worlds), bad, explain(i, &s)
				return f
			}
			hash := maphash.Comparable(seed, next)
			k := slices.IndexFunc(index[hash], func(j uint32) bool { return worlds[j] == next })
			j := uint32(len(worlds))
			if k >= 0 {
				j = index[hash][k]
			} else {
				index[hash] = append(index[hash], j)
				worlds, parents, steps = append(worlds, next), append(parents, i), append(steps, s)
			}
			if !s.faulty() {
				progress = true
				back = append(back, [2]uint32{i, j})
			}
		}
		switch {
		case e.goal(&w):
			goals = append(goals, i)
		case !progress:
			f.states, f.violation, f.trace = len(worlds), stuck, explain(i, nil)
			return f
		}
	}
	f.states = len(worlds)
	if i, ok := hopeless(len(worlds), back, goals); ok {
		f.violation, f.trace = noWayOut, explain(i, nil)
	}
	return f
}

// hopeless returns the first world from which no way leads to a goal.
func hopeless(n int, edges [][2]uint32, goals []uint32) (uint32, bool) {
	starts := make([]uint32, n+1)
	for _, e := range edges {
		starts[e[1]+1]++
	}
	for i := range n {
		starts[i+1] += starts[i]
	}
	from, fill := make([]uint32, len(edges)), append([]uint32(nil), starts...)
	for _, e := range edges {
		from[fill[e[1]]] = e[0]
		fill[e[1]]++
	}
	good := make([]bool, n)
	for _, g := range goals {
		good[g] = true
	}
	for todo := goals; len(todo) > 0; {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, j := range from[starts[i]:starts[i+1]] {
			if !good[j] {
				good[j] = true
				todo = append(todo, j)
			}
		}
	}
	for i, ok := range good {
		if !ok {
			return uint32(i), true
		}
	}
	return 0, false
}

// mostMulti is how many worlds a configuration may have.
const mostMulti = 4_000_000

func (b multiBudget) plus(o multiBudget) multiBudget {
	return multiBudget{
		cut: b.cut + o.cut, lapse: b.lapse + o.lapse, expire: b.expire + o.expire, kill: b.kill + o.kill,
		remove: b.remove + o.remove, withdraw: b.withdraw + o.withdraw, trade: b.trade + o.trade,
	}
}

// roles of clients in the two directories.
var (
	multiPQ = multiRole{dirs: []uint8{0, 1}, kinds: []events.Kind{events.KindLock, events.KindLock}}
	multiQP = multiRole{dirs: []uint8{1, 0}, kinds: []events.Kind{events.KindLock, events.KindLock}}
	mutexP  = multiRole{dirs: []uint8{0}, kinds: []events.Kind{events.KindLock}, plain: true}
	mutexQ  = multiRole{dirs: []uint8{1}, kinds: []events.Kind{events.KindLock}, plain: true}
	// Sides of read/write locks.
	multiRW = multiRole{dirs: []uint8{0, 1}, kinds: []events.Kind{events.KindRead, events.KindWrite}}
	multiWR = multiRole{dirs: []uint8{1, 0}, kinds: []events.Kind{events.KindRead, events.KindWrite}}
	multiRR = multiRole{dirs: []uint8{1, 0}, kinds: []events.Kind{events.KindRead, events.KindRead}}
	multiWW = multiRole{dirs: []uint8{0, 1}, kinds: []events.Kind{events.KindWrite, events.KindWrite}}
)

func (r multiRole) with(flags uint8) multiRole {
	r.flags = flags
	return r
}

func multiConfigs() []multiConfig {
	of := func(name string, left multiBudget, roles ...multiRole) multiConfig {
		return multiConfig{name: name, env: multiEnv{roles: roles}, left: left}
	}
	all := []multiConfig{
		of("three, opposite orders", multiBudget{}, multiPQ, multiQP, multiPQ),
		of("opposite orders, and a mutex", multiBudget{}, multiPQ, multiQP, mutexP),
		of("with mutexes at both", multiBudget{}, multiPQ, mutexQ, mutexP),
		of("reading and writing", multiBudget{}, multiRW, multiWR, multiRR),
	}
	type fault struct {
		name string
		left multiBudget
	}
	faults := []fault{
		{"cut", multiBudget{cut: 1}}, {"lapse", multiBudget{lapse: 1}}, {"expire", multiBudget{expire: 1}}, {"kill", multiBudget{kill: 1}},
		{"remove", multiBudget{remove: 1}}, {"withdraw", multiBudget{withdraw: 1}},
	}
	for _, who := range []struct {
		name  string
		roles []multiRole
		pairs bool
	}{
		{"opposite orders", []multiRole{multiPQ, multiQP}, true},
		{"beside a mutex", []multiRole{multiPQ, mutexQ}, false},
		{"read and write", []multiRole{multiRW, multiWR}, false},
		{"readers and writers", []multiRole{multiRR, multiWW}, false},
		{"keep", []multiRole{multiPQ.with(flagKeep), multiQP.with(flagKeep)}, false},
		{"strict", []multiRole{multiPQ.with(flagStrict), multiQP}, false},
		{"try", []multiRole{multiPQ.with(flagTry), multiQP}, false},
	} {
		for i, a := range faults {
			for j, b := range faults[i:] {
				if j > 0 && !who.pairs {
					break
				}
				left, name := a.left, who.name+": "+a.name
				if j > 0 {
					left, name = left.plus(b.left), name+" + "+b.name
				}
				all = append(all, of(name, left, who.roles...))
				if left.cut > 0 {
					late := of(name+", answers after the cut", left, who.roles...)
					late.env.late = true
					all = append(all, late)
				}
			}
		}
	}
	for _, left := range []multiBudget{{trade: 1}, {trade: 1, withdraw: 1}, {trade: 1, cut: 1}} {
		cfg := of(fmt.Sprintf("behind a writer who may trade: %+v", left), left, multiPQ, multiWW)
		cfg.env.writer = true
		all = append(all, cfg)
	}
	return all
}

// TestExploreMulti visits every interleaving of multi-locks in two directories.
func TestExploreMulti(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while; run without -short")
	}
	var states atomic.Int64
	began := time.Now()
	atATime(2, multiConfigs(), func(cfg multiConfig) {
		f := exploreMulti(cfg, nil)
		t.Logf("%d contenders, %-55s %v", len(cfg.env.roles), cfg.name, f)
		states.Add(int64(f.states))
		switch {
		case f.truncated:
			t.Errorf("%s: more than %d worlds", cfg.name, mostMulti)
		case f.violation != "":
			t.Errorf("%s: %s\n%s", cfg.name, f.violation, strings.Join(f.trace, "\n"))
		}
	})
	fmt.Printf("explored %d worlds of multi-locks in %.1fs\n", states.Load(), time.Since(began).Seconds())
}
