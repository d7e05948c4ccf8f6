package mutants

// ofTheActors are mistakes in how a caller is told.
func ofTheActors() []mutant {
	return []mutant{
		{
			name:   "grant after cancel",
			breaks: "grants though the acquisition was withdrawn a moment ago",
			edits: []edit{in("actors/drain.go", `	if l.withdrawn != 0 {
		return // the machine is about to hear of it
	}
`, ``)},
			found: finder{"actors", "TestGrantBehindAWithdrawal"},
		},
		{
			name:   "Grant readable after Release",
			breaks: "leaves a Grant in the channel that was not taken when the lock is released",
			edits: []edit{in("actors/lock.go", `		if l.state == holding {
			l.reclaim()
		}
`, ``)},
			found: finder{"actors", "TestWithdraw"},
			also:  finder{"coordinator", "TestGrantsFollowTheOrderOfTheQueueWithGrowingTokens"},
		},
		{
			name:   "Lost before the state",
			breaks: "sends Lost while Valid still says that the lock is held",
			edits: []edit{
				in("actors/drain.go", `	tell := l.leave(err)
	lost := events.Lost{`, `	lost := events.Lost{`),
				in("actors/drain.go", `	tell()
	if took {
		l.cfg.Stream.Publish(lost)
		losses <- lost // size 1, and there is one loss
	}
`, `	if took {
		l.cfg.Stream.Publish(lost)
		losses <- lost
	}
	l.mu.Lock()
	tell := l.leave(err)
	l.mu.Unlock()
	tell()
`),
			},
			found: finder{"actors", "TestStateThenStreamThenChannel"},
		},
		{
			name:   "channel before stream",
			breaks: "hands the Grant to the channel before the event stream has it",
			edits: []edit{in("actors/drain.go", `	l.cfg.Stream.Publish(grant)
	l.granted <- grant // size 1, and there is one Grant
`, `	l.granted <- grant
	l.mu.Unlock()
	l.cfg.Stream.Publish(grant)
	l.mu.Lock()
`)},
			found: finder{"actors", "TestStreamThenChannel"},
		},
		{
			name:   "Lost for a Grant not taken",
			breaks: "reports the loss of a Grant that nobody has taken",
			edits:  []edit{in("actors/drain.go", "	if took {\n", "	if took || true {\n")},
			found:  finder{"actors", "TestLoss"},
		},
		{
			name:   "loss after release",
			breaks: "reports the loss of a lock that was released a moment ago",
			edits: []edit{in("actors/drain.go", `	if l.withdrawn != 0 {
		l.mu.Unlock()
		return // released in the meantime: not the caller's any more
	}
`, ``)},
			found: finder{"actors", "TestLossBehindAWithdrawal"},
		},
		{
			name:   "context ends the lock",
			breaks: "gives up a lock that was taken when the context of the wait ends",
			edits:  []edit{in("actors/drain.go", ` || l.state == holding && l.keptGrant() {`, ` {`)},
			found:  finder{"actors", "TestBoundAfterTheGrantWasTaken"},
			also:   finder{"coordinator", "TestTheContextBoundsTheWaitOnly"},
		},
		{
			name:   "Valid ignores the lease",
			breaks: "says that the lock is valid as long as nothing was heard, even if the lease has run out",
			edits:  []edit{in("actors/sight.go", `return time.Now().Before(deadline)`, `return !deadline.IsZero()`)},
			found:  finder{"actors", "TestValidEndsWithTheLease"},
			also:   finder{"coordinator", "TestASuspendOfTheMachineEndsTheLease"},
		},
		{
			name:   "Close ends a function's lock",
			breaks: "gives the node up at Close while a function is still running under the lock",
			edits:  []edit{in("actors/lock.go", `why == recipes.WhyClosed && l.running`, `false`)},
			found:  finder{"coordinator", "TestCloseWaitsForFunctionsUnderALock"},
		},
		{
			name:   "Done too early",
			breaks: "closes Done before Err has what it will say",
			edits: []edit{
				in("actors/drain.go", `	tell := l.leave(l.cfg.Explain(end))
	lost :=`, `	close(l.done)
	l.mu.Unlock()
	l.mu.Lock()
	tell := l.leave(l.cfg.Explain(end))
	lost :=`),
				in("actors/drain.go", `	close(l.done)
}`, `}`),
			},
			found: finder{"actors", "TestEndsOfTheMachinesOwn"},
		},
		{
			name:   "stream drops what matters",
			breaks: "lets a Lost or Ended be replaced by the next one in the queue of a slow reader",
			edits:  []edit{in("actors/stream.go", `	if at.kind != isFinal {`, `	if at.kind != 0 {`)},
			found:  finder{"actors", "TestStreamDropsNothingThatMatters"},
		},
		{
			name:   "seen Grant forgotten",
			breaks: "takes a Grant for untaken that was seen on the stream",
			edits: []edit{in("actors/delivery.go", `			s.seen[grant.ID] = true`,
				`			s.seen[grant.ID] = false`)},
			found: finder{"actors", "TestSeenGrantIsNotReadableAfterWithdraw"},
		},
		{
			name:   "message dropped",
			breaks: "handles the first of the messages that have come together, and drops those behind it",
			edits: []edit{in("actors/actor.go", `		batch, a.queue = a.queue, batch[:0]`,
				`		batch, a.queue = a.queue[:1], nil`)},
			found: finder{"actors", "TestActorLosesNothing"},
		},
		{
			name:   "Close does not wait",
			breaks: "does not wait at Close for the goroutines that are running",
			edits:  []edit{in("actors/actor.go", "	<-idle\n", "	_ = idle\n")},
			found:  finder{"actors", "TestGroupCloseWaitsAndRefuses"},
		},
	}
}
