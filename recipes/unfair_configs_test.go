package recipes

// unfair are the configurations of locks that are one node.
func unfair() []config {
	one := func(name string, clients int, roles []uint8, left budget, o options) config {
		o.single = true
		return config{name: "one node, " + name, clients: clients, rules: []Rule{Unfair{}, Unfair{}, Unfair{}}[:clients], roles: roles, left: left, options: o}
	}
	eager := options{eager: true}
	mates := []uint8{roleShares, roleShares, roleShares}
	late := options{eager: true, late: true}
	own := options{eager: true, ownWatch: true}
	all := []config{
		one("no fault", 3, nil, budget{}, options{}),
		one("no directory", 3, nil, budget{}, options{dir: dirNone}),
		one("two cuts + withdraw, answers after the cut", 3, nil, budget{cut: 2, withdraw: 1}, late),
		one("a session: two cuts + withdraw, answers after the cut", 3, mates, budget{cut: 2, withdraw: 1}, late),
		one("remove + cut, own node watched", 3, nil, budget{remove: 1, cut: 1}, own),
		one("a session: remove + cut, own node watched", 3, mates, budget{remove: 1, cut: 1}, own),
		one("a session: expire + withdraw + cut", 3, mates, budget{expire: 1, withdraw: 1, cut: 1}, eager),
	}
	for _, flags := range []uint8{flagTry, flagKeep, flagStrict} {
		cfg := one(map[uint8]string{flagTry: "try", flagKeep: "keep", flagStrict: "strict"}[flags]+": cut + lapse", 3, nil, budget{cut: 1, lapse: 1}, eager)
		cfg.flags = []uint8{flags, flags}
		all = append(all, cfg)
	}
	for i, a := range faults() {
		for _, b := range faults()[i:] {
			name, left := a.name+" + "+b.name, a.left.plus(b.left)
			clients := 3
			if left.expire+left.kill+left.foreign+left.guest > 1 {
				clients = 2
			}
			all = append(all, one(name, clients, nil, left, eager), one("a session: "+name, clients, mates[:clients], left, eager))
		}
	}
	return all
}
