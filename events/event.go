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

	// Token is the fencing token: the zxid of the transaction that created the node. That of an exclusive grant is greater than the token
	// of every earlier grant of another acquisition on this path, for the life of the ensemble's data. Readers that hold together are
	// granted in any order of their tokens. A holder that enters its lock again, and a writer that becomes a reader, keep the token of
	// their grant. A semaphore's tokens are those of the places in its queue, and grow from grant to grant.
	Token int64

	// Turn counts the grants under one node of a cached lock, from 0. The pair (Token, Turn) grows from grant to grant. It is 0 for every
	// other lock. A holder that enters its lock again keeps the turn.
	Turn uint64

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

// Abandoned describes a previous holder that never released: the first of several. All that are given it share it: do not write to it.
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

// Queued says how many older contenders stood in the way at the latest listing: for a reader, only writers. It is a snapshot. A waiter that
// moves up without a listing, which most do, sends none. For a multi-lock, contenders at all paths count, each once a path. Exceptions: the
// first in the queue of a semaphore waits for permits, and Ahead is 0; for an unfair lock, which has no queue, Ahead is 1.
type Queued struct {
	ID    uint64
	Path  string
	Ahead int
	Delay time.Duration // with nobody ahead: how long the lock-delay behind a crash lasts yet
}

// Requeued says that a waiting acquisition has lost its place, because its
// session ended or because somebody deleted its node, and queues up anew.
type Requeued struct {
	ID   uint64
	Path string
}

// Revoked says that somebody asked the holder to give the lock back. If it is still held at the deadline, by the holder's own clock, it is
// lost. Without a deadline, which is the zero time, nothing happens by itself: Curator's Revoker, which writes `__REVOKE__` into the node,
// names none, and a holder that has not agreed to more is told none. It comes behind the Grant, and again only with a sooner deadline.
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

	// Cached says that the lock's node is kept between its holders: a node that is Holding may be idle.
	Cached bool
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
