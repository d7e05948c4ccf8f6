package recipes

// What the clients of the read/write worlds are.
const (
	reader = roleRead
	writes = roleWrite
	trades = roleWrite | roleShares | roleTrades
	takes  = roleRead | roleShares | roleTakes
	beside = roleWrite | roleShares // a writer in the session of one that trades
)

// sharing are the configurations of read/write locks.
func sharing() []config {
	one := func(name string, roles []uint8, left budget, o options) config {
		o.sharing = true
		return config{name: name, clients: len(roles), roles: roles, left: left, options: o}
	}
	eager := options{eager: true}
	reads := options{eager: true, readers: true}
	wrr, wrw := []uint8{writes, reader, reader}, []uint8{writes, reader, writes}
	alone, beforeW, beforeR := []uint8{trades, takes}, []uint8{trades, takes, writes}, []uint8{trades, takes, reader}
	beforeMate := []uint8{trades, takes, beside}
	mates := []uint8{roleShares, roleShares, roleShares}
	all := []config{
		one("readers and a writer", wrr, budget{}, options{}),
		one("a reader and writers", wrw, budget{}, options{}),
		one("downgrade, and a writer", beforeW, budget{}, options{}),
		one("downgrade, and a reader", beforeR, budget{}, options{}),
		one("downgrade, and a writer of the session", beforeMate, budget{}, options{}),
		one("downgrade: cut + remove + withdraw", alone, budget{cut: 1, remove: 1, withdraw: 1}, options{}),
		one("downgrade: cut + expire + foreign", alone, budget{cut: 1, expire: 1, foreign: 1}, options{}),
		one("downgrade: cut + guest, answers after the cut", alone, budget{cut: 1, guest: 1}, options{late: true}),
		one("downgrade: two remove, own node watched", alone, budget{remove: 2}, options{ownWatch: true}),
		one("downgrade, and a writer of the session: guest + reader", beforeMate, budget{guest: 1, foreign: 1}, reads),
		one("downgrade, and a writer of the session: guest + withdraw", beforeMate, budget{guest: 1, withdraw: 1}, eager),
		one("downgrade, and a writer of the session: guest + cut", beforeMate, budget{guest: 1, cut: 1}, eager),
		one("downgrade, and a writer of the session: expire + cut", beforeMate, budget{expire: 1, cut: 1}, eager),
		one("three of one session: guest + withdraw", mates, budget{guest: 1, withdraw: 1}, eager),
		one("three of one session: guest + cut", mates, budget{guest: 1, cut: 1}, eager),
		one("three of one session: guest + remove", mates, budget{guest: 1, remove: 1}, eager),
		one("three of one session: guest + foreign", mates, budget{guest: 1, foreign: 1}, eager),
		one("three of one session: expire + withdraw", mates, budget{expire: 1, withdraw: 1}, eager),
		one("three of one session: lapse + cut", mates, budget{lapse: 1, cut: 1}, eager),
	}
	for i := range all {
		if all[i].roles[0] == roleShares {
			all[i].sharing = false // these are mutexes, and so are their guests
		}
	}
	for _, f := range faults() {
		all = append(all,
			one("a writer and readers: "+f.name, wrr, f.left, eager),
			one("a reader and writers: "+f.name, wrw, f.left, eager),
			one("downgrade before a writer: "+f.name, beforeW, f.left, eager),
			one("downgrade before a reader: "+f.name, beforeR, f.left, eager),
		)
	}
	for _, p := range []config{
		{name: "withdraw + cut", left: budget{withdraw: 1, cut: 1}},
		{name: "withdraw + remove", left: budget{withdraw: 1, remove: 1}},
		{name: "withdraw + lapse", left: budget{withdraw: 1, lapse: 1}},
		{name: "withdraw + a reader", left: budget{withdraw: 1, foreign: 1}, options: reads},
		{name: "withdraw + guest", left: budget{withdraw: 1, guest: 1}, options: eager},
		{name: "cut + remove", left: budget{cut: 1, remove: 1}},
		{name: "cut + lapse", left: budget{cut: 1, lapse: 1}},
		{name: "cut + refuse", left: budget{cut: 1, refuse: 1}},
		{name: "guest + a reader", left: budget{guest: 1, foreign: 1}, options: reads},
		{name: "remove + a reader", left: budget{remove: 1, foreign: 1}, options: reads},
		{name: "remove + lapse", left: budget{remove: 1, lapse: 1}},
	} {
		p.eager = true
		all = append(all,
			one("downgrade before a writer: "+p.name, beforeW, p.left, p.options),
			one("downgrade before a reader: "+p.name, beforeR, p.left, p.options),
		)
		if p.readers && p.left.withdraw == 0 {
			all = append(all, one("a writer and a reader: "+p.name, wrr[:2], p.left, p.options)) // with three, see hugeSharing
			continue
		}
		all = append(all,
			one("a writer and readers: "+p.name, wrr, p.left, p.options),
			one("a reader and writers: "+p.name, wrw, p.left, p.options),
		)
	}
	return all
}

// hugeSharing are those that an everyday run has no time for.
func hugeSharing() []config {
	one := func(name string, third uint8, left budget) config {
		o := options{eager: true, sharing: true, readers: true}
		return config{name: name, clients: 3, roles: []uint8{writes, reader, third}, left: left, options: o}
	}
	return []config{
		one("a writer and readers: guest + a reader", reader, budget{guest: 1, foreign: 1}),
		one("a reader and writers: guest + a reader", writes, budget{guest: 1, foreign: 1}),
		one("a writer and readers: remove + a reader", reader, budget{remove: 1, foreign: 1}),
		one("a reader and writers: remove + a reader", writes, budget{remove: 1, foreign: 1}),
	}
}
