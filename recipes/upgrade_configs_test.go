package recipes

// upgrading are the configurations in which somebody upgrades. A guest is a writer who may give up at any time.
func upgrading() []config {
	one := func(name string, third Rule, role uint8, left budget, o options) config {
		o.sharing, o.upgrades = true, true
		cfg := config{name: "upgrade" + name, clients: 3, left: left, options: o}
		cfg.rules, cfg.roles = []Rule{Upgradable{}, Upgrade{}, third}, []uint8{roleShares, roleShares, role}
		if third == nil && role == 0 {
			cfg.clients = 2
		}
		return cfg
	}
	eager := options{eager: true}
	all := []config{
		one("", nil, 0, budget{}, options{}),
		one(", and a reader", nil, reader, budget{}, options{}),
		one(", and a writer", nil, writes, budget{}, options{}),
		one(", and another upgradable", Upgradable{}, 0, budget{}, options{}),
	}
	for _, f := range faults() {
		all = append(all,
			one(": "+f.name, nil, 0, f.left, options{}),
			one(", and a reader: "+f.name, nil, reader, f.left, eager),
			one(", and a writer: "+f.name, nil, writes, f.left, eager),
			one(", and another upgradable: "+f.name, Upgradable{}, 0, f.left, eager),
		)
	}
	for _, p := range []config{
		{name: "withdraw + cut", left: budget{withdraw: 1, cut: 1}},
		{name: "withdraw + remove", left: budget{withdraw: 1, remove: 1}},
		{name: "guest + cut", left: budget{guest: 1, cut: 1}},
		{name: "guest + remove, own nodes watched", left: budget{guest: 1, remove: 1}, options: options{ownWatch: true}},
		{name: "guest + expire", left: budget{guest: 1, expire: 1}},
		{name: "guest + withdraw", left: budget{guest: 1, withdraw: 1}},
		{name: "guest + guest", left: budget{guest: 2}},
		{name: "a reader of Curator's + cut", left: budget{foreign: 1, cut: 1}, options: options{readers: true}},
		{name: "a reader of Curator's + remove", left: budget{foreign: 1, remove: 1}, options: options{readers: true}},
		{name: "a reader of Curator's + guest", left: budget{foreign: 1, guest: 1}, options: options{readers: true}},
		{name: "cut + expire", left: budget{cut: 1, expire: 1}},
		{name: "cut + lapse, answers after the cut", left: budget{cut: 1, lapse: 1}, options: options{late: true}},
		{name: "cut + remove, own nodes watched", left: budget{cut: 1, remove: 1}, options: options{ownWatch: true, rearm: true}},
		{name: "remove + remove", left: budget{remove: 2}},
	} {
		p.eager = true
		all = append(all, one(": "+p.name, nil, 0, p.left, p.options))
		if !p.ownWatch { // else see hugeUpgrading
			all = append(all, one(", and a reader: "+p.name, nil, reader, p.left, p.options))
		}
	}
	return all
}

// hugeUpgrading are those that an everyday run has no time for.
func hugeUpgrading() []config {
	one := func(name string, left budget, o options) config {
		o.sharing, o.upgrades, o.eager, o.ownWatch = true, true, true, true
		return config{
			name: name, clients: 3, left: left, options: o,
			rules: []Rule{Upgradable{}, Upgrade{}, nil}, roles: []uint8{roleShares, roleShares, reader},
		}
	}
	return []config{
		one("upgrade, and a reader: guest + remove, own nodes watched", budget{guest: 1, remove: 1}, options{}),
		one("upgrade, and a reader: cut + remove, own nodes watched", budget{cut: 1, remove: 1}, options{rearm: true}),
	}
}
