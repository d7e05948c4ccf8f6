package mutants

// ofCrashes are mistakes with the record that tells of holders who did not release.
func ofCrashes() []mutant {
	const (
		machine, shell, holders       = "recipes/crash.go", "session/crash.go", "session/holders.go"
		transitions                   = "TestCrashTransitions"
		told, untaken, lost, giveUp   = "TestACrashIsTold", "TestAGrantThatNobodyTookIsNoCrash", "TestLostRepliesOfAClaimAndARelease", "TestGivingUpWhileTheClaimIsUnderWay"
		quicker                       = "TestTheRecordGoesWithWhoWasQuicker"
		stands, readers, several, bad = "TestARecordStandsWhileTheLockIsHeld", "TestReadersAreTold", "TestCrashOfOneOfSeveral", "TestCrashBadInput"
	)
	return []mutant{
		{
			name:   "alone without a record",
			breaks: "grants a lock that tells of crashes to one who is alone, and makes no record",
			edits:  []edit{in("recipes/machine.go", `	if m.detect || m.stale(fresh) {`, `	if m.stale(fresh) {`)},
			found:  finder{"recipes", transitions},
			also:   finder{"coordinator", told},
		},
		{
			name:   "record kept",
			breaks: "leaves the record though the holder has released",
			edits:  []edit{in(machine, `			m.clean = in.Why == WhyReleased`, `			m.clean = false`)},
			found:  finder{"recipes", transitions},
			also:   finder{"coordinator", stands},
		},
		{
			name:   "panic is a release",
			breaks: "takes the record along when the function of Do panics",
			edits:  []edit{in("coordinator/acquisition.go", `a.actor.Withdraw(recipes.WhyPanicked)`, `a.actor.Withdraw(recipes.WhyReleased)`)},
			found:  finder{"coordinator", told},
		},
		{
			name:   "Close is a release",
			breaks: "takes the record along when the coordinator is closed under a holder",
			edits:  []edit{in(machine, `in.Why == WhyReleased`, `in.Why == WhyReleased || in.Why == WhyClosed`)},
			found:  finder{"recipes", transitions},
			also:   finder{"coordinator", told},
		},
		{
			name:   "cancelled is a release",
			breaks: "takes the record along when a function returns because Close has cancelled it",
			edits:  []edit{in("actors/lock.go", `cmp.Or(l.withdrawn, why)`, `cmp.Or(why, l.withdrawn)`)},
			found:  finder{"coordinator", told},
		},
		{
			name:   "somebody's record taken along",
			breaks: "removes the record of one who has crashed though nobody took the Grant that tells of it",
			edits:  []edit{in(machine, "		m.clean = m.recorded\n		if in.Taken {", "		m.clean = true\n		if in.Taken {")},
			found:  finder{"recipes", transitions},
			also:   finder{"coordinator", untaken},
		},
		{
			name:   "record of nobody",
			breaks: "leaves its record though nobody took the Grant",
			edits:  []edit{in(machine, "		m.clean = m.recorded\n		if in.Taken {", "		m.clean = false\n		if in.Taken {")},
			found:  finder{"recipes", transitions},
			also:   finder{"coordinator", untaken},
		},
		{
			name:   "claim not awaited",
			breaks: "gives up while a claim is under way, and leaves the record that it makes",
			edits:  []edit{in("recipes/news.go", `m.state == Claiming && m.records():`, `m.state == Claiming && m.removed:`)},
			found:  finder{"recipes", transitions},
			also:   finder{"coordinator", giveUp},
		},
		{
			name:   "own record taken for another's",
			breaks: "tells of a crash when the answer to its own claim was lost",
			edits:  []edit{in(shell, `h.node == path.Base(e.Node) {`, `h.node == "" {`)},
			found:  finder{"coordinator", lost},
		},
		{
			name:   "lost taken for released",
			breaks: "removes the record when the node was gone before the release",
			edits: []edit{in(shell, `		return recipes.Deleted{Epoch: e.Epoch}, nil
	case refused && failed == 2:`, `		_ = c.conn.Delete(record, anyVersion)
		return recipes.Deleted{Epoch: e.Epoch}, nil
	case refused && failed == 2:`)},
			found: finder{"coordinator", told},
		},
		{
			name:   "one of several crashed",
			breaks: "takes the record along if the last of those who held together has released",
			edits:  []edit{in("session/share.go", `sh.dirty || !r.clean`, `sh.dirty`)},
			found:  finder{"coordinator", several},
		},
		{
			name:   "own writer's crash",
			breaks: "tells a reader in the place of its own writer that this one has crashed",
			edits:  []edit{in(shell, `if t.in != nil && h.token == t.lent {`, `if t.in == nil && h.token == t.lent {`)},
			found:  finder{"coordinator", readers},
		},
		{
			name:   "release taken for a crash",
			breaks: "tells a reader in the place of its own writer that this one has crashed, which released while the reader looked",
			edits:  []edit{in(shell, `case !stands || now.Czxid != stat.Czxid:`, `case stands && now.Czxid != stat.Czxid:`)},
			found:  finder{"coordinator", "TestAWriterThatReleasesWhileItsReaderLooks"},
		},
		{
			name:   "slower than the loss",
			breaks: "takes for a crash what was released in the moment of the loss",
			edits:  []edit{in("recipes/ending.go", "	case m.records():\n		m.state = Lapsed\n", "")},
			found:  finder{"actors", quicker},
			also:   finder{"recipes", transitions},
		},
		{
			name:   "kept for nobody",
			breaks: "keeps the node of a lock that was lost until its caller releases",
			edits:  []edit{in("actors/drain.go", `if !read || l.detect && !l.keep {`, `if !read {`)},
			found:  finder{"actors", quicker},
		},
		{
			name:   "claimant forgotten",
			breaks: "grants a claim, and does not tell its loss, if a lease ran out while it was under way",
			edits:  []edit{in(holders, "	_, held := s.holders[r.seat]\n	return held", "	return true")},
			found:  finder{"coordinator", "TestALeaseThatEndsBetweenTheProofAndTheClaim"},
		},
		{
			name:   "late claim unwatched",
			breaks: "does not watch the node of a lock that is claimed when a connection, or a lease, has ended behind the create",
			edits:  []edit{in(holders, `{ delete(s.holders, seat) }`, `{ delete(s.holders, seat); delete(s.bare, seat) }`)},
			found:  finder{"session", "TestTheNodeOfALateClaimIsWatched"},
		},
		{
			name:   "late claim of one node",
			breaks: "turns the transactions of an unfair lock's holder down if it has claimed",
			edits:  []edit{in(holders, `{ delete(s.holders, seat) }`, `{ delete(s.holders, seat); seat.layout.told(false) }`)},
			found:  finder{"session", "TestTheOneNodeOfALateClaimIsKnown"},
		},
		{
			name:   "holder again",
			breaks: "lets others enter a lock that is lost, if it was being verified",
			edits:  []edit{in(holders, `; !held { // else it asks`, `; !held || held { // else it asks`)},
			found:  finder{"session", "TestWhoHasLostIsNoHolderAgain"},
		},
		{
			name:   "reader with a record",
			breaks: "has readers make records",
			edits:  []edit{in(machine, `	case m.rule.Exclusive():`, `	case m.detect:`)},
			found:  finder{"recipes", "TestReadersMakeNoRecord"},
			also:   finder{"coordinator", readers},
		},
		{
			name:   "any node is a record",
			breaks: "takes somebody's node for a record, and removes it",
			edits:  []edit{in(shell, `	rest, ok := bytes.CutPrefix(data, []byte(recordMagic))`, "	rest, ok := bytes.CutPrefix(data, []byte(recordMagic))\n	ok = true")},
			found:  finder{"coordinator", "TestARecordThatIsNone"},
		},
		{
			name:   "record that stays, unsaid",
			breaks: "does not say that the record of a release may not be removed",
			edits:  []edit{in(shell, `!gone || errors.Is(err, zk.ErrNoNode) {`, `!gone || err != nil {`)},
			found:  finder{"coordinator", "TestRecordPermissions"},
		},
		{
			name:   "record by the server's name",
			breaks: "names the node of one who has crashed with the chroot before it",
			edits:  []edit{in(shell, `strings.TrimPrefix(t.dir, t.session.chroot)`, `t.dir`)},
			found:  finder{"coordinator", "TestCrashBelowChroots"},
		},
		{
			name:   "with and without",
			breaks: "lets one coordinator use a path with the option and without",
			edits:  []edit{in("coordinator/crash.go", ` && l.cfg.detect == o.cfg.detect`, ``)},
			found:  finder{"coordinator", bad},
		},
	}
}
