package recipes

// revocations are the configurations in which somebody wants a lock back, and says by when.
func revocations() []config {
	asked := budget{soon: 1, late: 1}
	all := func(name string, clients int, left budget, o options) config {
		o.eager = true
		return config{name: "revoked: " + name, clients: clients, left: left, options: o}
	}
	keeping := all("a function runs", 2, asked.plus(budget{withdraw: 1}), options{})
	keeping.flags = []uint8{flagKeep, flagKeep}
	keptCut := all("a function runs, cut", 2, budget{soon: 1, cut: 1}, options{})
	keptCut.flags = []uint8{flagKeep, flagKeep}
	strict := all("strict, cut", 2, budget{soon: 1, cut: 1}, options{})
	strict.flags = []uint8{flagStrict, flagStrict}
	readers := all("readers and a writer", 3, asked, options{sharing: true})
	readers.roles = []uint8{reader, reader, writes}
	downgrade := all("downgrade", 2, asked, options{sharing: true})
	downgrade.roles = []uint8{trades, takes}
	permits := all("semaphore", 2, asked, options{permits: true})
	permits.rules = []Rule{Semaphore{Size: 1, Permits: 1}, Semaphore{Size: 1, Permits: 1}}
	several := all("semaphore, several permits", 2, budget{soon: 1, remove: 1}, options{permits: true, ownWatch: true})
	several.rules = []Rule{Semaphore{Size: 4, Permits: 3}, Semaphore{Size: 4, Permits: 3}}
	lost := all("semaphore, cut", 2, budget{soon: 1, cut: 1}, options{permits: true})
	lost.rules = permits.rules
	return []config{
		all("three wishes", 2, asked.plus(budget{wish: 1}), options{}),
		all("three contenders", 3, asked, options{}),
		all("withdraw + cut", 2, asked.plus(budget{withdraw: 1, cut: 1}), options{}),
		all("cut + expire", 2, budget{soon: 1, cut: 1, expire: 1}, options{}),
		all("lapse + expire", 2, budget{soon: 1, lapse: 1, expire: 1}, options{}),
		all("removed by force", 2, asked.plus(budget{remove: 1}), options{ownWatch: true}),
		all("removed by force, cut", 2, budget{soon: 1, remove: 1, cut: 1}, options{ownWatch: true, rearm: true}),
		all("kill + refuse", 2, budget{soon: 1, kill: 1, refuse: 1}, options{}),
		all("foreign + guest", 2, asked.plus(budget{foreign: 1, guest: 1}), options{}),
		all("answers after the cut", 2, asked.plus(budget{cut: 1}), options{late: true}),
		all("requests overtake", 2, asked.plus(budget{withdraw: 1}), options{loose: true}),
		keeping, keptCut, strict, readers, downgrade, permits, several, lost,
	}
}
