package mutants

// ofMultiLocks are mistakes in locks that are had together.
func ofMultiLocks() []mutant {
	const rule, shell, door = "recipes/multi.go", "session/multi.go", "coordinator/multi.go"
	return []mutant{
		{
			name:   "multi-lock looks at its first member",
			breaks: "grants a multi-lock to whoever is the first at its first path",
			edits: []edit{in(rule, `for i, q := range m.apart(queue) {
		if blockers`, `for i, q := range m.apart(queue)[:1] {
		if blockers`)},
			found: finder{"recipes", "TestMultiFollowsTheRuleOfEachMember"},
			also:  finder{"coordinator", "TestAWaiterForAllHoldsNone"},
		},
		{
			name:   "multi-lock claims one node",
			breaks: "claims one of a multi-lock's nodes before the grant",
			edits: []edit{in(shell, `	return c.claim(t, e)
}`, `	if c.check(t.at(e.Node)) == nil {
		return recipes.Claimed{Epoch: e.Epoch}, nil
	}
	return c.claim(t, e)
}`)},
			found: finder{"coordinator", "TestAMultiLockThatLosesANodeInTheLastMoment"},
		},
		{
			name:   "multi-lock alone at one path",
			breaks: "takes one empty queue for all of a multi-lock's",
			edits:  []edit{in(shell, `joined.Alone = joined.Alone && stat.NumChildren == 1`, `joined.Alone = joined.Alone && (stat.NumChildren == 1 || i > 0)`)},
			found:  finder{"coordinator", "TestAMultiLockIsAloneOnlyIfItIsSoEverywhere"},
		},
		{
			name:   "multi-lock parted",
			breaks: "waits on with the nodes of a multi-lock that are left",
			edits:  []edit{in("recipes/answers.go", `	if in.Parted {`, `	if false {`)},
			found:  finder{"recipes", "TestMultiThatIsParted"},
		},
		{
			name:   "multi-lock leaves the rest in the queues",
			breaks: "leaves a multi-lock's other nodes behind when it queues anew because one is gone",
			edits:  []edit{in("recipes/semaphore.go", `		return len(rule) > 1 && m.own.Name.Text != ""`, `		return len(rule) > 1 && m.own.Name.Text != "" && m.state == Held`)},
			found:  finder{"coordinator", "TestAWaiterThatLosesOnePlaceTakesAllAnew"},
		},
		{
			name:   "multi-lock gives back all or nothing",
			breaks: "gives none of a multi-lock's nodes back if one is gone",
			edits: []edit{in("session/leases.go", `	case outcome == Done:
		return recipes.Deleted{Epoch: e.Epoch}, nil
	case outcome == Unknown || unsettled(err):
		return classified(e.Epoch, recipes.OpDelete, outcome, err)
	}
	var failed error`, `	case outcome == Done, len(leases) > 2:
		return recipes.Deleted{Epoch: e.Epoch}, nil
	case outcome == Unknown || unsettled(err):
		return classified(e.Epoch, recipes.OpDelete, outcome, err)
	}
	var failed error`)},
			found: finder{"coordinator", "TestARefusedReleaseGivesTheOthersBack"},
			also:  finder{"coordinator", "TestOneLostForAll"},
		},
		{
			name:   "multi-lock watches its first node",
			breaks: "does not hear that another node of a multi-lock than the first is gone",
			edits: []edit{in(shell, `func (m *multi) joins() bool`, `func (m *multi) cover(s *Session, c *client, t *Seat, node string) {
	if t.want(c, node) {
		s.onRequest(&rearming{c.epoch, node})
	}
}

func (m *multi) joins() bool`)},
			found: finder{"coordinator", "TestOneLostForAll"},
		},
		{
			name:   "transaction guarded by one node",
			breaks: "executes a multi-lock's transaction though only the first of its nodes exists",
			edits: []edit{in(door, `	for i, member := range grant.Members {
		nodes[i] = member.Node`, `	for i := range grant.Members {
		nodes[i] = grant.Node`)},
			found: finder{"coordinator", "TestTxnOfAMultiLock"},
		},
		{
			name:   "multi-lock at one path in its coordinator",
			breaks: "lets a path of a multi-lock be used as another kind of lock by the same coordinator",
			edits:  []edit{in("coordinator/live.go", `	for _, member := range m.locks[1:] {`, `	for _, member := range m.locks[:0] {`)},
			found:  finder{"coordinator", "TestOneKindOfLockAtEachPathOfAMultiLock"},
		},
		{
			name:   "one path in two spellings",
			breaks: "takes a path that is in a multi-lock twice for two, and so would wait for itself",
			edits:  []edit{in(door, `other, twice := seen[clean]`, `other, twice := seen[l.path+" "]`)},
			found:  finder{"coordinator", "TestBadMultiLocksEndAtOnceAndSendNothing"},
		},
		{
			name:   "multi-lock owns its first path",
			breaks: "does not see that a context holds a path as a later member of a multi-lock",
			edits: []edit{in(door, `		for _, member := range m.locks {
			if member != nil && member.path == path {`, `		for i, member := range m.locks {
			if i == 0 && member.path == path {`)},
			found: finder{"coordinator", "TestContextsOfMultiLocks"},
		},
		{
			name:   "markers one by one",
			breaks: "needs a round trip more for a free multi-lock",
			edits:  []edit{in(shell, `	if !m.marks(t.data) {`, `	if m.marks(t.data) {`)},
			found:  finder{"coordinator", "TestThirtyTwoFreeLocksCostTwoRequests"},
		},
	}
}
