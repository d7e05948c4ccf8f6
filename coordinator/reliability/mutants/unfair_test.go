package mutants

// ofUnfair are mistakes of the unfair lock.
func ofUnfair() []mutant {
	const one, claimants = "session/single.go", "session/claimants.go"
	return []mutant{
		{
			name:   "two claimants in a session",
			breaks: "has two of one session make the node, and each take what it finds for its own",
			edits: []edit{in(claimants, `	if c.seat != nil && c.seat != t {
		return false
	}
`, ``)},
			found: finder{"coordinator", "TestUnfair"},
		},
		{
			name:   "node that could not be removed",
			breaks: "takes a node for its own that another one of its session could not remove",
			edits:  []edit{in(claimants, `c.seat == t && c.past != czxid`, `c.seat == t`)},
			found:  finder{"session", "TestANodeThatCouldNotBeRemovedIsNobodys"},
		},
		{
			name:   "delete of who has nothing",
			breaks: "deletes whatever node is at the path",
			edits: []edit{in(one, `	if !c.claimants.is(t) {
		return recipes.Deleted{Epoch: e.Epoch}, nil
	}
`, ``)},
			found: finder{"session", "TestWhoHasNothingDeletesNothing"},
		},
		{
			name:   "claim of any node",
			breaks: "takes a node of the same name for the one that it made",
			edits:  []edit{in(one, `(!there || stat.Czxid != t.token(node))`, `(!there || stat == nil)`)},
			found:  finder{"session", "TestAClaimIsOfTheOwnNode"},
		},
		{
			name:   "watch of the node before",
			breaks: "takes a late answer about the node that it waited for as one about its own, which has the same name",
			edits:  []edit{in("session/kinds.go", `if !s.isPast(c, r.seat) {`, `if r.seat != nil {`)},
			found:  finder{"session", "TestAPastWatchSaysNothingOfTheOwnNode"},
		},
		{
			name:   "delete sent again",
			breaks: "deletes the next holder's node when the reply to its own delete was lost",
			edits:  []edit{in(one, `	if t.single.doubted.Load() || t.single.shaken.Load() {`, `	if false {`)},
			found:  finder{"coordinator", "TestUnfairReleaseTakesNobodysNode"},
		},
		{
			name:   "delete of an outage",
			breaks: "deletes by name behind an outage, in which the node may have become another's",
			edits:  []edit{in("session/connection.go", "	c.claimants.shake()\n", "")},
			found:  finder{"coordinator", "TestUnfairReleasedInAnOutage"},
		},
		{
			name:   "same pause for ever",
			breaks: "has many who wait come back at the same time again and again",
			edits:  []edit{in(one, "		bound *= 2\n", "		bound = firstPause\n")},
			found:  finder{"coordinator", "TestUnfairDoesNotStampede"},
		},
		{
			name:   "pause without chance",
			breaks: "has all who wait come back at the same moment",
			edits:  []edit{in(one, `rand.N(pauseBound(e.Attempt))`, `pauseBound(e.Attempt)+0*rand.N(firstPause)`)},
			found:  finder{"coordinator", "TestUnfairDoesNotStampede"},
		},
		{
			name:   "watch of who only tries",
			breaks: "leaves a watch behind though nobody waits",
			edits:  []edit{in(one, `!t.single.glance || e.Attempt != 0`, `true`)},
			found:  finder{"coordinator", "TestUnfairTry"},
		},
		{
			name:   "claim that stays",
			breaks: "makes a node that outlives the session",
			edits:  []edit{in(one, `Acl: t.acl, Flags: zk.FlagEphemeral}`, `Acl: t.acl, Flags: zk.FlagPersistent}`)},
			found:  finder{"coordinator", "TestUnfairTry"},
		},
		{
			name:   "any node is a lock",
			breaks: "waits for a node to go that is there to stay",
			edits: []edit{in(one, `	case !Ephemeral(stat):
		c.claimants.leave(t)
`, `	case stat == nil:
		c.claimants.leave(t)
`)},
			found: finder{"coordinator", "TestUnfairAndTheOtherKinds"},
		},
		{
			name:   "containers are locks",
			breaks: "takes a container for somebody's claim",
			edits:  []edit{in(one, `owner != math.MinInt64 &&`, `owner != math.MaxInt64 &&`)},
			found:  finder{"session", "TestWhoseNodesAreLocks"},
		},
		{
			name:   "delete that overtakes",
			breaks: "gives the node up before a transaction that rests on it, which then rests on the next one",
			edits: []edit{in("session/singlenews.go", `r.seat.single != nil && r.seat.single.writing > 0`,
				`r.seat.single != nil && r.seat.single.writing > 1<<20`)},
			found: finder{"coordinator", "TestUnfairDeleteWaitsForTransactions"},
		},
	}
}
