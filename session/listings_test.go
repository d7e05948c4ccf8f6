package session

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
)

// listingsPlay is a run of listings: requests join, and readings begin and end. It keeps
// its own record of what must be true.
type listingsPlay struct {
	t      *testing.T
	what   []string
	s      *Session
	now    int // counts the moves
	asked  map[*seatRequest]int
	served map[*seatRequest]int
	waits  map[string]int // since when a directory has waited in its lane
	begun  map[string]int // when the reading in progress began
	under  []*listing
}

// The directories of a run, and their known sizes. Two middling ones have room together.
// A big one has room only alone.
var playedSizes = map[string]int{
	"unknown": 0, "middling": mostListed / listedName / 2, "half": mostListed / listedName / 2, "big": 2 * mostListed / listedName,
}

// listingSession is a session in its first epoch, without a server. It knows the sizes of
// directories.
func listingSession(sizes map[string]int) *Session {
	c := &client{epoch: 1, dirs: newDirectories(), listings: map[string]*listing{}}
	for dir, size := range sizes {
		c.dirs.known[dir], _ = recipes.DirectoryBook{}.Saw(1, int32(size), 0)
	}
	return &Session{client: c}
}

// lists makes a request join the listings of the directories.
func lists(s *Session, turn bool, dirs ...string) *seatRequest {
	r := &seatRequest{slot: slot{epoch: 1}, op: recipes.OpList, turn: turn, wants: &listNeeds{dirs: dirs}}
	r.seat = &Seat{content: &content{}}
	s.reads(r)
	return r
}

// beginNext starts the next request if it is a listing.
func beginNext(s *Session) *listing {
	l, ok := s.pending.next().(*listing)
	if ok {
		s.pending.remove(l)
		l.onDequeue(s)
		s.pending.count(l, 1)
	}
	return l
}

// end ends a reading.
func end(s *Session, l *listing) {
	s.pending.count(l, -1)
	l.ended(s, s.client, &names{}, nil)
}

func newListingsPlay(t *testing.T) *listingsPlay {
	t.Helper()
	return &listingsPlay{
		t: t, s: listingSession(playedSizes), asked: map[*seatRequest]int{}, served: map[*seatRequest]int{},
		waits: map[string]int{}, begun: map[string]int{},
	}
}

// moves returns the possible next moves.
func (p *listingsPlay) moves(joins ...string) (moves []string) {
	moves = joins
	if _, ok := p.s.pending.next().(*listing); ok {
		moves = append(moves, "begin next")
	}
	for _, l := range p.under {
		moves = append(moves, "end "+l.dir)
	}
	return moves
}

func (p *listingsPlay) errorf(format string, args ...any) {
	p.t.Helper()
	p.t.Fatalf("%v: %s", p.what, fmt.Sprintf(format, args...))
}

func (p *listingsPlay) move(move string) {
	p.t.Helper()
	p.what = append(p.what, move)
	p.now++
	var verb, dir string
	if _, err := fmt.Sscan(move, &verb, &dir); err != nil {
		p.t.Fatal(err)
	}
	switch verb {
	case "join", "turn":
		before := p.lane(dir)
		p.asked[lists(p.s, verb == "turn", dir)] = p.now
		if p.lane(dir) != before {
			p.waits[dir] = p.now
		}
	case "begin":
		l := beginNext(p.s)
		for _, other := range p.s.client.listings {
			if other.waits != nil && other.lane == l.lane && p.waits[other.dir] < p.waits[l.dir] {
				p.errorf("%s is read before %s, which has waited for longer", l.dir, other.dir)
			}
		}
		bytes, beside := playedBytes(l), false
		for _, other := range p.under {
			bytes, beside = bytes+playedBytes(other), beside || other.lane == l.lane
		}
		if beside && bytes > mostListed {
			p.errorf("%s is read beside others, of %d bytes together, want at most %d", l.dir, bytes, mostListed)
		}
		p.under, p.begun[l.dir] = append(p.under, l), p.now
	case "end":
		i := slices.IndexFunc(p.under, func(l *listing) bool { return l.dir == dir })
		l := p.under[i]
		p.under = slices.Delete(p.under, i, i+1)
		end(p.s, l)
		p.waits[dir] = p.now
		for r := range p.s.pending.all() { // the requests whose listings have ended
			if r, ok := r.(*seatRequest); ok {
				p.s.pending.remove(r)
				p.served[r]++
				if p.begun[dir] < p.asked[r] {
					p.errorf("a request is served by a reading of %s that began before it, want a later one", dir)
				}
			}
		}
	}
	p.check()
}

// playedBytes is the expected size of a reading.
func playedBytes(l *listing) int { return max(listedLeast, listedName*playedSizes[l.dir]) }

// lane returns the lane in which the directory waits, or urgencies if it does not wait.
func (p *listingsPlay) lane(dir string) urgency {
	if l := p.s.client.listings[dir]; l != nil && l.waits != nil {
		return l.lane
	}
	return urgencies
}

// check checks what must hold after every move.
func (p *listingsPlay) check() {
	p.t.Helper()
	dirs := map[string]bool{}
	for _, l := range p.under {
		if dirs[l.dir] {
			p.errorf("two readings of %s are under way, want one", l.dir)
		}
		dirs[l.dir] = true
	}
	for _, l := range p.s.client.listings {
		beside := func(other *listing) bool { return other.lane == l.lane }
		if l.waits != nil && !slices.ContainsFunc(p.under, beside) && p.s.pending.next() == nil {
			p.errorf("%s waits, and no listing as urgent is read", l.dir)
		}
	}
	waiting := 0
	for r := range p.asked {
		switch p.served[r] {
		case 0:
			waiting++
		case 1:
		default:
			p.errorf("a request is served %d times, want once", p.served[r])
		}
	}
	if waiting > 0 && len(p.under) == 0 && p.s.pending.next() == nil {
		p.errorf("%d requests wait, and nothing is read", waiting)
	}
}

// drain ends everything that was requested.
func (p *listingsPlay) drain() {
	p.t.Helper()
	for next := p.moves(); len(next) > 0; next = p.moves() {
		p.move(next[len(next)-1])
	}
	if len(p.s.client.listings) != 0 || p.s.pending.bytes != [urgencies]int32{} || len(p.served) != len(p.asked) {
		p.errorf("when all have ended %d directories and %v bytes are left, and %d of %d requests are served; want none left, and all served",
			len(p.s.client.listings), p.s.pending.bytes, len(p.served), len(p.asked))
	}
}

// TestListingsOfADirectoryAreShared plays every order of a few requests. Each is served
// once, by a reading that begins after it. Each directory has one reading in progress at
// a time. Together, readings stay within their limit. No request waits forever, or for a
// later one.
func TestListingsOfADirectoryAreShared(t *testing.T) {
	for _, c := range []struct {
		joins   []string
		longest int
	}{
		{[]string{"join unknown"}, eventstest.Amount(9, 12)},
		{[]string{"join middling", "join big"}, eventstest.Amount(7, 9)},
		{[]string{"join unknown", "join middling", "join half", "join big"}, eventstest.Amount(5, 7)},
		{[]string{"join big", "turn middling", "turn half"}, eventstest.Amount(5, 7)},
	} {
		played := 0
		var play func(moves []string)
		play = func(moves []string) {
			p := newListingsPlay(t)
			for _, m := range moves {
				p.move(m)
			}
			next := p.moves(c.joins...)
			p.drain()
			played++
			if len(moves) < c.longest {
				for _, m := range next {
					play(append(slices.Clip(moves), m))
				}
			}
		}
		play(nil)
		t.Logf("%v: %d plays", c.joins, played)
	}
}

// TestALongPlayOfListings is TestListingsOfADirectoryAreShared with many requests at a
// time, in random order.
func TestALongPlayOfListings(t *testing.T) {
	var joins []string
	for _, dir := range slices.Sorted(maps.Keys(playedSizes)) {
		joins = append(joins, "join "+dir, "turn "+dir)
	}
	for seed := range uint64(eventstest.Amount(50, 2000)) {
		random, p := rand.New(rand.NewPCG(seed, 1)), newListingsPlay(t)
		for range 100 {
			moves := p.moves(slices.Clip(joins)...)
			p.move(moves[random.IntN(len(moves))])
		}
		p.drain()
	}
}

// TestListingsThatAreTooLateAreRefused: that includes requests that wait for a reading,
// and those that wait for the next reading of their directory. Each request is answered
// once.
func TestListingsThatAreTooLateAreRefused(t *testing.T) {
	s := listingSession(nil)
	var group actors.Group
	s.loop = actors.NewLoop(&group, nil)
	answers := map[string]int{}
	for i, dirs := range [][]string{{"a"}, {"a"}, {"b"}, {"b", "c"}, {"a", "c"}} {
		r := lists(s, false, dirs...)
		r.seat.session = s
		r.seat.post = func(recipes.Input, error) bool { answers[fmt.Sprint(i, dirs)]++; return false }
		if i == 0 && beginNext(s) == nil {
			t.Fatal("the first request is not read for, want it under way")
		}
	}
	under := s.client.listings["a"]
	s.closing = true
	s.sweep()
	end(s, under)
	group.Close()
	want := map[string]int{"0 [a]": 1, "1 [a]": 1, "2 [b]": 1, "3 [b c]": 1, "4 [a c]": 1}
	eventstest.Equal(t, answers, want, "how often the requests are answered when it is too late")
}

// TestAListingIsAsUrgentAsItsMostUrgentMember: a waiter whose turn may have come joins a
// listing that waits with the others.
func TestAListingIsAsUrgentAsItsMostUrgentMember(t *testing.T) {
	s := listingSession(nil)
	handover := &waiter{urgent: handing}
	s.pending.add(handover)
	lists(s, false, "c")
	lists(s, false, "d")
	equal(t, s.pending.next(), request(handover), "the first, before a listing that no waiter needs at once")
	lists(s, true, "d")
	equal(t, s.pending.next(), request(s.client.listings["d"]), "when the turn of a waiter may have come, the next request")
}
