package events

import "time"

// Event is something that has happened to a lock or to the session. The types
// of this package that implement it are all there are.
type Event interface{ isEvent() }

// Grant says that an acquisition holds its lock. It is the only Grant that the
// acquisition will ever have.
type Grant struct {
	ID   uint64 // the acquisition's
	Path string // the lock's directory, as the caller named it
	Node string // full path of the contender's node, in the caller's name space; of several permits, the first one's

	// Token is the fencing token: the zxid of the transaction that created the
	// node. That of an exclusive grant is greater than the token of every earlier
	// grant of another acquisition on this path, for the life of the ensemble's data. Readers do
	// not exclude each other, and those who hold together are granted in any order of their
	// tokens. Who entered a lock again that he held, and who reads in the place where he
	// wrote, has the token of that grant. A semaphore's tokens are those of the places in its
	// queue, and grow from grant to grant.
	Token int64

	Session   int64         // the ZooKeeper session that owns the node
	Waited    time.Duration // from Acquire to this grant
	Members   []Member      // for a multi-lock, its locks in order; nil otherwise
	Abandoned *Abandoned    // with DetectCrash: a holder who never released, and nobody has since; nil if there is none
}

// Member is one lock of a granted multi-lock.
type Member struct {
	Path string // the lock's directory
	Node string // full path of the node in it
}

// Abandoned describes a previous holder that never released: the first of them, if there were several. It is shared by all who
// are given it, and nobody writes to it.
type Abandoned struct {
	Node  string    // full path of its node, which is gone, in the caller's name space
	Data  []byte    // what it had stored there when it came
	Token int64     // its fencing token
	Since time.Time // when it was granted, by its own clock
}

// Lost says that a granted lock is not held any more, and not because it was
// released. It follows a Grant that was taken, once, and is the last event of
// its acquisition in an event stream.
type Lost struct {
	ID     uint64
	Path   string
	Token  int64         // the token of the grant that was lost
	Reason Reason        // why
	Err    error         // the same as an error; never nil
	Held   time.Duration // from the grant to the loss
}

// Ended says that an acquisition is over and holds nothing. It is the last
// event of its acquisition in an event stream; after a Lost it is not sent.
type Ended struct {
	ID   uint64
	Path string
	Err  error         // nil if the lock was held and released
	Held time.Duration // zero if it never was
}

// Queued says how many older contenders stood in the way at the latest listing: all of
// them, or only the writers for one who wants to read. It comes with each listing that
// finds somebody there, so Ahead is not 0; a Grant follows the others. It is a
// snapshot: some of them may be gone by the time it is read, and a waiter that moves up
// without a listing, which most do, sends none.
//
// Of a multi-lock it is how many stand in the way at all paths together; who does so at two of them counts twice.
//
// There is one exception. The first in the queue of a semaphore waits for permits and not for
// contenders: its Ahead is 0. Of an unfair lock, which has no queue, it is always 1: somebody has it.
type Queued struct {
	ID    uint64
	Path  string
	Ahead int
}

// Requeued says that a waiting acquisition has lost its place, because its
// session ended or because somebody deleted its node, and queues up anew.
type Requeued struct {
	ID   uint64
	Path string
}

// Revoked says that somebody asked the holder to give the lock back. At the
// deadline, which is by the holder's own clock, it is given back if it is still held, and a Lost follows. Who asks as
// Curator's Revoker does, by writing `__REVOKE__` into the holder's node, names no deadline: then it is the zero time, and nothing
// happens by itself; so it is for a holder who has not agreed to more. It comes behind the Grant: once, and then
// again only with a deadline that is sooner than the one before it.
type Revoked struct {
	ID       uint64
	Path     string
	Deadline time.Time
}

// Connected says that a session was established. It comes before any other
// event of that session.
type Connected struct {
	Session int64
	Timeout time.Duration // as negotiated, which may differ from what was asked
	Server  string        // host:port of the server that answered
}

// Suspended says that the connection to the ensemble is gone. Locks stay held
// until the deadline; waiters keep their places as long as the session lives.
type Suspended struct {
	Deadline time.Time // when the lease runs out unless contact is made again
}

// Resumed says that the same session has a connection again.
type Resumed struct{}

// SessionExpired says that the session is over, and with it every node that it
// owned. A Connected with another session follows.
type SessionExpired struct {
	Session int64
}

// Leader says who leads an election. An empty Node means that nobody does. It
// reaches observers of the election and is no [Event].
type Leader struct {
	Node  string // full path of the leader's node
	Data  []byte // what the leader proclaimed
	Token int64  // its fencing token
}

// Contender is a snapshot of one node in a lock's queue, for those who ask who
// holds and who waits. It is no [Event].
type Contender struct {
	Node    string    // full path
	Session int64     // the session that owns it
	Since   time.Time // when it was created, by the server's clock
	Data    []byte    // who it is, as it chose to say
	Kind    Kind
	Holding bool // by the rule of its queue, at the moment of the snapshot

	// Token is the fencing token of its Grant, or of the Grant that it waits for. It is 0 for permits that another library holds.
	// Exception: for a writer that became a reader it is the zxid of the reader's node, which is later than the token.
	Token int64

	// Permits is how many permits of a semaphore it holds or waits for. It is 0 for every other lock.
	Permits int
}

func (Grant) isEvent()          {}
func (Lost) isEvent()           {}
func (Ended) isEvent()          {}
func (Queued) isEvent()         {}
func (Requeued) isEvent()       {}
func (Revoked) isEvent()        {}
func (Connected) isEvent()      {}
func (Suspended) isEvent()      {}
func (Resumed) isEvent()        {}
func (SessionExpired) isEvent() {}
