package recipes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

func (o Operation) text() string {
	do := [...]string{"nothing", "create", "delete", "set", "check"}[o.Do]
	on := [...]string{"", " own", " directory", " writer", " leaver", " record", " size", " permits", " permit directory"}[o.On]
	switch says := ParseDirectoryData(o.Data); {
	case says.Floor != 0:
		on += " floor"
	case says.Ours:
		on += " marker"
	}
	return do + on
}

func (p Plan) whole() (ops []string) {
	for _, o := range p {
		text := fmt.Sprintf("%s %s", o.text(), o.Path)
		switch o.Do {
		case DoCreate:
			text += fmt.Sprintf(" %q %d of %d", o.Data, o.Flags, o.Member)
		case DoSet:
			text += fmt.Sprintf(" %q at %d", o.Data, o.Version)
		default:
			text += fmt.Sprintf(" at %d", o.Version)
		}
		ops = append(ops, text)
	}
	return ops
}

func (p Plan) text() string {
	var ops []string
	for _, o := range p {
		ops = append(ops, o.text())
	}
	return strings.Join(ops, ", ")
}

var (
	ourDir = DirectoryBook{czxid: 7}
	known  = View{Dir: ourDir, Token: 40, Brief: true}
)

func tell(in Input) Meaning { return Meaning{In: in} }

func (m Meaning) seeing(dir string, s Stat) Meaning {
	m.Note, m.Dir, m.stat = NoteSeen, dir, s
	return m
}

func about(e Errand) *Errand {
	e.Dir, e.Data, e.Holder, e.Holding = "/d", []byte("data"), "/d.holder", []byte("holding")
	e.Nodes, e.Writer = []string{"/d/lock-"}, "/d/write-"
	if e.Layout == LayoutSeveral {
		e.Nodes = append(e.Nodes, "/e/lock-")
	}
	if e.Op == OpEnter || e.Permits > 0 {
		e.Size, e.Version, e.Permit, e.Permits = "/s/size", 5, "/s/leases/permit-", max(1, e.Permits)
	}
	return &e
}

// TestWhatARequestMeans: the transaction of each request depends on what the session
// knows.
func TestWhatARequestMeans(t *testing.T) {
	full := known
	full.Dir.children = 2
	rich := known
	rich.Permits = ourDir
	taken, queued := rich, rich
	taken.Permits.children, queued.Dir.children = 1, 1
	both := View{Members: []DirectoryBook{ourDir, {czxid: 8}}, Brief: true}
	for _, c := range []struct {
		e    Errand
		v    View
		want string
	}{
		{Errand{Op: OpCreate}, full, "create own"},
		{Errand{Op: OpCreate}, View{Dir: ourDir}, "create own"},
		{Errand{Op: OpCreate}, View{Dir: ourDir.shut(), Brief: true}, "create own"},
		{Errand{Op: OpCreate}, View{Brief: true}, "create own"},
		{Errand{Op: OpCreate, Layout: LayoutNode}, View{Brief: true}, "create own, set own"},
		{Errand{Op: OpCreate, Layout: LayoutNode}, View{}, "create own"},
		{Errand{Op: OpCreate, Layout: LayoutNode}, View{Brief: true, Plain: true}, "create own"},
		{Errand{Op: OpCreate, Leavers: []string{"/d/other"}}, full, "delete leaver, create own"},
		{Errand{Op: OpDelete}, known, "delete own"},
		{Errand{Op: OpDelete, Floor: true}, known, "delete own, set directory floor"},
		{Errand{Op: OpDelete, Floor: true}, full, "delete own, set directory floor"},
		{Errand{Op: OpDelete, Floor: true}, View{Dir: ourDir, Brief: true}, "delete own"},
		{Errand{Op: OpDelete, Floor: true}, View{Dir: ourDir, Token: 40}, "delete own"},
		{Errand{Op: OpDelete, Floor: true}, View{Dir: ourDir.shut(), Token: 40, Brief: true}, "delete own"},
		{Errand{Op: OpDelete, Clean: true}, known, "delete own, delete record"},
		{Errand{Op: OpClaim}, known, "check own"},
		{Errand{Op: OpDelete, Layout: LayoutNode, Doubts: true}, known, "check directory"},
		{Errand{Op: OpEnter}, known, "check size, delete own, create permits"},
		{Errand{Op: OpEnter, Floor: true}, View{Dir: ourDir, Permits: ourDir, Token: 40}, "check size, delete own, create permits"},
		{Errand{Op: OpCreate, Layout: LayoutSeveral}, View{Members: both.Members}, "create own, create own"},
		{Errand{Op: OpCreate, Layout: LayoutSeveral}, View{Members: []DirectoryBook{ourDir, {}}, Brief: true}, "create own, create own"},
		{Errand{Op: OpCreate, Permits: 2, Count: 2}, rich, "check size, create permits, create permits, set permit directory marker, set directory marker"},
		{Errand{Op: OpCreate, Permits: 3, Count: 2}, rich, "create own, set directory marker"},
		{Errand{Op: OpCreate, Permits: 1}, rich, "create own, set directory marker"},
		{Errand{Op: OpCreate, Permits: 1, Count: 2}, known, "create own, set directory marker"},
		{Errand{Op: OpCreate, Permits: 1, Count: 2}, View{Dir: ourDir, Permits: ourDir}, "create own"},
		{Errand{Op: OpCreate, Permits: 1, Count: 1}, taken, "create own, set directory marker"},
		{Errand{Op: OpCreate, Permits: 1, Count: 2}, queued, "create own, set directory marker"},
		{Errand{Op: OpCreate, Permits: 1, Count: 1, Leavers: []string{"/s/leases/permit-0"}}, taken,
			"delete leaver, check size, create permits, set permit directory marker, set directory marker"},
		{Errand{Op: OpAdvance}, known, "check own"},
		{Errand{Op: OpWatch}, known, ""},
	} {
		eventstest.Equal(t, about(c.e).Plan(c.v).text(), c.want, "%+v, knowing %+v", c.e, c.v)
	}
}

// TestAnOperationIsWhatAServerGets checks plans with paths, data, flags and versions.
// Flags 1 means ephemeral, and 3 ephemeral and numbered.
func TestAnOperationIsWhatAServerGets(t *testing.T) {
	const (
		creates = `create own /d/lock- "data" 3 of 0`
		deletes = "delete own /d/lock- at -1"
		claims  = "check own /d/lock- at -1"
		permit  = `create permits /s/leases/permit- "data" 3 of 0`
		marker  = `set directory marker /d "zkgrant\n" at -1`
		floor   = `set directory floor /d "zkgrant\nfloor 0x28\n" at -1`
	)
	v := known
	v.Permits, v.Members = ourDir, []DirectoryBook{ourDir, {czxid: 8}}
	found := Found{Version: 6, Mark: []byte("m"), TakeOver: []byte("t")}
	for _, c := range []struct {
		e    Errand
		want []string
	}{
		{Errand{Op: OpCreate}, []string{creates, marker}},
		{Errand{Op: OpCreate, Leavers: []string{"/d/other"}}, []string{"delete leaver /d/other at -1", creates, marker}},
		{Errand{Op: OpCreate, Layout: LayoutPlace}, []string{"check writer /d/write- at -1", `create own /d/lock- "data" 1 of 0`}},
		{Errand{Op: OpCreate, Layout: LayoutNode}, []string{`create own /d/lock- "data" 1 of 0`, `set own /d/lock- "data" at -1`}},
		{Errand{Op: OpCreate, Layout: LayoutSeveral},
			[]string{creates, `create own /e/lock- "data" 3 of 1`, marker, `set directory marker /e "zkgrant\n" at -1`}},
		{Errand{Op: OpDelete, Floor: true, Clean: true}, []string{deletes, "delete record /d.holder at -1", floor}},
		{Errand{Op: OpDelete, Layout: LayoutSeveral}, []string{deletes, "delete own /e/lock- at -1"}},
		{Errand{Op: OpClaim, Layout: LayoutSeveral}, []string{claims, "check own /e/lock- at -1"}},
		{Errand{Op: OpClaim, Record: RecordMade}, []string{claims, `create record /d.holder "holding" 0 of 0`}},
		{Errand{Op: OpClaim, Record: RecordRead}, []string{claims, "check record /d.holder at -1"}},
		{Errand{Op: OpClaim, Record: RecordMade, delayed: delayed{next: marks, Found: found}},
			[]string{claims, `set record /d.holder "m" at 6`}},
		{Errand{Op: OpClaim, Record: RecordMade, delayed: delayed{next: takesOver, Found: found}},
			[]string{claims, `set record /d.holder "t" at 6`}},
		{Errand{Op: OpList}, []string{"check directory /d at -1"}},
		{Errand{Op: OpEnter, Floor: true, Permits: 2}, []string{"check size /s/size at 5", deletes, permit, permit,
			`set permit directory marker /s/leases "zkgrant\n" at -1`, floor}},
	} {
		eventstest.Equal(t, about(c.e).Plan(v).whole(), c.want, "%+v", c.e)
	}
	renewal := Renewal{Dir: "/d", Version: 4, Data: DirectoryData{Ours: true}, Children: 1, Own: "/d/lock-", Stays: true}
	want := []string{deletes, "delete directory /d at 4", `create directory marker /d "zkgrant\n" 0 of 0`}
	eventstest.Equal(t, renewal.Plan().whole(), want, "%+v", renewal)
}

// TestWhatAnAnswerMeans: what follows from each answer to each plan.
func TestWhatAnAnswerMeans(t *testing.T) {
	const made = "/d/lock-0000000003"
	node := events.Name{Text: "lock-0000000003", Kind: events.KindLock, Seq: 3}
	two := []events.Name{node, node}
	two[1].Member = 1
	create, remove := about(Errand{Op: OpCreate, Epoch: 1}), about(Errand{Op: OpDelete, Epoch: 1, Floor: true})
	clean, unclean := about(Errand{Op: OpDelete, Epoch: 1, Clean: true}), about(Errand{Op: OpDelete, Epoch: 1, stays: true})
	list, advance := about(Errand{Op: OpList, Epoch: 1}), about(Errand{Op: OpAdvance, Epoch: 1})
	claim, makes, reads := about(Errand{Op: OpClaim, Epoch: 1}), about(Errand{Op: OpClaim, Epoch: 1, Record: RecordMade}), about(Errand{Op: OpClaim, Epoch: 1, Record: RecordRead})
	place, one, turns := about(Errand{Op: OpCreate, Epoch: 1, Layout: LayoutPlace}), about(Errand{Op: OpCreate, Epoch: 1, Layout: LayoutNode}), about(Errand{Op: OpCreate, Epoch: 1, Leavers: []string{"/d/other"}})
	enter, several, gives := about(Errand{Op: OpEnter, Epoch: 1, Floor: true}), about(Errand{Op: OpCreate, Epoch: 1, Layout: LayoutSeveral}), about(Errand{Op: OpDelete, Epoch: 1, Layout: LayoutSeveral})
	rich, stale := known, tell(Refused{Epoch: 1, Op: OpEnter, Stale: true})
	rich.Permits = ourDir
	alone, beside, other := Stat{Czxid: 7, Mzxid: 40, Children: 1}, Stat{Czxid: 7, Mzxid: 40, Children: 2}, Stat{Czxid: 8, Mzxid: 40, Children: 1}
	refused, permits := Refused{Epoch: 1, Op: OpCreate}, []string{"leases/permit-1"}
	done := Answer{Result: ResultDone}
	named := func(stats ...Stat) Answer { return Answer{Result: ResultDone, Nodes: []string{made}, Stats: stats} }
	both := func(stats ...Stat) Answer {
		return Answer{Result: ResultDone, Nodes: []string{made, made}, Stats: stats}
	}
	entered := func(counted Stat) Answer {
		return Answer{Result: ResultDone, Nodes: []string{"/s/leases/permit-1"}, Stats: []Stat{counted, other}}
	}
	atOnce := about(Errand{Op: OpCreate, Epoch: 1, Count: 2, Permits: 1})
	queues := *atOnce
	queues.Count = 0
	empty := Stat{Czxid: 7, Mzxid: 40}
	got := func(permits, queue Stat) Answer {
		return Answer{Result: ResultDone, Nodes: []string{"/s/leases/permit-1"}, Stats: []Stat{permits, queue}}
	}
	atOnceOf := func(spare bool, inUse int32) Entered {
		return Entered{Epoch: 1, Permits: permits, InUse: inUse, Size: 2, Token: 40, Spare: spare}
	}
	// The plan of an enter has more than two operations.
	const size, own, permit, counted, floor = 0, 1, 2, 3, 4
	const first, second = 0, 1
	at := func(e *Errand, i int) Operation { return e.Plan(rich)[i] }
	for _, c := range []struct {
		e    *Errand
		a    Answer
		want Meaning
	}{
		{list, done, Meaning{Then: ThenLook}},
		{list, Answer{Result: ResultNoNode}, Meaning{Then: ThenLook}}, // the quorum has answered, too
		{list, Answer{Result: ResultRefused}, list.refused(false)},
		{list, Answer{Result: ResultUnknown}, list.unknown()},
		{advance, done, tell(Claimed{Epoch: 1})},
		{advance, Answer{Result: ResultNoNode, At: first}, advance.refused(true)},
		{create, named(alone), tell(Created{Epoch: 1, Node: node, Alone: true, Token: 40}).seeing("/d", alone)},
		{create, named(beside), tell(Created{Epoch: 1, Node: node}).seeing("/d", beside)},
		{create, named(other), tell(Created{Epoch: 1, Node: node}).seeing("/d", other)},
		{create, done, create.unknown()}, // the answer was truncated
		{create, named(), create.unknown()},
		{create, Answer{Result: ResultDone, Stats: []Stat{alone}}, create.unknown()},
		{create, Answer{Result: ResultUnknown}, create.unknown()},
		{create, Answer{Result: ResultNoNode, At: first}, Meaning{Then: ThenAgain}.noting(NoteGone, at(create, first))},
		{create, Answer{Result: ResultRefused, At: second}, Meaning{Then: ThenAgain}.noting(NoteShut, at(create, second))},
		{create, Answer{Result: ResultRefused, At: first}, tell(refused)},
		{create, Answer{Result: ResultRefused, At: -1}, tell(refused)},
		{place, named(), tell(Created{Epoch: 1, Node: node})},
		{place, Answer{Result: ResultNoNode, At: first}, place.refused(true)},
		{place, Answer{Result: ResultRefused, At: second}, tell(refused)},
		{one, named(other), tell(Created{Epoch: 1, Node: TheNode("/d/lock-"), Alone: true, Token: 8})},
		{one, named(), one.unknown()},
		{one, Answer{Result: ResultNodeExists, At: first}, tell(Occupied{Epoch: 1})},
		{one, Answer{Result: ResultNoNode, At: first}, Meaning{Then: ThenMakeParents}.noting(NoteNothing, at(one, first))},
		{one, Answer{Result: ResultRefused, At: second}, Meaning{Then: ThenAgain}.noting(NoteShut, at(one, second))},
		{one, Answer{Result: ResultRefused, At: first}, tell(refused)},
		{turns, named(alone), tell(Created{Epoch: 1, Node: node, Alone: true, Token: 40}).seeing("/d", alone)},
		{turns, Answer{Result: ResultNoNode}, Meaning{Then: ThenApart}},
		{turns, Answer{Result: ResultUnknown}, turns.unknown()},
		{remove, Answer{Result: ResultDone, Stats: []Stat{alone}}, tell(Deleted{1}).seeing("/d", beside)}, // as it was before the delete
		{remove, Answer{Result: ResultNoNode, At: first}, tell(Deleted{1})},
		{remove, Answer{Result: ResultRefused, At: second}, Meaning{Then: ThenAgain}.noting(NoteShut, at(remove, second))},
		{remove, Answer{Result: ResultRefused, At: first}, remove.refused(false)},
		{remove, Answer{Result: ResultUnknown}, remove.unknown()},
		{clean, done, tell(Deleted{1})},
		{clean, Answer{Result: ResultNoNode, At: first}, tell(Deleted{1})},
		{clean, Answer{Result: ResultNoNode, At: second}, Meaning{Then: ThenAgain}},
		{clean, Answer{Result: ResultRefused, At: second}, Meaning{Then: ThenAgain}},
		{unclean, done, unclean.refused(false)},
		{claim, done, tell(Claimed{Epoch: 1})},
		{claim, Answer{Result: ResultNoNode, At: first}, claim.refused(true)},
		{claim, Answer{Result: ResultUnknown}, claim.unknown()},
		{makes, done, tell(Claimed{Epoch: 1, Recorded: true})},
		{makes, Answer{Result: ResultNodeExists, At: second}, Meaning{Then: ThenReadRecord}},
		{makes, Answer{Result: ResultNoNode, At: first}, makes.refused(true)},
		{makes, Answer{Result: ResultNoNode, At: second}, makes.refused(false)},
		{reads, done, Meaning{Then: ThenReadRecord}},
		{reads, Answer{Result: ResultNoNode, At: second}, tell(Claimed{Epoch: 1, Recorded: true})},
		{reads, Answer{Result: ResultNoNode, At: first}, reads.refused(true)},
		{enter, entered(beside), tell(Entered{Epoch: 1, Permits: permits, InUse: 2})},
		{enter, entered(other), Meaning{Then: ThenCount, In: Entered{Epoch: 1, Permits: permits}}},
		{atOnce, got(Stat{Czxid: 7, Mzxid: 40, Children: 2}, empty), tell(atOnceOf(false, 2)).seeing("/s/leases", Stat{Czxid: 7, Mzxid: 40, Children: 2})},
		{atOnce, got(Stat{Czxid: 7, Mzxid: 40, Children: 3}, empty), tell(atOnceOf(true, 3)).seeing("/s/leases", Stat{Czxid: 7, Mzxid: 40, Children: 3})},
		{atOnce, got(Stat{Czxid: 7, Mzxid: 40, Children: 1}, alone), tell(atOnceOf(true, 1)).seeing("/d", alone)},
		{atOnce, got(Stat{Czxid: 8, Mzxid: 40, Children: 1}, empty), tell(atOnceOf(true, 1)).seeing("/s/leases", other)},
		{atOnce, got(Stat{Czxid: 7, Mzxid: 40, Children: 1}, Stat{Czxid: 8}), tell(atOnceOf(true, 1)).seeing("/s/leases", alone)},
		{atOnce, done, atOnce.unknown()},
		{atOnce, Answer{Result: ResultUnknown}, atOnce.unknown()},
		{atOnce, Answer{Result: ResultBadVersion, At: 0}, Meaning{Then: ThenAgain}},
		{atOnce, Answer{Result: ResultNoNode, At: 0}, Meaning{Then: ThenAgain}},
		{atOnce, Answer{Result: ResultNoNode, At: 1}, Meaning{Then: ThenAgain}.noting(NoteGone, at(atOnce, 1))},
		{atOnce, Answer{Result: ResultNoNode, At: 3}, Meaning{Then: ThenAgain}.noting(NoteGone, at(atOnce, 3))},
		{atOnce, Answer{Result: ResultRefused, At: 2}, Meaning{Then: ThenAgain}.noting(NoteShut, at(atOnce, 2))},
		{enter, done, enter.unknown()},
		{enter, Answer{Result: ResultBadVersion, At: size}, stale},
		{enter, Answer{Result: ResultNoNode, At: size}, stale},
		{enter, Answer{Result: ResultRefused, At: size}, enter.refused(false)},
		{enter, Answer{Result: ResultNoNode, At: own}, enter.refused(true)},
		{enter, Answer{Result: ResultNoNode, At: permit}, Meaning{Then: ThenMakeParents}.noting(NoteGone, at(enter, permit))},
		{enter, Answer{Result: ResultNoNode, At: counted}, Meaning{Then: ThenMakeParents}.noting(NoteGone, at(enter, counted))},
		{enter, Answer{Result: ResultRefused, At: counted}, Meaning{Then: ThenAgain}.noting(NoteShut, at(enter, counted))},
		{enter, Answer{Result: ResultRefused, At: floor}, Meaning{Then: ThenAgain}.noting(NoteShut, at(enter, floor))},
		{enter, Answer{Result: ResultRefused, At: permit}, enter.refused(false)},
		{several, both(alone, Stat{Czxid: 8, Mzxid: 40, Children: 1}), tell(Enqueued{Epoch: 1, Nodes: two, Alone: true, Token: 40})},
		{several, both(alone, Stat{Czxid: 8, Mzxid: 40, Children: 2}), tell(Enqueued{Epoch: 1, Nodes: two})},
		{several, both(other, Stat{Czxid: 8, Mzxid: 40, Children: 1}), tell(Enqueued{Epoch: 1, Nodes: two})},
		{several, done, several.unknown()},
		{several, Answer{Result: ResultNoNode, At: second}, Meaning{Then: ThenMakeParents}.noting(NoteGone, at(several, second))},
		{several, Answer{Result: ResultRefused, At: 2}, Meaning{Then: ThenAgain}.noting(NoteShut, set(OnDirectory, "/d", nil))},
		{gives, done, tell(Deleted{1})},
		{gives, Answer{Result: ResultNoNode, At: second}, Meaning{Then: ThenApart}},
		{gives, Answer{Result: ResultUnknown}, gives.unknown()},
	} {
		v := rich
		if c.e.Layout == LayoutSeveral {
			v.Members = []DirectoryBook{ourDir, {czxid: 8}}
		}
		e := *c.e
		eventstest.Equal(t, e.Means(e.Plan(v), c.a), c.want, "%+v, answered %+v", *c.e, c.a)
	}
	for _, c := range []struct {
		e    *Errand
		a    Answer
		want *Errand
	}{
		{list, done, list}, {create, Answer{Result: ResultNoNode, At: first}, create},
		{clean, Answer{Result: ResultNoNode, At: second}, about(Errand{Op: OpDelete, Epoch: 1})},
		{clean, Answer{Result: ResultRefused, At: second}, unclean},
		{atOnce, Answer{Result: ResultBadVersion, At: 0}, &queues},
		{atOnce, Answer{Result: ResultNoNode, At: 1}, &queues},
	} {
		e := *c.e
		e.Means(e.Plan(rich), c.a)
		eventstest.Equal(t, e, *c.want, "what %+v, answered %+v, becomes", *c.e, c.a)
	}
	for _, e := range []*Errand{create, several} {
		plain := e.Plan(View{})
		want := Meaning{Then: ThenMakeParents}.noting(NoteGone, plain[0])
		eventstest.Equal(t, e.Means(plain, Answer{Result: ResultNoNode}), want, "a create, no directory")
	}
	plain := create.Means(create.Plan(View{}), named())
	eventstest.Equal(t, plain, tell(Created{Epoch: 1, Node: node}), "a plain create")
	plain = several.Means(several.Plan(View{}), both())
	eventstest.Equal(t, plain, tell(Enqueued{Epoch: 1, Nodes: two}), "plain creates")
	eventstest.Equal(t, create.Exhausted(), Input(refused), "a create behind all tries")
	eventstest.Equal(t, claim.Exhausted(), Input(Unknown{Epoch: 1, Op: OpClaim}), "a claim behind all tries")
}

// TestWhatTheBookNotes: what an answer says about a directory.
func TestWhatTheBookNotes(t *testing.T) {
	seen := Meaning{}.seeing("/d", Stat{Czxid: 9, Mzxid: 40, Children: 3})
	for _, c := range []struct {
		m    Meaning
		want DirectoryBook
	}{
		{Meaning{}, ourDir},
		{Meaning{Note: NoteGone}, DirectoryBook{}}, {Meaning{Note: NoteShut}, ourDir.shut()}, {seen, DirectoryBook{there: true, children: 3}},
	} {
		eventstest.Equal(t, c.m.Book(ourDir), c.want, "%+v", c.m)
	}
}

// TestWhoseTheOneNodeIs: a claim, and a delete in doubt, depend on a read after the
// transaction.
func TestWhoseTheOneNodeIs(t *testing.T) {
	claim := about(Errand{Op: OpClaim, Epoch: 1, Layout: LayoutNode})
	doubts, sure := about(Errand{Op: OpDelete, Epoch: 1, Layout: LayoutNode, Doubts: true}), about(Errand{Op: OpDelete, Epoch: 1, Layout: LayoutNode})
	looked := *doubts
	for i, c := range []struct{ got, want Meaning }{
		{claim.Means(claim.Plan(View{}), Answer{Result: ResultDone}), Meaning{Then: ThenLook}},
		{claim.Means(claim.Plan(View{}), Answer{Result: ResultNoNode}), claim.refused(true)},
		{claim.Looked(true), tell(Claimed{Epoch: 1})},
		{claim.Looked(false), claim.refused(true)},
		{doubts.Means(doubts.Plan(View{}), Answer{Result: ResultDone}), Meaning{Then: ThenLook}},
		{doubts.Means(doubts.Plan(View{}), Answer{Result: ResultNoNode}), Meaning{Then: ThenLook}},
		{doubts.Means(doubts.Plan(View{}), Answer{Result: ResultRefused}), doubts.refused(false)},
		{looked.Looked(true), Meaning{Then: ThenAgain}},
		{doubts.Looked(false), tell(Deleted{1})},
		{sure.Means(sure.Plan(View{}), Answer{Result: ResultNoNode}), tell(Deleted{1})},
	} {
		eventstest.Equal(t, c.got, c.want, "row %d", i)
	}
	eventstest.Equal(t, looked, *sure, "the delete that was in doubt")
}
