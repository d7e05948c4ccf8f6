package recipes

// crashMutants returns the seeded bugs of locks that tell of crashes.
func crashMutants() []mutant {
	cfg := func(roles []uint8, left budget, o options) config {
		o.detect, o.eager = true, true
		return config{clients: len(roles), roles: roles, left: left, flags: []uint8{flagDetect, flagDetect, flagDetect}, options: o}
	}
	two, wr := []uint8{0, 0}, []uint8{writes, reader}
	clean := func(when func(m, next Machine, in Input) bool, clean bool) stepFunc {
		return after(func(m, next Machine, in Input, effects []Effect) (Machine, []Effect) {
			for i, e := range effects {
				if d, ok := e.(Delete); ok && when(m, next, in) {
					d.Clean = clean
					next.clean, effects[i] = clean, d
				}
			}
			return next, effects
		})
	}
	return []mutant{
		{"takes the record along on a loss", clean(func(_, next Machine, _ Input) bool { return next.why == WhyLost }, true),
			cfg(two, budget{lapse: 1}, options{}), unrecorded},
		{"takes the record along after a panic", clean(func(_, next Machine, _ Input) bool { return next.why == WhyPanicked }, true),
			cfg(two, budget{}, options{}), unrecorded},
		{"takes somebody's record along though nobody took the grant", clean(func(m, _ Machine, in Input) bool {
			p, ok := in.(Withdrawn)
			return ok && m.state == Held && p.Why == WhyReleased
		}, true), cfg(two, budget{}, options{}), unrecorded},
		{"leaves its record though nobody took the grant", clean(func(m, _ Machine, in Input) bool {
			_, ok := in.(Withdrawn)
			return ok && m.state == Held
		}, false), cfg(two, budget{}, options{}), untrue},
		{"gives up while it claims, and does not wait for the answer", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			w, ok := in.(Withdrawn)
			ok = ok && m.state == Claiming && m.why == 0
			next := m
			next.why = w.Why
			effects := next.release()
			return next, effects, ok
		}), cfg(two, budget{withdraw: 1}, options{}), untrue},
		{"releases again, and leaves the record then", after(func(_, next Machine, in Input, effects []Effect) (Machine, []Effect) {
			if u, ok := in.(Unknown); ok && u.Op == OpDelete && len(effects) == 1 {
				effects = []Effect{Delete{Epoch: next.epoch, Node: next.own.Name.Text, Floor: next.floor}}
			}
			return next, effects
		}), cfg(two, budget{cut: 1}, options{}), untrue},
		{"is granted alone, without a record", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			c, ok := in.(Created)
			ok = ok && m.state == Creating && m.why == 0 && c.Epoch == m.epoch && c.Alone && c.Fresh
			next := m
			next.own = Own{Name: c.Node, Owner: m.session, Token: c.Token}
			effects := next.grant(nil)
			return next, effects, ok
		}), cfg(two, budget{}, options{}), unrecorded},
		{"is granted by a floor, without a record", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			a, ok := in.(Advanced)
			ok = ok && m.state == Advancing && a.Epoch == m.epoch && a.Floor && a.Fresh && !m.removed
			next := m
			effects := next.grant(nil)
			return next, effects, ok
		}), cfg([]uint8{0, 0, 0}, budget{}, options{}), unreported},
		{"does not pass on what it has read", alter(func(_ Machine, in Input) Input {
			if r, ok := in.(Recorded); ok {
				r.Abandoned = nil
				return r
			}
			return in
		}), cfg(two, budget{}, options{}), unreported},
		{"reads, and passes nothing on", alter(func(m Machine, in Input) Input {
			if r, ok := in.(Recorded); ok && m.rule == Rule(Read{}) {
				r.Abandoned = nil
				return r
			}
			return in
		}), cfg(wr, budget{}, options{sharing: true}), unreported},
		{"removes the record in a second transaction", nil, cfg(two, budget{cut: 1}, options{shell: shellTwoSteps}), untrue},
		{"takes its own record for somebody else's", nil, cfg(two, budget{cut: 1}, options{shell: shellAllTheirs}), falseAlarm},
		{"writes its record over one that it finds", nil, cfg(two, budget{cut: 1}, options{shell: shellOverwrites}), unreported},
		{"takes a record in its way for the end of its node", nil, cfg(two, budget{}, options{shell: shellTakesForGone}), stuck},
		{"reads the record before it claims", nil, cfg(wr, budget{cut: 1}, options{sharing: true, shell: shellReadsEarly}), falseAlarm},
	}
}
