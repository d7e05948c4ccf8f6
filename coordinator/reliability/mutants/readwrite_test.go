package mutants

// ofReadWrite are mistakes of the read/write lock.
func ofReadWrite() []mutant {
	return []mutant{
		{
			name:   "reader waits for readers",
			breaks: "does not let readers hold together",
			edits:  []edit{in("recipes/rule.go", `return !k.Reads() && k != events.KindUpgradable })`, `return true })`)},
			found:  finder{"recipes", "TestWhoBlocksAReader"},
			also:   finder{"coordinator", "TestReadersTogetherWritersAlone"},
		},
		{
			name:   "reader waits for our writers only",
			breaks: "lets a reader in beside the holder of another library's lock",
			edits:  []edit{in("recipes/rule.go", `return !k.Reads() && k != events.KindUpgradable })`, `return k == events.KindWrite })`)},
			found:  finder{"recipes", "TestWhoBlocksAReader"},
		},
		{
			name:   "writer waits for writers only",
			breaks: "lets a writer in beside readers",
			edits: []edit{in("recipes/rule.go", `	return Mutex{}.Blockers(queue, me)
`, `	return nearestOlder(queue, me, func(k events.Kind) bool { return !k.Reads() })
`)},
			found: finder{"recipes", "TestWhoBlocksAWriter"},
			also:  finder{"coordinator", "TestReadersTogetherWritersAlone"},
		},
		{
			name:   "floor of a reader",
			breaks: "leaves a floor behind a reader, though others may still read who came before",
			edits:  []edit{in("recipes/ending.go", ` && m.rule.Exclusive() && m.leads()`, ` && m.leads()`)},
			found:  finder{"coordinator", "TestReadersLeaveNoFloor"},
		},
		{
			name:   "no two on one number",
			breaks: "takes the read node of a writer for a sign that the numbers are used up",
			edits: []edit{in("recipes/rule.go", `	return half(a) && half(b) && (a == events.KindRead || b == events.KindRead)
`, `	return half(a) && !half(b)
`)},
			found: finder{"recipes", "TestThoseWhoShareANumber"},
			also:  finder{"coordinator", "TestDowngradeLetsNoWriterIn"},
		},
		{
			name:   "one reader in a place",
			breaks: "takes a second reader in its writer's place for a sign that the numbers are used up",
			edits: []edit{in("recipes/rule.go", `	return half(a) && half(b) && (a == events.KindRead || b == events.KindRead)
`, `	return half(a) && half(b) && a != b
`)},
			found: finder{"recipes", "TestThoseWhoShareANumber"},
			also:  finder{"coordinator", "TestTwoReadersInOnePlace"},
		},
		{
			name:   "anybody on one number",
			breaks: "trusts numbers that servers have handed out twice, if one of the two reads",
			edits: []edit{in("recipes/rule.go", `	return half(a) && half(b) && (a == events.KindRead || b == events.KindRead)
`, `	return half(a) || half(b)
`)},
			found: finder{"recipes", "TestThoseWhoShareANumber"},
		},
		{
			name:   "writer's place cannot be taken",
			breaks: "takes the end of a write node for that of the only one ahead",
			edits: []edit{in("recipes/rule.go", `	return k == events.KindWrite && rule.Exclusive()
`, `	return k == 0 && rule.Exclusive()
`)},
			found: finder{"recipes", "TestWhosePlaceMayBeTaken"},
			also:  finder{"coordinator", "TestWhoeverIsNextWaitsForTheReaderToo"},
		},
		{
			name:   "reader looks behind each writer",
			breaks: "has a reader list when a writer goes, which costs a request and tells it nothing",
			edits: []edit{in("recipes/rule.go", `	return k == events.KindWrite && rule.Exclusive()
`, `	return k == events.KindWrite
`)},
			found: finder{"recipes", "TestWhosePlaceMayBeTaken"},
		},
		{
			name:   "reader that tries needs an empty queue",
			breaks: "turns a reader that tries away because others read",
			edits: []edit{in("recipes/answers.go", `		case len(m.rule.Blockers(in.Queue, newcomer)) == 0:
`, `		case len(in.Queue) == 0 && newcomer.Seq > 0:
`)},
			found: finder{"coordinator", "TestTryToReadBesideReaders"},
		},
		{
			name:   "place without a write node",
			breaks: "makes a read node in the place of a write node that is not there any more",
			edits: []edit{in("session/downgrade.go", `c.conn.Multi(&zk.CheckVersionRequest{Path: own, Version: anyVersion}, request)`,
				`c.conn.Multi(request)`)},
			found: finder{"coordinator", "TestAPlaceIsTakenOnlyFromAWriteNodeThatStands"},
		},
		{
			name:   "place of anybody",
			breaks: "has a reader take the place of one who does not hold, or who leaves a floor just now",
			edits: []edit{in("session/downgrade.go", `		if _, holds := s.holds(writer); !holds {
			return false
		}
`, ``)},
			found: finder{"session", "TestAPlaceIsGivenByAHolderOnly"},
		},
		{
			name:   "floor of a writer that became a reader",
			breaks: "leaves a floor behind a writer in whose place a reader stands",
			edits:  []edit{in("session/downgrade.go", "		r.floor = false\n", "		r.floor = r.floor && true\n")},
			found:  finder{"session", "TestAWriterThatGaveItsPlaceLeavesNoFloor"},
			also:   finder{"coordinator", "TestTheWordOfAWriterThatBecameAReader"},
		},
		{
			name:   "place at the end",
			breaks: "has a reader who is to take a writer's place queue up like anybody else, and wait for that writer",
			edits: []edit{in("session/seat.go", `	case p.In != nil:
		t.layout = placed{}
`, ``)},
			found: finder{"session", "TestAWriterThatGaveItsPlaceLeavesNoFloor"},
			also:  finder{"coordinator", "TestDowngradeLetsNoWriterIn"},
		},
		{
			name:   "place joined to a release",
			breaks: "makes one request of a release and a create in somebody's place, which then says nothing of a place",
			edits:  []edit{in("session/turnover.go", `r.op == recipes.OpCreate && r.seat.in == nil && `, `r.op == recipes.OpCreate && `)},
			found:  finder{"session", "TestAPlaceIsNotJoinedToARelease"},
		},
		{
			name:   "read node that stays",
			breaks: "makes the read node in a writer's place one that outlives the session",
			edits:  []edit{in("session/downgrade.go", `	request.Flags = zk.FlagEphemeral`, `	request.Flags = zk.FlagPersistent`)},
			found:  finder{"coordinator", "TestDowngradeLetsNoWriterIn"},
		},
		{
			name:   "number behind the writer's number",
			breaks: "has the server append a number of its own to that of the writer",
			edits:  []edit{in("session/downgrade.go", `	request.Flags = zk.FlagEphemeral`, `	request.Flags |= zk.FlagEphemeral`)},
			found:  finder{"session", "TestAWriterThatGaveItsPlaceLeavesNoFloor"},
		},
		{
			name:   "reader waits for itself",
			breaks: "lets a reader queue up to write, where it waits for itself",
			edits: []edit{in("coordinator/acquisition.go", `		default:
			deadlock = true
`, `		default:
			deadlock = held.lock.rule == l.rule
`)},
			found: finder{"coordinator", "TestWhoWouldWaitForHimself"},
		},
		{
			name:   "writer in a writer's place",
			breaks: "gives a writer's place to another writer",
			edits: []edit{in("coordinator/acquisition.go", `held.lock.rule == recipes.Rule(recipes.Write{}) && l.rule == recipes.Rule(recipes.Read{})`,
				`held.lock.rule == recipes.Rule(recipes.Write{})`)},
			found: finder{"coordinator", "TestWhoWouldWaitForHimself"},
		},
		{
			name:   "place of another session's writer",
			breaks: "takes what another coordinator holds for its own",
			edits:  []edit{in("coordinator/acquisition.go", `held.lock.c != l.c || at == nil`, `at == nil`)},
			found:  finder{"coordinator", "TestWhoWouldWaitForHimself"},
		},
		{
			name:   "place at another path",
			breaks: "takes a lock at another path for the one that is asked for",
			edits:  []edit{in("coordinator/acquisition.go", `at := held.lock.at(l.path)`, `at := held.lock`)},
			found:  finder{"coordinator", "TestWhoWouldWaitForHimself"},
		},
		{
			name:   "downgrade that tries",
			breaks: "turns a reader away that tries to take a writer's place, because of that writer",
			edits:  []edit{in("coordinator/lock.go", `cfg.try = cfg.try && place.In == nil`, `cfg.try = cfg.try || place.In == nil && cfg.try`)},
			found:  finder{"coordinator", "TestWhoWouldWaitForHimself"},
		},
	}
}
