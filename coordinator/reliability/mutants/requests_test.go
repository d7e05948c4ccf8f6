package mutants

// ofTheRequests are mistakes in what is asked of a server, and in what its answers are
// taken for.
func ofTheRequests() []mutant {
	return []mutant{
		{
			name:   "request leaks into the next session",
			breaks: "makes a request in the next session that waited in the last one",
			edits: []edit{in("session/queue.go", `epoch != 0 && (c == nil || c.over || epoch != c.epoch)`,
				`epoch != 0 && c == nil`)},
			found: finder{"session", "TestRequestsOfAPastEpochAreNotMade"},
		},
		{
			name:   "discard given up",
			breaks: "tries once to remove a node that a past session left behind",
			edits: []edit{in("session/requests.go", `	case outcome == Unknown || unsettled(err):
		return true`, `	case outcome == Unknown || unsettled(err):
		return false`)},
			found: finder{"session", "TestDiscard"},
		},
		{
			name:   "unknown taken for refused",
			breaks: "takes a request whose reply was lost for one that was not executed",
			edits: []edit{in("session/outcome.go", `	return Unknown, err
}`, `	return Refused, err
}`)},
			found: finder{"session", "TestClassify"},
			also:  finder{"coordinator", "TestNoNodeIsLeftWhateverReplyIsLost"},
		},
		{
			name:   "first error of a Multi",
			breaks: "takes the first error in a failed Multi for its reason, though it may stand for one behind it",
			edits: []edit{in("session/outcome.go",
				`		if r.Error != nil && unnamedCode(r.Error) != codeRuntimeInconsistency {`,
				`		if r.Error != nil {`)},
			found: finder{"session", "TestClassifyMulti"},
		},
		{
			name:   "throttled taken for refused",
			breaks: "gives up when a server turns a request away for the moment",
			edits: []edit{in("session/requests.go", `		errors.Is(err, zk.ErrSessionExpired) || errors.Is(err, errThrottled)`,
				`		errors.Is(err, zk.ErrSessionExpired)`)},
			found: finder{"session", "TestRequestsThatAreRefused"},
			also:  finder{"coordinator", "TestAServerThatTurnsRequestsAwayIsNotStormed"},
		},
		{
			name:   "no barrier",
			breaks: "reads the directory after a lost reply where it stands, at a server that may lag behind",
			edits:  []edit{in("session/requests.go", `	if e.Barrier {`, `	if false {`)},
			found:  finder{"session", "TestABarrierSeesWhatHasHappenedBefore"},
		},
		{
			name:   "sync as barrier",
			breaks: "takes a sync for a barrier, which a leader answers that was deposed",
			edits: []edit{in("session/requests.go",
				`ClassifyMulti(c.conn.Multi(&zk.CheckVersionRequest{Path: dir, Version: anyVersion}))
	if errors.Is(err, zk.ErrNoNode) {
		return Done, nil`, `Done, error(nil)
	if _, err = c.conn.Sync(dir); err == nil || errors.Is(err, zk.ErrNoNode) {
		return Done, nil`)},
			found: finder{"session", "TestABarrierIsAWrite"},
		},
		{
			name:   "anybody's node",
			breaks: "takes any node with a GUID for its own",
			edits:  []edit{in("session/requests.go", `mine := head(t.kind, id)`, `mine := guidMark`)},
			found:  finder{"session", "TestRequests"},
			also:   finder{"coordinator", "TestAWaitersTurnComes"},
		},
		{
			name:   "number as token",
			breaks: "takes the node's number for the fencing token, which begins again with the directory",
			edits: []edit{in("session/requests.go", `= stat.EphemeralOwner, cmp.Or(t.lent, stat.Czxid)`,
				`= stat.EphemeralOwner, cmp.Or(t.lent, listed.Own.Name.Seq)`)},
			found: finder{"session", "TestChroot"},
			also:  finder{"coordinator", "TestTokensGrowWhenTheDirectoryIsRebornWithNumbersFromZero"},
		},
		{
			name:   "own node not watched",
			breaks: "does not watch the node that it holds",
			edits: []edit{in("session/requests.go", `	stat, err := c.observe(own, t)`,
				`	_, stat, err := c.conn.Get(own)`)},
			found: finder{"session", "TestOneSeatWatchesItsOwnNodeAndAnother"},
			also:  finder{"coordinator", "TestEachLossIsToldInTime"},
		},
		{
			name:   "claim by reading",
			breaks: "claims with a read, which a follower answers on its own",
			edits: []edit{in("session/requests.go",
				`	res, err := c.conn.Multi(checks...)
	outcome, err := ClassifyMulti(res, err)`, `	_, _, err := c.conn.Get(nodes[0])
	outcome, err := Classify(err)`)},
			found: finder{"session", "TestAClaimAfterALongIdleTimeIsFresh"},
		},
		{
			name:   "watch not re-armed",
			breaks: "does not watch again a node whose data was changed",
			edits: []edit{in("session/connection.go", `		if c.watches.changed(ev.Path) {`,
				`		if c.watches.changed(ev.Path) && c.over {`)},
			found: finder{"session", "TestChangedDataArmTheWatchAgain"},
			also:  finder{"coordinator", "TestAWaitersTurnComes"},
		},
		{
			name:   "watches not restored",
			breaks: "believes that its watches are armed though the server did not restore them",
			edits:  []edit{in("session/client.go", "					s.actor.Post(unwatched{c}) // the client only logs it\n", "")},
			found:  finder{"coordinator", "TestAWaiterIsWokenAlthoughItsWatchesWereNotRestored"},
		},
		{
			name:   "one of several told",
			breaks: "tells one only of those who watch a node that it is gone",
			edits: []edit{in("session/watches.go",
				"	return p.seats\n", "	return p.seats[:min(1, len(p.seats))]\n")},
			found: finder{"session", "TestAPathIsArmedOnce"},
			also:  finder{"coordinator", "TestAWaitersTurnComes"},
		},
		{
			name:   "interest noted late",
			breaks: "notes who watches a node when the watch is armed, and the event may have come before",
			edits: []edit{in("session/requests.go", `	data, stat, _, err := c.conn.GetW(node)
`, `	if t != nil {
		c.watches.forget(node, t)
	}
	data, stat, _, err := c.conn.GetW(node)
	if t != nil {
		t.note(c, node)
	}
`)},
			found: finder{"session", "TestAnEventMayOvertakeTheReply"},
		},
		{
			name:   "chroot forgotten",
			breaks: "puts its nodes outside of the chroot",
			edits:  []edit{in("session/seat.go", `dir: join(s.chroot, p.Dir)`, `dir: join("", p.Dir)`)},
			found:  finder{"session", "TestChroot"},
			also:   finder{"coordinator", "TestTxnIsRelativeToTheChrootAndGuardIsNot"},
		},
		{
			name:   "transaction without guard",
			breaks: "executes the operations of a transaction whether the lock's node exists or not",
			edits: []edit{in("session/transaction.go", `	all := slices.Clone(guards)
`, `	all := []any{&zk.CheckVersionRequest{Path: "/", Version: anyVersion}}
`)},
			found: finder{"coordinator", "TestTxnWhenTheNodeIsRemoved"},
		},
		{
			name:   "transaction leaks into the next session",
			breaks: "makes a transaction in the next session that waited in the last one",
			edits: []edit{in("session/transaction.go", `func (t *transaction) meantFor() recipes.Epoch { return t.epoch }`,
				`func (t *transaction) meantFor() recipes.Epoch { return 0 }`)},
			found: finder{"coordinator", "TestTxnOfASessionThatIsOverIsNotSent"},
		},
		{
			name:   "transaction made twice",
			breaks: "makes a transaction again whose reply was lost",
			edits: []edit{in("session/transaction.go", `		case outcome == Unknown:
			t.outcome`, `		case outcome == Unknown && t.stage.CompareAndSwap(stageUnderWay, stageParked):
			s.again(c, t)
		case outcome == Unknown:
			t.outcome`)},
			found: finder{"coordinator", "TestTxnOfUnknownOutcomeIsSentOnce"},
		},
		{
			name:   "transaction keeps the caller's data",
			breaks: "encodes the data of a transaction later than Txn returns",
			edits: []edit{in("session/transaction.go", `		c.Data = slices.Clone(c.Data)
		op, to, extent = &c, &c.Path, len(c.Data)`, `		op, to, extent = &c, &c.Path, len(c.Data)`)},
			found: finder{"coordinator", "TestTxnKeepsNothingOfTheCallers"},
		},
		{
			name:   "transaction forgotten at the end",
			breaks: "does not answer a transaction that was turned away, if the coordinator is closed meanwhile",
			edits: []edit{in("session/queue.go", `		if !s.actor.Post(r) { // closed meanwhile, and somebody may wait for an answer
			r.refuse()
		}`, `		s.actor.Post(r)`)},
			found: finder{"coordinator", "TestTxnIsAnsweredWhenTheCoordinatorIsClosedMeanwhile"},
		},
		{
			name:   "release taken for a removal",
			breaks: "says of a transaction beside a Release that somebody has removed the node",
			edits:  []edit{in("coordinator/guard.go", `	case over && !a.actor.Holding():`, `	case over && !a.actor.Holding() && grant.Node == "":`)},
			found:  finder{"coordinator", "TestTxnBesideRelease"},
		},
		{
			name:   "out of the chroot",
			breaks: "makes a node without a name beside the chroot and not in it",
			edits: []edit{in("session/transaction.go", `		full = chroot + *to // also if`,
				`		full = join(chroot, *to) // also if`)},
			found: finder{"coordinator", "TestTxnStaysInTheChroot"},
		},
		{
			name:   "plain directories",
			breaks: "makes directories that the server does not remove when they are empty",
			edits: []edit{in("session/requests.go", `c.conn.CreateContainer(dir, data, zk.FlagContainer, acl)`,
				`c.conn.Create(dir, data, zk.FlagPersistent, acl)`)},
			found: finder{"session", "TestParentsAreContainers"},
		},
	}
}
