package recipes

import "github.com/zkgrant/zkgrant/events"

// A lax rule is Read or Write with another idea of who blocks.
type lax struct {
	Rule
	name string // rules are compared, functions cannot be
}

// Blockers does what its name says.
func (l lax) Blockers(queue []events.Name, me events.Name) []events.Name {
	switch l.name {
	case "readers block":
		return Mutex{}.Blockers(queue, me)
	case "nobody blocks":
		return nil
	case "readers do not block":
		return Read{}.Blockers(queue, me)
	case "whoever has the same number blocks":
		me.Seq++
		for i := range queue {
			if queue[i].Text == me.Text {
				queue[i].Seq++
			}
		}
		return Read{}.Blockers(queue, me)
	case "whoever is a writer for Curator blocks":
		return Upgradable{}.Blockers(queue, me)
	case "upgradables do not block", "nobody behind it reads", "all readers block", "writers are no wall", "older writers block":
		return laxUpgrade(l, queue, me)
	case "nobody blocks if the oldest reads":
		if len(queue) > 0 && oldest(Listed{Queue: queue}).Kind.Reads() {
			return nil
		}
		return Read{}.Blockers(queue, me)
	default:
		panic("no rule " + l.name)
	}
}

// ruled lets machines of one rule obey another one.
func ruled(rule Rule, name string) stepFunc {
	return func(m Machine, in Input) (Machine, []Effect) {
		if m.rule != rule {
			return m.Step(in)
		}
		m.rule = lax{rule, name}
		next, effects := m.Step(in)
		next.rule = rule
		return next, effects
	}
}

// sharedMutants returns the seeded bugs of read/write locks, and of what several machines of
// one session know of each other.
func sharedMutants() []mutant {
	cfg := func(roles []uint8, left budget, o options) config {
		o.sharing, o.eager = true, true
		return config{clients: len(roles), roles: roles, left: left, options: o}
	}
	plain := options{plain: true}
	foreignReads := options{plain: true, readers: true}
	wrr, down, downMate := []uint8{writes, reader, reader}, []uint8{trades, takes, writes}, []uint8{trades, takes, beside}
	mates := []uint8{roleShares, roleShares, roleShares}
	readersFloor := after(func(m, next Machine, _ Input, effects []Effect) (Machine, []Effect) {
		for i, e := range effects {
			if d, ok := e.(Delete); ok && m.waited && m.state == Held {
				d.Floor = true
				effects[i] = d
			}
		}
		return next, effects
	})
	return []mutant{
		{"reads, and leaves a floor", readersFloor, cfg([]uint8{reader, writes}, budget{guest: 1, foreign: 1}, foreignReads), twoHolders},
		{"the same, asked for what a floor says", readersFloor, cfg([]uint8{reader, writes}, budget{guest: 1, foreign: 1}, options{readers: true}), falseFloor},
		{"takes the end of our own write node for that of the only one ahead", passing(func(m Machine) (Machine, []Effect, bool) {
			next := m
			effects := next.claim()
			return next, effects, m.ahead == 1 && replaceable(m.rule, kindOf(m.older[0]))
		}), cfg(down, budget{}, plain), twoHolders},
		{"leaves a floor though a reader has its place", nil,
			cfg(down, budget{guest: 1}, options{shell: shellKeepsFloor}), falseFloor},
		{"leaves none, and its session takes it for the last one", nil,
			cfg(downMate, budget{guest: 1, foreign: 1}, options{plain: true, readers: true, shell: shellKeepsWord}), twoHolders},
		{"downgrades without a check of the write node", nil,
			cfg(down, budget{remove: 1}, options{plain: true, shell: shellUnchecked}), twoHolders},
		{"reads, and waits for readers", ruled(Read{}, "readers block"), cfg(wrr, budget{}, options{}), apart},
		{"reads, and waits for the writer whose place it takes", ruled(Read{}, "whoever has the same number blocks"),
			cfg([]uint8{trades, takes}, budget{}, options{}), apart},
		{"reads beside a writer", ruled(Read{}, "nobody blocks"), cfg(wrr, budget{}, plain), twoHolders},
		{"writes beside readers", ruled(Write{}, "readers do not block"), cfg(wrr, budget{}, plain), twoHolders},
		{"joins those who read, past a writer who waits", ruled(Read{}, "nobody blocks if the oldest reads"), cfg(wrr, budget{}, options{}), overtook},
		{"takes the number of its write node for the end of the numbers", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			l, ok := in.(Listed)
			twin := false
			for _, c := range l.Queue {
				twin = twin || c.Seq == l.Own.Name.Seq && c.Text != l.Own.Name.Text
			}
			m.own = l.Own
			effects := m.fail(WhySequenceEnd)
			return m, effects, ok && m.rule == Rule(Read{}) && twin
		}), cfg([]uint8{trades, takes}, budget{}, options{}), unfounded},
		{"takes whoever of its session gave up for a holder", nil,
			cfg(mates, budget{guest: 1, withdraw: 1}, options{plain: true, shell: shellAnyWord}), twoHolders},
		{"takes a holder of its session for gone while its node stands", nil,
			cfg(mates, budget{guest: 2, withdraw: 1}, options{shell: shellEarlyWord}), unproven},
	}
}
