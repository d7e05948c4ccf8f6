package mutants

// ofRevocation are mistakes with holders who are asked to give a lock back by a deadline, and with those who ask.
func ofRevocation() []mutant {
	const (
		told    = "TestARevokedHolderLosesTheLockAtTheDeadline"
		noInput = "TestRevokeOfWhatCannotBeRevoked"
		removed = "TestAHolderWhoHearsNothingIsRemoved"
	)
	return []mutant{
		{
			name:   "deadline not kept",
			breaks: "keeps a lock beyond the deadline by which it was to be given back",
			edits:  []edit{in("recipes/news.go", `	return m.lose(events.ReasonRevoked)`, `	return nil`)},
			found:  finder{"recipes", "TestMachineTransitions"},
			also:   finder{"coordinator", told},
		},
		{
			name:   "deadline before the loss",
			breaks: "gives the node of a revoked lock up before the holder is told",
			edits: []edit{in("recipes/news.go", `	return m.lose(events.ReasonRevoked)`,
				`	effects := m.release()
	m.why = WhyLost
	return m.finish(append(effects, Lose{Reason: events.ReasonRevoked}))`)},
			found: finder{"recipes", "TestMachineTransitions"},
		},
		{
			name:   "first deadline for ever",
			breaks: "does not hear that a lock is wanted back sooner than was said at first",
			edits:  []edit{in("recipes/news.go", `(m.by == 0 || in.By < m.by)`, `m.by == 0`)},
			found:  finder{"recipes", "TestMachineTransitions"},
			also:   finder{"coordinator", "TestTheWishThatLeavesTheLeastTimeCounts"},
		},
		{
			name:   "latest deadline",
			breaks: "goes by the deadline that was heard last, so that asking again gives a holder more time",
			edits:  []edit{in("recipes/news.go", `(m.by == 0 || in.By < m.by)`, `in.By != m.by`)},
			found:  finder{"recipes", "TestMachineTransitions"},
		},
		{
			name:   "grace anew",
			breaks: "lets the time of a wish begin anew whenever the node is read",
			edits: []edit{in("session/watches.go", `before != 0 && (by == 0 || before < by)`,
				`before != 0 && by == 0`)},
			found: finder{"session", "TestWatchesKnowTheSoonestWish"},
		},
		{
			name:   "deadline for everybody",
			breaks: "takes a lock away from a holder who has not agreed to that",
			edits:  []edit{in("session/revoke.go", `ours && marks&events.MarkRevocable != 0`, `ours && marks <= 15`)},
			found:  finder{"coordinator", "TestAWishToOneWhoHasNotAgreedSetsNoTime"},
		},
		{
			name:   "asks everybody",
			breaks: "asks holders for a lock who have not agreed to give it back",
			edits:  []edit{in("session/visit.go", `ours && marks&events.MarkRevocable == 0`, `!ours && marks > 0`)},
			found:  finder{"coordinator", noInput},
		},
		{
			name:   "lost data",
			breaks: "writes the wish to have a lock back in the place of what the holder has stored",
			edits:  []edit{in("session/wish.go", `w.grace/time.Millisecond), user...)`, `w.grace/time.Millisecond), user[:0]...)`)},
			found:  finder{"session", "TestWishesAreReadAsTheyAreWritten"},
			also:   finder{"coordinator", told},
		},
		{
			name:   "wish shown",
			breaks: "shows the wish to have a lock back as a part of what its holder has stored",
			edits:  []edit{in("coordinator/look.go", `session.UserData(f.Data)`, `f.Data[:len(session.UserData(f.Data))+len(f.Data)-len(session.UserData(f.Data))]`)},
			found:  finder{"coordinator", told},
		},
		{
			name:   "no patience",
			breaks: "removes a holder at the end of the grace, while he is giving the lock back",
			edits:  []edit{in("session/visit.go", `h.until.Add(h.of.session.patience())`, `h.until`)},
			found:  finder{"coordinator", "TestDoIsCancelledAtTheDeadlineAndKeepsTheNode"},
		},
		{
			name:   "patience without a probe",
			breaks: "removes a holder who is cut off before his lease ends, because he has written for another lock since he was asked",
			edits:  []edit{in("session/revoker.go", `return s.Timeout() + s.Timeout()/probeMin`, `return s.Timeout() + 0*s.Timeout()/probeMin`)},
			found:  finder{"coordinator", "TestAHolderWhoIsCutOffLosesItBeforeHeIsRemoved"},
		},
		{
			name:   "endless patience",
			breaks: "never removes a holder who does not hear that he is asked",
			edits:  []edit{in("session/revoker.go", `func() { s.actor.Post(impatient{h}) }`, `func() {}`)},
			found:  finder{"coordinator", removed},
		},
		{
			name:   "wish overwritten",
			breaks: "does not notice that a leader has overwritten the wish by what it proclaims",
			edits: []edit{in("session/visit.go", `	case !standing.stands:
		return true`, `	case !standing.stands:
		return !asked`)},
			found: finder{"session", "TestAWishIsWrittenIfItSaysSomethingNew"},
			also:  finder{"coordinator", "TestAProclamationDoesNotOverruleAWish"},
		},
		{
			name:   "another node of the name",
			breaks: "removes a later holder whose node bears the name of the one who was asked",
			edits:  []edit{in("session/visit.go", `h.born != 0 && stat.Czxid != h.born`, `h.born != 0 && stat.Czxid < h.born`)},
			found:  finder{"coordinator", "TestANodeThatBearsTheNameOfAnotherIsLeftAlone"},
		},
		{
			name:   "forgotten in the next session",
			breaks: "does not look after those it has asked on another connection, or in another session",
			edits: []edit{in("session/observe.go", `		r.lookAgain(c)
`, `		_ = r
`)},
			found: finder{"coordinator", "TestRevokeHearsOfTheEndInAnotherSession"},
		},
		{
			name:   "asked all the same",
			breaks: "asks for a lock on behalf of somebody who has given up long ago, as soon as there is a connection",
			edits: []edit{in("session/revoker.go", `return r.drops(q)`, `return false && r.drops(q)`),
				in("session/visit.go", `	if l.of.over.Load() {
		return func(*Session) {}, nil
	}
`, ``), in("session/visit.go", `		case l.of.over.Load():
`, ``), in("session/revoker.go", `	case h.of.over.Load():
`, ``), in("session/revoker.go", `r.visits < mostVisits && !r.over.Load()`, `r.visits < mostVisits`),
				in("session/visit.go", `	if !v.holder.of.over.Load() { // else nobody waits
		err = v.holder.see(c)
	}
`, `	err = v.holder.see(c)
`)},
			found: finder{"coordinator", "TestRevokeWithoutAConnectionLeavesNothing"},
		},
		{
			name:   "stale look",
			breaks: "asks whoever a server knows to hold that has fallen behind, and not who does",
			edits: []edit{in("session/visit.go", `	if outcome, err := c.barrier(r.dir); outcome != Done {
		return nil, nil, err
	}
`, ``)},
			found: finder{"coordinator", "TestRevokeSeesWhoWasGrantedBefore"},
		},
	}
}
