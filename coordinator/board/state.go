package board

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session"
)

const (
	// mostInLane is how many contenders of a lock a page receives without a request.
	mostInLane = 12
	// mostData is how many bytes of a contender's data are shown.
	mostData = 256
	// justNow is how recently a holder must have joined for its grant to count as seen,
	// if its wait was too short to be seen.
	justNow = 2 * time.Second
	// mostGone is how many departed locks are kept, for pages that are behind.
	mostGone = 1000
)

// state is what is known of the locks. Each change has a number, and a page receives
// every change after the last number that it has.
type state struct {
	version uint64
	own     int64          // this process's session
	mine    map[int64]bool // all sessions that this process had
	locks   map[place]*known
	watched map[place]*watched
	order   []*known // in the order of the tree
	gone    []departure
	missed  uint64 // the version of the latest departure that was dropped
	moments []moment

	blank  bool          // nothing is known of the locks
	nodes  int           // nodes read by the first search of the tree; 0: its locks are here
	whole  bool          // that search has finished
	looked time.Time     // when the latest look ended, whether it saw anything or not
	seen   time.Time     // when the latest complete look ended
	took   time.Duration // how long the latest complete look took
	pace   time.Duration // from the beginning of the latest look to the beginning of the next one
	failed string        // why the latest look failed
	answer time.Time     // when the servers last answered, as far as it is known
	cut    time.Time     // when they last answered before the latest outage; zero: there was none
	back   time.Time     // when that outage ended; zero: it has not
}

// place distinguishes locks: a queue and a semaphore may share a path.
type place struct {
	path      string
	semaphore bool
}

func placeOf(info events.LockInfo) place {
	return place{info.Path, info.Kind == events.LockSemaphore}
}

// id returns what pages and programs call the place, on every board: no other lock ever
// has it.
func (p place) id() string {
	if p.semaphore {
		return "semaphore:" + p.path
	}
	return p.path
}

// known is what is known of one lock.
type known struct {
	version uint64 // of its latest change
	look    uint64 // the version after the look that saw it last
	info    events.LockInfo
	bytes   map[string]int // as in a sighting
	failed  string
	old     time.Time              // as in a sighting
	held    map[identity]time.Time // when each holder's grant was seen; no entry if it was not
	lane    json.RawMessage        // its JSON for the pages
}

// departure records a lock that is gone.
type departure struct {
	at      place
	version uint64
}

func newState() state {
	return state{
		blank: true, mine: map[int64]bool{}, locks: map[place]*known{}, watched: map[place]*watched{},
	}
}

// drop forgets the locks. The next look has nothing to compare with.
func (s *state) drop() {
	s.version++
	s.locks, s.order, s.gone, s.missed = map[place]*known{}, nil, nil, s.version
	s.blank, s.looked, s.failed, s.nodes, s.whole = true, time.Time{}, "", 0, false
}

// searched records how far the search for locks has come. What it has found comes with
// the end of the look.
func (s *state) searched(p session.Progress) {
	if s.whole = p.Whole; !p.Whole {
		s.nodes = p.Nodes
	}
}

// apply takes in the result of a look: it records what is new, changed or gone, and adds
// the corresponding moments.
func (s *state) apply(found []sighting, own int64, began, ended time.Time) {
	s.mine[own], s.answer = true, ended
	s.version++
	look := s.version // moments get their own numbers
	fresh := s.seen.IsZero()
	away := s.blank || began.Sub(s.seen) > patience // changes meanwhile have no known time
	if away && !fresh {
		s.add(moment{At: ended.UnixMilli(), What: "away", Note: "no look for " + began.Sub(s.seen).Round(time.Second).String()})
	}
	found = s.overlay(found)
	found = append(found, s.hidden(found)...)
	s.order = make([]*known, 0, len(found))
	for _, f := range found {
		s.order = append(s.order, s.see(f, look, own, ended, fresh || away))
	}
	for at, k := range s.locks {
		if k.look == look {
			continue
		}
		s.lose(at, look)
		if !away {
			s.changed(at.path, k.info.Contenders, nil, ended)
		}
	}
	if s.whole {
		s.nodes = 0
	}
	s.own, s.blank, s.looked, s.seen, s.took, s.failed = own, false, ended, ended, ended.Sub(began), ""
}

// see takes in a sighting of a lock at a version, and adds the corresponding moments,
// unless it is blind: the latest one before was long ago.
func (s *state) see(f sighting, version uint64, own int64, now time.Time, blind bool) *known {
	at := placeOf(f.info)
	k := s.locks[at]
	if k == nil {
		k = &known{}
		s.locks[at] = k
	}
	k.look = version
	before := k.info.Contenders
	if !k.take(f) && own == s.own {
		return k
	}
	k.held = heldSince(k.held, before, k.info.Contenders, now, blind)
	k.version, k.lane = version, encode(k.view(own, mostInLane))
	if !blind && f.err == nil {
		s.changed(f.info.Path, before, f.info.Contenders, now)
	}
	return k
}

// lose forgets a lock that is gone, at a version.
func (s *state) lose(at place, version uint64) {
	delete(s.locks, at)
	s.gone = append(s.gone, departure{at, version})
	if over := len(s.gone) - mostGone; over > 0 {
		s.missed = s.gone[over-1].version
		s.gone = slices.Delete(s.gone, 0, over)
	}
}

// hidden returns the known locks that a look did not see because a node at or above them
// cannot be read. They may still be held.
func (s *state) hidden(found []sighting) (all []sighting) {
	errs, there := map[string]error{}, map[place]bool{}
	for _, f := range found {
		there[placeOf(f.info)] = true
		if f.err != nil {
			errs[f.info.Path] = f.err
		}
	}
	if len(errs) == 0 {
		return nil
	}
	for _, k := range s.order {
		if there[placeOf(k.info)] {
			continue
		}
		for at := k.info.Path; ; at = path.Dir(at) {
			if err := errs[at]; err != nil {
				all = append(all, sighting{info: k.info, err: err})
				break
			}
			if at == path.Dir(at) {
				break
			}
		}
	}
	return all
}

// heldSince returns since when contenders have held, for those whose grant was seen: they
// waited at the last look, or joined just now. A blind look has seen no grant.
func heldSince(known map[identity]time.Time, before, after []events.Contender, now time.Time, blind bool) map[identity]time.Time {
	waited, held := map[identity]bool{}, map[identity]time.Time{}
	for _, c := range before {
		waited[identityOf(c)] = !c.Holding
	}
	for _, c := range after {
		id := identityOf(c)
		switch at, ok := known[id]; {
		case !c.Holding:
		case ok:
			held[id] = at
		case blind:
		case waited[id]:
			held[id] = now
		case now.Sub(c.Since) < justNow:
			held[id] = c.Since
		}
	}
	return held
}

// take stores a sighting, and reports whether it changed anything.
func (k *known) take(f sighting) bool {
	failed := ""
	if f.err != nil {
		failed = f.err.Error()
		f.info.Contenders, f.bytes = k.info.Contenders, k.bytes // keep the last contenders, to compare with later
	}
	same := k.version > 0 && failed == k.failed && f.info.Kind == k.info.Kind && f.info.Size == k.info.Size &&
		slices.EqualFunc(f.info.Contenders, k.info.Contenders, sameContender) && maps.Equal(f.bytes, k.bytes) && f.old.Equal(k.old)
	k.info, k.bytes, k.failed, k.old = f.info, f.bytes, failed, f.old
	return !same
}

func sameContender(a, b events.Contender) bool {
	return a.Node == b.Node && a.Session == b.Session && a.Holding == b.Holding && a.Token == b.Token && a.Permits == b.Permits &&
		a.Since.Equal(b.Since) && bytes.Equal(a.Data, b.Data)
}

// news is what a page receives.
type news struct {
	Reset   bool              `json:"reset,omitempty"` // the page must forget what it has
	Locks   []json.RawMessage `json:"locks,omitempty"`
	Gone    []string          `json:"gone,omitempty"`
	Moments []moment          `json:"events,omitempty"`
}

// since returns the changes after a version, and the latest version. A page without any
// data has version 0.
func (s *state) since(version uint64) (n news, _ uint64) {
	if version == 0 || version < s.missed {
		n.Reset, version = true, 0
	}
	for _, k := range s.order {
		if k.version > version {
			n.Locks = append(n.Locks, k.lane)
		}
	}
	for _, d := range s.gone {
		if version > 0 && d.version > version {
			n.Gone = append(n.Gone, d.at.id())
		}
	}
	for _, m := range s.moments {
		if m.version > version {
			n.Moments = append(n.Moments, m)
		}
	}
	return n, s.version
}

// lockView is a lock in JSON.
type lockView struct {
	ID         string          `json:"id"`
	Path       string          `json:"path"`
	Kind       string          `json:"kind"`
	Size       int             `json:"size,omitempty"`
	Holders    int             `json:"holders"`
	Waiters    int             `json:"waiters"`
	Own        bool            `json:"own,omitempty"`           // a contender belongs to this process's session
	Firm       bool            `json:"not_revocable,omitempty"` // a holder's lock is not revocable
	Waiting    *time.Time      `json:"oldest_wait_since,omitempty"`
	Contenders []contenderView `json:"contenders"`
	Seen       *time.Time      `json:"seen,omitempty"` // when the lock was read, if that is long ago
	Error      string          `json:"error,omitempty"`
}

// contenderView is a contender in JSON.
type contenderView struct {
	Node    string     `json:"node"`
	Kind    string     `json:"kind"`
	Holding bool       `json:"holding"`
	Since   time.Time  `json:"since"`
	Held    *time.Time `json:"held_since,omitempty"` // if its grant was seen
	Session string     `json:"session"`
	Own     bool       `json:"own,omitempty"` // belongs to this process's session
	Token   int64      `json:"token,string"`
	Permits int        `json:"permits,omitempty"`
	Idle    bool       `json:"may_be_idle,omitempty"` // a cached lock's node, which may have no holder
	Data    string     `json:"data,omitempty"`
	Bytes   int        `json:"data_bytes,omitempty"` // length of the full data, if Data has only the beginning
}

// view returns the lock with at most that many contenders.
func (k *known) view(own int64, most int) lockView {
	v := lockView{ID: placeOf(k.info).id(), Path: k.info.Path, Kind: k.info.Kind.String(), Size: k.info.Size, Contenders: []contenderView{}, Error: k.failed}
	if !k.old.IsZero() {
		seen := k.old.UTC().Truncate(time.Millisecond)
		v.Seen = &seen
	}
	if k.failed != "" {
		return v
	}
	for _, c := range k.info.Contenders {
		v.Own = v.Own || own != 0 && c.Session == own
		switch {
		case c.Holding:
			v.Holders++
			marks, ours := events.MarksOf(c.Node)
			v.Firm = v.Firm || ours && marks&events.MarkRevocable == 0 || k.info.Kind == events.LockUnfair
		case v.Waiting == nil || c.Since.Before(*v.Waiting):
			v.Waiting = &c.Since
			fallthrough
		default:
			v.Waiters++
		}
		if len(v.Contenders) < most {
			shown := viewOf(c, own)
			shown.Bytes = k.bytes[c.Node]
			if at, ok := k.held[identityOf(c)]; ok {
				at = at.UTC().Truncate(time.Millisecond)
				shown.Held = &at
			}
			v.Contenders = append(v.Contenders, shown)
		}
	}
	return v
}

func viewOf(c events.Contender, own int64) contenderView {
	return contenderView{
		Node: c.Node, Kind: strings.TrimSuffix(c.Kind.String(), " lock"), Holding: c.Holding, Since: c.Since.UTC(),
		Session: sessionText(c.Session), Own: own != 0 && c.Session == own, Token: c.Token, Permits: c.Permits,
		Idle: c.Holding && c.Cached, Data: string(c.Data),
	}
}

// cut returns the beginning of the data, without a partial rune at its end.
func cut(data []byte) string {
	if len(data) <= mostData {
		return string(data)
	}
	data = data[:mostData]
	for i := 1; i <= min(utf8.UTFMax-1, len(data)); i++ {
		if tail := data[len(data)-i:]; utf8.RuneStart(tail[0]) && !utf8.FullRune(tail) {
			return string(data[:len(data)-i])
		}
	}
	return string(data)
}

// sessionText is a session's id as the servers' logs write it.
func sessionText(id int64) string { return "0x" + strconv.FormatUint(uint64(id), 16) }

// encode returns a value of this package as JSON, which cannot fail.
func encode(value any) json.RawMessage {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("board: encoding %T: %v", value, err))
	}
	return text
}
