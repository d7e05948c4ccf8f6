package recipes

// permitsMutants returns the seeded bugs of semaphores.
func permitsMutants() []mutant {
	cfg := func(size, permits int32, left budget, o options) config {
		o.permits, o.eager = true, true
		rule := Semaphore{Size: size, Permits: permits}
		return config{clients: 2, rules: []Rule{rule, rule}, left: left, options: o}
	}
	sizes := options{sizes: true}
	return []mutant{
		{"looks for what it entered with in the queue only", nil, cfg(1, 1, budget{cut: 1}, options{shell: shellOnePlace}), stuck},
		{"enters whatever the size has become", nil, cfg(2, 2, budget{resize: 1}, options{sizes: true, shell: shellAnySize}), overfull},
		{"gives its place up before it has its leases", nil, cfg(1, 1, budget{}, options{shell: shellPlaceFirst}), overfull},
		{"enters and keeps its place", nil, cfg(1, 1, budget{}, options{shell: shellKeepsPlace}), leftBehind},
		{"gives leases back together, or none", nil, cfg(4, 3, budget{remove: 1}, options{shell: shellAllOrNothing}), leftBehind},
		{"gives one lease back", nil, cfg(4, 3, budget{remove: 1}, options{shell: shellFirstLease}), leftBehind},
		{"does not survey again after a reconnect", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			_, ok := in.(Reconnected)
			m.up = m.up || ok
			return m, nil, ok && m.state == Full
		}), cfg(1, 1, budget{cut: 1}, options{}), stuck},
		{"believes a survey that another connection may have answered", after(func(_, next Machine, _ Input, effects []Effect) (Machine, []Effect) {
			next.permits.doubted = false
			return next, effects
		}), cfg(1, 1, budget{cut: 1}, options{late: true}), overfull},
		{"believes a survey that is answered before the news of the next connection", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			_, ok := in.(Suspended)
			m.up = m.up && !ok
			return m, nil, ok && m.state == Surveying
		}), cfg(1, 1, budget{cut: 1}, options{late: true, early: true}), overfull},
		{"surveys again when the answer was lost, and does not list", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			u, ok := in.(Unknown)
			next := m
			effects := next.survey()
			return next, effects, ok && u.Op == OpSurvey && u.Epoch == m.epoch && m.state == Surveying
		}), cfg(1, 1, budget{cut: 1}, options{}), overfull},
		{"surveys without watching", after(func(_, next Machine, _ Input, effects []Effect) (Machine, []Effect) {
			for i, e := range effects {
				if s, ok := e.(Survey); ok {
					s.Watch = false
					effects[i] = s
				}
			}
			return next, effects
		}), cfg(1, 1, budget{}, options{}), stuck},
		{"does not look again for what changed meanwhile", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			_, ok := in.(Changed)
			return m, nil, ok && m.state == Surveying
		}), cfg(1, 1, budget{}, options{}), stuck},
		{"counts the permits that it wants as one", alter(func(_ Machine, in Input) Input {
			if s, ok := in.(Surveyed); ok && s.Taken > 0 {
				s.Taken -= 2
				return s
			}
			return in
		}), cfg(4, 3, budget{}, options{}), overfull},
		{"surveys though it is not the first", alter(func(_ Machine, in Input) Input {
			if l, ok := in.(Listed); ok {
				l.Queue = nil
				return l
			}
			return in
		}), cfg(2, 1, budget{}, options{}), overtook},
		{"takes an enter of unknown outcome for one that was not executed", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			u, ok := in.(Unknown)
			next := m
			effects := next.list()
			return next, effects, ok && u.Op == OpEnter && u.Epoch == m.epoch && m.state == Entering && m.why == 0
		}), cfg(1, 1, budget{cut: 1}, options{}), stuck},
		{"withdraws while it enters, and forgets the leases", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			if _, ok := in.(Entered); ok && m.state != Entering {
				return m, nil, true
			}
			w, ok := in.(Withdrawn)
			ok = ok && m.state == Entering && m.why == 0
			if ok {
				m.why = w.Why
			}
			next := m
			effects := next.release()
			return next, effects, ok
		}), cfg(1, 1, budget{withdraw: 1}, options{}), leftBehind},
		{"queues again and leaves what is left of its leases", after(func(_, next Machine, _ Input, effects []Effect) (Machine, []Effect) {
			return next, without[Discard](effects)
		}), cfg(4, 3, budget{cut: 1, remove: 1}, options{}), stuck},
		{"waits for more permits than there are", after(func(m, next Machine, in Input, effects []Effect) (Machine, []Effect) {
			if s, ok := in.(Surveyed); ok && m.state == Surveying && next.why == WhyPermits && s.Size > 0 {
				m.state = Full
				return m, nil
			}
			return next, effects
		}), func() config {
			c := cfg(2, 2, budget{resize: 1}, sizes)
			c.rules[1] = Semaphore{Size: 2, Permits: 1, Adopt: true}
			return c
		}(), stuck},
	}
}
