package mutants

// ofTheQueue are mistakes of those who look at a lock and do not ask for it.
func ofTheQueue() []mutant {
	const look, survey = "coordinator/look.go", "session/survey.go"
	return []mutant{
		{
			name:   "last one first",
			breaks: "shows the contenders in another order than that of the queue",
			edits: []edit{in(look, `	slices.SortFunc(names, events.CompareNames)
`, `	slices.SortFunc(names, func(a, b events.Name) int { return events.CompareNames(b, a) })
`)},
			found: finder{"coordinator", "TestQueueShowsHolderAndWaitersInOrder"},
		},
		{
			name:   "all in the queue hold",
			breaks: "shows those who wait as holders",
			edits:  []edit{in(look, `recipes.Holds(l.rule, names, name)`, `true`)},
			found:  finder{"coordinator", "TestQueueShowsHolderAndWaitersInOrder"},
		},
		{
			name:   "look that outlives the coordinator",
			breaks: "goes on looking when the coordinator is closed",
			edits: []edit{in(look, `defer context.AfterFunc(c.open, func() { cancel(ErrClosed) })() `,
				`defer context.AfterFunc(c.open, func() {})() `)},
			found: finder{"coordinator", "TestQueueEndsWithTheCoordinator"},
		},
		{
			name:   "look at any path",
			breaks: "looks at paths that are none",
			edits: []edit{in(look, `	if err := c.checkPath(at); err != nil {
		return nil, err
	}
`, ``)},
			found: finder{"coordinator", "TestQueueOfABadPathIsRefusedLikeAcquire"},
		},
		{
			name:   "part of a survey",
			breaks: "shows what it had read when it was to end for the whole",
			edits: []edit{in(survey, `		case v.ctx.Err() != nil: // what was found`,
				`		case v.ctx.Err() != nil && err != nil: // what was found`)},
			found: finder{"session", "TestHalfASurveyIsNone"},
		},
		{
			name:   "contender that may not be read",
			breaks: "shows a queue without those whose nodes it may not read",
			edits:  []edit{in(survey, `		if errs[i] != nil {`, `		if errs[i] != nil && f.Stat != nil {`)},
			found:  finder{"coordinator", "TestQueueNeedsToReadTheDirectoryAndItsContenders"},
		},
		{
			name:   "any number of readings",
			breaks: "keeps locks waiting behind a look at a long queue",
			edits:  []edit{in(survey, `mostReadings = 64`, `mostReadings = 1 << 20`)},
			found:  finder{"coordinator", "TestQueueOfAThousandLeavesRoomForLocks"},
		},
		{
			name:   "any number of looks",
			breaks: "has any number of looks under way of those who have given up",
			edits:  []edit{in(survey, `mostSurveys = 8`, `mostSurveys = 1 << 20`)},
			found:  finder{"coordinator", "TestLookersThatGiveUpDoNotPileUp"},
		},
		{
			name:   "look at two sessions",
			breaks: "ends a look whose connection is lost with an error",
			edits:  []edit{in(survey, `		case outcome == Unknown, unsettled(err):`, `		case outcome == Unknown && unsettled(err):`)},
			found:  finder{"coordinator", "TestQueueBeginsAgainWhenItIsInterrupted"},
		},
	}
}
