package mutants

// ofUpgrade are mistakes of upgradable readers, and of their upgrades.
func ofUpgrade() []mutant {
	return []mutant{
		{
			name:   "two upgradable readers",
			breaks: "lets two hold together of whom each may upgrade, and neither ever could",
			edits: []edit{in("recipes/upgrade.go", `	return nearestOlder(queue, me, func(k events.Kind) bool { return !k.Reads() })`,
				`	return Read{}.Blockers(queue, me)`)},
			found: finder{"recipes", "TestWhoIsBesideAnUpgradableReader"},
			also:  finder{"coordinator", "TestUpgrade"},
		},
		{
			name:   "readers behind an upgradable one",
			breaks: "lets an upgrade in beside readers who came in beside it",
			edits:  []edit{in("recipes/upgrade.go", `besides(c) && c.Seq < writer {`, `besides(c) && c.Seq < u.Of {`)},
			found:  finder{"recipes", "TestWhomAnUpgradeWaitsFor"},
			also:   finder{"coordinator", "TestUpgrade"},
		},
		{
			name:   "Curator's readers behind an upgradable one",
			breaks: "has an upgrade wait for readers of Curator's who wait for it",
			edits:  []edit{in("recipes/upgrade.go", `besides(c) && c.Seq < writer {`, `c.Seq < writer || besides(c) && c.Seq < writer {`)},
			found:  finder{"recipes", "TestWhomAnUpgradeWaitsFor"},
			also:   finder{"coordinator", "TestCuratorsReadersWaitForAnUpgradableOne"},
		},
		{
			name:   "readers behind a writer who waits",
			breaks: "has an upgrade wait for readers who wait for a writer who waits for it",
			edits:  []edit{in("recipes/upgrade.go", `besides(c) && c.Seq < writer {`, `besides(c) && c.Seq < me.Seq {`)},
			found:  finder{"recipes", "TestWhomAnUpgradeWaitsFor"},
			also:   finder{"coordinator", "TestAReaderGivesWayToAnUpgrade"},
		},
		{
			name:   "reader that does not give way",
			breaks: "lets a reader in beside an upgrade that did not wait for it, because a writer stood between who has given up",
			edits:  []edit{in("recipes/upgrade.go", `c.Kind == events.KindUpgrade && c.Seq > me.Seq {`, `c.Kind == events.KindUpgrade && c.Seq > me.Seq && false {`)},
			found:  finder{"recipes", "TestWhoGivesWay"},
			also:   finder{"coordinator", "TestAReaderGivesWayToAnUpgrade"},
		},
		{
			name:   "reader that does not look again",
			breaks: "lets a reader in when the one writer ahead has gone, without a look for somebody who upgrades",
			edits:  []edit{in("recipes/machine.go", `case m.beside, replaceable(`, `case replaceable(`)},
			found:  finder{"recipes", "TestAReaderBehindSomebodyUpgradableLists"},
			also:   finder{"coordinator", "TestAReaderGivesWayToAnUpgrade"},
		},
		{
			name:   "second node left",
			breaks: "leaves the node of an upgrade when that of its upgradable reader has gone",
			edits:  []edit{in("recipes/semaphore.go", ` || m.upgrades() && m.epoch != 0`, ``)},
			found:  finder{"recipes", "TestAnUpgradeHasTwoNodes"},
			also:   finder{"coordinator", "TestAnUpgradeIsLostWithEitherNode"},
		},
		{
			name:   "upgrade of nothing",
			breaks: "makes the node of an upgrade again and again when that of its upgradable reader has gone",
			edits: []edit{in("session/upgrade.go", `c.conn.Multi(&zk.CheckVersionRequest{Path: l.node, Version: anyVersion}, t.createRequest(id))`,
				`c.conn.Multi(&zk.CheckVersionRequest{Path: t.dir, Version: anyVersion}, t.createRequest(id))`)},
			found: finder{"coordinator", "TestAnUpgradeIsLostWithEitherNode"},
		},
		{
			name:   "claim of one node",
			breaks: "does not check, watch or know that an upgrade is worth nothing without its upgradable reader's node",
			edits:  []edit{in("session/upgrade.go", `		l.both = []string{own, l.node}`, `		l.both = []string{own}`)},
			found:  finder{"coordinator", "TestAnUpgradeIsLostWithEitherNode"},
		},
		{
			name:   "upgradable reader's node goes with its release",
			breaks: "lets writers in beside an upgrade when the upgradable lock is released",
			edits:  []edit{in("session/upgrade.go", "	sh.seats = append(sh.seats, x)\n", "")},
			found:  finder{"coordinator", "TestAnUpgradeInAnyOrder"},
		},
		{
			name:   "upgradable reader's node left",
			breaks: "leaves the upgradable reader's node when the upgrade is the last to be released",
			edits:  []edit{in("session/upgrade.go", `	r.seat.raised.last = sh != nil && len(sh.seats) == 1`, `	r.seat.raised.last = sh != nil && len(sh.seats) == 0`)},
			found:  finder{"coordinator", "TestAnUpgradeInAnyOrder"},
		},
		{
			name:   "upgradable reader's node left by one that ended",
			breaks: "leaves the upgradable reader's node if the upgrade was the last to have it and ends without a node of its own",
			edits:  []edit{in("session/mailbox.go", "		s.leaveRaised(m.seat)\n", "")},
			found:  finder{"session", "TestTheLastHasBothNodes"},
		},
		{
			name:   "upgrade with its own zxid",
			breaks: "gives an upgrade a token that is greater than that of a writer who waits for longer",
			edits:  []edit{in("session/upgrade.go", `			return stat.Czxid - 1, nil`, `			return max(stat.Czxid, listed.Own.Token), nil`)},
			found:  finder{"session", "TestTheTokenOfAnUpgrade"},
			also:   finder{"coordinator", "TestTheReplyToAnUpgradeIsLost"},
		},
		{
			name:   "upgrade joined to a release",
			breaks: "makes one request of a release and the create of an upgrade, without a check of the upgradable reader's node",
			edits:  []edit{in("session/upgrade.go", `func (l *raised) joins() bool { return false }`, `func (l *raised) joins() bool { return true }`)},
			found:  finder{"session", "TestAnUpgradeIsNotJoinedToARelease"},
		},
		{
			name:   "upgrade beside one's own reading",
			breaks: "has whoever reads as well wait for himself when he upgrades",
			edits: []edit{in("coordinator/acquisition.go", `			deadlock = deadlock || held.lock.rule != recipes.Rule(recipes.Upgradable{})
`, `			deadlock = deadlock && held.lock.rule != recipes.Rule(recipes.Upgradable{})
`)},
			found: finder{"coordinator", "TestWhoMayUpgrade"},
		},
		{
			name:   "upgrade that is entered again",
			breaks: "lets an upgrade be entered again, which removes one of its nodes and not the other",
			edits:  []edit{in("coordinator/acquisition.go", ` && !recipes.Single(l.rule) && !held.seat.Upgrades():`, ` && !recipes.Single(l.rule):`)},
			found:  finder{"coordinator", "TestWhoMayUpgrade"},
		},
		{
			name:   "upgrade behind another one",
			breaks: "grants the second of two upgrades with the token that it had when it began to wait",
			edits:  []edit{in("recipes/machine.go", `m.upgrades() && kindOf(m.older[0]) == events.KindUpgrade:`, `false:`)},
			found:  finder{"recipes", "TestAnUpgradeBehindAnotherOneLists"},
			also:   finder{"coordinator", "TestTokensOfTwoUpgrades"},
		},
		{
			name:   "half of an upgrade",
			breaks: "forgets an upgrade's node that is found when the upgradable reader's is gone",
			edits: []edit{in("session/upgrade.go", `		listed.Parted = true`,
				`		listed.Own = recipes.Own{}`)},
			found: finder{"coordinator", "TestAnUpgradeWhoseReplyIsLostWithTheUpgradableNode"},
		},
	}
}
