package recipes

// kazoos are the configurations in which somebody bears kazoo's names.
func kazoos() []config {
	one := func(name string, roles []uint8, left budget, o options) config {
		o.eager = true
		return config{name: name, clients: len(roles), roles: roles, left: left, options: o}
	}
	const k = roleKazoo
	theirs, others := options{kazoos: true}, options{mixes: true}
	mutexes, rw := []uint8{k, k, k}, []uint8{k | writes, k | reader, k | reader}
	all := []config{
		// Kazoo's contenders in the queue of a mutex, and of a read/write lock.
		one("behind kazoo's: two foreign", []uint8{0, 0}, budget{foreign: 2}, theirs),
		one("behind kazoo's: foreign + withdraw + cut", []uint8{0, 0}, budget{foreign: 1, withdraw: 1, cut: 1}, theirs),
		one("behind kazoo's, a writer and a reader: two foreign", []uint8{writes, reader}, budget{foreign: 2}, theirs),
		one("behind kazoo's readers, a writer and a reader: two foreign", []uint8{writes, reader}, budget{foreign: 2},
			options{kazoos: true, readers: true}),
		one("behind one of ours with kazoo's names: cut", []uint8{k, 0, 0}, budget{cut: 1}, others),
		one("behind one of ours with kazoo's names: expire", []uint8{k, 0, 0}, budget{expire: 1}, others),
		one("behind one of ours with kazoo's names: withdraw + remove", []uint8{k, 0, 0}, budget{withdraw: 1, remove: 1}, others),
		one("no directory, kazoo's names: cut", mutexes, budget{cut: 1}, options{kazoos: true, dir: dirNone}),
		one("kazoo's names: two cuts + foreign, answers after the cut", mutexes[:2], budget{cut: 2, foreign: 1}, options{mixes: true, late: true}),
		one("three with kazoo's names, beside kazoo's: foreign + withdraw", mutexes, budget{foreign: 1, withdraw: 1}, theirs),
		one("three with kazoo's names, beside others: foreign + withdraw", mutexes, budget{foreign: 1, withdraw: 1}, others),
		one("kazoo's names, a writer and two readers: cut + withdraw", rw, budget{cut: 1, withdraw: 1}, theirs),
		one("kazoo's names, a writer and two readers: foreign reader", rw, budget{foreign: 1}, options{kazoos: true, readers: true}),
		// A writer of Curator's goes on as a reader, in a node with the same number.
		one("readers behind a writer who may trade", []uint8{reader, reader, writes}, budget{}, options{writer: true}),
		one("readers behind a writer who may trade: withdraw", []uint8{reader, writes}, budget{withdraw: 1}, options{writer: true}),
		one("readers behind a writer who may trade: cut", []uint8{reader, writes}, budget{cut: 1}, options{writer: true}),
		one("readers behind a writer who may trade: remove", []uint8{reader, writes}, budget{remove: 1}, options{writer: true}),
		// Somebody asks for a lock back, whenever.
		one("asked back: withdraw + cut", []uint8{0, 0}, budget{wish: 2, withdraw: 1, cut: 1}, options{}),
		one("asked back: expire + remove", []uint8{0, 0}, budget{wish: 1, expire: 1, remove: 1}, options{ownWatch: true}),
		one("asked back: foreign + cut", []uint8{0, 0}, budget{wish: 1, foreign: 1, cut: 1}, options{}),
	}
	tries := one("tries with kazoo's names beside one of ours: foreign", []uint8{k, 0}, budget{foreign: 1}, others)
	tries.flags = []uint8{flagTry}
	all = append(all, tries)
	for _, f := range faults() {
		all = append(all,
			one("kazoo's names, beside kazoo's: foreign + "+f.name, mutexes[:2], f.left.plus(budget{foreign: 1}), theirs),
			one("kazoo's names, beside others: foreign + "+f.name, mutexes[:2], f.left.plus(budget{foreign: 1}), others),
			one("kazoo's names, a writer and readers: "+f.name, rw[:2], f.left, options{kazoos: true, mixes: true}),
		)
	}
	for i := range all {
		all[i].mixes = all[i].mixes || all[i].left.guest > 0 // who bears no name of kazoo's
	}
	return all
}
