//go:build !race

package recipes

// directories are the configurations in which the directory's data plays a part, beyond
// the pairs of faults.
func directories() []config {
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
		{name: "no directory", clients: 3, left: budget{withdraw: 1}, options: options{dir: dirNone}},
		{name: "no directory: cut", clients: 3, left: budget{cut: 1}, options: all(options{dir: dirNone})},
		{name: "no directory: foreign + reap", clients: 3, left: budget{foreign: 1, reap: 1}, options: all(options{dir: dirNone})},
		{name: "reap twice", clients: 3, left: budget{reap: 2}},
		{name: "reap: foreign + foreign", clients: 3, left: budget{reap: 1, foreign: 2}, options: options{eager: true}},
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
		{name: "a writer who may trade: foreign + guest", clients: 2, left: budget{foreign: 1, guest: 1}, options: all(options{writer: true})},
		{name: "remembers one: withdraw + guest", clients: 3, left: budget{withdraw: 1, guest: 1}, memory: 1, options: all(options{})},
		{name: "remembers two: withdraw + two guests", clients: 3, left: budget{withdraw: 1, guest: 2}, memory: 2, options: all(options{})},
		{name: "remembers two: two withdraw + foreign", clients: 3, left: budget{withdraw: 2, foreign: 1}, memory: 2, options: all(options{})},
		{name: "strict: two withdraw + cut", clients: 3, left: budget{withdraw: 2, cut: 1}, flags: []uint8{flagStrict, flagStrict, flagStrict}, options: all(options{})},
		{name: "strict: cut + withdraw, answers after the cut", clients: 3, left: budget{cut: 1, withdraw: 1}, flags: []uint8{flagStrict, flagStrict, flagStrict}, options: all(options{late: true})},
		{name: "cut + expire, answers after the cut", clients: 2, left: budget{cut: 1, expire: 1}, options: all(options{late: true})},
		{name: "two cuts + withdraw, answers after the cut", clients: 3, left: budget{cut: 2, withdraw: 1}, options: all(options{late: true})},
		{name: "cut + guest, answers after the cut", clients: 3, left: budget{cut: 1, guest: 1}, options: all(options{late: true})},
		{name: "cut + remove, answers after the cut", clients: 3, left: budget{cut: 1, remove: 1}, options: all(options{late: true})},
		{name: "requests overtake: withdraw + guest", clients: 3, left: budget{withdraw: 1, guest: 1}, options: all(options{loose: true})},
		{name: "own node watched: withdraw + remove", clients: 3, left: budget{withdraw: 1, remove: 1}, options: all(options{ownWatch: true})},
		{name: "two cuts + withdraw, watches set again", clients: 3, left: budget{cut: 2, withdraw: 1}, options: all(options{rearm: true})},
	}
}
