package recipes

// fastMutants returns the seeded bugs of the fast path: of the machine where they have
// a step, of what carries its requests out where they have a shell.
func fastMutants() []mutant {
	plain := func(clients int, left budget, o options) config {
		o.plain, o.eager = true, true
		return config{clients: clients, left: left, options: o}
	}
	three := func(left budget) config { return config{clients: 3, left: left, options: options{eager: true}} }
	return []mutant{
		{"grants when the only one ahead goes, without a claim", passing(func(m Machine) (Machine, []Effect, bool) {
			next, effects := granted(m)
			return next, effects, m.ahead == 1
		}), plain(3, budget{expire: 1}, options{}), twoHolders},
		{"the same, asked for the order of tokens", passing(func(m Machine) (Machine, []Effect, bool) {
			next, effects := granted(m)
			return next, effects, m.ahead == 1
		}), plain(3, budget{expire: 1}, options{tokens: true}), tokenOrder},
		{"the same, when its own node was deleted", passing(func(m Machine) (Machine, []Effect, bool) {
			next, effects := granted(m)
			return next, effects, m.ahead == 1
		}), plain(3, budget{remove: 1}, options{}), twoHolders},
		{"takes the end of a write node for that of the only one ahead", passing(func(m Machine) (Machine, []Effect, bool) {
			next := m
			effects := next.claim()
			return next, effects, m.ahead == 1 && replaceable(m.rule, kindOf(m.older[0]))
		}), plain(2, budget{}, options{writer: true}), twoHolders},
		{"judges by those it remembers that one was ahead", passing(func(m Machine) (Machine, []Effect, bool) {
			next := m
			effects := next.claim()
			return next, effects, m.older[1] == ""
		}), config{clients: 3, left: budget{withdraw: 1}, memory: 1, options: options{plain: true, eager: true}}, twoHolders},
		{"counts those ahead it has not heard the end of", after(func(m, next Machine, in Input, effects []Effect) (Machine, []Effect) {
			if _, ok := in.(Advanced); ok && next.state == Waiting {
				next.ahead = min(next.ahead, 1)
			}
			return next, effects
		}), plain(3, budget{withdraw: 2, foreign: 1}, options{}), twoHolders},
		{"claims when the next one does not stand either", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			a, ok := in.(Advanced)
			next := m
			effects := next.claim()
			return next, effects, ok && a.Epoch == m.epoch && m.state == Advancing && !a.Floor && !a.Stands
		}), plain(3, budget{withdraw: 2, foreign: 1}, options{}), twoHolders},
		{"waits on the next one though it heard of its end", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			g, ok := in.(Gone)
			return m, nil, ok && m.state == Advancing && g.Node == m.older[1]
		}), three(budget{withdraw: 2}), stuck},
		{"walks back without watching", nil, config{clients: 3, left: budget{withdraw: 1}, options: options{shell: shellUnwatched, eager: true}}, stuck},
		{"walks back without asking", passing(func(m Machine) (Machine, []Effect, bool) {
			ok := m.ahead > 1 && m.older[1] != ""
			m.older, m.ahead = m.older.shift(), m.ahead-1
			return m, nil, ok
		}), three(budget{withdraw: 1}), stuck},
		{"does not list when an answer to an advance was lost", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			u, ok := in.(Unknown)
			return m, nil, ok && u.Op == OpAdvance && m.state == Advancing
		}), three(budget{withdraw: 1, cut: 1}), stuck},
		{"believes that the next one is watched after a reconnect", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			_, ok := in.(Reconnected)
			m.up = m.up || ok
			return m, nil, ok && m.state == Advancing
		}), config{clients: 3, left: budget{withdraw: 1, cut: 1}, options: options{late: true, eager: true}}, stuck},
		{"takes an advance of unknown outcome for a floor", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			u, ok := in.(Unknown)
			next := m
			effects := next.claim()
			return next, effects, ok && u.Op == OpAdvance && u.Epoch == m.epoch && m.state == Advancing
		}), plain(3, budget{withdraw: 1, cut: 1}, options{}), twoHolders},
		{"takes an advance that found no own node for granted", alter(func(m Machine, in Input) Input {
			if r, ok := in.(Refused); ok && r.Op == OpAdvance && m.state == Advancing {
				return Advanced{Epoch: r.Epoch, Floor: true, Fresh: true}
			}
			return in
		}), three(budget{remove: 2}), unproven},
		{"believes an advance whose lease has run out since", alter(func(_ Machine, in Input) Input {
			if a, ok := in.(Advanced); ok {
				a.Fresh = true
				return a
			}
			return in
		}), plain(2, budget{expire: 1, guest: 2}, options{}), twoHolders},
		{"believes a create whose lease has run out since", alter(func(_ Machine, in Input) Input {
			if c, ok := in.(Created); ok {
				c.Fresh = true
				return c
			}
			return in
		}), plain(2, budget{expire: 1}, options{}), twoHolders},
		{"enters by its create though it is strict and has no connection", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			c, ok := in.(Created)
			m.up = true
			next, effects := m.Step(in)
			next.up = false
			return next, effects, ok && c.Alone && m.strict
		}), config{clients: 2, left: budget{cut: 1}, flags: []uint8{flagStrict, flagStrict}, options: options{late: true}}, stillHeld},
		{"waits, gives up, and leaves a floor", after(func(m, next Machine, in Input, effects []Effect) (Machine, []Effect) {
			for i, e := range effects {
				if d, ok := e.(Delete); ok && m.waited {
					d.Floor = true
					effects[i] = d
				}
			}
			return next, effects
		}), plain(3, budget{withdraw: 1}, options{}), twoHolders},
		{"the same, asked for what a floor says", after(func(m, next Machine, in Input, effects []Effect) (Machine, []Effect) {
			for i, e := range effects {
				if d, ok := e.(Delete); ok && m.waited {
					d.Floor = true
					effects[i] = d
				}
			}
			return next, effects
		}), three(budget{withdraw: 1}), falseFloor},
		{"takes a release for done that may not write a floor", nil,
			config{clients: 2, options: options{shell: shellGivesUp, either: true}}, leftBehind},
		{"takes any floor for that of the one ahead", nil, plain(2, budget{withdraw: 1, guest: 1, foreign: 1}, options{shell: shellAnyFloor, dir: dirUnknown}), twoHolders},
		{"names the floor by a number, and writes it apart", nil, plain(2, budget{foreign: 1, guest: 2, reap: 1}, options{shell: shellNumbers}), twoHolders},
		{"counts the nodes after the create and not with it", nil, plain(2, budget{remove: 1}, options{shell: shellCounts}), twoHolders},
		{"writes its marker over data that is not ours", nil, config{clients: 1, options: options{shell: shellMarksAll, dir: dirAlien}}, overwrote},
		{"does not notice that the directory is another one", nil,
			config{clients: 2, left: budget{reap: 1, foreign: 1, change: 1}, options: options{shell: shellRemembers}}, overwrote},
	}
}

// passing takes over when the blocker has gone.
func passing(take func(m Machine) (Machine, []Effect, bool)) stepFunc {
	return instead(func(m Machine, in Input) (Machine, []Effect, bool) {
		g, ok := in.(Gone)
		if !ok || g.Epoch != m.epoch || m.state != Waiting || g.Node != m.older[0] {
			return m, nil, false
		}
		return take(m)
	})
}
