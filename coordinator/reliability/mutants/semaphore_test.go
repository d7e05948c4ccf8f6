package mutants

// ofSemaphore are mistakes of semaphores.
func ofSemaphore() []mutant {
	const machine, requests, lookouts = "recipes/semaphore.go", "session/semaphore.go", "session/lookouts.go"
	steps := finder{"recipes", "TestSemaphoreSteps"}
	enter := finder{"session", "TestSurveyAndEnter"}
	const outOfTurn = "TestALeaseOutOfTurnIsSeenInTime"
	return []mutant{
		{
			name:   "one permit too many",
			breaks: "lets one in when there is no permit left",
			edits: []edit{in(machine, `int64(in.Taken)+int64(s.Permits) <= int64(in.Size)`,
				`int64(in.Taken)+int64(s.Permits) <= int64(in.Size)+1`)},
			found: steps, // and whoever enters counts once more, so nobody else finds it
		},
		{
			name:   "permits one at a time",
			breaks: "lets one in who wants several when there is one",
			edits:  []edit{in(machine, `int64(in.Taken)+int64(s.Permits) <= int64(in.Size)`, `int64(in.Taken) < int64(in.Size)`)},
			found:  steps,
		},
		{
			name:   "nobody is first",
			breaks: "lets in whoever finds room, without an order, and several at once",
			edits:  []edit{in(machine, `	return Mutex{}.Blockers(queue, me)`, `	return nil`)},
			found:  steps,
			also:   finder{"coordinator", "TestPermitsAreGivenOutInOrder"},
		},
		{
			name:   "sizes not compared",
			breaks: "does not see that others believe in another size",
			edits:  []edit{in(machine, `case !m.permits.settled && !s.Adopt && size != s.Size:`, `case false:`)},
			found:  finder{"coordinator", "TestSizesMustAgree"},
		},
		{
			name:   "adopted size refused",
			breaks: "ends for another opinion of the size though whatever size there is was to be taken",
			edits:  []edit{in(machine, `case !m.permits.settled && !s.Adopt && size != s.Size:`, `case !m.permits.settled && size != s.Size:`)},
			found:  finder{"coordinator", "TestSizesMustAgree"},
		},
		{
			name:   "sizes compared for ever",
			breaks: "ends a waiter whose semaphore was resized",
			edits:  []edit{in(machine, `case !m.permits.settled && !s.Adopt && size != s.Size:`, `case !s.Adopt && size != s.Size:`)},
			found:  finder{"coordinator", "TestResizeWakesWhomItAdmits"},
		},
		{
			name:   "waits for more than there are",
			breaks: "keeps everybody waiting behind one who wants more permits than there are",
			edits:  []edit{in(machine, "	case s.Permits > size:\n", "	case s.Permits > size && size == 0:\n")},
			found:  finder{"coordinator", "TestWhoWantsMoreThanThereAreLetsTheOthersThrough"},
		},
		{
			name:   "news that overtake a survey",
			breaks: "waits for ever when a permit was given back while it was asking",
			edits:  []edit{in(machine, "	case m.permits.changed:\n		return m.look()\n", "")},
			found:  steps,
		},
		{
			name:   "full without a watch",
			breaks: "waits for room, of which nobody will tell it",
			edits:  []edit{in(machine, "	case !m.permits.full:\n", "	case m.removed:\n")},
			found:  steps,
		},
		{
			name:   "changes not looked into",
			breaks: "does nothing when a permit is given back",
			edits:  []edit{in(machine, "	case m.state == Full:\n", "	case m.state == Full && m.removed:\n")},
			found:  steps,
		},
		{
			name:   "leases of the past",
			breaks: "leaves leases behind that a session made which is over for it",
			edits:  []edit{in(machine, `			effects = append(effects, Discard{Node: lease})`, `			_ = lease`)},
			found:  steps,
		},
		{
			name:   "leases of one who has gone",
			breaks: "keeps the leases of one who was withdrawn while he was let in",
			edits: []edit{in(machine, `	m.lease(in.Leases[0])
	switch {
	case m.why != 0:
		return m.release()`, `	m.lease(in.Leases[0])
	switch {
	case m.why != 0:
		return m.over()`)},
			found: steps,
		},
		{
			name:   "lease out of turn",
			breaks: "enters beside a lease that was made while it entered",
			edits:  []edit{in(machine, `	case in.Taken > m.permits.size:`, `	case false:`)},
			found:  steps,
			also:   finder{"coordinator", outOfTurn},
		},
		{
			name:   "lease out of turn, found again",
			breaks: "the same, when the answer to its transaction was lost",
			edits:  []edit{in(machine, `	case taken > m.permits.size:`, `	case false:`)},
			found:  steps,
			also:   finder{"coordinator", outOfTurn},
		},
		{
			name:   "count of another directory",
			breaks: "does not count the leases when their directory is not one of ours",
			edits: []edit{in(requests, `	if entered.Taken, err = c.taken(t, false); err != nil {`,
				`	if err != nil {`)},
			found: finder{"coordinator", outOfTurn},
		},
		{
			name:   "rest of the leases",
			breaks: "leaves the other leases behind when one was found to be gone",
			edits:  []edit{in(machine, `	return []Effect{Discard{Node: m.own.Name.Text}}`, `	return nil`)},
			found:  steps,
		},
		{
			name:   "try that waits for room",
			breaks: "waits for a permit though it was only to try",
			edits: []edit{in(machine, `	case why == 0 && m.try:
`, `	case why == 0 && m.try && looking:
`)},
			found: steps,
		},
		{
			name:   "size of a while ago",
			breaks: "is let in by a size that is not the size any more",
			edits:  []edit{in(requests, `Path: t.permits.size, Version: e.Version}`, `Path: t.permits.size, Version: anyVersion}`)},
			found:  enter,
		},
		{
			name:   "place kept",
			breaks: "makes leases without giving up its place in the queue",
			edits: []edit{in(requests, `		&zk.DeleteRequest{Path: own, Version: anyVersion})
	prefix`, `		&zk.CheckVersionRequest{Path: own, Version: anyVersion})
	prefix`)},
			found: enter,
		},
		{
			name:   "leases that stay",
			breaks: "makes leases that outlive the session",
			edits: []edit{in(requests, `prefix, Data: t.data, Acl: t.acl, Flags: zk.FlagEphemeral | zk.FlagSequence}`,
				`prefix, Data: t.data, Acl: t.acl, Flags: zk.FlagSequence}`)},
			found: finder{"session", "TestTheReplyToAnEnterIsLost"},
			also:  finder{"coordinator", "TestTheEndOfASessionFreesItsPermits"},
		},
		{
			name:   "one lease given back",
			breaks: "gives one of its leases back, as often as it has leases",
			edits: []edit{in("session/leases.go", `		ops[i] = &zk.DeleteRequest{Path: lease, Version: anyVersion}
`, `		ops[i] = &zk.DeleteRequest{Path: leases[0*len(lease)], Version: anyVersion}
`)},
			found: finder{"coordinator", "TestAFreePermitTakesThreeRoundTrips"},
		},
		{
			name:   "release undone by a lease that is gone",
			breaks: "takes its leases for given back though one of them was gone, which undid all of it",
			edits: []edit{in("session/leases.go", `		return classified(e.Epoch, recipes.OpDelete, outcome, err)
	}
	var failed`, `		return classified(e.Epoch, recipes.OpDelete, outcome, err)
	case outcome == Refused:
		return recipes.Deleted{Epoch: e.Epoch}, nil
	}
	var failed`)},
			found: finder{"session", "TestTheReplyToAnEnterIsLost"},
			also:  finder{"coordinator", "TestAPermitThatIsDeletedByHand"},
		},
		{
			name:   "leases not looked for",
			breaks: "forgets the leases that it was given in a reply that was lost",
			edits:  []edit{in("session/leases.go", `if e.Barrier && listed.Own == (recipes.Own{}) {`, `if e.Size && e.Barrier {`)},
			found:  finder{"session", "TestTheReplyToAnEnterIsLost"},
		},
		{
			name:   "no directory for leases",
			breaks: "gives up when there is no directory for leases",
			edits:  []edit{in(requests, `case missing && failed > opOwn && failed != floor:`, `case missing && failed > 1<<20:`)},
			found:  enter,
			also:   finder{"coordinator", "TestNoMorePermitsThanThereAre"},
		},
		{
			name:   "end by a resize",
			breaks: "ends a waiter because the size was changed when it was about to be let in",
			edits:  []edit{in(requests, `Op: recipes.OpEnter, Stale: true}`, `Op: recipes.OpEnter}`)},
			found:  enter,
		},
		{
			name:   "lookouts trusted after a reconnect",
			breaks: "believes that leases are watched as before when it has connected again",
			edits: []edit{in(lookouts, `		p.armed = false
		p.fires++
		l.keep(path, p)
	}
}

// forget`, `		p.fires++
		l.keep(path, p)
	}
}

// forget`)},
			found: finder{"session", "TestLookouts"},
		},
		{
			name:   "event before its answer",
			breaks: "believes that leases are watched when the watch has gone off already",
			edits:  []edit{in(lookouts, `armed && p.fires == fires`, `armed`)},
			found:  finder{"session", "TestLookouts"},
		},
		{
			name:   "own permits not counted",
			breaks: "has one wait for himself who holds what he asks for",
			edits:  []edit{in("coordinator/semaphore.go", `	if total > int64(s.Size) {`, `	if total < 0 {`)},
			found:  finder{"coordinator", "TestPermitsInAContext"},
		},
	}
}
