package recipes

import "github.com/zkgrant/zkgrant/events"

// laxUpgrade is another idea of whom an upgrade waits for, or an upgradable reader.
func laxUpgrade(l lax, queue []events.Name, me events.Name) []events.Name {
	u, _ := l.Rule.(Upgrade)
	var chosen []events.Name
	for _, c := range queue {
		mayRead := c.Kind.Reads()
		switch l.name {
		case "upgradables do not block":
			if !mayRead && c.Kind != events.KindUpgradable {
				chosen = append(chosen, c)
			}
		case "nobody behind it reads":
			if c.Seq < u.Of {
				chosen = append(chosen, c)
			}
		case "all readers block", "writers are no wall":
			if _, ours := events.MarksOf(c.Text); mayRead && (ours || l.name == "all readers block") {
				chosen = append(chosen, c)
			}
		case "older writers block":
			if c.Seq != u.Of {
				chosen = append(chosen, c)
			}
		}
	}
	return Mutex{}.Blockers(chosen, me)
}

// upgradesAs lets machines of upgrades obey another rule.
func upgradesAs(name string) stepFunc {
	return func(m Machine, in Input) (Machine, []Effect) {
		rule, ok := m.rule.(Upgrade)
		if !ok {
			return m.Step(in)
		}
		m.rule = lax{rule, name}
		next, effects := m.Step(in)
		next.rule = rule
		return next, effects
	}
}

// upgradeMutants returns the seeded bugs of those who upgrade.
func upgradeMutants() []mutant {
	cfg := func(third Rule, role uint8, left budget, o options) config {
		o.sharing, o.eager, o.upgrades = true, true, true
		return config{
			clients: 3, left: left, options: o,
			rules: []Rule{Upgradable{}, Upgrade{}, third}, roles: []uint8{roleShares, roleShares, role},
		}
	}
	plain := options{plain: true}
	stays := instead(func(m Machine, in Input) (Machine, []Effect, bool) {
		l, ok := in.(Listed)
		if !ok || l.Epoch != m.epoch || m.state != Listing || l.Own == (Own{}) || m.why != 0 || m.removed ||
			len(m.rule.Blockers(l.Queue, l.Own.Name)) > 0 || !overtaken(m.rule, l.Queue, l.Own.Name) {
			return m, nil, false
		}
		m.own = l.Own
		effects := m.claim()
		return m, effects, true
	})
	waits := after(func(m, next Machine, in Input, effects []Effect) (Machine, []Effect) {
		l, ok := in.(Listed)
		if !ok || m.state != Listing || l.Own == (Own{}) || !overtaken(m.rule, l.Queue, l.Own.Name) || next.state != Creating {
			return next, effects
		}
		m.own, m.state, m.waited, m.beside = l.Own, Waiting, true, true
		for _, c := range l.Queue {
			if c.Kind == events.KindUpgrade {
				m.older, m.ahead = neighbours{c.Text}, 1
			}
		}
		return m, []Effect{Watch{Epoch: m.epoch, Node: m.older[0]}}
	})
	return []mutant{
		{"reads, and believes behind somebody upgradable that one was the only one ahead", passing(func(m Machine) (Machine, []Effect, bool) {
			next := m
			effects := next.claim()
			return next, effects, m.beside && m.ahead == 1
		}), cfg(nil, reader, budget{guest: 1}, plain), twoHolders},
		{"reads, and does not give way to an upgrade", stays, cfg(nil, reader, budget{guest: 1}, plain), twoHolders},
		{"reads, and waits for an upgrade with its node in place", waits, cfg(nil, reader, budget{guest: 1}, plain), stuck},
		{"reads, and waits for somebody upgradable", ruled(Read{}, "whoever is a writer for Curator blocks"), cfg(nil, reader, budget{}, options{}), apart},
		{"upgrades beside readers who came in beside it", upgradesAs("nobody behind it reads"), cfg(nil, reader, budget{}, plain), twoHolders},
		{"upgrades, and waits for Curator's readers, who wait for it", upgradesAs("all readers block"),
			cfg(nil, reader, budget{foreign: 1}, options{readers: true}), stuck},
		{"upgrades, and waits for readers behind a writer who waits for it", upgradesAs("writers are no wall"),
			cfg(nil, reader, budget{guest: 1}, options{}), stuck},
		{"upgrades, and waits for a writer who waits for it", upgradesAs("older writers block"), cfg(nil, writes, budget{}, options{}), stuck},
		{"is upgradable beside another one", ruled(Upgradable{}, "upgradables do not block"), cfg(Upgradable{}, 0, budget{}, plain), twoHolders},
		{"claims an upgrade without the upgradable reader's node", nil,
			cfg(nil, writes, budget{remove: 1}, options{plain: true, shell: shellOneNode}), between},
		{"gives the upgradable reader's node up while somebody upgrades", nil,
			cfg(nil, writes, budget{}, options{shell: shellLetsGo}), noHold},
		{"upgrades, and leaves a floor", after(func(m, next Machine, _ Input, effects []Effect) (Machine, []Effect) {
			for i, e := range effects {
				if d, ok := e.(Delete); ok && m.upgrades() && m.state == Held {
					d.Floor = true
					effects[i] = d
				}
			}
			return next, effects
		}), cfg(nil, reader, budget{}, options{}), falseFloor},
		{"has an upgrade's own zxid for its token", nil, cfg(nil, writes, budget{}, options{shell: shellOwnFence}), tokenOrder},
		{"has the upgradable reader's token for its upgrade", nil, cfg(nil, reader, budget{}, options{shell: shellLowFence}), tokenOrder},
		{"leaves its node when the upgradable reader's has gone", after(func(m, next Machine, _ Input, effects []Effect) (Machine, []Effect) {
			if m.upgrades() && m.epoch != 0 {
				return next, without[Discard](effects)
			}
			return next, effects
		}), cfg(nil, reader, budget{remove: 1}, options{ownWatch: true}), leftBehind},
	}
}
