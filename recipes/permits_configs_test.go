package recipes

// semaphores are the configurations of semaphores.
func semaphores() []config {
	one := func(name string, rules []Rule, left budget, o options) config {
		o.permits = true
		return config{name: "semaphore " + name, clients: len(rules), rules: rules, left: left, options: o}
	}
	eager := options{eager: true}
	late := options{eager: true, late: true}
	own := options{eager: true, ownWatch: true}
	sizes := options{eager: true, sizes: true}
	s := func(size, permits int32) Rule { return Semaphore{Size: size, Permits: permits} }
	single, three, threeOfFour := []Rule{s(1, 1), s(1, 1)}, []Rule{s(2, 1), s(2, 1), s(2, 1)}, []Rule{s(4, 3), s(4, 3)}
	others := []Rule{s(1, 1), Semaphore{Size: 2, Permits: 2}, Semaphore{Size: 3, Permits: 1, Adopt: true}}
	all := []config{
		one("1 of 1", []Rule{s(1, 1), s(1, 1), s(1, 1)}, budget{}, options{}),
		one("1 of 2", three, budget{}, options{}),
		one("1 or 2 of 3", []Rule{s(3, 1), s(3, 2), s(3, 1)}, budget{}, options{}),
		one("3 of 4", []Rule{s(4, 3), s(4, 3), s(4, 3)}, budget{}, options{}),
		one("of other opinions", others, budget{}, sizes),
		one("of other opinions: cut", others[1:], budget{cut: 1}, sizes),
		one("1 of 2: withdraw", three, budget{withdraw: 1}, eager),
		one("1 of 2: cut", three, budget{cut: 1}, eager),
		one("1 of 2: lapse", three, budget{lapse: 1}, eager),
		one("1 of 2: resize", three, budget{resize: 1}, sizes),
		one("1 of 2: foreign", three, budget{foreign: 1}, eager),
		one("1 of 1: two cuts + withdraw, answers after the cut", single, budget{cut: 2, withdraw: 1}, late),
		one("1 of 1: two cuts, answers before the news of the reconnect", single, budget{cut: 2}, options{eager: true, late: true, early: true}),
		one("3 of 4: cut + withdraw, answers before the news of the reconnect", threeOfFour, budget{cut: 1, withdraw: 1},
			options{eager: true, late: true, early: true}),
		one("3 of 4: cut + guest, answers after the cut", threeOfFour, budget{cut: 1, guest: 1}, late),
		one("3 of 4: cut + remove, answers after the cut", threeOfFour, budget{cut: 1, remove: 1}, late),
		one("1 of 1: cut + resize, answers after the cut", single, budget{cut: 1, resize: 1}, options{eager: true, late: true, sizes: true}),
		one("3 of 4: two remove, own node watched", threeOfFour, budget{remove: 2}, own),
		one("3 of 4: cut + remove, own node watched", threeOfFour, budget{cut: 1, remove: 1}, own),
		one("1 of 1: requests overtake: cut + withdraw", single, budget{cut: 1, withdraw: 1}, options{eager: true, loose: true}),
		one("1 of 1: directory unknown: withdraw + guest", single, budget{withdraw: 1, guest: 1}, options{dir: dirUnknown}),
		one("1 of 1: no directory: cut", single, budget{cut: 1}, options{dir: dirNone}),
	}
	for _, left := range []config{
		{name: "guest + withdraw", left: budget{guest: 1, withdraw: 1}},
		{name: "guest + cut", left: budget{guest: 1, cut: 1}},
		{name: "remove + withdraw", left: budget{remove: 1, withdraw: 1}},
		{name: "expire + cut", left: budget{expire: 1, cut: 1}},
	} {
		cfg := one("1 of 1, a session of two: "+left.name, single, left.left, eager)
		cfg.roles = []uint8{roleShares, roleShares}
		all = append(all, cfg)
	}
	session := one("1 of 1, a session of three: guest", []Rule{s(1, 1), s(1, 1), s(1, 1)}, budget{guest: 1}, eager)
	session.roles = []uint8{roleShares, roleShares, roleShares}
	all = append(all, session)
	for _, flags := range []uint8{flagTry, flagKeep, flagStrict} {
		cfg := one("1 of 1, "+map[uint8]string{flagTry: "try", flagKeep: "keep", flagStrict: "strict"}[flags], single, budget{}, eager)
		cfg.flags = []uint8{flags, flags}
		for _, p := range []config{{name: ": cut + expire", left: budget{cut: 1, expire: 1}}, {name: ": withdraw + guest", left: budget{withdraw: 1, guest: 1}}} {
			with := cfg
			with.name, with.left = with.name+p.name, p.left
			all = append(all, with)
		}
	}
	kinds := append(faults(), config{name: "resize", left: budget{resize: 1}})
	for i, a := range kinds {
		for _, b := range kinds[i:] {
			left := a.left.plus(b.left)
			o := eager
			o.sizes = left.resize > 0
			all = append(all, one("1 of 1: "+a.name+" + "+b.name, single, left, o))
			if left.remove > 0 && left.foreign+left.guest+left.kill == 0 {
				all = append(all, one("3 of 4: "+a.name+" + "+b.name, threeOfFour, left, o))
			}
		}
	}
	return all
}

// hugeSemaphores are those that an everyday run has no time for.
func hugeSemaphores() []config {
	one := func(name string, left budget) config {
		s := Semaphore{Size: 2, Permits: 1}
		return config{name: "semaphore 1 of 2: " + name, clients: 3, rules: []Rule{s, s, s}, left: left, options: options{eager: true, permits: true}}
	}
	return []config{
		one("expire", budget{expire: 1}), one("kill", budget{kill: 1}), one("guest", budget{guest: 1}), one("remove", budget{remove: 1}),
		one("withdraw + cut", budget{withdraw: 1, cut: 1}),
	}
}
