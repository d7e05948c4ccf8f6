package board

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// queueOf reads contenders: 1* holds, 2 waits, and 1/7 is 1 at another node.
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
		{"1 2", "1/7* 2", "granted 1"}, // a semaphore's contender enters
		{"1*", "2", "left 1, queued 2"},
	} {
		var got []string
		for _, c := range changes(queueOf(test.before), queueOf(test.after)) {
			got = append(got, c.what+" "+string(c.Data))
		}
		if strings.Join(got, ", ") != test.want {
			t.Errorf("from %q to %q: %q, want %q", test.before, test.after, got, test.want)
		}
	}
}

// A page that has any earlier version, and is told the rest, has the whole state.
func TestAPageThatIsBehindCatchesUp(t *testing.T) {
	s := newState()
	kept := map[uint64]map[string]string{0: {}}
	now := time.Now()
	for step := range 3 * mostGone {
		var found []sighting
		for i := range 4 { // one of them is another one at each step
			path := fmt.Sprint("/", i)
			if i == 0 {
				path = fmt.Sprint("/new", step)
			}
			f := sighting{info: events.LockInfo{Path: path, Kind: events.LockMutex}}
			if i > 1 {
				f.info.Contenders = []events.Contender{{Node: "/n", Token: int64(step / i), Holding: true}}
			}
			found = append(found, f)
		}
		now = now.Add(time.Second)
		s.apply(found, 1, now, now)
		if step%97 == 0 || step > 3*mostGone-5 {
			kept[s.version] = shown(nil, &s, 0)
		}
	}
	want := shown(nil, &s, 0)
	resets := 0
	for version, had := range kept {
		if got := shown(had, &s, version); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("from version %d: %v, want %v", version, got, want)
		}
		if n, _ := s.since(version); n.Reset {
			resets++
		}
	}
	if resets < 2 || resets == len(kept) {
		t.Errorf("%d of %d pages begin anew, want those that are too far behind", resets, len(kept))
	}
	if len(s.gone) > mostGone || len(s.moments) > mostMoments {
		t.Errorf("%d departures and %d moments are kept, want at most %d and %d", len(s.gone), len(s.moments), mostGone, mostMoments)
	}
}

// shown returns the locks of a page that has some, and is told the rest.
func shown(had map[string]string, s *state, version uint64) map[string]string {
	n, _ := s.since(version)
	has := map[string]string{}
	if !n.Reset {
		for id, lock := range had {
			has[id] = lock
		}
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
	held := sighting{info: events.LockInfo{Path: "/a", Contenders: []events.Contender{{Node: "/a/n", Token: 1, Holding: true}}}}
	refused := sighting{info: events.LockInfo{Path: "/a"}, err: errors.New("not authenticated")}
	now := time.Now()
	for i, f := range []sighting{held, refused, held} {
		s.apply([]sighting{f}, 0, now, now)
		if v := s.order[0].view(0, 10); (v.Error != "") != (i == 1) || v.Holders != (i+1)%2 {
			t.Errorf("look %d: %+v", i, v)
		}
	}
	if len(s.moments) > 0 {
		t.Errorf("moments %v, want none: nothing has happened", s.moments)
	}
}

func TestDataAreCutBetweenRunes(t *testing.T) {
	for _, test := range []struct {
		data string
		want int
	}{
		{"short", 5}, {strings.Repeat("a", mostData), mostData}, {strings.Repeat("a", mostData+1), mostData},
		{strings.Repeat("a", mostData-1) + "é", mostData - 1}, {strings.Repeat("a", mostData-2) + "€", mostData - 2},
		{strings.Repeat("a", mostData-3) + "😀b", mostData - 3}, {strings.Repeat("\xff", 2*mostData), mostData},
		{strings.Repeat("\x80", 2*mostData), mostData},
	} {
		if got := cut([]byte(test.data)); len(got) != test.want {
			t.Errorf("%d bytes of %q are left, want %d", len(got), test.data, test.want)
		}
	}
}

func TestLooksFillAtMostHalfOfTheTime(t *testing.T) {
	began := time.Now()
	for _, test := range []struct {
		took time.Duration
		want time.Duration
	}{
		{0, 500 * time.Millisecond}, {200 * time.Millisecond, 500 * time.Millisecond}, {300 * time.Millisecond, 600 * time.Millisecond},
	} {
		if got := due(began, began.Add(test.took), interval).Sub(began); got != test.want {
			t.Errorf("a look of %v: the next one begins after %v, want %v", test.took, got, test.want)
		}
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
		{events.Ended{Path: "/a", Err: &coordinator.LostError{}, Held: time.Second}, "  "}, // behind its Lost
		{events.Requeued{Path: "/a"}, "requeued /a "},
		{events.Revoked{Path: "/a"}, "revoked /a "},
		{events.Connected{Session: 255, Server: "zk:1"}, "connected  session 0xff at zk:1"},
		{events.Suspended{}, "suspended  no connection"},
		{events.Resumed{}, "resumed  the same session"},
		{events.SessionExpired{Session: 16}, "expired  session 0x10"},
		{events.Queued{Path: "/a"}, "  "},
	} {
		m, ok := ownMoment(test.event)
		if got := m.What + " " + m.Path + " " + m.Note; got != test.want || ok != (m.What != "") || ok && !m.Own {
			t.Errorf("%T: %q, %v; want %q", test.event, got, ok, test.want)
		}
	}
}

func TestHoldersHoldSinceTheirGrantWasSeen(t *testing.T) {
	start := time.Now()
	looks := []struct {
		queue string // 1* holds, 2 waits
		want  string // since which look they hold
	}{
		{"1* 2 3", "1 ?"}, // the time was not seen
		{"2* 3", "2 1"},
		{"2* 3 4", "2 1"},
		{"3* 4 5*", "3 3, 5 ?"}, // 5 came and got it in between: since it came
		{"4*", "4 4"},
	}
	s := newState()
	for i, look := range looks {
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
		if strings.Join(got, ", ") != look.want {
			t.Errorf("look %d at %s: %q, want %q", i, look.queue, got, look.want)
		}
	}
	for ago, want := range map[time.Duration]bool{justNow / 2: true, 2 * justNow: false} {
		now := start.Add(time.Minute)
		came := []events.Contender{{Node: "/9", Token: 9, Holding: true, Since: now.Add(-ago)}}
		if held, seen := heldSince(nil, nil, came, now, false)[identityOf(came[0])]; seen != want || seen && !held.Equal(came[0].Since) {
			t.Errorf("a holder that came %v ago: since %v, %v; want when it came: %v", ago, held, seen, want)
		}
		if held := heldSince(nil, nil, came, now, true); len(held) > 0 {
			t.Errorf("a holder that came %v ago, at a blind look: since %v, want nothing", ago, held)
		}
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
		if data := k.info.Contenders[0].Data; cap(data) > 2*mostData || string(data) != long[:mostData] {
			t.Errorf("of %d bytes %d are kept in %d, want %d", len(long), len(data), cap(data), mostData)
		}
		if v := k.view(0, 1).Contenders[0]; v.Bytes != len(long) || v.Data != long[:mostData] {
			t.Errorf("shown are %d bytes of %d, want %d of %d", len(v.Data), v.Bytes, mostData, len(long))
		}
		if same, shorter := changes(long), changes(long[1:]); same > 0 || shorter != 1 {
			t.Errorf("the same is seen again: %d changes, and data of another length: %d; want 0 and 1", same, shorter)
		}
	}
}

func TestALockBelowANodeThatCannotBeReadHasNotLeft(t *testing.T) {
	held := func(path, node string, kind events.LockKind) sighting {
		return sighting{info: events.LockInfo{Path: path, Kind: kind, Contenders: []events.Contender{{Node: path + node, Token: 1, Holding: true}}}}
	}
	below := []sighting{
		held("/a/b", "/n", events.LockMutex), held("/a", "/n", events.LockSemaphore), held("/ab", "/n", events.LockMutex),
	}
	for _, closed := range []string{"/a", "/"} {
		s, now := newState(), time.Now()
		refused := sighting{info: events.LockInfo{Path: closed, Kind: events.LockUnknown}, err: errors.New("not authenticated")}
		s.apply(below, 0, now, now)
		s.apply([]sighting{refused, below[2]}, 0, now, now)
		s.apply([]sighting{refused, below[2]}, 0, now, now)
		for _, k := range s.order {
			if v := k.view(0, 10); (v.Error == "") != (v.Path == "/ab") {
				t.Errorf("%s cannot be read: %+v", closed, v)
			}
		}
		if len(s.order) != 4 || len(s.gone) > 0 {
			t.Errorf("%s cannot be read: %d rows, %d gone; want each lock, and why it is not seen", closed, len(s.order), len(s.gone))
		}
		s.apply(below, 0, now, now)
		if len(s.moments) > 0 {
			t.Errorf("%s cannot be read for a while: moments %v, want none: nothing has happened", closed, s.moments)
		}
		s.apply([]sighting{refused, below[2]}, 0, now, now)
		s.apply(below[1:], 0, now, now)
		if len(s.moments) != 1 || s.moments[0].What != "left" || s.moments[0].Path != "/a/b" {
			t.Errorf("a holder left meanwhile: moments %v, want that", s.moments)
		}
	}
}

func TestALockIsThisProcesssThoughItsContenderIsNotInTheLane(t *testing.T) {
	s, now := newState(), time.Now()
	var queue []events.Contender
	for i := range mostInLane + 1 {
		queue = append(queue, events.Contender{Node: fmt.Sprint("/a/", i), Token: int64(i + 1), Session: int64(i + 1)})
	}
	s.apply([]sighting{{info: events.LockInfo{Path: "/a", Contenders: queue}}}, mostInLane+1, now, now)
	if lane := string(s.order[0].lane); strings.Count(lane, `"own":true`) != 1 {
		t.Errorf("the lane %s, want that it is marked", lane)
	}
	s.apply([]sighting{{info: events.LockInfo{Path: "/a", Contenders: queue}}}, 77, now, now)
	if lane := string(s.order[0].lane); strings.Contains(lane, `"own"`) {
		t.Errorf("of another session: %s", lane)
	}
}
