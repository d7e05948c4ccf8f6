package mutants

// ofKazoo are mistakes of those who bear kazoo's names.
func ofKazoo() []mutant {
	return []mutant{
		{
			name:   "kazoo's names beside others",
			breaks: "lets a lock with kazoo's names stand in one queue with contenders whom kazoo does not see",
			edits:  []edit{in("recipes/rule.go", `	if !rule.Kind().Kazoo() {`, `	if rule.Kind() != 0 {`)},
			found:  finder{"recipes", "TestKazoosNamesKeepToThemselves"},
			also:   finder{"coordinator", "TestAsKazooRefusesWhomKazooDoesNotSee"},
		},
		{
			name:   "kazoo's names beside writers only",
			breaks: "takes readers for nobody's concern when a lock has kazoo's names",
			edits:  []edit{in("recipes/rule.go", `		if !c.Kind.Kazoo() {`, `		if !c.Kind.Kazoo() && !c.Kind.Reads() {`)},
			found:  finder{"recipes", "TestKazoosNamesKeepToThemselves"},
		},
		{
			name:   "node left in a mixed queue",
			breaks: "ends because of somebody whom kazoo does not see, and leaves its own node, for which everybody waits",
			edits: []edit{in("recipes/answers.go", `		return m.fail(WhyMixed)
`, `		m.why = WhyMixed
		return m.over()
`)},
			found: finder{"recipes", "TestKazoosNamesKeepToThemselves"},
			also:  finder{"coordinator", "TestAsKazooRefusesWhomKazooDoesNotSee"},
		},
		{
			name:   "mixed queue taken for a busy one",
			breaks: "tells one that tries with kazoo's names that the lock is busy, and nothing of those whom kazoo does not see",
			edits:  []edit{in("recipes/answers.go", `		case mixed(m.rule, in.Queue):`, `		case m.own.Name.Text != "" && mixed(m.rule, in.Queue):`)},
			found:  finder{"recipes", "TestATryWithKazoosNamesTellsAMixedQueueFromABusyOne"},
			also:   finder{"coordinator", "TestAsKazooRefusesWhomKazooDoesNotSee"},
		},
		{
			name:   "kazoo's directory goes",
			breaks: "makes the directory of a lock with kazoo's names one that goes when it is empty, and kazoo's locks fail",
			edits:  []edit{in("session/requests.go", `	if !stay {`, `	if !stay || dir != "/" {`)},
			found:  finder{"coordinator", "TestAsKazoo"},
		},
		{
			name:   "directories that stay",
			breaks: "makes all directories as for kazoo, and a server fills up with them",
			edits:  []edit{in("session/requests.go", `	if !stay {`, `	if !stay && dir == "/" {`)},
			found:  finder{"session", "TestParentsAreContainers"},
		},
		{
			name:   "our GUID before kazoo's marker",
			breaks: "begins kazoo's names as Curator's, and kazoo's locks do not see them",
			edits:  []edit{in("session/guid.go", `	if kind.Kazoo() {`, `	if kind == events.KindUnfair {`)},
			found:  finder{"coordinator", "TestAsKazoo"},
		},
		{
			name:   "kazoo's name not found again",
			breaks: "looks for its node by Curator's form of the GUID when the node has kazoo's",
			edits:  []edit{in("session/requests.go", `mine := head(t.kind, id)`, `mine := head(0, id)`)},
			found:  finder{"coordinator", "TestAsKazooFindsItsNodeAgain"},
		},
		{
			name:   "kazoo's names are no kind",
			breaks: "lets one coordinator use a path with kazoo's names and with others",
			edits: []edit{in("coordinator/live.go", `		return familyKazooMutex
	case`, `		return f
	case`)},
			found: finder{"coordinator", "TestAsKazooIsAnotherKindOfLock"},
		},
	}
}

// ofWishes are mistakes with what Curator's Revoker writes.
func ofWishes() []mutant {
	const first, found, again = "TestAWishThatSomebodyElseReadFirst", "TestAWishBeforeTheNodeIsFound", "TestAWishIsToldToThoseWhoEnterAgain"
	return []mutant{
		{
			name:   "wish not seen",
			breaks: "does not know what it looks like when somebody wants a lock back",
			edits:  []edit{in("session/wish.go", `const revokeMessage = "__REVOKE__"`, `const revokeMessage = "revoke"`)},
			found:  finder{"coordinator", "TestAWishIsNoRelease"},
		},
		{
			name:   "wish taken for the end",
			breaks: "takes the wish to have a lock back for the end of the holder's node",
			edits: []edit{in("session/revoke.go", `recipes.AskedBack{Epoch: w.c.epoch, Node: seat.name(w.node), By: w.wish.by}`,
				`recipes.Gone{Epoch: w.c.epoch, Node: seat.name(w.node)}`)},
			found: finder{"coordinator", "TestAWishIsNoRelease"},
		},
		{
			name:   "wish taken for a loss",
			breaks: "takes the lock away from a holder who is only asked for it",
			edits: []edit{in("recipes/news.go", `	return []Effect{Revoke{By: m.by}}
`, `	return m.lose(events.ReasonRevoked)
`)},
			found: finder{"recipes", "TestAWishChangesNothingElse"},
			also:  finder{"coordinator", "TestAWishIsNoRelease"},
		},
		{
			name:   "wish before the Grant",
			breaks: "asks callers for a lock back that they do not have",
			edits: []edit{in("recipes/news.go", `	if m.state != Held {
		return nil
	}
	return []Effect{Revoke{By: m.by}}
`, `	return []Effect{Revoke{By: m.by}}
`)},
			found: finder{"recipes", "TestAWishChangesNothingElse"},
			also:  finder{"coordinator", "TestAWishBeforeTheGrantIsTold"},
		},
		{
			name:   "wish told each time",
			breaks: "tells a holder of the same wish as often as it reads it",
			edits:  []edit{in("recipes/news.go", `	if m.asked && !sooner {`, `	if m.asked && sooner {`)},
			found:  finder{"recipes", "TestAWishChangesNothingElse"},
			also:   finder{"coordinator", "TestAWishIsNoRelease"},
		},
		{
			name:   "anybody's wish",
			breaks: "takes what is asked of whoever stands ahead for what it is asked itself",
			edits:  []edit{in("recipes/news.go", ` || in.Node != m.own.Name.Text || m.why`, ` || m.why`)},
			found:  finder{"recipes", "TestAWishChangesNothingElse"},
			also:   finder{"coordinator", first},
		},
		{
			name:   "waiter's wish forgotten",
			breaks: "forgets by the time of the Grant what it was asked while it waited",
			edits: []edit{in("recipes/machine.go", `	if m.asked {
		effects`, `	if m.asked && m.removed {
		effects`)},
			found: finder{"recipes", "TestMachineTransitions"},
			also:  finder{"coordinator", "TestAWishBeforeTheGrantIsTold"},
		},
		{
			name:   "last node's wish",
			breaks: "tells one who has queued again of a wish that was about its last node",
			edits:  []edit{in("recipes/machine.go", `m.own, m.removed, m.waited, m.asked, m.by = Own{}, false, false, false, 0`, `m.own, m.removed, m.waited = Own{}, false, false`)},
			found:  finder{"recipes", "TestTranscripts"},
		},
		{
			name:   "wish read by somebody else",
			breaks: "does not tell a holder of a wish that another of the session had read before the holder had its node watched",
			edits: []edit{in("session/layout.go", `	c.remind(t, t.name(node))
`, ``)},
			found: finder{"coordinator", first},
		},
		{
			name:   "wish read beside a watch",
			breaks: "does not tell of a wish in a node that is watched already",
			edits:  []edit{in("session/requests.go", `err == nil && wished {`, `err == nil && wished && arm {`)},
			found:  finder{"coordinator", first},
		},
		{
			name:   "wish before the node is known",
			breaks: "forgets a wish that it reads when it finds its node again, for it does not know yet that it is its own",
			edits: []edit{in("session/kinds.go", `		c.remind(r.seat, in.Own.Name.Text)
`, ``)},
			found: finder{"coordinator", found},
		},
		{
			name:   "wish for a claim",
			breaks: "does not see what stands in the one node of a lock when somebody who waits for it has it watched",
			edits: []edit{in("session/single.go", `		c.heed(node, data, stat, err)
`, ``)},
			found: finder{"coordinator", first},
			also:  finder{"coordinator", found},
		},
		{
			name:   "wish before entering again",
			breaks: "does not tell whoever enters a lock again that it is wanted back",
			edits: []edit{in("session/share.go", `	c.remind(seat, name.Text)
`, ``)},
			found: finder{"coordinator", again},
		},
		{
			name:   "wish without a Grant",
			breaks: "asks somebody on the stream for a lock back whose Grant it has taken back there",
			edits: []edit{in("actors/stream.go", `	if !taken {
		for sub`, `	if false {
		for sub`)},
			found: finder{"actors", "TestRetractTakesTheWishBackToo"},
		},
		{
			name:   "wish for ever",
			breaks: "remembers a wish when something else stands in the node",
			edits: []edit{in("session/watches.go", `		a.known = false
`, ``), in("session/revoke.go", `		c.watches.unwish(node)
`, ``)},
			found: finder{"coordinator", again},
		},
	}
}
