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

// A play of listings: requests join, listings that were given out begin, and end. It keeps its own book of what must hold.
type listingsPlay struct {
	t      *testing.T
	what   []string
	book   *listings
	now    int // counts the moves
	asked  map[*asked]int
	ready  map[string]int         // since when a directory's next listing has waited for room alone
	begun  map[*sharedListing]int // when
	out    []*sharedListing       // given out, and not ended
	served map[*asked]int
}

// The directories of a play, and what is known of them. Two middling ones have room together. A big one has room only by itself.
var playedSizes = map[string]int{
	"unknown": 0, "middling": listingsBudget / listedName / 2, "half": listingsBudget / listedName / 2, "big": 2 * listingsBudget / listedName,
}

func newListingsPlay(t *testing.T) *listingsPlay {
	t.Helper()
	return &listingsPlay{
		t: t, book: newListings(func(dir string) int { return playedSizes[dir] }), asked: map[*asked]int{}, ready: map[string]int{},
		begun: map[*sharedListing]int{}, served: map[*asked]int{},
	}
}

// moves returns what may happen next.
func (p *listingsPlay) moves(dirs []string) (moves []string) {
	for _, dir := range dirs {
		moves = append(moves, "join "+dir)
	}
	for _, g := range p.out {
		if _, begun := p.begun[g]; !begun {
			moves = append(moves, "begin "+g.dir)
		}
		moves = append(moves, "end "+g.dir) // also of one that is not made
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
	i := slices.IndexFunc(p.out, func(g *sharedListing) bool { return g.dir == dir })
	switch verb {
	case "join":
		r := &asked{}
		p.asked[r] = p.now
		if _, waits := p.ready[dir]; !waits && i < 0 {
			p.ready[dir] = p.now
		}
		p.given(p.book.join(dir, r))
	case "begin":
		p.begun[p.out[i]] = p.now
		p.out[i].begins(nil)
	case "end":
		p.end(i)
	}
	p.check()
}

// end ends a listing, and notes which requests it has served.
func (p *listingsPlay) end(i int) {
	p.t.Helper()
	g := p.out[i]
	p.out = slices.Delete(p.out, i, i+1)
	for _, r := range g.members {
		p.served[r]++
		if began, ok := p.begun[g]; ok && began < p.asked[r] {
			p.errorf("a request is served by a listing of %s that began before it, want a later one", g.dir)
		}
	}
	members := len(g.members)
	p.ready[g.dir] = p.now
	p.given(p.book.ends(g))
	if len(g.members) != members {
		p.errorf("a listing of %s that has ended has %d requests, want the %d of before", g.dir, len(g.members), members)
	}
	if d := p.book.dirs[g.dir]; d == nil {
		delete(p.ready, g.dir)
	}
}

// given takes what was given out.
func (p *listingsPlay) given(out []*sharedListing) {
	p.t.Helper()
	for _, g := range out {
		since := p.ready[g.dir]
		delete(p.ready, g.dir)
		for dir, earlier := range p.ready {
			if earlier < since {
				p.errorf("the listing of %s is given out before that of %s, which has waited for longer", g.dir, dir)
			}
		}
		p.out = append(p.out, g)
	}
}

// check holds after every move.
func (p *listingsPlay) check() {
	p.t.Helper()
	dirs, bytes := map[string]bool{}, 0
	for _, g := range p.out {
		if dirs[g.dir] {
			p.errorf("two listings of %s are given out, want one", g.dir)
		}
		dirs[g.dir] = true
		bytes += max(listedLeast, listedName*playedSizes[g.dir])
	}
	if bytes > listingsBudget && len(p.out) > 1 {
		p.errorf("%d listings of %d bytes are given out together, want at most %d bytes", len(p.out), bytes, listingsBudget)
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
	if waiting > 0 && len(p.out) == 0 {
		p.errorf("%d requests wait, and no listing is given out", waiting)
	}
}

// drain ends all that was asked for.
func (p *listingsPlay) drain() {
	p.t.Helper()
	for len(p.out) > 0 {
		if g := p.out[0]; !g.begun {
			p.move("begin " + g.dir)
		}
		p.move("end " + p.out[0].dir)
	}
	if len(p.book.dirs) != 0 || p.book.waits[0].first() != nil || p.book.waits[1].first() != nil || p.book.bytes != 0 {
		p.errorf("when all have ended %d directories, %v that wait and %d bytes are left, want none", len(p.book.dirs), p.book.waits, p.book.bytes)
	}
}

// TestListingsOfADirectoryAreShared plays every order of a few requests. Each is served once, by a listing that begins after it. One
// listing of a directory is under way at a time. Together they stay within their bytes. None waits for ever, nor for a later one.
func TestListingsOfADirectoryAreShared(t *testing.T) {
	for _, c := range []struct {
		dirs    []string
		longest int
	}{
		{[]string{"unknown"}, eventstest.Amount(9, 12)},
		{[]string{"middling", "big"}, eventstest.Amount(7, 9)},
		{[]string{"unknown", "middling", "half", "big"}, eventstest.Amount(5, 7)},
	} {
		played := 0
		var play func(moves []string)
		play = func(moves []string) {
			p := newListingsPlay(t)
			for _, m := range moves {
				p.move(m)
			}
			next := p.moves(c.dirs)
			p.drain()
			played++
			if len(moves) < c.longest {
				for _, m := range next {
					play(append(slices.Clip(moves), m))
				}
			}
		}
		play(nil)
		t.Logf("%v: %d plays", c.dirs, played)
	}
}

// TestALongPlayOfListings is TestListingsOfADirectoryAreShared for many requests at a time, in random order.
func TestALongPlayOfListings(t *testing.T) {
	dirs := slices.Sorted(maps.Keys(playedSizes))
	for seed := range uint64(eventstest.Amount(50, 2000)) {
		random, p := rand.New(rand.NewPCG(seed, 1)), newListingsPlay(t)
		for range 100 {
			moves := p.moves(dirs)
			p.move(moves[random.IntN(len(moves))])
		}
		p.drain()
	}
}

// TestListingsBehindOneThatIsTooLateAreRefused: the listings that waited for its room are for the same session. Each request is answered
// once.
func TestListingsBehindOneThatIsTooLateAreRefused(t *testing.T) {
	book := newListings(func(string) int { return listingsBudget / listedName })
	var out []*sharedListing
	answers := map[string]int{}
	var group actors.Group
	s := &Session{loop: actors.NewLoop(&group, nil)}
	for _, dirs := range [][]string{{"a"}, {"b"}, {"b", "c"}, {"c"}} {
		seat := &Seat{session: s, post: func(recipes.Input, error) bool { answers[fmt.Sprint(dirs)]++; return false }}
		r := &asked{seat: seat, op: recipes.OpList, wants: &wanted{dirs: dirs, missing: len(dirs)}}
		for _, dir := range dirs {
			out = append(out, book.join(dir, r)...)
		}
	}
	if len(out) != 1 {
		t.Fatalf("%d listings are given out, want one, for which alone there is room", len(out))
	}
	out[0].refuse()
	group.Close()
	if want := map[string]int{"[a]": 1, "[b]": 1, "[b c]": 1, "[c]": 1}; !maps.Equal(answers, want) {
		t.Errorf("when the first is refused the requests are answered %v, want each once", answers)
	}
}

// TestAListingIsAsUrgentAsItsMostUrgentMember: a waiter of which the turn may have come joins a listing that waits with the others.
func TestAListingIsAsUrgentAsItsMostUrgentMember(t *testing.T) {
	var q pending
	book := newListings(func(string) int { return 0 })
	q.add(&waiter{number: 1, urgent: joining})
	given := book.join("d", &asked{op: recipes.OpList})
	if len(given) != 1 {
		t.Fatalf("the first request gives %d listings out, want one", len(given))
	}
	q.add(given[0])
	q.hasten(given[0])
	if next := q.next(); next == given[0] {
		t.Errorf("a listing that no waiter needs at once goes first, want it behind the earlier requests")
	}
	book.join("d", &asked{op: recipes.OpList, turn: true})
	q.hasten(given[0])
	if next := q.next(); next != given[0] {
		t.Errorf("next is %v when the turn of one may have come, want the listing", next)
	}
}

// TestUrgentListingsDoNotWaitBehindABurst: when there is room again, listings for locks of which the turn may have come and the others
// begin by turns.
func TestUrgentListingsDoNotWaitBehindABurst(t *testing.T) {
	book := newListings(func(string) int { return listingsBudget }) // so one is made at a time
	now := book.join("first", &asked{op: recipes.OpList})[0]
	for _, dir := range []string{"a", "b", "c", "d"} {
		book.join(dir, &asked{op: recipes.OpList})
	}
	for _, dir := range []string{"x", "c", "y", "z"} { // c is for a waiter of which the turn has come by now
		book.join(dir, &asked{op: recipes.OpList, turn: true})
	}
	var order []string
	for now != nil {
		now.begins(nil)
		given := book.ends(now)
		if now = nil; len(given) == 1 {
			now = given[0]
			order = append(order, now.dir)
		}
	}
	if want := []string{"a", "x", "b", "c", "d", "y", "z"}; !slices.Equal(order, want) {
		t.Errorf("the listings begin in the order %v, want %v", order, want)
	}
}
