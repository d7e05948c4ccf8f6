package board

import (
	"cmp"
	"errors"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// mostMoments is how many moments the timeline keeps.
const mostMoments = 200

// moment is an entry of the timeline.
type moment struct {
	version uint64

	At   int64  `json:"at_ms"` // when it was seen
	What string `json:"what"`
	Path string `json:"path,omitempty"`
	Who  string `json:"who,omitempty"` // a contender's data
	Own  bool   `json:"own,omitempty"` // an event of this process
	Note string `json:"note,omitempty"`
}

// add appends a moment to the timeline.
func (s *state) add(m moment) {
	if s.version == 0 { // no page has received anything yet
		s.version = 1
	}
	s.version++
	m.version = s.version
	if last := len(s.moments) - 1; last >= 0 && m.What == "away" && s.moments[last].What == "away" {
		s.moments = s.moments[:last]
	}
	if len(s.moments) >= mostMoments {
		s.moments = append(s.moments[:0], s.moments[len(s.moments)-mostMoments+1:]...)
	}
	s.moments = append(s.moments, m)
}

// changed adds the moments between two looks at a queue. This process's own grants and
// ends come from its events, and are not added twice.
func (s *state) changed(path string, before, after []events.Contender, now time.Time) {
	for _, c := range changes(before, after) {
		mine := c.Session != 0 && s.mine[c.Session]
		if mine && c.what != "queued" {
			continue
		}
		s.add(moment{At: now.UnixMilli(), What: c.what, Path: path, Who: string(c.Data), Own: mine})
	}
}

// noteOutage records the beginning or the end of an outage.
func (s *state) noteOutage(event events.Event, now time.Time) {
	switch event.(type) {
	case events.Suspended, events.SessionExpired:
		if s.cut.IsZero() || !s.back.IsZero() { // otherwise it has begun already
			s.cut, s.back = cmp.Or(s.answer, now), time.Time{}
		}
	case events.Connected, events.Resumed:
		s.answer, s.back = now, now
	default:
	}
}

// change is what happened to a contender between two looks.
type change struct {
	what string // queued, granted or left
	events.Contender
}

// identity distinguishes the contenders of a lock. A semaphore's contender has another
// node once it holds, but its token stays.
type identity struct {
	session, token int64
	node           string // if there is no token
}

func identityOf(c events.Contender) identity {
	if c.Token != 0 {
		return identity{session: c.Session, token: c.Token}
	}
	return identity{session: c.Session, node: c.Node}
}

// changes compares two looks at a queue. It returns first the contenders that have left,
// then those that are new or hold now.
func changes(before, after []events.Contender) (all []change) {
	held, there := map[identity]bool{}, map[identity]bool{}
	for _, c := range before {
		held[identityOf(c)] = c.Holding
	}
	for _, c := range after {
		there[identityOf(c)] = true
	}
	for _, c := range before {
		if !there[identityOf(c)] {
			all = append(all, change{"left", c})
		}
	}
	for _, c := range after {
		switch holding, known := held[identityOf(c)]; {
		case c.Holding && !holding:
			all = append(all, change{"granted", c})
		case !known:
			all = append(all, change{"queued", c})
		}
	}
	return all
}

// ownMoment returns the moment of an event of this process, if the timeline shows it.
func ownMoment(event events.Event) (m moment, ok bool) {
	m.Own = true
	switch e := event.(type) {
	case events.Grant:
		m.What, m.Path, m.Note = "granted", e.Path, "at once"
		if e.Waited >= 10*time.Millisecond {
			m.Note = "after " + short(e.Waited)
		}
	case events.Lost:
		m.What, m.Path, m.Note = "lost", e.Path, e.Reason.String()+", held "+short(e.Held)
	case events.Ended:
		var lost *coordinator.LostError
		if e.Held > 0 && errors.As(e.Err, &lost) {
			return moment{}, false // the timeline has the Lost
		}
		if e.Err == nil {
			m.What, m.Path, m.Note = "left", e.Path, "held "+short(e.Held)
			break
		}
		m.What, m.Path, m.Note = "left", e.Path, e.Err.Error()
	case events.Requeued:
		m.What, m.Path = "requeued", e.Path
	case events.Revoked:
		m.What, m.Path = "revoked", e.Path
		if !e.Deadline.IsZero() {
			m.Note = "by " + e.Deadline.Format(time.TimeOnly)
		}
	case events.Connected:
		m.What, m.Note = "connected", "session "+sessionText(e.Session)+" at "+e.Server
	case events.Suspended:
		m.What, m.Note = "suspended", "no connection"
	case events.Resumed:
		m.What, m.Note = "resumed", "the same session"
	case events.SessionExpired:
		m.What, m.Note = "expired", "session "+sessionText(e.Session)
	default: // events.Queued: the look at the queue shows it
		return moment{}, false
	}
	return m, true
}

// short renders a duration without needless digits.
func short(d time.Duration) string {
	if d >= time.Minute {
		return d.Round(time.Second).String()
	}
	return d.Round(10 * time.Millisecond).String()
}
