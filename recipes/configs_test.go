package recipes

import "testing"

// A config is a world to explore: who takes part, and what may go wrong.
type config struct {
	name    string
	clients int
	left    budget
	flags   []uint8
	roles   []uint8
	rules   []Rule
	memory  int         // how many of those ahead a waiter remembers; 0 is as many as it does
	places  []multiRole // the places of each client in two directories; nil if there is one directory
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

// capped keeps machines from counting their attempts beyond a number. Where a create leaves no node if
// it comes too late, they may be many, and all are the same.
func capped(most Attempt, step stepFunc) stepFunc {
	return func(m Machine, in Input) (Machine, []Effect) {
		next, effects := step(m, in)
		if next.attempt > most {
			next.attempt = most
			for i, e := range effects {
				switch e := e.(type) {
				case Create:
					e.Attempt = most
					effects[i] = e
				case List:
					e.Attempt = min(e.Attempt, most)
					effects[i] = e
				case Pause:
					e.Attempt = most
					effects[i] = e
				}
			}
		}
		return next, effects
	}
}

func (b budget) plus(o budget) budget {
	return budget{
		cut: b.cut + o.cut, lapse: b.lapse + o.lapse, expire: b.expire + o.expire, kill: b.kill + o.kill,
		remove: b.remove + o.remove, withdraw: b.withdraw + o.withdraw, foreign: b.foreign + o.foreign, refuse: b.refuse + o.refuse,
		guest: b.guest + o.guest, reap: b.reap + o.reap, change: b.change + o.change, resize: b.resize + o.resize,
		wish: b.wish + o.wish, soon: b.soon + o.soon, late: b.late + o.late, trade: b.trade + o.trade,
	}
}

// pairs returns a configuration for every pair of faults, a fault with itself
// included. Where a session is killed, which is much as where it expires, and
// somebody else joins, three contenders make more worlds than an everyday run has
// time for.
func pairs(big bool) []config {
	var all []config
	for i, a := range faults() {
		for _, b := range faults()[i:] {
			cfg := config{name: a.name + " + " + b.name, clients: 3, left: a.left.plus(b.left), options: options{eager: true}}
			if !big && cfg.left.kill > 0 && cfg.left.foreign+cfg.left.guest > 0 {
				cfg.clients = 2
			}
			all = append(all, cfg)
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

// directories are the configurations in which the directory's data plays a part, beyond
// the pairs of faults.
func directories() []config {
	keep := []uint8{flagKeep, flagKeep, flagKeep}
	strict := []uint8{flagStrict, flagStrict, flagStrict}
	all := func(o options) options {
		o.eager = true
		return o
	}
	return []config{
		{name: "directory unknown", clients: 3, options: options{dir: dirUnknown}},
		{name: "directory unknown: withdraw + guest", clients: 3, left: budget{withdraw: 1, guest: 1}, options: all(options{dir: dirUnknown})},
		{name: "directory unknown: cut + expire", clients: 2, left: budget{cut: 1, expire: 1}, options: options{dir: dirUnknown}},
		{name: "somebody's directory", clients: 3, left: budget{withdraw: 1, guest: 1}, options: options{dir: dirAlien}},
		{name: "somebody's directory: cut + expire", clients: 2, left: budget{cut: 1, expire: 1}, options: options{dir: dirAlien}},
		{name: "somebody's directory: withdraw + cut", clients: 3, left: budget{withdraw: 1, cut: 1}, options: all(options{dir: dirAlien})},
		{name: "somebody's directory: remove + lapse", clients: 3, left: budget{remove: 1, lapse: 1}, options: all(options{dir: dirAlien})},
		{name: "no directory", clients: 3, left: budget{withdraw: 1}, options: options{dir: dirNone}},
		{name: "no directory: cut", clients: 3, left: budget{cut: 1}, options: all(options{dir: dirNone})},
		{name: "no directory: foreign + reap", clients: 3, left: budget{foreign: 1, reap: 1}, options: all(options{dir: dirNone})},
		{name: "reap twice", clients: 3, left: budget{reap: 2}},
		{name: "reap: foreign + foreign", clients: 2, left: budget{reap: 1, foreign: 2}},
		{name: "reap: guest + guest + withdraw", clients: 2, left: budget{reap: 1, guest: 2, withdraw: 1}},
		{name: "reap: foreign + expire", clients: 2, left: budget{reap: 1, foreign: 1, expire: 1}},
		{name: "reap: guest + remove + cut", clients: 2, left: budget{reap: 1, guest: 1, remove: 1, cut: 1}},
		{name: "change", clients: 3, left: budget{change: 1}},
		{name: "change + withdraw + guest", clients: 3, left: budget{change: 1, withdraw: 1, guest: 1}, options: all(options{})},
		{name: "change + reap + foreign", clients: 2, left: budget{change: 1, reap: 1, foreign: 1}},
		{name: "marked or not: withdraw", clients: 3, left: budget{withdraw: 1}, options: options{either: true}},
		{name: "marked or not: withdraw + guest", clients: 3, left: budget{withdraw: 1, guest: 1}, options: all(options{either: true})},
		{name: "marked or not: cut", clients: 3, left: budget{cut: 1}, options: all(options{either: true})},
		{name: "marked or not: expire", clients: 3, left: budget{expire: 1}, options: all(options{either: true})},
		{name: "two withdraw + foreign", clients: 3, left: budget{withdraw: 2, foreign: 1}, options: all(options{})},
		{name: "two withdraw + guest", clients: 3, left: budget{withdraw: 2, guest: 1}, options: all(options{})},
		{name: "a writer who may trade", clients: 3, left: budget{withdraw: 1}, options: all(options{writer: true})},
		{name: "a writer who may trade: cut", clients: 2, left: budget{cut: 1, withdraw: 1}, options: all(options{writer: true})},
		{name: "a writer who may trade: foreign", clients: 2, left: budget{foreign: 1}, options: all(options{writer: true})},
		{name: "a writer who may trade: guest", clients: 2, left: budget{guest: 1}, options: all(options{writer: true})},
		{name: "remembers one: withdraw + guest", clients: 3, left: budget{withdraw: 1, guest: 1}, memory: 1, options: all(options{})},
		{name: "remembers two: two withdraw + guest", clients: 3, left: budget{withdraw: 2, guest: 1}, memory: 2, options: all(options{})},
		{name: "remembers two: two withdraw + foreign", clients: 3, left: budget{withdraw: 2, foreign: 1}, memory: 2, options: all(options{})},
		{name: "strict: two withdraw + cut", clients: 3, left: budget{withdraw: 2, cut: 1}, flags: strict, options: all(options{})},
		{name: "strict: cut + withdraw, answers after the cut", clients: 3, left: budget{cut: 1, withdraw: 1}, flags: strict, options: all(options{late: true})},
		{name: "cut + expire, answers after the cut", clients: 2, left: budget{cut: 1, expire: 1}, options: all(options{late: true})},
		{name: "two cuts + withdraw, answers after the cut", clients: 3, left: budget{cut: 2, withdraw: 1}, options: all(options{late: true})},
		{name: "cut + guest, answers after the cut", clients: 3, left: budget{cut: 1, guest: 1}, options: all(options{late: true})},
		{name: "cut + remove, answers after the cut", clients: 3, left: budget{cut: 1, remove: 1}, options: all(options{late: true})},
		{name: "keep: lapse + guest", clients: 3, left: budget{lapse: 1, guest: 1}, flags: keep, options: all(options{})},
		{name: "requests overtake: withdraw + guest", clients: 3, left: budget{withdraw: 1, guest: 1}, options: all(options{loose: true})},
		{name: "own node watched: withdraw + remove", clients: 3, left: budget{withdraw: 1, remove: 1}, options: all(options{ownWatch: true})},
		{name: "two cuts + withdraw, watches set again", clients: 3, left: budget{cut: 2, withdraw: 1}, options: all(options{rearm: true})},
	}
}

// huge are the configurations that an everyday run has no time for.
func huge() []config {
	three := func(name string, left budget, o options) config {
		o.eager = true
		return config{name: name, clients: 3, left: left, options: o}
	}
	deep := three("remembers two: withdraw + two guests", budget{withdraw: 1, guest: 2}, options{})
	deep.memory = 2
	return []config{
		deep,
		three("reap + two foreign", budget{reap: 1, foreign: 2}, options{}),
		three("withdraw + cut + guest", budget{withdraw: 1, cut: 1, guest: 1}, options{}),
		three("withdraw + cut + lapse", budget{withdraw: 1, cut: 1, lapse: 1}, options{}),
		three("withdraw + remove + guest", budget{withdraw: 1, remove: 1, guest: 1}, options{}),
		three("cut + lapse + guest", budget{cut: 1, lapse: 1, guest: 1}, options{}),
		three("expire + withdraw + cut", budget{expire: 1, withdraw: 1, cut: 1}, options{}),
		three("marked or not: cut + guest", budget{cut: 1, guest: 1}, options{either: true}),
		three("no directory: reap + withdraw + cut", budget{reap: 1, withdraw: 1, cut: 1}, options{dir: dirNone}),
		{name: "a writer who may trade: foreign + guest", clients: 2, left: budget{foreign: 1, guest: 1}, options: options{writer: true, eager: true}},
	}
}

// reached holds that the exploration comes to what it is there for: every answer that
// the fast path may get, and everything that may come in between.
func reached(t *testing.T, met map[meeting]bool) {
	t.Helper()
	want := []meeting{
		{Creating, inCreated, flagAlone | flagFresh, 0},
		{Creating, inCreated, flagAlone, 0},
		{Creating, inCreated, 0, 0},
		{Waiting, inGone, 0, 0},
		{Waiting, inReconnected, 0, 0},
		{Advancing, inAdvanced, flagFloor | flagFresh, 0},
		{Advancing, inAdvanced, flagFloor, 0},
		{Advancing, inAdvanced, flagStands | flagFresh, 0},
		{Advancing, inAdvanced, flagStands, 0},
		{Advancing, inAdvanced, flagFresh, 0},
		{Advancing, inGone, 0, 0},
		{Advancing, inGone, 1, 0},
		{Advancing, inRefused, 1, OpAdvance},
		{Advancing, inRefused, 0, OpAdvance},
		{Advancing, inUnknown, 0, OpAdvance},
		{Advancing, inWithdrawn, 0, 0},
		{Advancing, inLeaseRanOut, 0, 0},
		{Advancing, inSuspended, 0, 0},
		{Advancing, inReconnected, 0, 0},
		{Advancing, inExpired, 0, 0},
		{Claiming, inClaimed, flagFresh, 0},
		{Claiming, inClaimed, 0, 0},
		// A read/write lock's.
		{Creating, inRefused, flagMissing, OpCreate},
		// Of one who is asked for it back.
		{Held, inAskedBack, momentSoon, 0},
		{Waiting, inAskedBack, momentLate, 0},
		{Claiming, inAskedBack, momentSoon, 0},
		{Held, inOverdue, 0, 0},
		{Lapsed, inOverdue, 0, 0},
		{Releasing, inOverdue, 0, 0},
		// A semaphore's.
		{Recovering, inListed, flagLeased, 0},
		{Claiming, inRefused, flagMissing, OpClaim},
		{Surveying, inSurveyed, 0, 0},
		{Surveying, inChanged, 0, 0},
		{Surveying, inReconnected, 0, 0},
		{Surveying, inUnknown, 0, OpSurvey},
		{Surveying, inRefused, flagMissing, OpSurvey},
		{Full, inChanged, 0, 0},
		{Full, inReconnected, 0, 0},
		{Full, inGone, 1, 0},
		{Entering, inEntered, flagFresh, 0},
		{Entering, inEntered, 0, 0},
		{Entering, inRefused, flagStale, OpEnter},
		{Entering, inRefused, flagMissing, OpEnter},
		{Entering, inUnknown, 0, OpEnter},
		{Entering, inWithdrawn, 0, 0},
		// Those of a lock that is one node.
		{Creating, inTaken, 0, 0},
		{Looking, inListed, 0, 0},
		{Pausing, inPaused, 0, 0},
		{Pausing, inReconnected, 0, 0},
		{Pausing, inWithdrawn, 0, 0},
	}
	for _, m := range want {
		if !met[m] {
			t.Errorf("no machine in %v was given input %d (%b, %v)", m.state, m.kind, m.flag, m.op)
		}
	}
}
