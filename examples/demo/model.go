package main

import (
	"slices"
	"time"
)

// state is what a contender believes about itself.
type state string

const (
	away  state = "away"  // it is not in the queue
	waits state = "waits" // it is in the queue
	holds state = "holds" // it works under the lock
	lost  state = "lost"  // it knows that it lost the lock, and is not in the queue again
	still state = "still" // it is paused
)

// told is what a contender reports about itself.
type told struct {
	side, who string
	state     state
	alone     bool   // its client reports no connection
	needless  bool   // it gave up the lock, and now sees that its session survived
	note      string // shown to people
}

// picture is what the page shows. Its times count from the program's start.
type picture struct {
	Now    time.Duration
	Sides  []*side
	Marks  []mark
	Cut    []string // the contenders that are cut off
	Still  []string // the paused contenders
	Dead   []string // the contenders that were killed
	Struck bool     // the servers are down
	Faults int      // how many so far

	Careful bool     // the naive lock treats a disconnect as a loss
	Shards  []*shard // shared by the contenders
	Twice   int      // how often a shard had two owners
}

// shard is one shard with its successive owners.
type shard struct{ Owners []owner }

// owner is a period during which a contender owned a shard.
type owner struct {
	span

	Who   string
	Still bool // it was paused
}

// side is one of the two locks.
type side struct {
	Key      string
	Lanes    []*lane
	Times    int           // how often there were two holders at once
	Behind   int           // how many of these came just after a holder's session was ended from outside
	Healed   int           // how many ended only after the network was healed
	Together time.Duration // total time, without an open overlap
	Needless int           // how often a holder gave up the lock although its session survived
	Overlaps []overlap
	Margins  []margin
	Last     *margin // the latest margin, even if Margins no longer has it

	loss *margin // the latest loss that left no holder; nil once the lock is granted again
}

// lane is one contender of a side.
type lane struct {
	Who  string
	Bars []bar

	holder bool           // it believes that it holds, or did so when it was paused
	ended  *time.Duration // when the holder's session was ended
}

// bar is a period during which a contender's belief did not change.
type bar struct {
	span

	State state
	Alone bool
	Note  string
}

// span is a period of time. The end of an open span is not known yet.
type span struct {
	From, To time.Duration
	Open     bool
}

// overlap is a period with two holders.
type overlap struct {
	span

	Healed bool // the network was healed meanwhile
}

// margin is the time from a reported loss to the next grant.
type margin struct {
	Who           string
	Lost, Granted time.Duration
}

// mark is a fault and its time.
type mark struct {
	At        time.Duration
	Who, What string // the fault's name
}

// newPicture returns the picture before the contenders' first reports.
func newPicture(sides, names []string) *picture {
	p := &picture{Marks: []mark{}, Cut: []string{}, Still: []string{}, Dead: []string{}}
	for _, key := range sides {
		s := &side{Key: key, Overlaps: []overlap{}, Margins: []margin{}}
		for _, name := range names {
			s.Lanes = append(s.Lanes, &lane{Who: name, Bars: []bar{{span: span{Open: true}, State: away}}})
		}
		p.Sides = append(p.Sides, s)
	}
	for range shards {
		p.Shards = append(p.Shards, &shard{Owners: []owner{}})
	}
	return p
}

// tell adds a contender's report. The times must not decrease.
func (p *picture) tell(t told, at time.Duration) {
	for _, s := range p.Sides {
		if s.Key == t.side {
			s.tell(t, at)
		}
	}
}

// just is how long an ended session counts as the cause of an overlap.
const just = time.Second

func (s *side) tell(t told, at time.Duration) {
	for _, l := range s.Lanes {
		if l.Who != t.who {
			continue
		}
		if t.needless {
			s.Needless++
			return
		}
		before := l.last().State
		l.tell(t, at)
		s.count(at)
		switch {
		case before == t.state:
		case t.state == lost && len(s.holders()) == 0:
			s.loss = &margin{Who: t.who, Lost: at}
		case t.state == holds && before != still && s.loss != nil:
			s.loss.Granted = at
			s.Margins = append(s.Margins, *s.loss)
			s.Last, s.loss = s.loss, nil
		}
	}
}

// count records the start or the end of an overlap.
func (s *side) count(at time.Duration) {
	together := len(s.holders()) > 1
	last := len(s.Overlaps) - 1
	open := last >= 0 && s.Overlaps[last].Open
	switch {
	case together && !open:
		s.Times++
		if s.behind(at) {
			s.Behind++
		}
		s.Overlaps = append(s.Overlaps, overlap{span: span{From: at, Open: true}})
	case !together && open:
		s.Overlaps[last].close(at)
		if s.Overlaps[last].Healed {
			s.Healed++
		}
		s.Together += at - s.Overlaps[last].From
	}
}

// behind reports whether a holder's session has just been ended from outside.
func (s *side) behind(at time.Duration) bool {
	return slices.ContainsFunc(s.Lanes, func(l *lane) bool {
		return l.last().State == holds && l.ended != nil && *l.ended >= at-just
	})
}

// holders returns the contenders that believe that they hold the lock. A paused one does
// not count, because it does nothing under the lock.
func (s *side) holders() (names []string) {
	for _, l := range s.Lanes {
		if l.last().State == holds {
			names = append(names, l.Who)
		}
	}
	return names
}

func (s *side) lane(who string) *lane {
	return s.Lanes[slices.IndexFunc(s.Lanes, func(l *lane) bool { return l.Who == who })]
}

func (l *lane) last() *bar { return &l.Bars[len(l.Bars)-1] }

func (l *lane) tell(t told, at time.Duration) {
	if l.holder = t.state == holds || t.state == still && l.holder; !l.holder {
		l.ended = nil
	}
	last := l.last()
	if last.State == t.state && last.Alone == t.alone {
		last.Note = t.note
		return
	}
	last.close(at)
	l.Bars = append(l.Bars, bar{span: span{From: at, Open: true}, State: t.state, Alone: t.alone, Note: t.note})
}

func (s *span) close(at time.Duration) { s.To, s.Open = at, false }

// own adds a contender's report about a shard: the contender works on it, is paused with
// it, or has given it up.
func (p *picture) own(who string, number int, as state, at time.Duration) {
	s, twice := p.Shards[number], false
	for i := range s.Owners {
		if o := &s.Owners[i]; o.Open && o.Who == who {
			o.close(at)
		} else if o.Open && !o.Still {
			twice = true
		}
	}
	if as == away {
		return
	}
	if twice && as == holds {
		p.Twice++
	}
	s.Owners = append(s.Owners, owner{span: span{From: at, Open: true}, Who: who, Still: as == still})
}

// mark adds a fault.
func (p *picture) mark(who, what string, at time.Duration) {
	p.Marks = append(p.Marks, mark{at, who, what})
	without := func(names []string) []string {
		return slices.DeleteFunc(names, func(n string) bool { return n == who })
	}
	if what != doCareful && what != doCareless {
		p.Faults++
	}
	switch what {
	case doCut:
		p.Cut = append(p.Cut, who)
	case doHeal:
		p.Cut = without(p.Cut)
		for _, s := range p.Sides {
			if last := len(s.Overlaps) - 1; last >= 0 && s.Overlaps[last].Open {
				s.Overlaps[last].Healed = true
			}
		}
	case doPause:
		p.Still = append(p.Still, who)
	case doWake:
		p.Still = without(p.Still)
	case doKill:
		p.Cut, p.Still, p.Dead = without(p.Cut), without(p.Still), append(p.Dead, who)
		for _, s := range p.Sides {
			s.tell(told{who: who, state: away}, at)
		}
		for i := range p.Shards {
			p.own(who, i, away, at)
		}
	case doStart:
		p.Dead = without(p.Dead)
	case doExpire:
		for _, s := range p.Sides {
			if l := s.lane(who); l.holder {
				l.ended = &at
			}
		}
	case doCareful, doCareless:
		p.Careful = what == doCareful
	case doStrike, doneStrike:
		p.Struck = what == doStrike
	}
}

// forget drops whatever ended before that time. The counts stay.
func (p *picture) forget(before time.Duration) {
	past := func(s span) bool { return !s.Open && s.To < before }
	p.Marks = slices.DeleteFunc(p.Marks, func(m mark) bool { return m.At < before })
	for _, s := range p.Shards {
		s.Owners = slices.DeleteFunc(s.Owners, func(o owner) bool { return past(o.span) })
	}
	for _, s := range p.Sides {
		s.Overlaps = slices.DeleteFunc(s.Overlaps, func(o overlap) bool { return past(o.span) })
		s.Margins = slices.DeleteFunc(s.Margins, func(m margin) bool { return m.Granted < before })
		for _, l := range s.Lanes {
			l.Bars = slices.DeleteFunc(l.Bars, func(b bar) bool { return past(b.span) })
		}
	}
}
