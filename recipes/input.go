package recipes

import (
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// Epoch numbers the sessions of one coordinator from 1 on. Zero is no session.
type Epoch uint32

// Attempt numbers the nodes that one acquisition has tried to create, from 1 on.
// Each has a GUID of its own in its name, so that a create whose reply was lost
// can be found again and is never mistaken for another.
type Attempt uint32

// Moment is a point in time by the clock of whoever gives inputs and carries effects out. Of two the smaller one is the
// sooner, and 0 is never; more than that the machine does not know of it.
type Moment int64

// Input is something that has happened. The types of this file are all there are.
type Input interface{ isInput() }

// Wishes of the caller.
type (
	// Started asks for the lock. It is the first input, or comes after Opened.
	Started struct {
		// Try gives up rather than queue behind anybody.
		Try bool
		// Keep keeps the node after a loss until Withdrawn: a function is still
		// running under the lock, and nobody should be let in by us before it ends.
		Keep bool
		// Strict takes a lost connection for a loss.
		Strict bool
		// Detect has holders leave a record, by which the next one learns that one of them did not release.
		Detect bool
	}

	// Withdrawn ends the acquisition in whatever state it is, for the reason
	// given. Only the first one counts. Taken says of a Grant on which a record depends that it was taken.
	Withdrawn struct {
		Why   Why
		Taken bool
	}

	// Adopted drops the opinion of a semaphore's size: another one counts from now on.
	Adopted struct{}
)

// News of the session. Opened comes first in each epoch and Expired last; in
// between Suspended and Reconnected alternate.
type (
	// Opened says that there is a session.
	Opened struct {
		Epoch   Epoch
		Session int64
	}

	// Suspended says that the connection is gone. Requests that are under way
	// will be answered Unknown; later ones wait for a connection.
	Suspended struct{}

	// Reconnected says that the same session has a connection again. Watches
	// may have been missed.
	Reconnected struct{}

	// LeaseRanOut says that the session can no longer be believed alive. Only
	// those need hear it who were told that an answer is fresh.
	LeaseRanOut struct{}

	// Expired says that the session is over and all its nodes with it.
	Expired struct{}

	// Gone says that a node which was watched does not exist any more. It may
	// come before the answer to the request that armed the watch.
	Gone struct {
		Epoch Epoch
		Node  string
	}

	// AskedBack says that somebody wants the node's owner to give the lock back, and by when, if that was said. It may come
	// any number of times.
	AskedBack struct {
		Epoch Epoch
		Node  string
		By    Moment
	}

	// Overdue says that the moment has come of which a Revoke has told.
	Overdue struct{ By Moment }

	// Changed says that the size of a semaphore, or its permits, may have changed since
	// a Survey that watches, or who is in a directory since an Arm. Like Gone it may come before the answer.
	Changed struct{ Epoch Epoch }
)

// Answers. Each request is answered exactly once (a Watch only if it was not
// armed for certain), and bears the epoch in which it was made.
type (
	// Created answers Create. Alone says that it was proven, by the transaction
	// that created the node, that nobody else was in the queue, foreign contenders
	// included; then Token is the zxid that created it, and Fresh is meant as in
	// Claimed.
	Created struct {
		Epoch Epoch
		Node  events.Name
		Alone bool
		Fresh bool
		Token int64
	}

	// Enqueued answers Create of a multi-lock: the nodes, one of each member in order. The rest is meant as in Created,
	// of all members' queues.
	Enqueued struct {
		Epoch Epoch
		Nodes []events.Name
		Alone bool
		Fresh bool
		Token int64
	}

	// Canceled answers Create behind a Cancel: it was not sent, and never will be.
	Canceled struct{ Epoch Epoch }

	// Occupied answers Create where the lock is one node: somebody has it, and nothing was created.
	Occupied struct{ Epoch Epoch }

	// Paused answers Pause: the time is over.
	Paused struct{ Epoch Epoch }

	// Listed answers List: the contenders in the directory in any order, which nobody may write to because machines of
	// one session share them, and what was found under the attempt's GUID. With Entered that is not in the queue:
	// it is the first of the attempt's permits, its Token is not known, and InUse is how many permits are
	// in use in all. Size is the semaphore's, or 0 if it was not asked for. Of a multi-lock the Queue is that of all members,
	// and Own the first of the own nodes that was found; with Parted there are others that were not.
	Listed struct {
		Epoch   Epoch
		Queue   []events.Name
		Own     Own
		Entered bool
		Parted  bool
		InUse   int32
		Size    int32
	}

	// Claimed answers Claim: the node was there and the session alive when the
	// quorum took the write, or a warm session knows as much, see [Warmth]. Fresh says that the lease is
	// good at the time of the answer. Recorded says that the claim was one with a record. Abandoned is what a holder left behind
	// then that has not released since; nil is that there is none, and that the record that was to be made is our own.
	Claimed struct {
		Epoch     Epoch
		Fresh     bool
		Recorded  bool
		Abandoned *events.Abandoned
	}

	// Delayed answers Claim with a Record: a holder has crashed, and nobody is granted the lock for so long yet.
	Delayed struct {
		Epoch Epoch
		For   time.Duration
	}

	// Joined answers Create as Created does: the node is held already by others of the session, and nobody else was
	// asked. Abandoned is what these were told.
	Joined struct {
		Created

		Abandoned *events.Abandoned
	}

	// Advanced answers Advance: the own node was there and the session alive when
	// the quorum took the claim, or as of Claimed without one. Floor says that the blocker which is gone left as a
	// holder, so that nobody older than it is left. Stands says that the next
	// older one exists and is watched; it says nothing beside Floor, where nobody has
	// asked for that one. Fresh is meant as in Claimed.
	Advanced struct {
		Epoch  Epoch
		Floor  bool
		Stands bool
		Fresh  bool
	}

	// Surveyed answers Survey: how many permits there are, in which version of the
	// node that says so, and how many are in use. Of the own session's permits none is missing that
	// existed when it was made.
	Surveyed struct {
		Epoch   Epoch
		Size    int32
		Version int32
		InUse   int32
	}

	// Entered answers Enter: these are the own permits now, and the own node is gone. InUse is how
	// many permits there were then or later, the own ones included. Fresh is meant as in Claimed.
	Entered struct {
		Epoch   Epoch
		Permits []string
		InUse   int32
		Fresh   bool
	}

	// Armed answers Arm: the directory and the own node are watched. Others says that another contender is in the directory.
	Armed struct {
		Epoch  Epoch
		Others bool
	}

	// Deleted answers Delete: the node does not exist any more.
	Deleted struct{ Epoch Epoch }

	// Refused answers any request that the server turned down for good, and
	// that had no effect.
	Refused struct {
		Epoch   Epoch
		Op      Op
		Node    string // for Watch, what was to be watched
		Missing bool   // the node that the request was about does not exist
		Stale   bool   // of Enter: the size is not what it was based on
	}

	// Unknown answers any request of which nobody can tell whether it had an
	// effect.
	Unknown struct {
		Epoch Epoch
		Op    Op
	}
)

// Own is an acquisition's node as a listing found it. The zero value: not found.
type Own struct {
	Name  events.Name
	Owner int64 // the session that owns the node
	Token int64 // the zxid that created it; of a reader in a writer's place the one that created the writer's
}

// Op is a kind of request.
type Op uint8

// The kinds of requests, as the effects of the same names.
const (
	OpCreate Op = iota + 1
	OpList
	OpWatch
	OpClaim
	OpDelete
	OpAdvance
	OpSurvey
	OpEnter
	OpArm
)

// String names the request as its effect is named.
func (o Op) String() string {
	return [...]string{"no request", "Create", "List", "Watch", "Claim", "Delete", "Advance", "Survey", "Enter", "Arm"}[o]
}

func (Started) isInput()     {}
func (Withdrawn) isInput()   {}
func (Opened) isInput()      {}
func (Adopted) isInput()     {}
func (Suspended) isInput()   {}
func (Reconnected) isInput() {}
func (LeaseRanOut) isInput() {}
func (Expired) isInput()     {}
func (Gone) isInput()        {}
func (AskedBack) isInput()   {}
func (Overdue) isInput()     {}
func (Changed) isInput()     {}
func (Created) isInput()     {}
func (Canceled) isInput()    {}
func (Occupied) isInput()    {}
func (Paused) isInput()      {}
func (Listed) isInput()      {}
func (Claimed) isInput()     {}
func (Delayed) isInput()     {}
func (Joined) isInput()      {}
func (Enqueued) isInput()    {}
func (Advanced) isInput()    {}
func (Surveyed) isInput()    {}
func (Entered) isInput()     {}
func (Deleted) isInput()     {}
func (Armed) isInput()       {}
func (Refused) isInput()     {}
func (Unknown) isInput()     {}
