package board

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// queueOf parses contenders: 1* holds, 2 waits, and 1/7 is contender 1 at another node.
func queueOf(text string) (queue []events.Contender) {
	for _, word := range strings.Fields(text) {
		name, holding := strings.CutSuffix(word, "*")
		token, node, _ := strings.Cut(name, "/")
		queue = append(queue, events.Contender{Node: "/n" + token + node, Token: int64(token[0] - '0'), Holding: holding, Data: []byte(token)})
	}
	return queue
}

func TestChangesBetweenTwoLooks(t *testing.T) {
	for _, test := range []struct{ before, after, want string }{
		{"", "", ""},
		{"", "1*", "granted 1"},
		{"", "1* 2", "granted 1, queued 2"},
		{"1* 2", "1* 2", ""},
		{"1* 2 3", "2* 3", "left 1, granted 2"},
		{"1* 2 3", "1* 3", "left 2"},
		{"1* 2", "", "left 1, left 2"},
		{"1 2", "1/7* 2", "granted 1"}, // a semaphore's contender is granted its permit
		{"1*", "2", "left 1, queued 2"},
	} {
		var got []string
		for _, c := range changes(queueOf(test.before), queueOf(test.after)) {
			got = append(got, c.what+" "+string(c.Data))
		}
		eventstest.Equal(t, strings.Join(got, ", "), test.want, "from %q to %q", test.before, test.after)
	}
}

// A page that has any earlier version and receives the rest has the whole state.
func TestAPageThatIsBehindCatchesUp(t *testing.T) {
	s := newState()
	kept := map[uint64]map[string]string{0: {}}
	now := time.Now()
	for step := range 3 * mostGone {
		found := make([]sighting, 4)
		for i := range found { // one of them changes at each step
			found[i].info = events.LockInfo{Path: fmt.Sprint("/", i), Kind: events.LockMutex}
			if i > 1 {
				found[i].info.Contenders = []events.Contender{{Node: "/n", Token: int64(step / i), Holding: true}}
			}
		}
		found[0].info.Path = fmt.Sprint("/new", step)
		now = now.Add(time.Second)
		s.apply(found, 1, now, now)
		if step%97 == 0 || step > 3*mostGone-5 {
			kept[s.version] = shown(nil, &s, 0)
		}
	}
	want := shown(nil, &s, 0)
	resets := 0
	for version, had := range kept {
		eventstest.Equal(t, shown(had, &s, version), want, "from version %d", version)
		if n, _ := s.since(version); n.Reset {
			resets++
		}
	}
	eventstest.Expect(t, resets >= 2 && resets != len(kept),
		"%d of %d pages begin anew, want those that are too far behind", resets, len(kept))
	eventstest.Expect(t, len(s.gone) <= mostGone && len(s.moments) <= mostMoments,
		"%d departures and %d moments are kept, want %d and %d", len(s.gone), len(s.moments), mostGone, mostMoments)
}

// shown returns the locks of a page that had some and received the rest.
func shown(had map[string]string, s *state, version uint64) map[string]string {
	n, _ := s.since(version)
	has := map[string]string{}
	if !n.Reset {
		maps.Copy(has, had)
	}
	for _, id := range n.Gone {
		delete(has, id)
	}
	for _, text := range n.Locks {
		_, rest, _ := strings.Cut(string(text), `"id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		has[id] = string(text)
	}
	return has
}

func TestALockThatCannotBeReadSaysWhy(t *testing.T) {
	s := newState()
	held := heldAt("/a", events.LockMutex)
	refused := sighting{info: events.LockInfo{Path: "/a", Kind: events.LockMutex}, err: errors.New("refused")}
	now := time.Now()
	for i, f := range []sighting{held, refused, held} {
		s.apply([]sighting{f}, 0, now, now)
		v := s.order[0].view(0, 10)
		eventstest.Expect(t, (v.Error != "") == (i == 1) && v.Holders == (i+1)%2, "look %d: %+v", i, v)
	}
	eventstest.Expect(t, len(s.moments) == 0, "moments %v, want none: nothing has happened", s.moments)
}

func TestDataAreCutBetweenRunes(t *testing.T) {
	for data, want := range map[string]int{
		"short":                       5,
		strings.Repeat("a", mostData): mostData, strings.Repeat("a", mostData+1): mostData,
		strings.Repeat("a", mostData-1) + "é": mostData - 1, strings.Repeat("a", mostData-2) + "€": mostData - 2,
		strings.Repeat("a", mostData-3) + "😀b": mostData - 3,
		strings.Repeat("\xff", 2*mostData):     mostData, strings.Repeat("\x80", 2*mostData): mostData,
	} {
		eventstest.Equal(t, len(cut([]byte(data))), want, "what is left of %q", data)
	}
}

func TestLooksFillAtMostHalfOfTheTime(t *testing.T) {
	began := time.Now()
	for took, want := range map[time.Duration]time.Duration{
		0: interval, 200 * time.Millisecond: interval, 300 * time.Millisecond: 600 * time.Millisecond,
	} {
		next := due(began, began.Add(took), interval).Sub(began)
		eventstest.Equal(t, next, want, "the time from a look of %v to the next one", took)
	}
}

func TestMomentsOfThisProcess(t *testing.T) {
	failed := errors.New("gone")
	for _, test := range []struct {
		event events.Event
		want  string
	}{
		{events.Grant{Path: "/a", Waited: 3*time.Second + time.Millisecond}, "granted /a after 3s"},
		{events.Lost{Path: "/a", Reason: events.ReasonRevoked, Held: time.Minute}, "lost /a " + events.ReasonRevoked.String() + ", held 1m0s"},
		{events.Ended{Path: "/a", Held: time.Second}, "left /a held 1s"},
		{events.Ended{Path: "/a", Err: failed}, "left /a gone"},
		{events.Ended{Path: "/a", Err: &coordinator.LostError{}, Held: time.Second}, "  "}, // after its Lost
		{events.Requeued{Path: "/a"}, "requeued /a "},
		{events.Revoked{Path: "/a"}, "revoked /a "},
		{events.Connected{Session: 255, Server: "zk:1"}, "connected  session 0xff at zk:1"},
		{events.Suspended{}, "suspended  no connection"},
		{events.Resumed{}, "resumed  the same session"},
		{events.SessionExpired{Session: 16}, "expired  session 0x10"},
		{events.Queued{Path: "/a"}, "  "},
	} {
		m, ok := ownMoment(test.event)
		eventstest.Equal(t, m.What+" "+m.Path+" "+m.Note, test.want, "%T", test.event)
		eventstest.Expect(t, ok == (m.What != "") && (!ok || m.Own), "%T: %v, own %v", test.event, ok, m.Own)
	}
}

func TestHoldersHoldSinceTheirGrantWasSeen(t *testing.T) {
	start, s := time.Now(), newState()
	for i, look := range []struct {
		queue string // 1* holds, 2 waits
		want  string // the look since which they hold
	}{
		{"1* 2 3", "1 ?"}, // its grant was not seen
		{"2* 3", "2 1"},
		{"2* 3 4", "2 1"},
		{"3* 4 5*", "3 3, 5 ?"}, // 5 joined and was granted in between
		{"4*", "4 4"},
	} {
		now := start.Add(time.Duration(i) * time.Second)
		s.apply([]sighting{{info: events.LockInfo{Path: "/a", Contenders: queueOf(look.queue)}}}, 0, now, now)
		var got []string
		for _, c := range s.order[0].view(0, 10).Contenders {
			switch {
			case c.Held != nil:
				got = append(got, fmt.Sprint(c.Data, " ", c.Held.Sub(start).Round(time.Second).Seconds()))
			case c.Holding:
				got = append(got, c.Data+" ?")
			}
		}
		eventstest.Equal(t, strings.Join(got, ", "), look.want, "look %d at %s", i, look.queue)
	}
	for ago, want := range map[time.Duration]bool{justNow / 2: true, 2 * justNow: false} {
		now := start.Add(time.Minute)
		came := []events.Contender{{Node: "/9", Token: 9, Holding: true, Since: now.Add(-ago)}}
		held, seen := heldSince(nil, nil, came, now, false)[identityOf(came[0])]
		eventstest.Expect(t, seen == want && (!seen || held.Equal(came[0].Since)),
			"a holder that came %v ago: since %v, %v; want when it came: %v", ago, held, seen, want)
		eventstest.Equal(t, len(heldSince(nil, nil, came, now, true)), 0,
			"since when, at a blind look after %v", ago)
	}
}

func TestTheStateKeepsTheBeginningOfDataAndTimesThatJSONHas(t *testing.T) {
	for _, since := range []time.Time{time.UnixMilli(1<<63 - 1), time.UnixMilli(-1 << 63), time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		s, now, long := newState(), time.Now(), strings.Repeat("a", 1<<20)
		changes := func(data string) int {
			before := s.version
			contenders := []events.Contender{{Node: "/a/n", Since: since, Data: []byte(data)}}
			s.apply([]sighting{sight(events.LockInfo{Path: "/a", Contenders: contenders}, nil)}, 0, now, now)
			n, _ := s.since(before)
			return len(n.Locks)
		}
		changes(long)
		k := s.order[0]
		data := k.info.Contenders[0].Data
		eventstest.Equal(t, string(data), long[:mostData], "what is kept")
		eventstest.Expect(t, cap(data) <= 2*mostData, "what is kept takes %d bytes", cap(data))
		v := k.view(0, 1).Contenders[0]
		eventstest.Equal(t, v.Data, long[:mostData], "what is shown")
		eventstest.Equal(t, v.Bytes, len(long), "the length that is shown")
		eventstest.Equal(t, changes(long), 0, "changes when the same is seen again")
		eventstest.Equal(t, changes(long[1:]), 1, "changes when data of another length are seen")
	}
}

// heldAt is the sighting of a lock with a holder.
func heldAt(path string, kind events.LockKind) sighting {
	holder := events.Contender{Node: path + "/n", Token: 1, Holding: true}
	return sighting{info: events.LockInfo{Path: path, Kind: kind, Contenders: []events.Contender{holder}}}
}

func TestALockBelowANodeThatCannotBeReadHasNotLeft(t *testing.T) {
	below := []sighting{
		heldAt("/a/b", events.LockMutex), heldAt("/a", events.LockSemaphore), heldAt("/ab", events.LockMutex),
	}
	for _, closed := range []string{"/a", "/"} {
		s, now := newState(), time.Now()
		look := func(found ...sighting) { s.apply(found, 0, now, now) }
		refused := sighting{info: events.LockInfo{Path: closed, Kind: events.LockUnknown}, err: errors.New("not authenticated")}
		look(below...)
		look(refused, below[2])
		look(refused, below[2])
		for _, k := range s.order {
			v := k.view(0, 10)
			eventstest.Equal(t, v.Error == "", v.Path == "/ab", "%s cannot be read: %+v has no error", closed, v)
		}
		eventstest.Expect(t, len(s.order) == 4 && len(s.gone) == 0,
			"%s cannot be read: %d rows, %d gone; want each lock and why", closed, len(s.order), len(s.gone))
		look(below...)
		eventstest.Expect(t, len(s.moments) == 0, "%s cannot be read for a while: moments %v", closed, s.moments)
		look(refused, below[2])
		look(below[1:]...)
		eventstest.Expect(t, len(s.moments) == 1 && s.moments[0].What == "left" && s.moments[0].Path == "/a/b",
			"a holder left meanwhile: moments %v, want that", s.moments)
	}
}

func TestALockIsThisProcesssThoughItsContenderIsNotInTheLane(t *testing.T) {
	s, now := newState(), time.Now()
	var queue []events.Contender
	for i := range mostInLane + 1 {
		queue = append(queue, events.Contender{Node: fmt.Sprint("/a/", i), Token: int64(i + 1), Session: int64(i + 1)})
	}
	for own, marks := range map[int64]int{mostInLane + 1: 1, 77: 0} {
		s.apply([]sighting{{info: events.LockInfo{Path: "/a", Contenders: queue}}}, own, now, now)
		lane := string(s.order[0].lane)
		eventstest.Equal(t, strings.Count(lane, `"own":true`), marks, "marks for session %d in %s", own, lane)
		eventstest.Equal(t, strings.Count(lane, `"own"`), marks, "all marks for session %d in %s", own, lane)
	}
}
