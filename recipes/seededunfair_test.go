package recipes

// unfairMutants returns the seeded bugs of locks that are one node.
func unfairMutants() []mutant {
	cfg := func(roles []uint8, left budget, o options) config {
		o.single, o.eager = true, true
		return config{clients: 2, rules: []Rule{Unfair{}, Unfair{}}, roles: roles, left: left, options: o}
	}
	mates := []uint8{roleShares, roleShares}
	return []mutant{
		{"takes any node of its session for its own", nil, cfg(mates, budget{cut: 1}, options{plain: true, shell: shellAllClaim}), twoHolders},
		{"enters because a look finds its own node", after(grantOnListing), cfg(nil, budget{cut: 1}, options{}), unproven},
		{"waits, and does not watch", after(func(_, next Machine, _ Input, effects []Effect) (Machine, []Effect) {
			return next, without[Watch](effects)
		}), cfg(nil, budget{}, options{}), stuck},
		{"steps back, and does not come again", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			_, ok := in.(Paused)
			return m, nil, ok
		}), cfg(nil, budget{}, options{}), noWayOut},
		{"creates again without looking for the first", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			u, ok := in.(Unknown)
			ok = ok && u.Op == OpCreate && u.Epoch == m.epoch && m.state == Creating && m.why == 0
			next := m
			effects := next.begin()
			return next, effects, ok
		}), cfg(nil, budget{cut: 1}, options{}), stuck},
		{"looks for the first at a replica that lags", after(func(_, next Machine, _ Input, effects []Effect) (Machine, []Effect) {
			for i, e := range effects {
				if l, ok := e.(List); ok {
					l.Barrier = false
					effects[i] = l
				}
			}
			return next, effects
		}), cfg(nil, budget{cut: 1}, options{}), stuck},
		{"gives up, and deletes the node it waited for", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			w, ok := in.(Withdrawn)
			ok = ok && m.state == Waiting && m.why == 0
			next := m
			next.why, next.state = w.Why, Releasing
			return next, []Effect{Delete{Epoch: m.epoch, Node: m.older[0]}}, ok
		}), cfg(nil, budget{withdraw: 1}, options{}), noHold},
		{"takes it for its own that somebody has", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			k, ok := in.(Taken)
			ok = ok && k.Epoch == m.epoch && m.state == Creating
			m.own = Own{Name: contender(int64(0)), Owner: m.session, Token: tokenBase}
			next := m
			effects := next.claim()
			return next, effects, ok
		}), cfg(nil, budget{}, options{plain: true}), twoHolders},
		{"does not look again after a reconnect", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			_, ok := in.(Reconnected)
			m.up = m.up || ok
			return m, nil, ok && m.state == Waiting
		}), cfg(nil, budget{cut: 1}, options{}), stuck},
		{"believes a create whose lease has run out since", alter(func(_ Machine, in Input) Input {
			if c, ok := in.(Created); ok {
				c.Fresh = true
				return c
			}
			return in
		}), cfg(nil, budget{expire: 1}, options{plain: true}), twoHolders},
	}
}
