package recipes

import "path"

// This file is about what a request means on the wire. An [Errand] is a request being
// executed. Its method Plan returns one transaction, complete with paths, data and
// versions, in operations that a server knows. Its method Means interprets the answer:
// what the machine receives, how the book of a directory changes, or that there is
// another plan to try. The session sends the transactions to a server, and the explorer
// executes the same ones in its worlds.

// Tries is the maximum number of transactions of an errand. Most retries follow the
// creation of something that was missing. A server may delete an empty container right
// after its creation, but only a program that deletes on purpose makes that happen again
// and again.
const Tries = 10

// Errand is a request that writes, if only a barrier or a claim: the machine's request,
// the paths of its nodes, and what was learned on the way. An answer that calls for
// another plan changes the errand, and the next call of Plan returns it.
type Errand struct {
	Op     Op
	Epoch  Epoch
	Layout Layout
	Floor  bool      // of Delete and Enter
	Clean  bool      // of Delete
	Record Recording // of Claim
	Doubts bool      // of Delete: the lock's single node may belong to another contender by now

	Dir   string   // the directory of the contender's node
	Nodes []string // the contender's nodes; of Create, what their paths begin with
	Data  []byte   // of the created nodes

	Lent    int64    // of Create in a writer's place: the zxid that created the writer's node
	Writer  string   // of Create in a writer's place: the writer's node
	Made    bool     // of Create: the directory was just made; the Stat of an answer is the node's
	Leavers []string // of Create: another contender's nodes, to be deleted in the same transaction

	Holder  string // the record of the holder, if the lock has one
	Holding []byte // of Claim: the record of the contender as the holder

	Size    string // of Enter, and of Create that takes permits at once: the semaphore's size node
	Version int32  // the version of that node
	Permit  string // what the path of each permit begins with
	Permits int32  // how many permits to create
	Count   int32  // of Create that takes permits at once: the size; 0: unknown

	stays   bool    // the holder has released, but the record may not be removed
	delayed delayed // of Claim
}

// Layout is how a contender's nodes are arranged.
type Layout uint8

// The layouts.
const (
	LayoutQueue   Layout = iota // one node in a queue
	LayoutPlace                 // one node in a queue, with the number of a writer's node
	LayoutNode                  // the single node of a lock
	LayoutSeveral               // several nodes: those of a multi-lock, or permits
)

// Plan is one transaction. An empty Plan means that there is none.
type Plan []Operation

// Operation is one operation of a transaction, as a server receives it.
type Operation struct {
	Do      Verb
	On      Role   // what the node is to the contender
	Member  int    // of DoCreate: which one of the contender's nodes
	Path    string // of a node that the server numbers, the part before the number
	Data    []byte // of DoCreate and DoSet
	Flags   Flags  // of DoCreate
	Version int32  // the version that the node must have, or AnyVersion; not of DoCreate

	dir int64 // of DoSet on a directory: the zxid that created it, as far as the session knows
}

// AnyVersion is for an operation that does not depend on the version of its node.
const AnyVersion = -1

// Verb is what an operation does to its node.
type Verb uint8

// The verbs.
const (
	DoCreate Verb = iota + 1
	DoDelete
	DoSet
	DoCheck
)

// Role is what a node is to the contender.
type Role uint8

// The roles.
const (
	OnOwn             Role = iota + 1 // a node of the contender
	OnDirectory                       // the directory of such a node
	OnWriter                          // the node of the writer whose place the contender takes
	OnLeaver                          // the node of the contender that leaves, in a turnover
	OnRecord                          // the record of the holder
	OnSize                            // the node with the size of a semaphore
	OnPermits                         // a permit to be created
	OnPermitDirectory                 // the directory of the permits
)

// Flags is the kind of node to create, as in ZooKeeper's protocol.
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

// of returns the operation, for this version of its node only.
func (o Operation) of(version int32) Operation {
	o.Version = version
	return o
}

// Refused returns the operation that was refused, or the zero value if none was or the
// answer does not say which.
func (p Plan) Refused(a Answer) Operation {
	if a.Result == ResultDone || a.At < 0 || a.At >= len(p) {
		return Operation{}
	}
	return p[a.At]
}

// View is what a session knows when it makes a plan.
type View struct {
	Dir     DirectoryBook   // of the directory of the contender's node
	Members []DirectoryBook // of a multi-lock: of the directories of all its nodes
	Permits DirectoryBook   // of the permits' directory
	Token   int64           // the zxid that created the contender's node, or 0
	Brief   bool            // a request has room for several paths
	Plain   bool            // the data of the lock's single node may not be written, not even by us
}

// Answer is the outcome of a transaction. A truncated answer has neither Nodes nor Stats.
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

// The results. From ResultNoNode on, the transaction had no effect.
const (
	ResultDone       Result = iota + 1 // the transaction was executed
	ResultUnknown                      // the outcome is unknown, or the transaction may be tried again
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
	Dir  string // the directory that Note is about; for ThenMakeParents, the missing one
	stat Stat
}

// Then is the next step.
type Then uint8

// The next steps.
const (
	ThenTell        Then = iota // pass In to the machine
	ThenAgain                   // try the next plan
	ThenMakeParents             // create the missing directories, then try the next plan
	ThenReadRecord              // read the record, whose content the answer to the machine depends on
	ThenApart                   // execute the parts one after the other: those of a turnover, or of several nodes
	ThenLook                    // read who owns the single node or, for a List, which nodes exist
	ThenCount                   // count the permits in use, then pass In and the count to the machine
)

// Note is what an answer reports about a directory.
type Note uint8

// The notes.
const (
	NoteNothing Note = iota
	NoteGone         // the directory does not exist
	NoteShut         // its data may not be written
	NoteSeen         // the answer has its Stat
)

// Book returns the book of the directory, updated by the answer.
func (m Meaning) Book(b DirectoryBook) DirectoryBook {
	switch m.Note {
	case NoteGone:
		return DirectoryBook{}
	case NoteShut:
		return b.shut()
	case NoteSeen:
		b, _ = b.Saw(m.stat.Czxid, m.stat.Children, 0)
	case NoteNothing:
	}
	return b
}

// noting adds what the refusal of an operation says about a directory.
func (m Meaning) noting(n Note, refused Operation) Meaning {
	m.Note, m.Dir = n, refused.Path
	if refused.Do != DoSet {
		m.Dir = path.Dir(refused.Path)
	}
	return m
}

// unknown is the meaning of an unknown outcome, and refused that of a refusal.
func (e *Errand) unknown() Meaning { return Meaning{In: Unknown{Epoch: e.Epoch, Op: e.Op}} }

func (e *Errand) refused(missing bool) Meaning {
	return Meaning{In: Refused{Epoch: e.Epoch, Op: e.Op, Missing: missing}}
}

// alone reports whether s is the Stat of the directory that the zxid created, and the
// directory has one child.
func (s Stat) alone(dir int64) bool {
	return dir != 0 && s.Czxid == dir && s.Children == 1
}

// Exhausted returns the answer once all tries are used up. A claim changes nothing, so it
// may be tried again.
func (e *Errand) Exhausted() Input {
	if e.Op == OpClaim {
		return Unknown{Epoch: e.Epoch, Op: e.Op}
	}
	return Refused{Epoch: e.Epoch, Op: e.Op}
}
