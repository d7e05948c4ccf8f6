package recipes

import (
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// This file is about what a request means on the wire. An [Errand] is a request that is being carried out. Its Plan is one
// transaction in symbols. Its Means says what follows from the answer: what the machine is told, what changes in the book of a
// directory, or that there is another plan to try. The session makes the transactions at a server, and the explorer makes the same
// ones in its worlds.

// Tries bounds how many transactions an errand makes, each after something missing was made. The server removes an empty container,
// perhaps right behind its creation. That this happens again and again takes a program that deletes on purpose.
const Tries = 10

// Errand is a request that writes, if only a barrier or a claim: what the machine asks for, and what was learnt on the way. It is a
// small comparable value.
type Errand struct {
	Op     Op
	Epoch  Epoch
	Layout Layout
	Floor  bool      // of Delete and Enter
	Clean  bool      // of Delete
	Record Recording // of Claim
	Doubts bool      // of Delete: the one node may be another contender's by now
	Turns  bool      // of Create: another contender's delete comes first, in the same transaction

	stays   bool    // the record may not be removed, though the holder has released
	delayed delayed // of Claim
}

// Layout is how a contender's nodes stand.
type Layout uint8

// The layouts.
const (
	LayoutQueue   Layout = iota // one node in a queue
	LayoutPlace                 // one node in a queue, with the number of a writer's node
	LayoutNode                  // the one node of a lock
	LayoutSeveral               // several nodes: those of a multi-lock, or permits
)

// Plan is one transaction. The zero value is no plan.
type Plan struct {
	ops [MostOperations]Operation
	dir int64 // the zxid of the directory whose Stat has the answer, or 0
}

// MostOperations is how many operations a plan has at most.
const MostOperations = 5

func planOf(dir int64, ops ...Operation) (p Plan) {
	p.dir = dir
	copy(p.ops[:], ops)
	return p
}

// Len returns how many operations there are.
func (p Plan) Len() (n int) {
	for n < len(p.ops) && p.ops[n].Do != 0 {
		n++
	}
	return n
}

// At returns the i-th operation.
func (p Plan) At(i int) Operation { return p.ops[i] }

// and returns the plan with one more operation.
func (p Plan) and(o Operation) Plan {
	p.ops[p.Len()] = o
	return p
}

// Operation is one operation of a transaction. At a place with several nodes it stands for one on each.
type Operation struct {
	Do   Verb
	On   Place
	With Content // for OnDirectory, and for DoSet OnRecord
}

// Verb is what is done to a node.
type Verb uint8

// What is done to a node. Versions are compared only for OnSize, and for DoSet OnRecord.
const (
	DoCreate Verb = iota + 1
	DoDelete
	DoSet
	DoCheck
)

// Place says which node.
type Place uint8

// The nodes of an operation.
const (
	OnOwn             Place = iota + 1 // the contender's node
	OnDirectory                        // the directory of the own node
	OnWriter                           // the node of the writer whose place the contender takes
	OnLeaver                           // the node of another contender of the session, which leaves
	OnRecord                           // the record of the holder
	OnSize                             // the node with the size of a semaphore
	OnPermits                          // the permits to be made
	OnPermitDirectory                  // the directory of the permits
)

// Content is what is written to a directory or a record.
type Content uint8

// The data of a directory, and of a record.
const (
	WithMarker Content = iota + 1 // the directory is ours
	WithFloor                     // no contender older than the own node is left
	WithMark                      // the record's delay has begun, at the first mark
	WithHolder                    // the own node has taken the record over
)

// View is what a session knows when it makes a plan.
type View struct {
	Dir     DirectoryBook // of OnDirectory
	Permits DirectoryBook // of OnPermitDirectory
	Token   int64         // the zxid that created the own node, or 0
	Brief   bool          // a request has room for several paths
	Plain   bool          // the data of the one node may not be written, not even by us
	All     bool          // each directory of a multi-lock is ours, and was empty when last seen
}

// floor tells whether a floor can be left.
func (v View) floor() bool { return v.Token != 0 && v.Brief && v.Dir.Writable() != 0 }

// Answer is the outcome of a transaction.
type Answer struct {
	Result Result
	At     Operation     // the operation that was refused
	Node   events.Name   // the own node, if it was created
	Stat   DirectoryStat // of the directory or the one node whose data were set first, or zero

	Nodes   []events.Name   // the nodes of a multi-lock, if they were created
	Known   []int64         // the zxids of their directories, if these were known, and
	Stats   []DirectoryStat // their Stats
	Permits []string        // the permits, if they were made
	Marked  time.Duration   // for how long the record has been marked, if it was
}

// Result is what an answer says.
type Result uint8

// The results. From ResultNoNode on nothing was executed.
const (
	ResultDone       Result = iota + 1 // the transaction was executed
	ResultUnknown                      // the outcome is unknown, or the transaction may be made again
	ResultNoNode                       // the node, or the directory for it, does not exist
	ResultNodeExists                   // the node exists already
	ResultBadVersion                   // the node has another version
	ResultRefused                      // the transaction was refused for another reason
)

// DirectoryStat is what a server says of a directory.
type DirectoryStat struct {
	Czxid, Mzxid int64
	Children     int32
}

// Meaning is what follows from an answer.
type Meaning struct {
	Then Then
	In   Input  // for ThenTell and ThenCount
	Next Errand // for the others
	Note Note   // about the directory of the refused operation, or of the own node
	stat DirectoryStat
}

// Then is what is to be done.
type Then uint8

// What is to be done. Next is the errand from then on.
const (
	ThenTell        Then = iota // the machine is told
	ThenAgain                   // there is another plan
	ThenMakeParents             // the same, when the missing directories were made
	ThenReadRecord              // the machine is told what the record says
	ThenApart                   // parts are made one after the other: the two of a turnover, or those of several nodes
	ThenLook                    // a look follows: whose the one node is, or for a list request, which nodes there are
	ThenCount                   // the machine is told, with how many permits are taken
)

// Note is what an answer says of a directory.
type Note uint8

// The notes.
const (
	NoteNothing Note = iota
	NoteGone         // there is no directory
	NoteShut         // its data may not be written
	NoteSeen         // its Stat has come
)

// Book returns the book of the directory with the answer noted in it.
func (m Meaning) Book(b DirectoryBook) DirectoryBook {
	switch m.Note {
	case NoteGone:
		return DirectoryBook{}
	case NoteShut:
		return b.Shut()
	case NoteSeen:
		b, _ = b.Saw(m.stat.Czxid, m.stat.Children, 0)
	case NoteNothing:
	}
	return b
}

func (m Meaning) noting(n Note) Meaning {
	m.Note = n
	return m
}

func (m Meaning) seeing(s DirectoryStat) Meaning {
	if s.Czxid != 0 {
		m.Note, m.stat = NoteSeen, s
	}
	return m
}

func tell(in Input) Meaning { return Meaning{In: in} }

func (e Errand) next(then Then) Meaning { return Meaning{Then: then, Next: e} }

// unknown is the answer if the outcome is not known, and refused if the server has refused the request.
func (e Errand) unknown() Meaning { return tell(Unknown{Epoch: e.Epoch, Op: e.Op}) }

func (e Errand) refused(missing bool) Meaning {
	return tell(Refused{Epoch: e.Epoch, Op: e.Op, Missing: missing})
}

// alone tells whether the directory was created by the zxid, and has one child.
func (s DirectoryStat) alone(dir int64) bool {
	return dir != 0 && s.Czxid == dir && s.Children == 1
}

// Exhausted is the answer when all tries have been made. A claim changes nothing, so it may be made again.
func (e Errand) Exhausted() Input {
	if e.Op == OpClaim {
		return Unknown{Epoch: e.Epoch, Op: e.Op}
	}
	return Refused{Epoch: e.Epoch, Op: e.Op}
}
