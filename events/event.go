package events

import "time"

// Event is something that has happened to a lock or to the session. Only types of this
// package implement it.
type Event interface {
	// AcquisitionID returns the number of the acquisition, unique in the process, or 0
	// for an event of a session.
	AcquisitionID() uint64

	isEvent()
}

// Grant says that an acquisition holds its lock. An acquisition has at most one Grant.
type Grant struct {
	ID   uint64 // the acquisition's
	Path string // the lock's directory, as the caller named it
	Node string // path of the contender's node, in the caller's name space; of several permits, the first one's

	// Token is the fencing token: the zxid of the transaction that created the node. The
	// token of an exclusive grant is greater than the token of every earlier grant of
	// another acquisition on this path, for the life of the ensemble's data. Readers that
	// hold together are granted in any order of their tokens. A holder that enters its
	// lock again keeps its token, and so does a writer that becomes a reader. A
	// semaphore's tokens are those of the places in its queue, and grow from grant to
	// grant.
	Token int64

	// Turn counts the grants under one node of a cached lock, from 0. The pair (Token,
	// Turn) grows from grant to grant. It is 0 for every other lock. A holder that enters
	// its lock again keeps the turn.
	Turn uint64

	Session   int64         // the ZooKeeper session that owns the node
	Waited    time.Duration // from Acquire to this grant
	Members   []Member      // for a multi-lock, its locks in order; nil otherwise
	Abandoned *Abandoned    // with DetectCrash: the holder that never released, if no holder has released since; else nil
}

// Member is one lock of a granted multi-lock.
type Member struct {
	Path string // the lock's directory
	Node string // path of the node in it, in the caller's name space
}

// Abandoned describes a previous holder that never released. Of several it is the first.
// All Grants share one: do not write to it.
type Abandoned struct {
	Node  string    // path of its node, which is gone, in the caller's name space
	Data  []byte    // what it had stored there when it came
	Token int64     // its fencing token
	Since time.Time // when it was granted, by its own clock
}

// Lost says that a granted lock is not held any more, for another reason than a release.
// It follows a Grant that was taken, once, and Ended follows it.
type Lost struct {
	ID     uint64
	Path   string
	Token  int64         // the token of the grant that was lost
	Reason Reason        // why
	Err    error         // the same as an error; never nil
	Held   time.Duration // from the grant to the loss
}

// Ended says that an acquisition is over and holds nothing. It is the last event of every
// acquisition, and comes once: a place for the clean-up, whatever came before.
type Ended struct {
	ID   uint64
	Path string
	Err  error         // nil if the lock was held and released; after a Lost, the same as there
	Held time.Duration // zero if it was never held
}

// Queued says how many older contenders stood in the way at the latest listing; for a
// reader, only writers count. It is a snapshot. A waiter that moves up without a listing,
// which is the common case, sends none. For a multi-lock the contenders of all its paths
// count, each once a path. Exception: the first in the queue of a semaphore waits for
// permits, and Ahead is 0. Exception: an unfair lock has no queue, and Ahead is 1.
type Queued struct {
	ID    uint64
	Path  string
	Ahead int
	Delay time.Duration // if Ahead is 0: the rest of the lock-delay behind a crash
}

// Requeued says that a waiting acquisition has lost its place and queues up anew: its
// session has ended, or its node was deleted.
type Requeued struct {
	ID   uint64
	Path string
}

// Revoked says that the holder was asked to give the lock back. If the lock is still held
// at the deadline, by the holder's own clock, it is lost. A zero Deadline is none:
// nothing happens by itself. It is zero for a request of Curator's Revoker, which writes
// `__REVOKE__` into the node, and for a holder that has not agreed to deadlines. Revoked
// comes behind the Grant, and again only with a sooner deadline.
type Revoked struct {
	ID       uint64
	Path     string
	Deadline time.Time
}

// Contended says that a contender has come that the holder keeps out. It comes between
// the Grant and the loss or the end, if the caller has asked for it, once for each
// contender at most, and once in a probe interval at most.
type Contended struct {
	ID   uint64
	Path string
}

// Connected says that a session was established. It comes before any other
// event of that session.
type Connected struct {
	Session int64
	Timeout time.Duration // as negotiated, which may differ from what was asked
	Server  string        // host:port of the server that answered

	// LongTick is 0, or the servers' tickTime as Timeout implies it, if that is longer
	// than what WithTickTime says: Lost may then come after another contender's Grant. It
	// is a hint, because minSessionTimeout may be set.
	LongTick time.Duration
}

// Suspended says that the connection to the ensemble is gone. It follows Connected or
// Resumed. Locks stay held until the deadline; waiters keep their places as long as the
// session lives. Exception: with WithLossOnSuspend held locks are lost at once. Resumed
// or SessionExpired follows, unless the coordinator is closed.
type Suspended struct {
	Session  int64
	Deadline time.Time // when the lease runs out unless contact is made again
}

// Resumed says that the same session has a connection again. It follows Suspended.
type Resumed struct {
	Session int64
}

// SessionExpired says that the session is over, and with it every node that it owned. A
// Connected with another session follows, unless the coordinator is closed.
type SessionExpired struct {
	Session int64
}

// Leader says which contender leads an election. If Node is empty, there is no leader. It
// reaches observers of the election and is no [Event].
type Leader struct {
	Node  string // path of the leader's node, in the caller's name space
	Data  []byte // what the leader proclaimed
	Token int64  // its fencing token
}

// Contender is a snapshot of one node in a lock's queue, for a look at holders and
// waiters. It is no [Event].
type Contender struct {
	Node    string    // path, in the caller's name space
	Session int64     // the session that owns it
	Since   time.Time // when it was created, by the server's clock
	Data    []byte    // what it says about itself
	Kind    Kind
	Holding bool // by the rule of its queue, at the moment of the snapshot

	// Token is the fencing token of its Grant, or of the Grant that it waits for. It is 0
	// for permits that another library holds. Exception: for a writer that became a
	// reader it is the zxid of the reader's node, which is later than the token.
	Token int64

	// Permits is how many permits of a semaphore it holds or waits for. It is 0 for every
	// other lock.
	Permits int

	// Cached says that the lock's node is kept between its holders: a node that is
	// Holding may be idle.
	Cached bool
}

// AcquisitionID implements [Event].
func (e Grant) AcquisitionID() uint64 { return e.ID }

// AcquisitionID implements [Event].
func (e Lost) AcquisitionID() uint64 { return e.ID }

// AcquisitionID implements [Event].
func (e Ended) AcquisitionID() uint64 { return e.ID }

// AcquisitionID implements [Event].
func (e Queued) AcquisitionID() uint64 { return e.ID }

// AcquisitionID implements [Event].
func (e Requeued) AcquisitionID() uint64 { return e.ID }

// AcquisitionID implements [Event].
func (e Revoked) AcquisitionID() uint64 { return e.ID }

// AcquisitionID implements [Event].
func (e Contended) AcquisitionID() uint64 { return e.ID }

// AcquisitionID implements [Event].
func (Connected) AcquisitionID() uint64 { return 0 }

// AcquisitionID implements [Event].
func (Suspended) AcquisitionID() uint64 { return 0 }

// AcquisitionID implements [Event].
func (Resumed) AcquisitionID() uint64 { return 0 }

// AcquisitionID implements [Event].
func (SessionExpired) AcquisitionID() uint64 { return 0 }

func (Grant) isEvent()          {}
func (Lost) isEvent()           {}
func (Ended) isEvent()          {}
func (Queued) isEvent()         {}
func (Requeued) isEvent()       {}
func (Revoked) isEvent()        {}
func (Contended) isEvent()      {}
func (Connected) isEvent()      {}
func (Suspended) isEvent()      {}
func (Resumed) isEvent()        {}
func (SessionExpired) isEvent() {}
