package mutants

// ofReentry are mistakes about a lock that is entered again.
func ofReentry() []mutant {
	const door, share = "coordinator/acquisition.go", "session/share.go"
	return []mutant{
		{
			name:   "entered without the option",
			breaks: "lets one who holds a lock enter it again though the handle does not say so",
			edits:  []edit{in(door, `case l.cfg.reentrant && held`, `case held`)},
			found:  finder{"coordinator", "TestWithoutTheOptionItIsADeadlock"},
		},
		{
			name:   "other side entered",
			breaks: "lets a reader write, and a writer read, as if it were the same lock",
			edits:  []edit{in(door, `l.cfg.reentrant && held.lock.rule == l.rule && !`, `l.cfg.reentrant && !`)},
			found:  finder{"coordinator", "TestTheSidesOfAReadWriteLock"},
		},
		{
			name:   "unfair lock entered again",
			breaks: "lets one enter an unfair lock again, whose node can have one owner",
			edits:  []edit{in(door, ` && !recipes.Single(l.rule)`, ``)},
			found:  finder{"coordinator", "TestAnUnfairLockIsNotEnteredAgain"},
		},
		{
			name:   "node goes with the first",
			breaks: "gives the node up with the first release though others hold the lock",
			edits:  []edit{in(share, `	if len(sh.seats) == 1 {`, `	if len(sh.seats) > 0 {`)},
			found:  finder{"session", "TestTheNodeGoesWithTheLast"},
			also:   finder{"coordinator", "TestNobodyElseComesInBeforeTheLastRelease"},
		},
		{
			name:   "node goes with nobody",
			breaks: "does not give the node up with the last release",
			edits:  []edit{in(share, `	if len(sh.seats) == 1 {`, `	if len(sh.seats) == 0 {`)},
			found:  finder{"session", "TestTheNodeGoesWithTheLast"},
		},
		{
			name:   "floor of the first forgotten",
			breaks: "leaves no floor if the last one to leave is not the one that has waited",
			edits:  []edit{in(share, "r.floor, r.clean = sh.floor, !sh.dirty", "r.clean = !sh.dirty")},
			found:  finder{"session", "TestAnUnknownEndOfTheLastIsTriedAgain"},
		},
		{
			name:   "place that another one gave",
			breaks: "leaves a floor behind one who entered a lock whose place a reader had taken",
			edits:  []edit{in(share, "	seat.shared = owner.shared\n", "")},
			found:  finder{"coordinator", "TestAPlaceThatAReaderTookIsNoFloor"},
		},
		{
			name:   "place that the other ones gave",
			breaks: "leaves a floor behind one of several owners though another one has let a reader take the place",
			edits: []edit{in("session/downgrade.go", `		for _, w := range s.together(writer) {
			w.shared = true
		}
`, `		writer.shared = true
`)},
			found: finder{"coordinator", "TestAPlaceThatAReaderTookIsNoFloor"},
		},
		{
			name:   "join of one who has gone",
			breaks: "lets one enter with a lock that is not held any more",
			edits: []edit{in(share, `		if _, holds := s.holds(owner); holds {
			return owner`, `		if _, holds := s.holds(owner); holds || owner != nil {
			return owner`)},
			found: finder{"session", "TestJoinsAndReleasesInEveryOrder"},
		},
		{
			name:   "join of a lease that has run out",
			breaks: "lets one enter with a lock whose lease has run out",
			edits:  []edit{in(share, `len(seat.with) == 0 || !s.clock.now().Before(s.client.lease.deadline())`, `len(seat.with) == 0`)},
			found:  finder{"session", "TestALeaseThatHasRunOutUnnoticedLetsNobodyJoin"},
		},
		{
			name:   "one hears of the loss",
			breaks: "tells one of several owners that the node is gone",
			edits:  []edit{in(share, "		if other != seat {\n", "		if other == nil {\n")},
			found:  finder{"session", "TestEachIsToldThatTheNodeIsGone"},
		},
		{
			name:   "joiner not counted as a holder",
			breaks: "does not watch over the lease of one who has entered a lock again",
			edits:  []edit{in(share, "	s.holders[seat] = node\n", "")},
			found:  finder{"session", "TestWhoJoinsHasTheNodeForNothing"},
		},
		{
			name:   "session not told of a loss",
			breaks: "lets one enter with a lock that is lost and whose node stays for a function",
			edits:  []edit{in("actors/drain.go", "	p.Lapse() // before", "	// before")},
			found:  finder{"actors", "TestTheSessionHearsOfALossBeforeTheCaller"},
			also:   finder{"coordinator", "TestNobodyEntersBehindARevocation"},
		},
		{
			name:   "caller first",
			breaks: "tells the session of a loss when the caller knows already",
			edits:  []edit{in("actors/drain.go", "	p.Lapse() // before", "	defer p.Lapse() // before")},
			found:  finder{"actors", "TestTheSessionHearsOfALossBeforeTheCaller"},
		},
		{
			name:   "loss noticed late",
			breaks: "lets one enter, read beside it, or upgrade while the news of the loss waits behind that",
			edits:  []edit{in("session/holders.go", "ok && !seat.lapsed.Load()", "ok")},
			found:  finder{"session", "TestNobodyComesToWhoHasLapsed"},
		},
		{
			name:   "holder again by its last question",
			breaks: "takes one for a holder whose question, asked before the loss, is answered behind it",
			edits:  []edit{in("session/mailbox.go", "	case lapsing:\n		s.gaveUp(m.seat)\n", "	case lapsing:\n")},
			found:  finder{"session", "TestWhoVerifiesBehindItsLossIsNoHolderAgain"},
			also:   finder{"session", "TestNoTransactionBehindALoss"},
		},
	}
}
