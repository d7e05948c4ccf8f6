package mutants

// ofTheFastPath are mistakes in what makes a lock cost one round trip, and a handoff as
// much in a long queue as in a short one. Those of the protocol that no test of a shell
// could see are reported by the explorer of package recipes.
func ofTheFastPath() []mutant {
	return []mutant{
		{
			name:   "writer taken for the last one ahead",
			breaks: "takes the end of a write node for that of the only one ahead, though a read node may have taken its place",
			edits:  []edit{in("recipes/machine.go", `	case m.beside, replaceable(m.rule, kindOf(m.older[0])), m.upgrades()`, `	case m.beside, m.upgrades()`)},
			found:  finder{"recipes", "TestMachineTransitions"},
		},
		{
			name:   "only those that are remembered",
			breaks: "judges by those it remembers that nobody is ahead any more",
			edits: []edit{in("recipes/machine.go", `	case m.ahead == 1:
		return m.first()`, `	case m.ahead == 1, m.older[1] == "":
		return m.first()`)},
			found: finder{"recipes", "TestWaiterWalksBack"},
			also:  finder{"coordinator", "TestAWaiterWalksBackAsFarAsItRemembers"},
		},
		{
			name:   "floor of who never held",
			breaks: "leaves a floor when it gives up in the queue",
			edits:  []edit{in("recipes/ending.go", `	m.floor = m.waited && m.rule.Exclusive() && m.leads()`, `	m.floor = m.waited`)},
			found:  finder{"recipes", "TestMachineTransitions"},
			also:   finder{"coordinator", "TestGivingUpLetsNobodyIn"},
		},
		{
			name:   "floor of who never waited",
			breaks: "leaves a floor after each lock, which nobody needs, and costs a free lock a larger request",
			edits:  []edit{in("recipes/ending.go", `	m.floor = m.waited && m.rule`, `	m.floor = m.rule`)},
			found:  finder{"recipes", "TestMachineTransitions"},
		},
		{
			name:   "no floor",
			breaks: "leaves no floor, so that each handoff costs a listing",
			edits:  []edit{in("recipes/ending.go", `	m.floor = m.waited && m.rule`, `	m.floor = false && m.rule`)},
			found:  finder{"recipes", "TestMachineTransitions"},
			also:   finder{"coordinator", "TestAHandoffCostsTheSameInALongQueue"},
		},
		{
			name:   "own end ignored while it advances",
			breaks: "enters by a floor though its own node is gone",
			edits: []edit{in("recipes/answers.go", `	case m.removed:
		return m.requeue()
	case in.Floor:`, `	case in.Floor:`)},
			found: finder{"recipes", "TestMachineTransitions"},
		},
		{
			name:   "next one believed watched",
			breaks: "waits for the next one ahead, of whose end it was told while it asked",
			edits:  []edit{in("recipes/answers.go", `	case in.Stands && m.older[1] != "":`, `	case in.Stands:`)},
			found:  finder{"recipes", "TestMachineTransitions"},
		},
		{
			name:   "watch of the last connection",
			breaks: "believes after a reconnect that the next one ahead is watched",
			edits: []edit{in("recipes/news.go", `		m.older[1] = ""
		return nil
	case m.state == Held`, `		return nil
	case m.state == Held`)},
			found: finder{"recipes", "TestMachineTransitions"},
		},
		{
			name:   "advance of unknown outcome forgotten",
			breaks: "waits for ever when the answer to an advance is lost",
			edits: []edit{in("recipes/answers.go", `, in.Op == OpAdvance && m.state == Advancing:
		return m.list()`, `:
		return m.list()`)},
			found: finder{"recipes", "TestMachineTransitions"},
		},
		{
			name:   "strict and fast",
			breaks: "enters by a write whose answer came before the connection was lost, though every suspension was to count",
			edits:  []edit{in("recipes/machine.go", `return !fresh || m.strict && !m.up`, `return !fresh`)},
			found:  finder{"recipes", "TestMachineTransitions"},
		},
		{
			name:   "others not counted",
			breaks: "takes its create for the proof that it is alone, whoever stands in the directory",
			edits:  []edit{in("session/handoff.go", `stat.NumChildren == 1 && `, ``)},
			found:  finder{"session", "TestACreateSeesWhoStandsThere"},
			also:   finder{"coordinator", "TestGrantsFollowTheOrderOfTheQueueWithGrowingTokens"},
		},
		{
			name:   "any directory of that name",
			breaks: "takes the answer from another directory by the same name for a proof",
			edits:  []edit{in("session/handoff.go", ` && stat.Czxid == czxid {`, ` && czxid != 0 {`)},
			found:  finder{"session", "TestAnotherDirectoryByTheSameName"},
		},
		{
			name:   "another directory not noticed",
			breaks: "goes on writing a directory that is not the one that it knew",
			edits:  []edit{in("session/directory.go", `	if k.czxid != 0 && k.czxid != stat.Czxid {`, `	if false {`)},
			found:  finder{"session", "TestADirectoryIsKnownByItsCreation"},
			also:   finder{"session", "TestAnotherDirectoryByTheSameName"},
		},
		{
			name:   "directory not forgotten",
			breaks: "writes the data of a directory that somebody else has made after ours was removed",
			edits:  []edit{in("session/directory.go", "	delete(d.known, dir)\n", "")},
			found:  finder{"session", "TestADirectoryMadeBySomebodyElseMeanwhile"},
		},
		{
			name:   "somebody's data overwritten",
			breaks: "takes every directory that has data for its own, and writes its marker over them",
			edits:  []edit{in("session/directory.go", `	if _, ours := parseFloor(data); !ours {`, `	if data == nil {`)},
			found:  finder{"session", "TestSomebodysDataAreNeverWritten"},
		},
		{
			name:   "somebody's data not noticed",
			breaks: "goes on writing into a directory of its own after it has read somebody's data there",
			edits: []edit{in("session/directory.go", `		d.forget(dir)
		return
`, `		return
`)},
			found: finder{"session", "TestAnAdvanceSeesThatTheDataAreSomebodys"},
		},
		{
			name:   "marker in any directory",
			breaks: "writes its marker into a directory of which it knows nothing",
			edits:  []edit{in("session/requests.go", `czxid != 0 && t.brief() {`, `czxid >= 0 && t.brief() {`)},
			found:  finder{"session", "TestSomebodysDataAreNeverWritten"},
		},
		{
			name:   "marker over the floor",
			breaks: "writes its marker where others stand, so that the next handoff costs a listing",
			edits:  []edit{in("session/directory.go", `!k.closed && !k.contended {`, `!k.closed {`)},
			found:  finder{"session", "TestAJoinerLeavesTheFloor"},
		},
		{
			name:   "closed directory written again",
			breaks: "tries each time to write a directory for which it has no permission",
			edits:  []edit{in("session/directory.go", "	k.closed = true\n", "")},
			found:  finder{"session", "TestWhatMayNotBeWrittenIsNotTriedAgain"},
			also:   finder{"session", "TestADirectoryIsKnownByItsCreation"},
		},
		{
			name:   "everything remembered",
			breaks: "remembers every directory that it ever saw",
			edits:  []edit{in("session/directory.go", `len(m) >= mostDirectories {`, `false {`)},
			found:  finder{"session", "TestDirectoriesAreNotRememberedWithoutBound"},
		},
		{
			name:   "undone release taken for done",
			breaks: "takes a release for done that was undone because the floor could not be written",
			edits: []edit{in("session/handoff.go", `	case failed == 0 && errors.Is(err, zk.ErrNoNode):`,
				`	case errors.Is(err, zk.ErrNoNode), outcome == Refused:`)},
			found: finder{"session", "TestAReleaseThatMayNotLeaveAFloorIsARelease"},
		},
		{
			name:   "any floor",
			breaks: "takes any floor for that of the one which stood ahead",
			edits:  []edit{in("session/handoff.go", `past != 0 && floor == past`, `floor != 0`)},
			found:  finder{"session", "TestAdvance"},
			also:   finder{"coordinator", "TestGivingUpLetsNobodyIn"},
		},
		{
			name:   "any holder of ours",
			breaks: "takes any holder of this session that left for the one which stood ahead",
			edits:  []edit{in("session/directory.go", `return l.node == past ||`, `return l.node != "" ||`)},
			found:  finder{"session", "TestAdvance"},
		},
		{
			name:   "holder that is still there",
			breaks: "takes a holder of this session for gone when it has let go, though its node may stay",
			edits:  []edit{in("session/directory.go", `l.removed == next`, `l.node == next`)},
			found:  finder{"session", "TestAHolderWhoseNodeStaysIsInTheWay"},
		},
		{
			name:   "floor in somebody's data",
			breaks: "looks for a floor in data that are not ours",
			edits:  []edit{in("session/directory.go", `bytes.CutPrefix(data, []byte(magic))`, `bytes.CutPrefix(bytes.TrimPrefix(data, []byte("x")), []byte(magic))`)},
			found:  finder{"session", "TestAdvance"},
		},
		{
			name:   "floor by number",
			breaks: "names the floor by a node's number, which begins again when the directory is made again",
			edits: []edit{
				in("session/handoff.go", `Data: floorData(token)`, `Data: floorData(numberOf(node))`),
				in("session/handoff.go", `past != 0 && floor == past`, `floor == numberOf(e.Past)`),
				in("session/directory.go", `// marker is what`, `func numberOf(node string) int64 {
	n, _ := strconv.ParseInt(node[len(node)-10:], 10, 64)
	return n
}

// marker is what`),
			},
			found: finder{"session", "TestAFloorNamesANodeByItsCreation"},
		},
		{
			name:   "node ahead not known by its creation",
			breaks: "does not note which zxid created the node ahead, so that it never finds its floor",
			edits:  []edit{in("session/seat.go", "		t.ahead = czxid\n", "")},
			found:  finder{"session", "TestAdvance"},
			also:   finder{"coordinator", "TestAHandoffCostsTheSameInALongQueue"},
		},
		{
			name:   "claim of an advance ignored",
			breaks: "enters by a floor whatever became of the claim that was sent along",
			edits: []edit{in("session/handoff.go", `	case outcome != Done:
		return classified(e.Epoch, recipes.OpAdvance`, `	case outcome == 0:
		return classified(e.Epoch, recipes.OpAdvance`)},
			found: finder{"session", "TestAnAdvanceWithoutAnOwnNode"},
		},
		{
			name:   "next one not watched",
			breaks: "looks whether the next one ahead stands, and does not watch it",
			edits: []edit{in("session/handoff.go", `	stat, err := c.observe(next, t)`,
				`	_, stat, err := c.conn.Get(next)`)},
			found: finder{"session", "TestAdvance"},
			also:  finder{"coordinator", "TestAWaiterWalksBackAsFarAsItRemembers"},
		},
		{
			name:   "lone create is always fresh",
			breaks: "does not look whether the lease is good when a create is answered that proves to be alone",
			edits:  []edit{in("session/holders.go", `created.Fresh = s.judgeBare(c, r)`, `created.Fresh = s.judgeBare(c, r) || true`)},
			found:  finder{"session", "TestAProofThatIsSeenTooLateIsNotFresh"},
		},
		{
			name:   "advance is always fresh",
			breaks: "does not look whether the lease is good when an advance is answered that has found a floor",
			edits:  []edit{in("session/holders.go", `advanced.Fresh = s.judge(c, r)`, `advanced.Fresh = s.judge(c, r) || true`)},
			found:  finder{"session", "TestAProofThatIsSeenTooLateIsNotFresh"},
		},
		{
			name:   "holder by advance not noted",
			breaks: "does not watch over the lease of whoever has entered by a floor",
			edits:  []edit{in("session/holders.go", `	case recipes.OpClaim, recipes.OpAdvance, recipes.OpEnter:`, `	case recipes.OpClaim, recipes.OpEnter:`)},
			found:  finder{"session", "TestWhoeverIsGrantedIsToldOfTheEndOfTheLease"},
		},
		{
			name:   "holder by create not noted",
			breaks: "does not watch over the lease of whoever has entered by its create",
			edits: []edit{in("session/holders.go", `		s.gaveUp(r.seat)
		s.claims[r.seat] = r
`, `		s.gaveUp(r.seat)
`)},
			found: finder{"session", "TestWhoeverIsGrantedIsToldOfTheEndOfTheLease"},
			also:  finder{"coordinator", "TestALoneHolderIsToldOfItsLosses"},
		},
		{
			name:   "lone holder's node not watched",
			breaks: "does not watch the node of whoever has entered by its create, however long it holds",
			edits:  []edit{in("session/holders.go", `		s.bare[r.seat] = struct{}{}`, `		delete(s.bare, r.seat)`)},
			found:  finder{"session", "TestALoneHoldersNodeIsWatchedAfterAWhile"},
			also:   finder{"coordinator", "TestALoneHolderIsToldOfItsLosses"},
		},
		{
			name:   "directory's token",
			breaks: "takes the zxid that created the directory for the fencing token",
			edits:  []edit{in("session/handoff.go", `= true, stat.Mzxid`, `= true, stat.Czxid`)},
			found:  finder{"session", "TestOneRequestForALockThatIsFree"},
			also:   finder{"coordinator", "TestTokensGrowInALoop"},
		},
		{
			name:   "no turnover",
			breaks: "makes two requests of a release and the acquire behind it",
			edits:  []edit{in("session/turnover.go", `	case r.op == recipes.OpDelete && !r.floor && `, `	case false && `)},
			found:  finder{"session", "TestAReleaseAndTheNextAcquireAreOneRequest"},
		},
		{
			name:   "refused turnover taken for two refusals",
			breaks: "gives a release and an acquire up because the two together were refused",
			edits: []edit{in("session/turnover.go", `	case outcome == Refused && !unsettled(err):
		return c.oneByOne(x)
`, ``)},
			found: finder{"session", "TestATurnoverThatIsRefused"},
		},
		{
			name:   "half of a turnover forgotten",
			breaks: "says what became of the release, and not of the acquire that was lost with it",
			edits: []edit{in("session/turnover.go", `		entered.in, entered.err = classified(next.epoch, next.op, outcome, err)
`, ``)},
			found: finder{"session", "TestATurnoverWithoutAnAnswer"},
		},
		{
			name:   "turnover joined too late",
			breaks: "joins an acquire to a release that has been sent",
			edits: []edit{in("session/turnover.go", `ok && s.leaving[x.leave.seat.dir] == x {`,
				`ok && s.leaving[x.leave.seat.dir] == nil {`)},
			found: finder{"session", "TestAReleaseAndTheNextAcquireAreOneRequest"},
			also:  finder{"coordinator", "TestAFreeLockCostsTwoRequests"},
		},
		{
			name:   "turnover without a floor",
			breaks: "leaves no floor where a release and the acquire behind it are one request",
			edits:  []edit{in("session/turnover.go", `recipes.OpDelete && !r.floor && `, `recipes.OpDelete && `)},
			found:  finder{"session", "TestTwoRequestsThatAreNoTurnover"},
		},
		{
			name:   "buffer filled while it is sent",
			breaks: "puts what is to be sent next into the buffer that is just being sent",
			edits:  []edit{in("session/outbox.go", `o.waiting, o.spare = o.spare, nil`, `o.waiting = o.waiting[:0]`)},
			found:  finder{"session", "TestOutboxSendsInOrderAndWithFewCalls"},
		},
		{
			name:   "outbox without bound",
			breaks: "keeps whatever the client writes, though nobody takes it",
			edits:  []edit{in("session/outbox.go", `	for len(o.waiting) > outboxFull && !o.broken {`, `	for false {`)},
			found:  finder{"session", "TestOutboxMakesAWriterWaitWhenItIsFull"},
		},
		{
			name:   "failed outbox says nothing",
			breaks: "goes on with a connection that cannot send",
			edits:  []edit{in("session/outbox.go", "			o.failed(err)\n", "")},
			found:  finder{"session", "TestOutboxThatBreaksTellsOnceAndKeepsNothing"},
			also:   finder{"session", "TestDeadlinesBelongToTheClientAfterTheHandshake"},
		},
		{
			name:   "outbox that waits for company",
			breaks: "does not send what came while something was being sent",
			edits: []edit{in("session/outbox.go", `	for len(o.waiting) > 0 {
		batch`, `	if len(o.waiting) > 0 {
		batch`)},
			found: finder{"session", "TestOutboxSendsInOrderAndWithFewCalls"},
		},
	}
}
