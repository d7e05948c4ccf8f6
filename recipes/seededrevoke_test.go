package recipes

import "github.com/zkgrant/zkgrant/events"

// revokeMutants returns the seeded bugs of wishes that say by when.
func revokeMutants() []mutant {
	cfg := func(left budget) config {
		return config{clients: 2, left: left, options: options{eager: true}}
	}
	both, soon := budget{soon: 1, late: 1}, budget{soon: 1}
	keep := cfg(soon)
	keep.flags = []uint8{flagKeep, flagKeep}
	overdue := func(do func(m *Machine, in Overdue) []Effect) stepFunc {
		return instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			o, ok := in.(Overdue)
			if !ok {
				return m, nil, false
			}
			next := m
			return next, do(&next, o), true
		})
	}
	return []mutant{
		{"keeps the lock when its time to give it back is over", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			_, ok := in.(Overdue)
			return m, nil, ok
		}), cfg(soon), overstayed},
		{"keeps it when nobody waits to be told more", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			_, ok := in.(Overdue)
			return m, nil, ok && !m.up
		}), cfg(budget{soon: 1, cut: 1}), overstayed},
		{"gives the node up, and tells the loss behind that", after(func(_, next Machine, in Input, effects []Effect) (Machine, []Effect) {
			if _, ok := in.(Overdue); ok && len(effects) > 1 {
				effects[0], effects[1] = effects[1], effects[0]
			}
			return next, effects
		}), cfg(soon), letGo},
		{"tells the loss, and keeps the node", after(func(_, next Machine, in Input, effects []Effect) (Machine, []Effect) {
			if _, ok := in.(Overdue); ok {
				return next, without[Delete](effects)
			}
			return next, effects
		}), cfg(soon), stuck},
		{"gives the node up while the function still runs", after(func(m, next Machine, in Input, effects []Effect) (Machine, []Effect) {
			if _, ok := in.(Overdue); ok && m.state == Held {
				effects = append(effects, next.release()...)
			}
			return next, effects
		}), keep, letIn},
		{"loses the lock at the wish", after(func(m, next Machine, in Input, effects []Effect) (Machine, []Effect) {
			if a, ok := in.(AskedBack); ok && a.By != 0 && len(effects) > 0 {
				effects = append(effects, next.lose(events.ReasonRevoked)...)
			}
			return next, effects
		}), cfg(soon), unfounded},
		{"takes the end of the time for its own end, whenever that comes", func(m Machine, in Input) (Machine, []Effect) {
			if _, ok := in.(Overdue); ok && m.state == Releasing {
				effects := m.over()
				return m, effects
			}
			return m.Step(in)
		}, cfg(soon), leftBehind},
		{"goes by the latest wish, and not by the one that leaves the least time", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			a, ok := in.(AskedBack)
			if ok = ok && m.state == Held && m.why == 0 && a.Node == m.own.Name.Text && a.By > m.by && m.by != 0; ok {
				m.by = a.By
			}
			return m, []Effect{Revoke{By: m.by}}, ok
		}), cfg(both), outOfOrder},
		{"tells of the first wish only", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			_, ok := in.(AskedBack)
			return m, nil, ok && m.asked
		}), cfg(both), unheeded},
		{"forgets that somebody set a time when another one sets none", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			a, ok := in.(AskedBack)
			if ok = ok && m.asked && a.Node == m.own.Name.Text && a.By == 0; ok {
				m.by = 0
			}
			return m, nil, ok
		}), cfg(budget{soon: 1, wish: 1}), overstayed},
		{"forgets by the time of the Grant when it is wanted back", after(func(m, next Machine, _ Input, effects []Effect) (Machine, []Effect) {
			for i, e := range effects {
				if _, ok := e.(Revoke); ok && m.state != Held {
					effects[i] = Revoke{}
				}
			}
			return next, effects
		}), cfg(soon), unheeded},
		{"takes what somebody else is asked for its own", alter(func(m Machine, in Input) Input {
			if a, ok := in.(AskedBack); ok {
				a.Node = m.own.Name.Text
				return a
			}
			return in
		}), cfg(soon), unasked},
		{"takes what an earlier node of its own was asked for what it is asked", after(func(m, next Machine, _ Input, effects []Effect) (Machine, []Effect) {
			if m.asked && !next.asked {
				next.asked, next.by = m.asked, m.by
			}
			return next, effects
		}), cfg(budget{soon: 1, remove: 1}), unasked},
		{"the same, over the end of a session", after(func(m, next Machine, in Input, effects []Effect) (Machine, []Effect) {
			if _, ok := in.(Expired); ok {
				next.asked, next.by = m.asked, m.by
			}
			if _, ok := in.(Opened); ok {
				next.asked, next.by = m.asked, m.by
			}
			return next, effects
		}), cfg(budget{soon: 1, expire: 1}), unasked},
		{"takes the end of the time of a wish for one of a later wish's", overdue(func(m *Machine, _ Overdue) []Effect {
			if m.state == Lapsed {
				return m.release()
			}
			return m.onOverdue(Overdue{By: m.by})
		}), keep, letIn},
	}
}
