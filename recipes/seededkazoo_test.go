package recipes

import "slices"

// kazooMutants returns the seeded bugs of contenders with kazoo's names, and of wishes to have a lock back.
func kazooMutants() []mutant {
	cfg := func(left budget, o options) config {
		o.eager, o.mixes = true, true
		return config{clients: 2, roles: []uint8{roleKazoo, roleKazoo}, left: left, options: o}
	}
	asked := func(wishes uint8) config {
		return config{clients: 2, left: budget{wish: wishes}, options: options{eager: true}}
	}
	kazoosOnly := alter(func(_ Machine, in Input) Input {
		if l, ok := in.(Listed); ok {
			l.Queue = slices.Clone(l.Queue)
			for i := len(l.Queue) - 1; i >= 0; i-- {
				if !l.Queue[i].Kind.Kazoo() {
					l.Queue = slices.Delete(l.Queue, i, i+1)
				}
			}
			return l
		}
		return in
	})
	return []mutant{
		{"does not mind whom kazoo does not see", func(m Machine, in Input) (Machine, []Effect) {
			rule := m.rule
			if _, ok := in.(Listed); ok {
				m.rule = Mutex{}
			}
			next, effects := m.Step(in)
			next.rule = rule
			return next, effects
		}, cfg(budget{foreign: 1}, options{}), mingled},
		{"looks at kazoo's names only, as kazoo does", kazoosOnly, cfg(budget{foreign: 1}, options{plain: true}), twoHolders},
		{"the same, asked beside whom it stays", kazoosOnly, cfg(budget{foreign: 1}, options{}), mingled},
		{"sees whom kazoo does not, and leaves its node", after(func(m, next Machine, _ Input, effects []Effect) (Machine, []Effect) {
			if next.why == WhyMixed && m.why == 0 {
				effects = next.over()
			}
			return next, effects
		}), cfg(budget{foreign: 1}, options{}), leftBehind},
		{"takes a wish to have the lock back for the end of the node", alter(func(_ Machine, in Input) Input {
			if a, ok := in.(AskedBack); ok {
				return Gone{a.Epoch, a.Node}
			}
			return in
		}), asked(1), leftBehind},
		{"tells of a wish before it holds", after(func(m, next Machine, _ Input, effects []Effect) (Machine, []Effect) {
			if next.asked && !m.asked && next.state != Held {
				effects = append(effects, Revoke{})
			}
			return next, effects
		}), asked(1), outOfOrder},
		{"tells of a wish each time", after(func(_, next Machine, _ Input, effects []Effect) (Machine, []Effect) {
			next.asked = false
			return next, effects
		}), asked(2), outOfOrder},
		{"takes a wish for a loss", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			_, ok := in.(AskedBack)
			next := m
			effects := next.over()
			return next, effects, ok && m.state == Held
		}), asked(1), outOfOrder},
	}
}
