package mutants

// ofTheWire are mistakes in the connection: how it is made, kept, and ended.
func ofTheWire() []mutant {
	return []mutant{
		{
			name:   "handshake without deadline",
			breaks: "waits for the answer to a handshake as long as the client would",
			edits: []edit{in("session/wireend.go", `	if w.handshaking && (t.IsZero() || t.After(w.deadline)) {`,
				`	if false {`)},
			found: finder{"session", "TestMuteServerIsGivenUpInLessThanAThirdOfTheTimeout"},
			also:  finder{"coordinator", "TestConnectToUnreachableServersEndsWithItsContextAndTheLastError"},
		},
		{
			name:   "no back-off",
			breaks: "dials again at once, however often it was in vain",
			edits: []edit{in("session/dial.go", `	return full/2 + time.Duration(rng.Int64N(int64(full/2)+1))`,
				`	return full - full`)},
			found: finder{"session", "TestBackoffBounds"},
		},
		{
			name:   "back-off forgotten",
			breaks: "takes every connection that was granted a session for a good one, even if it is dropped at once",
			edits: []edit{in("session/dial.go", `	if life > 0 && life >= min(d.timeout()/10, lifeMax) {`,
				`	if life > 0 {`)},
			found: finder{"session", "TestBackoffIsForgottenAfterALiveConnection"},
			also:  finder{"coordinator", "TestSessionsThatEndAtOnceAreNoStorm"},
		},
		{
			name:   "new session on the same client",
			breaks: "lets the client go on with another session, in which requests of the last one would be executed",
			edits:  []edit{in("session/wire.go", `w.asked == 0 && id != 0 {`, `w.asked == 0 && id < 0 {`)},
			found:  finder{"session", "TestSecondSessionIsRefused"},
		},
		{
			name:   "replaced session taken",
			breaks: "goes on with the session that the server gave instead of the one that was asked for",
			edits:  []edit{in("session/wire.go", `	case id != 0 && asked != 0 && id != asked:`, `	case false:`)},
			found:  finder{"session", "TestReplacedSessionIsNoticed"},
		},
		{
			name:   "event dropped",
			breaks: "reads events from the client's channel, which has room for six and drops the rest",
			edits: []edit{
				in("session/client.go", `s.actor.Post(happened{c, ev}) // the`, `_ = ev // the`),
				in("session/client.go", `s.actor.Hand(happened{c, ev})`, `_ = ev`),
				in("session/client.go", `		for range events {
		}`, `		for ev := range events {
			s.actor.Post(happened{c, ev})
		}`),
			},
			found: finder{"session", "TestManyWatchesAreRestored"},
		},
		{
			name:   "unbounded farewell",
			breaks: "waits at Close for a server that does not answer the farewell",
			edits:  []edit{in("session/client.go", "	defer timer.Stop()\n", "	timer.Stop()\n")},
			found:  finder{"session", "TestCloseIsBounded"},
		},
		{
			name:   "client closed under requests",
			breaks: "ends a client while requests are under way, which it then answers twice or never",
			edits: []edit{in("session/connection.go", `	if c.inflight == 0 {
		s.endClient(c)
		return`, `	if c.inflight >= 0 {
		s.endClient(c)
		return`)},
			found: finder{"session", "TestTheEndOfASessionIsAskedForBehindItsRequests"},
		},
		{
			name:   "failed write passed on",
			breaks: "tells the client that a write has failed, which makes it answer the request twice",
			edits: []edit{
				in("session/wire.go", `	if wasGreeted {`, `	if wasGreeted && w.outbox == nil {`),
				in("session/wire.go", `	n, err := w.conn.Write(p)
`, `	if wasGreeted {
		if err := w.conn.SetWriteDeadline(w.writeDeadline()); err != nil {
			return 0, w.lose(err)
		}
	}
	n, err := w.conn.Write(p)
`),
			},
			found: finder{"session", "TestDeadlinesBelongToTheClientAfterTheHandshake"},
			also:  finder{"coordinator", "TestAnIdentityThatCannotBeSentOnAReconnect"},
		},
		{
			name:   "requests before the watches",
			breaks: "makes requests on a new connection before the watches are restored, so that they overtake missed events",
			edits:  []edit{in("session/connection.go", `	case c.opened && (c.watches.any() || c.looks.any()):`, `	case false:`)},
			found:  finder{"session", "TestWatchesOutliveTheConnection"},
		},
	}
}
