package recipes

import "path"

// This file is about what a request means on the wire. An [Errand] is a request that is
// being carried out. Its Plan is one transaction, with all paths, data and versions: each
// operation is one that a server knows. Its Means says what follows from the answer: what
// the machine receives, what changes in the book of a directory, or that there is another
// plan to try. The session makes the transactions at a server, and the explorer makes the
// same ones in its worlds.

// Tries bounds how many transactions an errand makes, each after creating something that
// was missing. The server deletes an empty container, possibly right after its creation.
// Only a program that deletes on purpose makes that happen again and again.
const Tries = 10

// Errand is a request that writes, even if only a barrier or a claim: the request of the
// machine, the nodes that it is about, and what was learned on the way. A node is its
// path. An answer that asks for another plan changes the errand, so that its next Plan is
// that one.
type Errand struct {
	Op     Op
	Epoch  Epoch
	Layout Layout
	Floor  bool      // of Delete and Enter
	Clean  bool      // of Delete
	Record Recording // of Claim
	Doubts bool      // of Delete: the one node may belong to another contender by now

	Dir   string   // the directory of the own node
	Nodes []string // the own nodes; of Create, what their paths begin with
	Data  []byte   // of the nodes that it creates

	Lent    int64    // of Create in a writer's place: the zxid that created the writer's node
	Writer  string   // of Create in a writer's place: the writer's node
	Made    bool     // of Create: the session has just made the directory; the Stat of an answer is the own node's
	Leavers []string // of Create: another contender's nodes, to be deleted in the same transaction

	Holder  string // the record of the holder, if the lock has one
	Holding []byte // of Claim: what the record says if the contender holds

	Size    string // of Enter, and of Create that takes permits at once: the node with the size of the semaphore
	Version int32  // of Enter: the version of that node
	Permit  string // of Enter: what the path of each permit begins with
	Permits int32  // of Enter: how many permits there are to be
	Count   int32  // of Create that takes permits at once: the size; 0: it is not known

	stays   bool    // the record may not be removed, though the holder has released
	delayed delayed // of Claim
}

// Layout is how a contender's nodes are arranged.
type Layout uint8

// The layouts.
const (
	LayoutQueue   Layout = iota // one node in a queue
	LayoutPlace                 // one node in a queue, with the number of a writer's node
	LayoutNode                  // the one node of a lock
	LayoutSeveral               // several nodes: those of a multi-lock, or permits
)

// Plan is one transaction. An empty one is no plan.
type Plan []Operation

// Operation is one operation of a transaction, as a server receives it.
type Operation struct {
	Do      Verb
	On      Role   // by which an answer is judged
	Member  int    // of DoCreate: which one of the own nodes
	Path    string // of a node that the server numbers, what it begins with
	Data    []byte // of DoCreate and DoSet
	Flags   Flags  // of DoCreate
	Version int32  // that the node must have, or AnyVersion; not of DoCreate

	dir int64 // of DoSet on a directory: the zxid that created it, as the session knows it
}

// AnyVersion is for an operation that does not depend on the version of its node.
const AnyVersion = -1

// Verb is what is done to a node.
type Verb uint8

// What is done to a node.
const (
	DoCreate Verb = iota + 1
	DoDelete
	DoSet
	DoCheck
)

// Role is what a node means to the contender.
type Role uint8

// The nodes of an operation.
const (
	OnOwn             Role = iota + 1 // a node of the contender
	OnDirectory                       // the directory of an own node
	OnWriter                          // the node of the writer whose place the contender takes
	OnLeaver                          // the node of another contender of the session, which leaves
	OnRecord                          // the record of the holder
	OnSize                            // the node with the size of a semaphore
	OnPermits                         // a permit to be made
	OnPermitDirectory                 // the directory of the permits
)

// Flags are the kind of node that a create makes, as in ZooKeeper's protocol.
type Flags int32

// The kinds of nodes.
const (
	Persistent Flags = 0
	Ephemeral  Flags = 1
	Numbered   Flags = 2 // with Ephemeral
)

func create(on Role, node string, data []byte, flags Flags) Operation {
	return Operation{Do: DoCreate, On: on, Path: node, Data: data, Flags: flags}
}

func remove(on Role, node string) Operation {
	return Operation{Do: DoDelete, On: on, Path: node, Version: AnyVersion}
}

func check(on Role, node string) Operation {
	return Operation{Do: DoCheck, On: on, Path: node, Version: AnyVersion}
}

func set(on Role, node string, data []byte) Operation {
	return Operation{Do: DoSet, On: on, Path: node, Data: data, Version: AnyVersion}
}

// of returns the operation in the version of its node.
func (o Operation) of(version int32) Operation {
	o.Version = version
	return o
}

// Refused returns the refused operation, or the zero value if there is none or the answer
// does not say.
func (p Plan) Refused(a Answer) Operation {
	if a.Result == ResultDone || a.At < 0 || a.At >= len(p) {
		return Operation{}
	}
	return p[a.At]
}

// View is what a session knows when it makes a plan.
type View struct {
	Dir     DirectoryBook   // of the own node's directory
	Members []DirectoryBook // of a multi-lock: those of all own nodes
	Permits DirectoryBook   // of the permits' directory
	Token   int64           // the zxid that created the own node, or 0
	Brief   bool            // a request has room for several paths
	Plain   bool            // the data of the one node may not be written, not even by us
}

// floor reports whether a floor can be left.
func (v View) floor() bool { return v.Token != 0 && v.Brief && v.Dir.Writable() != 0 }

// Answer is the outcome of a transaction. An answer that was cut short has neither Nodes
// nor Stats.
type Answer struct {
	Result Result
	At     int      // the index of the operation that was refused; -1: the answer does not say
	Nodes  []string // the created nodes, in order
	Stats  []Stat   // of the nodes whose data were set, in order
}

// Stat is a server's Stat of a node.
type Stat struct {
	Czxid, Mzxid int64
	Children     int32
	Version      int32
	Mtime        int64 // in milliseconds since 1970
}

// stat returns the Stat of the node whose data were set first, or the zero value.
func (a Answer) stat() Stat {
	if len(a.Stats) == 0 {
		return Stat{}
	}
	return a.Stats[0]
}

// Result is the result of a transaction.
type Result uint8

// The results. From ResultNoNode on, nothing was executed.
const (
	ResultDone       Result = iota + 1 // the transaction was executed
	ResultUnknown                      // the outcome is unknown, or the transaction may be made again
	ResultNoNode                       // the node, or the directory for it, does not exist
	ResultNodeExists                   // the node exists already
	ResultBadVersion                   // the node has another version
	ResultRefused                      // the transaction was refused for another reason
)

// Meaning is what follows from an answer.
type Meaning struct {
	Then Then
	In   Input  // for ThenTell and ThenCount
	Note Note   // about Dir
	Dir  string // the directory that the note is about, and for ThenMakeParents the missing one
	stat Stat
}

// Then is the next step.
type Then uint8

// What is to be done.
const (
	ThenTell        Then = iota // the machine receives it
	ThenAgain                   // there is another plan
	ThenMakeParents             // the same, when the missing directories were made
	ThenReadRecord              // the machine learns what the record says
	ThenApart                   // parts are made one after the other: the two of a turnover, or those of several nodes
	ThenLook                    // a look follows: whose the one node is, or for a list request, which nodes there are
	ThenCount                   // the machine receives it, and how many permits are taken
)

// Note is what an answer reports about a directory.
type Note uint8

// The notes.
const (
	NoteNothing Note = iota
	NoteGone         // there is no directory
	NoteShut         // its data may not be written
	NoteSeen         // its Stat has come
)

// Book returns the book of the directory, updated by the answer.
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

// noting notes what the refusal of an operation says of a directory.
func (m Meaning) noting(n Note, refused Operation) Meaning {
	m.Note, m.Dir = n, refused.Path
	if refused.Do != DoSet {
		m.Dir = path.Dir(refused.Path)
	}
	return m
}

// unknown is the answer if the outcome is not known, and refused if the server has
// refused the request.
func (e *Errand) unknown() Meaning { return Meaning{In: Unknown{Epoch: e.Epoch, Op: e.Op}} }

func (e *Errand) refused(missing bool) Meaning {
	return Meaning{In: Refused{Epoch: e.Epoch, Op: e.Op, Missing: missing}}
}

// alone reports whether the directory was created by the zxid, and has one child.
func (s Stat) alone(dir int64) bool {
	return dir != 0 && s.Czxid == dir && s.Children == 1
}

// Exhausted is the answer after all tries. A claim changes nothing, so it may be made
// again.
func (e *Errand) Exhausted() Input {
	if e.Op == OpClaim {
		return Unknown{Epoch: e.Epoch, Op: e.Op}
	}
	return Refused{Epoch: e.Epoch, Op: e.Op}
}
