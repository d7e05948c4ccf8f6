package mutants

// ofElection are mistakes of elections and of those who observe them.
func ofElection() []mutant {
	const front, observe, glimpse, connection = "coordinator/election.go", "session/observe.go", "session/glimpse.go", "session/connection.go"
	return []mutant{
		{
			name:   "term for ever",
			breaks: "does not release a term when the loop's body is done with it",
			edits: []edit{in(front, "	defer a.crash() // if the body panics\n", ""),
				in(front, "	a.Release()\n	switch {", "	switch {")},
			found: finder{"coordinator", "TestATermWithinATerm"},
		},
		{
			name:   "word of anybody",
			breaks: "proclaims for one election what the leader of another one says",
			edits:  []edit{in(front, "term == nil || term.lock.c != e.lock.c || term.lock.path != e.lock.path ||", "term == nil ||")},
			found:  finder{"coordinator", "TestProclaim"},
		},
		{
			name:   "silent end of terms",
			breaks: "ends the loop over terms without saying why",
			edits:  []edit{in(front, "		yield(nil, err)\n", "")},
			found:  finder{"coordinator", "TestTermsEnd"},
		},
		{
			name:   "observer woken by all",
			breaks: "has an observer woken by everybody who joins or leaves",
			edits:  []edit{in(glimpse, "		children, stat, err := c.conn.Children(g.dir)\n", "		children, stat, _, err := c.conn.ChildrenW(g.dir)\n")},
			found:  finder{"coordinator", "TestWhatObserversCost"},
		},
		{
			name:   "oldest word kept",
			breaks: "keeps for a slow observer what was said first",
			edits: []edit{in(observe, `	case <-o.words:
		merged = true
	default:`, `	case w := <-o.words:
		o.words <- w
		return
	default:`)},
			found: finder{"coordinator", "TestASlowObserverHearsTheLatest"},
		},
		{
			name:   "word said again",
			breaks: "tells observers of the same leader again whenever it has looked",
			edits:  []edit{in(observe, "	if v.told && sameWord(word, v.word) {\n", "	if v.told && word.Token < 0 {\n")},
			found:  finder{"coordinator", "TestObserversOutliveConnections"},
		},
		{
			name:   "change while looking",
			breaks: "overlooks what happens while it looks who leads",
			edits:  []edit{in(observe, "		v.again = true\n", "		v.again = false\n")},
			found:  finder{"coordinator", "TestAChangeRightBehindAReading"},
		},
		{
			name:   "observer of a past session",
			breaks: "does not look who leads when another session begins",
			edits: []edit{in(connection, `	s.lookAllAgain(c)
	s.tellFirst(nil)
`, `	s.tellFirst(nil)
`)},
			found: finder{"coordinator", "TestObserversOutliveConnections"},
		},
		{
			name:   "leader of the same name",
			breaks: "takes a candidate for the first who has the name of one that was",
			edits:  []edit{in(glimpse, "err != nil || same || g.leader.Token <= upTo", "err != nil || same || upTo != 0")},
			found:  finder{"coordinator", "TestObserveAtEachStep"},
		},
		{
			name:   "path that comes unseen",
			breaks: "does not notice that an election's path is made",
			edits:  []edit{in(connection, "	case zk.EventNodeChildrenChanged, zk.EventNodeCreated:\n", "	case zk.EventNodeChildrenChanged:\n")},
			found:  finder{"coordinator", "TestObserve"},
		},
		{
			name:   "watch on the data of a path",
			breaks: "takes a watch on a path's data for one on its children, if the path came while it was armed",
			edits:  []edit{in(glimpse, "		c.looks.answered(g.dir, fires, err == nil && !there)\n", "		c.looks.answered(g.dir, fires, err == nil)\n")},
			found:  finder{"coordinator", "TestObserveAtEachStep"},
		},
	}
}
