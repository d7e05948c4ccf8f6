package events

import "time"

// Event is something that happened to a lock or to the session. Only types of this
// package implement it.
type Event interface {
	// AcquisitionID returns the ID of the acquisition, unique in the process, or 0 for an
	// event of a session.
	AcquisitionID() uint64

	isEvent()
}

// Grant reports that an acquisition holds its lock. An acquisition has at most one Grant.
type Grant struct {
	ID   uint64 // the acquisition's
	Path string // the lock's directory, as the caller named it
	Node string // path of the contender's node, in the caller's name space; of several permits, the first one's

	// Token is the fencing token: the zxid of the transaction that created the node. The
	// token of an exclusive grant is greater than the token of every earlier grant of
	// another acquisition on this path, for the life of the ensemble's data. Readers that
	// hold together are granted in any order of their tokens. A holder that re-enters its
	// lock keeps its token, and so does a writer that becomes a reader. Permits that
	// replaced a place in the queue have its token, which grows from grant to grant.
	Token int64

	// Turn counts the grants under one node of a cached lock, from 0. The pair (Token,
	// Turn) grows from grant to grant. It is 0 for every other lock. A holder that
	// re-enters its lock keeps the turn.
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

// Abandoned describes an earlier holder that never released. If there are several, it is
// the first. All Grants share one value: do not modify it.
type Abandoned struct {
	Node  string    // path of its node, which is gone, in the caller's name space
	Data  []byte    // the data that it arrived with
	Token int64     // its fencing token
	Since time.Time // when it was granted, by its own clock
}

// Lost reports that a granted lock was lost, not released. It follows a Grant that was
// taken, at most once, and Ended follows it.
type Lost struct {
	ID     uint64
	Path   string
	Token  int64         // the token of the grant that was lost
	Reason Reason        // why
	Err    error         // Reason as an error; never nil
	Held   time.Duration // from the grant to the loss
}

// Ended reports that an acquisition is over and holds nothing. It is the last event of
// every acquisition and comes exactly once, so it is the place for clean-up.
type Ended struct {
	ID   uint64
	Path string
	Err  error         // nil if the lock was held and released; after a Lost, its Err
	Held time.Duration // 0 if it was never held
}

// Queued reports how many older contenders were in the way at the latest listing; for a
// reader, only writers count. It is a snapshot: a waiter usually moves up without a
// listing, and then there is no Queued. A waiter for a cached lock gets it without a
// listing. A multi-lock counts the contenders of all its paths, each once per path. Ahead
// is 0 for the first in a semaphore's queue, which waits for permits, and 1 for an unfair
// lock, which has no queue.
type Queued struct {
	ID    uint64
	Path  string
	Ahead int
	Delay time.Duration // the rest of the lock-delay after a crash, if Ahead is 0
}

// Requeued reports that a waiting acquisition has lost its place and queues again: its
// session ended, or its node was deleted.
type Requeued struct {
	ID   uint64
	Path string
}

// Revoked reports a request to release the lock. If the lock is still held at the
// deadline, by the holder's own clock, it is lost. A zero Deadline means no deadline:
// nothing happens by itself. It is zero for a request of Curator's Revoker, which writes
// `__REVOKE__` into the node, and for a holder that is not revocable. Revoked follows the
// Grant, and comes again only with an earlier deadline.
type Revoked struct {
	ID       uint64
	Path     string
	Deadline time.Time
}

// Contended reports a new contender that the holder keeps out. It comes between the Grant
// and the loss or the end, if the caller has requested it: at most once per contender,
// and at most once per probe interval.
type Contended struct {
	ID   uint64
	Path string
}

// Connected reports that a session was established. It precedes all other events of the
// session.
type Connected struct {
	Session int64
	Timeout time.Duration // as negotiated, which may differ from the requested one
	Server  string        // host:port of the server that answered

	// LongTick is the servers' tickTime as Timeout implies it, if that is longer than the
	// one set by WithTickTime; otherwise it is 0. A Lost may then come after another
	// contender's Grant. It is only a hint, because minSessionTimeout may be set.
	LongTick time.Duration
}

// Suspended reports that the connection to the ensemble is lost. It follows [Connected]
// or [Resumed]. Locks stay held until the deadline; waiters keep their places as long as
// the session lives. With WithLossOnSuspend, held locks are lost at once. [Resumed] or
// [SessionExpired] follows, unless the coordinator is closed.
type Suspended struct {
	Session  int64
	Deadline time.Time // when the lease runs out, unless contact is restored
}

// Resumed reports that the same session has a connection again. It follows [Suspended].
type Resumed struct {
	Session int64
}

// SessionExpired reports that the session is over, and every node that it owned is gone.
// A [Connected] with another session follows, unless the coordinator is closed.
type SessionExpired struct {
	Session int64
}

// Leader is the current leader of an election. If Node is empty, there is none. Observers
// of the election receive it; it is not an [Event].
type Leader struct {
	Node  string // path of the leader's node, in the caller's name space
	Data  []byte // its data
	Token int64  // its fencing token
}

// Contender is a snapshot of one node in a lock's queue: a holder or a waiter. It is not
// an [Event].
type Contender struct {
	Node    string    // path, in the caller's name space
	Session int64     // the session that owns it
	Since   time.Time // when it was created, by the server's clock
	Data    []byte    // its data, without what zkgrant adds to it in the node
	Kind    Kind
	Holding bool // whether it held at the snapshot, by the rule of its queue

	// Token is the fencing token of its Grant, or of the Grant that it waits for. It is 0
	// for permits that another library holds. For a writer that became a reader, it is
	// the zxid of the reader's node, which is later than the token.
	Token int64

	// Permits is the number of a semaphore's permits that it holds or waits for; 0 for
	// every other lock.
	Permits int

	// Cached means that the lock's node is kept between holders, so a node that is
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
