package mutants

// ofTheMachine are mistakes in the pure rooms: the protocol itself.
func ofTheMachine() []mutant {
	return []mutant{
		{
			name:   "event taken as grant",
			breaks: "takes the end of the node ahead for the Grant",
			edits: []edit{in("recipes/machine.go", `	case m.ahead == 1:
		return m.first()`, `	case m.ahead == 1:
		return m.enter(true)`)},
			found: finder{"recipes", "TestMachineTransitions"},
			also:  finder{"coordinator", "TestNoGrantWithoutAnAnswerFromTheQuorum"},
		},
		{
			name:   "no claim",
			breaks: "takes the front of the queue in a listing for the Grant",
			edits: []edit{in("recipes/answers.go", `	case len(blockers) == 0:
		return m.first()`, `	case len(blockers) == 0:
		return m.enter(true)`)},
			found: finder{"recipes", "TestMachineTransitions"},
			also:  finder{"coordinator", "TestNoGrantWithoutAnAnswerFromTheQuorum"},
		},
		{
			name:   "stale claim believed",
			breaks: "grants on a write whose proof has run out before its answer was seen",
			edits: []edit{in("recipes/machine.go", `return !fresh || m.strict && !m.up`,
				`return m.strict && !m.up`)},
			found: finder{"recipes", "TestMachineTransitions"},
			also:  finder{"coordinator", "TestASuspendOfTheMachineEndsTheLease"},
		},
		{
			name:   "answer of a past session taken",
			breaks: "takes the answer to a create of the session before for one of this session",
			edits: []edit{in("recipes/answers.go", `	if in.Epoch != m.epoch || m.state != Creating {
		// An`, `	if m.state != Creating {
		// An`)},
			found: finder{"recipes", "TestAnyInputInAnyState"},
		},
		{
			name:   "claim of a past session taken",
			breaks: "takes the answer to a claim of the session before for one of this session",
			edits: []edit{in("recipes/answers.go", `	case in.Epoch != m.epoch:
		return nil
	case m.state == Held:`, `	case m.state == Held:`)},
			found: finder{"recipes", "TestAnyInputInAnyState"},
		},
		{
			name:   "node of a past session left",
			breaks: "does not discard a node whose create was answered after its session had ended",
			edits: []edit{in("recipes/answers.go", `		return []Effect{Discard{Node: in.Node.Text}}`,
				`		return nil`)},
			found: finder{"recipes", "TestMachineTransitions"},
			also:  finder{"actors", "TestCreatedInAPastEpochIsDiscarded"},
		},
		{
			name:   "no GUID search",
			breaks: "creates again after a lost reply instead of looking whether the first create was executed",
			edits: []edit{in("recipes/answers.go", `		m.state = Recovering
		return []Effect{List{Epoch: m.epoch, Attempt: m.attempt, Barrier: true}}`, `		if m.why != 0 {
			return m.over()
		}
		return m.begin()`)},
			found: finder{"recipes", "TestMachineTransitions"},
			also:  finder{"coordinator", "TestACreateThatIsWithdrawnUnderWayLeavesNothing"},
		},
		{
			name:   "barrier not asked for",
			breaks: "looks for a create of unknown outcome without a write before the reading",
			edits:  []edit{in("recipes/answers.go", `Attempt: m.attempt, Barrier: true}}`, `Attempt: m.attempt}}`)},
			found:  finder{"recipes", "TestMachineTransitions"},
		},
		{
			name:   "no owner check",
			breaks: "takes a node that bears its GUID for its own though another session made it",
			note: "a second line: each attempt has a GUID of its own, and as long as that is so no promise hangs on it " +
				"(TestExploreNeedsNotEverything)",
			edits: []edit{in("recipes/answers.go", `	if in.Own.Owner != m.session {`, `	if false {`)},
			found: finder{"recipes", "TestMachineTransitions"},
		},
		{
			name:   "not listed again",
			breaks: "does not list again after a reconnect, though events may have been missed",
			edits: []edit{in("recipes/news.go", `	case m.state == Waiting:
		return m.list()
	case m.state == Full:`, `	case m.state == Full:`)},
			found: finder{"recipes", "TestMachineTransitions"},
		},
		{
			name:   "not verified again",
			breaks: "does not ask after a reconnect whether the node that it holds still exists",
			edits:  []edit{in("recipes/news.go", `	case m.state == Held && !m.verifying:`, `	case false:`)},
			found:  finder{"recipes", "TestMachineTransitions"},
		},
		{
			name:   "delete not retried",
			breaks: "takes a delete of unknown outcome for done",
			edits:  []edit{in("recipes/answers.go", `		return m.remove()`, `		return m.over()`)},
			found:  finder{"recipes", "TestMachineTransitions"},
			also:   finder{"coordinator", "TestAReleaseThatGotLostIsMadeAgain"},
		},
		{
			name:   "create forgotten",
			breaks: "is over as soon as it is withdrawn, and does not await what a create under way makes",
			edits: []edit{in("recipes/news.go", `	case Creating, Recovering, Entering:
		// The answer`, `	case Creating, Recovering, Entering:
		return m.over()
		// The answer`)},
			found: finder{"recipes", "TestMachineTransitions"},
			also:  finder{"coordinator", "TestACreateThatIsWithdrawnUnderWayLeavesNothing"},
		},
		{
			name:   "withdrawal forgotten",
			breaks: "goes on to claim after it was withdrawn while it looked for its node",
			edits: []edit{in("recipes/answers.go", `	m.own = in.Own
	if m.why != 0 {
		return m.release()
	}
`, `	m.own = in.Own
`)},
			found: finder{"recipes", "TestMachineTransitions"},
			also:  finder{"coordinator", "TestACreateThatIsWithdrawnUnderWayLeavesNothing"},
		},
		{
			name:   "not queued again",
			breaks: "stays where it is when the session of a waiter expires",
			edits: []edit{in("recipes/news.go", `	case m.why != 0:
		return m.over()
	}
	effects := m.begin()`, `	case m.why != 0:
		return m.over()
	case m.state == Waiting:
		return nil
	}
	effects := m.begin()`)},
			found: finder{"recipes", "TestMachineTransitions"},
			also:  finder{"coordinator", "TestAWaitersTurnComes"},
		},
		{
			name:   "requeueing not told",
			breaks: "does not say that the place in the queue was lost with the session",
			edits:  []edit{in("recipes/news.go", `	if place {`, `	if false && place {`)},
			found:  finder{"recipes", "TestMachineTransitions"},
			also:   finder{"coordinator", "TestAWaiterWhoseSessionExpiresQueuesAgain"},
		},
		{
			name:   "expiry not told",
			breaks: "does not tell a holder that its session has expired",
			edits: []edit{in("recipes/news.go", `	case m.state == Held:
		m.removed = true
		return m.lose(events.ReasonSessionExpired)
`, ``)},
			found: finder{"recipes", "TestMachineTransitions"},
			also:  finder{"coordinator", "TestEachLossIsToldInTime"},
		},
		{
			name:   "removal not told",
			breaks: "does not tell a holder that somebody has removed its node",
			edits: []edit{in("recipes/news.go", `	case own && m.state == Held:
		m.removed = true
		return m.lose(events.ReasonNodeRemoved)
`, ``)},
			found: finder{"recipes", "TestMachineTransitions"},
			also:  finder{"coordinator", "TestEachLossIsToldInTime"},
		},
		{
			name:   "node given up under a function",
			breaks: "gives the node up at a loss though a function is still running under the lock",
			edits:  []edit{in("recipes/ending.go", `	case m.keep:`, `	case false:`)},
			found:  finder{"recipes", "TestMachineTransitions"},
			also:   finder{"coordinator", "TestDoAfterALossKeepsTheNodeUntilTheFunctionHasReturned"},
		},
		{
			name:   "Lost twice",
			breaks: "reports the loss of what it has reported lost, while a function is running under the lock",
			edits: []edit{
				in("recipes/ending.go", `		m.state = Lapsed
		return effects`, `		return effects`),
				in("actors/drain.go", `	if l.withdrawn != 0 {
		l.mu.Unlock()
		return // released`, `	if l.withdrawn != 0 && l.reason == 0 {
		l.mu.Unlock()
		return // released`),
			},
			found: finder{"recipes", "TestMachineTransitions"},
			also:  finder{"actors", "TestLoss"},
		},
		{
			name:   "suspension not counted",
			breaks: "holds on when the connection goes, though every suspension was to count as a loss",
			edits:  []edit{in("recipes/news.go", `	case m.state == Held && m.strict:`, `	case false:`)},
			found:  finder{"recipes", "TestMachineTransitions"},
			also:   finder{"coordinator", "TestEachLossIsToldInTime"},
		},
		{
			name:   "everybody watches the first",
			breaks: "watches the oldest contender and not the nearest older one: all wake up at each release",
			edits:  []edit{in("recipes/rule.go", `c.Seq > nearest[0].Seq`, `c.Seq < nearest[0].Seq`)},
			found:  finder{"recipes", "TestMutexWatchesOneAndNoTwoTheSame"},
			also:   finder{"coordinator", "TestAContenderWakesNobodyButItsSuccessor"},
		},
		{
			name:   "names compared as text",
			breaks: "compares names and not the numbers at their ends, so the GUID decides who is first",
			edits: []edit{in("recipes/rule.go", `c.Seq < me.Seq && (nearest == nil || c.Seq > nearest[0].Seq)`,
				`c.Text < me.Text && (nearest == nil || c.Text > nearest[0].Text)`)},
			found: finder{"recipes", "TestTheNumberDecidesAndNotTheText"},
			also:  finder{"coordinator", "TestGrantsFollowTheOrderOfTheQueueWithGrowingTokens"},
		},
		{
			name:   "end of the sequence ignored",
			breaks: "goes on with the numbers at the end of the sequence, which servers hand out twice",
			edits:  []edit{in("events/name.go", `	if n.Seq < 0 || n.Seq >= SeqEnd {`, `	if n.Seq < 0 {`)},
			found:  finder{"events", "TestCheckFailsClosedAtTheEndOfTheSequence"},
			also:   finder{"actors", "TestEndsOfTheMachinesOwn"},
		},
		{
			name:   "equal numbers ignored",
			breaks: "does not mind that another contender bears its number",
			edits: []edit{in("recipes/rule.go", `c.Check() != nil || c.Seq == me.Seq && c.Text != me.Text`,
				`c.Check() != nil`)},
			found: finder{"recipes", "TestUsableFailsClosed"},
		},
		{
			name:   "try that waits",
			breaks: "queues up behind somebody though it was only to try",
			edits: []edit{in("recipes/answers.go", `		case m.try:
			m.why = WhyBusy
			return m.over()
`, `		case m.try:
`), in("recipes/answers.go", `	case m.try:
		return m.fail(WhyBusy)
`, ``)},
			found: finder{"recipes", "TestMachineTransitions"},
			also:  finder{"actors", "TestEndsOfTheMachinesOwn"},
		},
	}
}
