package recipes

// crashes are the configurations of locks that tell of crashes. In each of them a caller who holds may release, panic,
// or never have taken the grant.
func crashes() []config {
	one := func(name string, roles []uint8, left budget, o options) config {
		o.detect = true
		cfg := config{name: "detect: " + name, clients: len(roles), roles: roles, left: left, options: o}
		for range roles {
			cfg.flags = append(cfg.flags, flagDetect)
		}
		return cfg
	}
	with := func(flag uint8, cfg config) config {
		for i := range cfg.flags {
			cfg.flags[i] |= flag
		}
		return cfg
	}
	eager := options{eager: true}
	two, three := []uint8{0, 0}, []uint8{0, 0, 0}
	wr, wrw := []uint8{writes, reader}, []uint8{writes, reader, writes}
	down, downW := []uint8{trades, takes}, []uint8{trades, takes, writes}
	all := []config{
		one("three", three, budget{}, options{}),
		one("two cuts, answers after the cut", two, budget{cut: 2}, options{late: true}),
		one("two cuts + withdraw", two, budget{cut: 2, withdraw: 1}, eager),
		one("cut + two withdraw", two, budget{cut: 1, withdraw: 2}, eager),
		one("cut + expire + withdraw", two, budget{cut: 1, expire: 1, withdraw: 1}, eager),
		one("requests overtake: cut + withdraw", two, budget{cut: 1, withdraw: 1}, options{loose: true, eager: true}),
		one("own node watched: two remove", two, budget{remove: 2}, options{ownWatch: true}),
		one("somebody's directory: cut", two, budget{cut: 1}, options{dir: dirAlien, eager: true}),
		one("no directory: cut + reap", two, budget{cut: 1, reap: 1}, options{dir: dirNone, eager: true}),
		with(flagKeep, one("keep: expire + cut", two, budget{expire: 1, cut: 1}, eager)),
		with(flagKeep, one("keep: lapse + remove, own node watched", two, budget{lapse: 1, remove: 1}, options{ownWatch: true})),
		with(flagStrict, one("strict: two cuts + withdraw", two, budget{cut: 2, withdraw: 1}, eager)),
		with(flagTry, one("try: cut", two, budget{cut: 1}, eager)),
		one("a writer, a reader and a writer", wrw, budget{}, options{sharing: true}),
		one("downgrade", down, budget{}, options{sharing: true}),
		one("downgrade, and a writer", downW, budget{}, options{sharing: true, eager: true}),
		one("downgrade: cut + expire", down, budget{cut: 1, expire: 1}, options{sharing: true, eager: true}),
		one("one of ours, and one of another library: guest + foreign", two, budget{guest: 1, foreign: 1}, eager),
	}
	for i, a := range faults() {
		if a.left.foreign+a.left.guest > 0 {
			continue // who leaves no record, and is not asked to
		}
		all = append(all,
			one("three: "+a.name, three, a.left, eager),
			one("a writer and a reader: "+a.name, wr, a.left, options{sharing: true, eager: true}),
			one("a writer, a reader and a writer: "+a.name, wrw, a.left, options{sharing: true, eager: true}),
			one("downgrade: "+a.name, down, a.left, options{sharing: true, eager: true}),
			one("downgrade, and a writer: "+a.name, downW, a.left, options{sharing: true, eager: true}),
		)
		for _, b := range faults()[i:] {
			if b.left.foreign+b.left.guest == 0 {
				all = append(all, one(a.name+" + "+b.name, two, a.left.plus(b.left), eager))
			}
		}
	}
	return all
}
