package mutants

// ofTheLease are mistakes in what the session takes for a proof of its life, and in
// what it does when that has run out.
func ofTheLease() []mutant {
	return []mutant{
		{
			name:   "lease from receive time",
			breaks: "counts the lease from the arrival of an answer and not from the sending of the request",
			edits:  []edit{in("session/client.go", `frame{sent, answered}, op`, `frame{answered, answered}, op`)},
			found:  finder{"session", "TestTheLeaseCountsFromTheSendingOfWhatAWriteProves"},
		},
		{
			name:   "lease from the last write",
			breaks: "counts the lease from the sending of the last answered write, which a follower has not passed on yet",
			edits: []edit{in("session/lease.go", `	told := sent.Add(-p.window()) // until then the leader has asked
`, `	p.base = sent
	told := time.Time{}
`)},
			found: finder{"session", "TestWhatAnswersProve"},
			also:  finder{"coordinator", "TestLostComesBeforeTheExpiryBehindAFollower"},
		},
		{
			name:   "no window",
			breaks: "takes an answer for proven by a write that comes less than half a tick behind it",
			edits:  []edit{in("session/lease.go", `return tick/2 + tick/8`, `return min(tick, 0)`)},
			found:  finder{"session", "TestWhatAnswersProve"},
			also:   finder{"coordinator", "TestLostComesBeforeTheExpiryBehindAFollower"},
		},
		{
			name:   "reads prove",
			breaks: "takes a read, which any follower answers on its own, for a proof",
			edits: []edit{in("session/opcode.go", `which a deposed leader answers
		return false`, `which a deposed leader answers
		return zkErr == codeNone`)},
			found: finder{"session", "TestPingsAndReadsRenewNothing"},
			also:  finder{"coordinator", "TestAThousandLocksCostOneProbeASecond"},
		},
		{
			name:   "asked timeout",
			breaks: "counts with the session timeout that was asked for and not with the one the server granted",
			edits:  []edit{in("session/client.go", `op, zkErr, c.link.timeout()) {`, `op, zkErr, s.cfg.Timeout) {`)},
			found:  finder{"session", "TestTimeoutIsTheServersWord"},
		},
		{
			name:   "no margin",
			breaks: "trusts the lease for the whole timeout, so that a clock that is a little slow is late",
			edits: []edit{in("session/lease.go", `return heard.Add(p.timeout - p.timeout/20)`,
				`return heard.Add(p.timeout)`)},
			found: finder{"session", "TestWhatAnswersProve"},
		},
		{
			name:   "proof across connections",
			breaks: "lets a write prove what was answered on the connection before, by another server",
			edits:  []edit{in("session/lease.go", `later: p.later[:0]}`, `later: p.later}`)},
			found:  finder{"session", "TestWhatAnswersProve"},
		},
		{
			name:   "process clock",
			breaks: "counts the lease on a clock that stands still while the machine is suspended",
			edits:  []edit{in("session/clock.go", `return now.Add(c.asleep())`, `return now`)},
			found:  finder{"session", "TestTheClockGoesOnWhileTheMachineIsSuspended"},
			also:   finder{"coordinator", "TestASuspendOfTheMachineEndsTheLease"},
		},
		{
			name:   "wall clock",
			breaks: "counts the lease on the wall clock, which somebody may set back",
			edits:  []edit{in("session/clock.go", `now := time.Now()`, `now := time.Now().Round(0)`)},
			found:  finder{"session", "TestTheClockIsNotTheWallClock"},
		},
		{
			name:   "no probe",
			breaks: "writes nothing of its own accord while a lock is held",
			edits: []edit{in("session/holders.go", `	for seat, node := range s.holders { // a different one each time`,
				`	for seat, node := range map[*Seat]string{} {`)},
			found: finder{"session", "TestOneProbeForAThousandHoldersAndNoneForNobody"},
			also:  finder{"coordinator", "TestEachLossIsToldInTime"},
		},
		{
			name:   "probe that reads",
			breaks: "probes with a read, which proves nothing about the leader",
			edits: []edit{in("session/requests.go",
				`	_, err := ClassifyMulti(c.conn.Multi(&zk.CheckVersionRequest{Path: node, Version: anyVersion}))
	return err`, `	_, _, err := c.conn.Exists(node)
	return err`)},
			found: finder{"session", "TestOneProbeForAThousandHoldersAndNoneForNobody"},
			also:  finder{"coordinator", "TestEachLossIsToldInTime"},
		},
		{
			name:   "probes too late for a shorter timeout",
			breaks: "goes on probing at the pace of the timeout before, though a reconnect has made it much shorter",
			edits:  []edit{in("session/connection.go", `		s.pace(c, 0) // and`, `		s.pace(c, s.cfg.Timeout/probePart) // and`)},
			found:  finder{"session", "TestProbesKeepUpWithAShorterTimeout"},
		},
		{
			name:   "probe for nobody",
			breaks: "goes on probing when nothing is held any more",
			edits: []edit{
				in("session/holders.go", `	if c != s.client || c.over || len(s.holders) == 0 {
		c.pacer = nil`, `	if c != s.client || c.over {
		c.pacer = nil`),
				in("session/holders.go", `	for seat, node := range s.holders { // a different one each time
		c.probing = true
		s.begin(c, func() message { return probed{c, seat, node, c.check(node)} })
		return
	}`, `	c.probing = true
	s.begin(c, func() message { return probed{c, nil, "/", c.check("/")} })`),
			},
			found: finder{"session", "TestOneProbeForAThousandHoldersAndNoneForNobody"},
			also:  finder{"coordinator", "TestAThousandLocksCostOneProbeASecond"},
		},
		{
			name:   "loss not told",
			breaks: "does not tell the holders that the lease has run out",
			edits:  []edit{in("session/holders.go", "		seat.post(recipes.LeaseRanOut{}, nil)\n", "")},
			found:  finder{"session", "TestLeaseRunsOutBeforeTheSession"},
			also:   finder{"coordinator", "TestEachLossIsToldInTime"},
		},
		{
			name:   "renewed in silence",
			breaks: "renews a lease that had run out as if nothing had happened",
			edits:  []edit{in("session/client.go", "				s.actor.Post(lapsed{c})\n", "")},
			found:  finder{"session", "TestALeaseThatHadRunOutIsNotRenewedInSilence"},
		},
		{
			name:   "deadline of the longer timeout",
			breaks: "looks at the lease when it would have run out before another server granted a shorter timeout",
			edits:  []edit{in("session/connection.go", "		s.schedule(c) // the timeout may have become shorter\n", "")},
			found:  finder{"session", "TestLeaseRanOutComesAtTheDeadlineOfAShorterTimeout"},
		},
		{
			name:   "every claim is fresh",
			breaks: "does not look whether the lease is good when a claim is answered",
			edits: []edit{in("session/holders.go", `	claimed.Fresh = s.judge(c, r)`,
				`	claimed.Fresh = s.judge(c, r) || true`)},
			found: finder{"session", "TestAClaimThatIsSeenTooLateIsNotFresh"},
			also:  finder{"coordinator", "TestASuspendOfTheMachineEndsTheLease"},
		},
		{
			name:   "holders that are not noted",
			breaks: "watches over the lease of the first holder only",
			edits: []edit{in("session/holders.go", `		s.holders[r.seat] = r.node
`, `		if len(s.holders) == 0 {
			s.holders[r.seat] = r.node
		}
`)},
			found: finder{"session", "TestAProbeThatFindsNoNodeTellsTheSeat"},
		},
		{
			name:   "session given up at the deadline",
			breaks: "gives the session up when the lease has run out, and every waiter's place with it",
			edits: []edit{in("session/holders.go", `func (s *Session) ranOut(c *client) {
`, `func (s *Session) ranOut(c *client) {
	defer s.expire(c)
`)},
			found: finder{"session", "TestLeaseRunsOutBeforeTheSession"},
			also:  finder{"coordinator", "TestDoAfterALossKeepsTheNodeUntilTheFunctionHasReturned"},
		},
		{
			name:   "refused session kept",
			breaks: "asks for ever for a session that no server takes back",
			edits: []edit{in("session/connection.go", `|| s.clock.now().Sub(end) < c.link.timeout() {`,
				`|| s.clock.now().Sub(end) > 0 {`)},
			found: finder{"session", "TestASessionThatNoServerTakesBack"},
		},
		{
			name:   "refused session given up at once",
			breaks: "gives the session up at the first server that lags behind and does not take it back",
			edits:  []edit{in("session/connection.go", ` || s.clock.now().Sub(end) < c.link.timeout() {`, ` {`)},
			found:  finder{"session", "TestASessionThatIsTakenBackLate"},
		},
	}
}
