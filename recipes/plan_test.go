package recipes

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/events"
)

func (o Operation) text() string {
	do := [...]string{"nothing", "create", "delete", "set", "check"}[o.Do]
	on := [...]string{"", " own", " directory", " writer", " leaver", " record", " size", " permits", " permit directory"}[o.On]
	return do + on + [...]string{"", " marker", " floor"}[o.With]
}

func (p Plan) text() string {
	var ops []string
	for i := range p.Len() {
		ops = append(ops, p.At(i).text())
	}
	return strings.Join(ops, ", ")
}

var (
	ourDir = DirectoryBook{czxid: 7}
	known  = View{Dir: ourDir, Token: 40, Brief: true}
)

// TestWhatARequestMeans: the transaction of each request, by what the session knows.
func TestWhatARequestMeans(t *testing.T) {
	full := known
	full.Dir.contended = true
	rich := known
	rich.Permits = ourDir
	for _, c := range []struct {
		e    Errand
		v    View
		want string
	}{
		{Errand{Op: OpCreate}, known, "create own, set directory marker"},
		{Errand{Op: OpCreate}, full, "create own"},
		{Errand{Op: OpCreate}, View{Dir: ourDir}, "create own"},
		{Errand{Op: OpCreate}, View{Dir: ourDir.Shut(), Brief: true}, "create own"},
		{Errand{Op: OpCreate}, View{Brief: true}, "create own"},
		{Errand{Op: OpCreate, Layout: LayoutPlace}, known, "check writer, create own"},
		{Errand{Op: OpCreate, Layout: LayoutNode}, View{Brief: true}, "create own, set own"},
		{Errand{Op: OpCreate, Layout: LayoutNode}, View{}, "create own"},
		{Errand{Op: OpCreate, Layout: LayoutNode}, View{Brief: true, Plain: true}, "create own"},
		{Errand{Op: OpCreate, Turns: true}, known, "delete leaver, create own, set directory marker"},
		{Errand{Op: OpCreate, Turns: true}, full, ""},
		{Errand{Op: OpDelete}, known, "delete own"},
		{Errand{Op: OpDelete, Floor: true}, known, "delete own, set directory floor"},
		{Errand{Op: OpDelete, Floor: true}, full, "delete own, set directory floor"},
		{Errand{Op: OpDelete, Floor: true}, View{Dir: ourDir, Brief: true}, "delete own"},
		{Errand{Op: OpDelete, Floor: true}, View{Dir: ourDir, Token: 40}, "delete own"},
		{Errand{Op: OpDelete, Floor: true}, View{Dir: ourDir.Shut(), Token: 40, Brief: true}, "delete own"},
		{Errand{Op: OpDelete, Clean: true}, known, "delete own, delete record"},
		{Errand{Op: OpDelete, Clean: true, Floor: true}, known, "delete own, delete record, set directory floor"},
		{Errand{Op: OpClaim}, known, "check own"},
		{Errand{Op: OpClaim, Record: RecordMade}, known, "check own, create record"},
		{Errand{Op: OpClaim, Record: RecordRead}, known, "check own, check record"},
		{Errand{Op: OpDelete, Layout: LayoutNode, Doubts: true}, known, "check directory"},
		{Errand{Op: OpEnter}, known, "check size, delete own, create permits"},
		{Errand{Op: OpEnter, Floor: true}, rich, "check size, delete own, create permits, set permit directory marker, set directory floor"},
		{Errand{Op: OpEnter, Floor: true}, View{Dir: ourDir, Permits: ourDir, Token: 40}, "check size, delete own, create permits"},
		{Errand{Op: OpCreate, Layout: LayoutSeveral}, View{All: true}, "create own, set directory marker"},
		{Errand{Op: OpCreate, Layout: LayoutSeveral}, known, "create own"},
		{Errand{Op: OpDelete, Layout: LayoutSeveral}, known, "delete own"},
		{Errand{Op: OpList}, known, "check directory"},
		{Errand{Op: OpAdvance}, known, "check own"},
		{Errand{Op: OpWatch}, known, ""},
	} {
		if p := c.e.Plan(c.v); p.text() != c.want {
			t.Errorf("%+v, knowing %+v: %q, want %q", c.e, c.v, p.text(), c.want)
		}
	}
}

// TestWhatAnAnswerMeans: what follows from each answer to each plan.
func TestWhatAnAnswerMeans(t *testing.T) {
	node := events.Name{Text: "lock-0000000003", Seq: 3}
	two, zxids := []events.Name{{Text: "0/a"}, {Text: "1/b"}}, []int64{7, 8}
	own, writer := Operation{Do: DoCreate, On: OnOwn}, Operation{Do: DoCheck, On: OnWriter}
	marker, floor := Operation{DoSet, OnDirectory, WithMarker}, Operation{DoSet, OnDirectory, WithFloor}
	del, record := Operation{Do: DoDelete, On: OnOwn}, Operation{Do: DoDelete, On: OnRecord}
	check, records, looked := Operation{Do: DoCheck, On: OnOwn}, Operation{Do: DoCreate, On: OnRecord}, Operation{Do: DoCheck, On: OnRecord}
	create, remove := Errand{Op: OpCreate, Epoch: 1}, Errand{Op: OpDelete, Epoch: 1, Floor: true}
	clean, unclean := Errand{Op: OpDelete, Epoch: 1, Clean: true}, Errand{Op: OpDelete, Epoch: 1, stays: true}
	list, advance := Errand{Op: OpList, Epoch: 1}, Errand{Op: OpAdvance, Epoch: 1}
	claim, makes, reads := Errand{Op: OpClaim, Epoch: 1}, Errand{Op: OpClaim, Epoch: 1, Record: RecordMade}, Errand{Op: OpClaim, Epoch: 1, Record: RecordRead}
	place, one, turns := Errand{Op: OpCreate, Epoch: 1, Layout: LayoutPlace}, Errand{Op: OpCreate, Epoch: 1, Layout: LayoutNode}, Errand{Op: OpCreate, Epoch: 1, Turns: true}
	enter, several, gives := Errand{Op: OpEnter, Epoch: 1, Floor: true}, Errand{Op: OpCreate, Epoch: 1, Layout: LayoutSeveral}, Errand{Op: OpDelete, Epoch: 1, Layout: LayoutSeveral}
	size, permits, counted := Operation{Do: DoCheck, On: OnSize}, Operation{Do: DoCreate, On: OnPermits}, Operation{DoSet, OnPermitDirectory, WithMarker}
	rich, made, stale := known, []string{"leases/a"}, tell(Refused{Epoch: 1, Op: OpEnter, Stale: true})
	rich.Permits, rich.All = ourDir, true
	alone, beside, other := DirectoryStat{7, 40, 1}, DirectoryStat{7, 40, 2}, DirectoryStat{8, 40, 1}
	refused := Refused{Epoch: 1, Op: OpCreate}
	for _, c := range []struct {
		e    Errand
		a    Answer
		want Meaning
	}{
		{list, Answer{Result: ResultDone}, list.next(ThenLook)},
		{list, Answer{Result: ResultNoNode}, list.next(ThenLook)}, // the quorum has said so, too
		{list, Answer{Result: ResultRefused}, list.refused(false)},
		{list, Answer{Result: ResultUnknown}, list.unknown()},
		{advance, Answer{Result: ResultDone}, tell(Claimed{Epoch: 1})},
		{advance, Answer{Result: ResultNoNode, At: check}, advance.refused(true)},
		{create, Answer{Result: ResultDone, Node: node, Stat: alone}, tell(Created{Epoch: 1, Node: node, Alone: true, Token: 40}).seeing(alone)},
		{create, Answer{Result: ResultDone, Node: node, Stat: beside}, tell(Created{Epoch: 1, Node: node}).seeing(beside)},
		{create, Answer{Result: ResultDone, Node: node, Stat: other}, tell(Created{Epoch: 1, Node: node}).seeing(other)},
		{create, Answer{Result: ResultDone, Node: node}, create.unknown()}, // the answer was cut short
		{create, Answer{Result: ResultDone, Stat: alone}, create.unknown()},
		{create, Answer{Result: ResultUnknown}, create.unknown()},
		{create, Answer{Result: ResultNoNode, At: own}, create.next(ThenAgain).noting(NoteGone)},
		{create, Answer{Result: ResultRefused, At: marker}, create.next(ThenAgain).noting(NoteShut)},
		{create, Answer{Result: ResultRefused, At: own}, tell(refused)},
		{place, Answer{Result: ResultDone, Node: node}, tell(Created{Epoch: 1, Node: node})},
		{place, Answer{Result: ResultNoNode, At: writer}, place.refused(true)},
		{place, Answer{Result: ResultRefused, At: own}, tell(refused)},
		{one, Answer{Result: ResultDone, Node: node, Stat: other}, tell(Created{Epoch: 1, Node: node, Alone: true, Token: 8})},
		{one, Answer{Result: ResultDone, Node: node}, one.unknown()},
		{one, Answer{Result: ResultNodeExists, At: own}, tell(Occupied{Epoch: 1})},
		{one, Answer{Result: ResultNoNode, At: own}, one.next(ThenMakeParents)},
		{one, Answer{Result: ResultRefused, At: Operation{Do: DoSet, On: OnOwn}}, one.next(ThenAgain).noting(NoteShut)},
		{one, Answer{Result: ResultRefused, At: own}, tell(refused)},
		{turns, Answer{Result: ResultDone, Node: node, Stat: alone}, tell(Created{Epoch: 1, Node: node, Alone: true, Token: 40}).seeing(alone)},
		{turns, Answer{Result: ResultNoNode}, turns.next(ThenApart)},
		{turns, Answer{Result: ResultUnknown}, turns.unknown()},
		{remove, Answer{Result: ResultDone, Stat: alone}, tell(Deleted{1}).seeing(beside)}, // as it was with the own node
		{remove, Answer{Result: ResultNoNode, At: del}, tell(Deleted{1})},
		{remove, Answer{Result: ResultRefused, At: floor}, remove.next(ThenAgain).noting(NoteShut)},
		{remove, Answer{Result: ResultRefused, At: del}, remove.refused(false)},
		{remove, Answer{Result: ResultUnknown}, remove.unknown()},
		{clean, Answer{Result: ResultDone}, tell(Deleted{1})},
		{clean, Answer{Result: ResultNoNode, At: del}, tell(Deleted{1})},
		{clean, Answer{Result: ResultNoNode, At: record}, Errand{Op: OpDelete, Epoch: 1}.next(ThenAgain)},
		{clean, Answer{Result: ResultRefused, At: record}, unclean.next(ThenAgain)},
		{unclean, Answer{Result: ResultDone}, unclean.refused(false)},
		{claim, Answer{Result: ResultDone}, tell(Claimed{Epoch: 1})},
		{claim, Answer{Result: ResultNoNode, At: check}, claim.refused(true)},
		{claim, Answer{Result: ResultUnknown}, claim.unknown()},
		{makes, Answer{Result: ResultDone}, tell(Claimed{Epoch: 1, Recorded: true})},
		{makes, Answer{Result: ResultNodeExists, At: records}, makes.next(ThenReadRecord)},
		{makes, Answer{Result: ResultNoNode, At: check}, makes.refused(true)},
		{makes, Answer{Result: ResultNoNode, At: records}, makes.refused(false)},
		{reads, Answer{Result: ResultDone}, reads.next(ThenReadRecord)},
		{reads, Answer{Result: ResultNoNode, At: looked}, tell(Claimed{Epoch: 1, Recorded: true})},
		{reads, Answer{Result: ResultNoNode, At: check}, reads.refused(true)},
		{enter, Answer{Result: ResultDone, Permits: made, Stat: beside}, tell(Entered{Epoch: 1, Permits: made, InUse: 2})},
		{enter, Answer{Result: ResultDone, Permits: made, Stat: other}, Meaning{Then: ThenCount, In: Entered{Epoch: 1, Permits: made}}},
		{enter, Answer{Result: ResultDone}, enter.unknown()},
		{enter, Answer{Result: ResultBadVersion, At: size}, stale},
		{enter, Answer{Result: ResultNoNode, At: size}, stale},
		{enter, Answer{Result: ResultRefused, At: size}, enter.refused(false)},
		{enter, Answer{Result: ResultNoNode, At: del}, enter.refused(true)},
		{enter, Answer{Result: ResultNoNode, At: permits}, enter.next(ThenMakeParents).noting(NoteGone)},
		{enter, Answer{Result: ResultNoNode, At: counted}, enter.next(ThenMakeParents).noting(NoteGone)},
		{enter, Answer{Result: ResultRefused, At: counted}, enter.next(ThenAgain).noting(NoteShut)},
		{enter, Answer{Result: ResultRefused, At: floor}, enter.next(ThenAgain).noting(NoteShut)},
		{enter, Answer{Result: ResultRefused, At: permits}, enter.refused(false)},
		{several, Answer{Result: ResultDone, Nodes: two, Known: zxids, Stats: []DirectoryStat{alone, {8, 40, 1}}}, tell(Enqueued{Epoch: 1, Nodes: two, Alone: true, Token: 40})},
		{several, Answer{Result: ResultDone, Nodes: two, Known: zxids, Stats: []DirectoryStat{alone, {8, 40, 2}}}, tell(Enqueued{Epoch: 1, Nodes: two})},
		{several, Answer{Result: ResultDone, Nodes: two, Known: zxids, Stats: []DirectoryStat{other, {8, 40, 1}}}, tell(Enqueued{Epoch: 1, Nodes: two})},
		{several, Answer{Result: ResultDone, Nodes: two}, tell(Enqueued{Epoch: 1, Nodes: two})},
		{several, Answer{Result: ResultDone}, several.unknown()},
		{several, Answer{Result: ResultNoNode, At: own}, several.next(ThenMakeParents).noting(NoteGone)},
		{several, Answer{Result: ResultRefused, At: marker}, several.next(ThenAgain).noting(NoteShut)},
		{gives, Answer{Result: ResultDone}, tell(Deleted{1})},
		{gives, Answer{Result: ResultNoNode, At: del}, gives.next(ThenApart)},
		{gives, Answer{Result: ResultUnknown}, gives.unknown()},
	} {
		if m := c.e.Means(c.e.Plan(rich), c.a); !reflect.DeepEqual(m, c.want) {
			t.Errorf("%+v, answered %+v: %+v, want %+v", c.e, c.a, m, c.want)
		}
	}
	plain := create.Plan(View{})
	if m, want := create.Means(plain, Answer{Result: ResultNoNode, At: own}), create.next(ThenMakeParents).noting(NoteGone); m != want {
		t.Errorf("a plain create without a directory: %+v, want %+v", m, want)
	}
	if m, want := create.Means(plain, Answer{Result: ResultDone, Node: node}), tell(Created{Epoch: 1, Node: node}); m != want {
		t.Errorf("a plain create: %+v, want %+v", m, want)
	}
	if made, claimed := fmt.Sprintf("%T", create.Exhausted()), fmt.Sprintf("%T", claim.Exhausted()); made != "recipes.Refused" || claimed != "recipes.Unknown" {
		t.Errorf("behind all tries a create is %s, and a claim %s", made, claimed)
	}
}

// TestWhatTheBookNotes: what an answer says of a directory.
func TestWhatTheBookNotes(t *testing.T) {
	seen := Meaning{}.seeing(DirectoryStat{9, 40, 3})
	for _, c := range []struct {
		m    Meaning
		want DirectoryBook
	}{
		{Meaning{}, ourDir}, {Meaning{}.seeing(DirectoryStat{}), ourDir},
		{Meaning{Note: NoteGone}, DirectoryBook{}}, {Meaning{Note: NoteShut}, ourDir.Shut()}, {seen, DirectoryBook{contended: true, children: 3}},
	} {
		if b := c.m.Book(ourDir); b != c.want {
			t.Errorf("%+v: %+v, want %+v", c.m, b, c.want)
		}
	}
}

// TestWhoseTheOneNodeIs: a claim, and a delete of a contender in doubt, depend on a look behind the transaction.
func TestWhoseTheOneNodeIs(t *testing.T) {
	claim := Errand{Op: OpClaim, Epoch: 1, Layout: LayoutNode}
	doubts, sure := Errand{Op: OpDelete, Epoch: 1, Layout: LayoutNode, Doubts: true}, Errand{Op: OpDelete, Epoch: 1, Layout: LayoutNode}
	for _, c := range []struct{ got, want Meaning }{
		{claim.Means(claim.Plan(View{}), Answer{Result: ResultDone}), claim.next(ThenLook)},
		{claim.Means(claim.Plan(View{}), Answer{Result: ResultNoNode, At: Operation{Do: DoCheck, On: OnOwn}}), claim.refused(true)},
		{claim.Looked(true), tell(Claimed{Epoch: 1})},
		{claim.Looked(false), claim.refused(true)},
		{doubts.Means(doubts.Plan(View{}), Answer{Result: ResultDone}), doubts.next(ThenLook)},
		{doubts.Means(doubts.Plan(View{}), Answer{Result: ResultNoNode, At: Operation{Do: DoCheck, On: OnDirectory}}), doubts.next(ThenLook)},
		{doubts.Means(doubts.Plan(View{}), Answer{Result: ResultRefused, At: Operation{Do: DoCheck, On: OnDirectory}}), doubts.refused(false)},
		{doubts.Looked(true), sure.next(ThenAgain)},
		{doubts.Looked(false), tell(Deleted{1})},
		{sure.Means(sure.Plan(View{}), Answer{Result: ResultNoNode, At: Operation{Do: DoDelete, On: OnOwn}}), tell(Deleted{1})},
	} {
		if c.got != c.want {
			t.Errorf("%+v, want %+v", c.got, c.want)
		}
	}
}
