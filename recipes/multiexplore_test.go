package recipes

import (
	"fmt"

	"github.com/zkgrant/zkgrant/events"
)

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

func multiConfigs() []config {
	of := func(name string, left budget, roles ...multiRole) config {
		return config{name: name, clients: len(roles), places: roles, left: left, options: options{eager: true}}
	}
	all := []config{
		of("three, opposite orders", budget{}, multiPQ, multiQP, multiPQ),
		of("opposite orders, and a mutex", budget{}, multiPQ, multiQP, mutexP),
		of("with mutexes at both", budget{}, multiPQ, mutexQ, mutexP),
		of("reading and writing", budget{}, multiRW, multiWR, multiRR),
	}
	type fault struct {
		name string
		left budget
	}
	faults := []fault{
		{"cut", budget{cut: 1}}, {"lapse", budget{lapse: 1}}, {"expire", budget{expire: 1}}, {"kill", budget{kill: 1}},
		{"remove", budget{remove: 1}}, {"withdraw", budget{withdraw: 1}},
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
					late.late = true
					all = append(all, late)
				}
			}
		}
	}
	for _, left := range []budget{{trade: 1}, {trade: 1, withdraw: 1}, {trade: 1, cut: 1}} {
		cfg := of(fmt.Sprintf("behind a writer who may trade: %+v", left), left, multiPQ, multiWW)
		cfg.writer = true
		all = append(all, cfg)
	}
	return all
}
