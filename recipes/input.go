package recipes

import (
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// Epoch numbers the sessions of one coordinator, starting at 1. 0 means no session.
type Epoch uint32

// dated is an input about one session: an answer, or news of its nodes.
type dated interface{ of() Epoch }

// of returns the epoch of an input that embeds it.
func (e Epoch) of() Epoch { return e }

// Attempt numbers the nodes that one acquisition has tried to create, starting at 1. Each
// name has its own GUID, so a node whose create had no reply can be found again, and is
// never mistaken for another one.
type Attempt uint32

// Moment is a point in time by the clock of the runtime, which delivers inputs and
// executes effects. The smaller of two moments is the earlier one, and 0 means never. The
// machine knows nothing else about it.
type Moment int64

// Input is something that has happened. Only types of this file implement it.
type Input interface{ isInput() }

// Requests of the caller.
type (
	// Started requests the lock. It is the first input, or the next one after Opened.
	Started struct {
		// Try ends the acquisition instead of waiting for another contender. Behind the
		// node of a cached lock, which may be idle, it waits for a moment.
		Try bool
		// Strict treats a lost connection as a loss.
		Strict bool
		// Detect makes holders leave a record, so that the next holder learns of one that
		// did not release.
		Detect bool
	}

	// Withdrawn ends the acquisition in any state, for the given reason. Only the first
	// one counts. After Lose, it reports that no function is running under the lock; Ran
	// means that one was until now. Taken means that the Grant was taken. It is set only
	// if a record depends on it.
	Withdrawn struct {
		Why   Why
		Taken bool
		Ran   bool
	}

	// Adopted makes the acquisition accept whatever size of the semaphore it finds from
	// now on, instead of the caller's.
	Adopted struct{}
)

// News of the session. In each epoch, Opened comes first and Expired last; in between,
// Suspended and Reconnected alternate.
type (
	// Opened reports a new session.
	Opened struct {
		Epoch     Epoch
		Session   int64
		Suspended bool // it has no connection at the moment
	}

	// Suspended reports that the connection is lost. Requests in progress are answered
	// with Unknown. Later ones wait for a connection.
	Suspended struct{}

	// Reconnected reports that the same session has a connection again. Watch events may
	// have been lost.
	Reconnected struct{}

	// LeaseRanOut reports that the session no longer counts as alive. It concerns only a
	// machine that has received a fresh answer.
	LeaseRanOut struct{}

	// Expired reports that the session is over, with all its nodes.
	Expired struct{}

	// Gone reports that a watched node no longer exists. It may precede the answer to the
	// request that armed the watch.
	Gone struct {
		Epoch
		Node events.Name
	}

	// RevocationRequested reports a revocation request to the node's owner, with its
	// deadline if it has one. It may come any number of times.
	RevocationRequested struct {
		Epoch
		Node events.Name
		By   Moment
	}

	// Overdue reports that the deadline of a [Revoke] has passed.
	Overdue struct{ By Moment }

	// Changed reports a possible change: after a Survey with Watch, of a semaphore's size
	// or permits; after an Arm, of the contenders in the directory. Like Gone, it may
	// precede the answer.
	Changed struct{ Epoch }
)

// Answers. Each request is answered exactly once, with the epoch in which it was made,
// except that a Watch is answered only if it may not be armed.
type (
	// Created answers [Create]. Alone means that the create proved that no contender of
	// any library is ahead. Then Token is the zxid that created the node or, for a reader
	// in a writer's place, the writer's node. Fresh is as in [Claimed].
	Created struct {
		Epoch
		Node  events.Name
		Alone bool
		Fresh bool
		Token int64
	}

	// Enqueued answers [Create] of a multi-lock with its nodes, one per member, in order.
	// The other fields are as in [Created], and apply to the queues of all members.
	Enqueued struct {
		Epoch
		Nodes []events.Name
		Alone bool
		Fresh bool
		Token int64
	}

	// Canceled answers a Create that a Cancel stopped in time: nothing was created, and
	// nothing will be.
	Canceled struct{ Epoch }

	// Occupied answers [Create] of a lock with a single node: the node exists, and
	// nothing was created.
	Occupied struct{ Epoch }

	// Paused answers [Pause]: its time has passed.
	Paused struct{ Epoch }

	// Listed answers [List]. Queue has the contenders in the directory, in any order;
	// machines of one session share it, so it must not be modified. Own is the node with
	// the attempt's GUID, if it was found. With Entered, Own is not in the queue but is
	// the first of the attempt's permits, without a Token, and InUse is how many permits
	// are in use. Size is the semaphore's, or 0 if it was not requested. For a
	// multi-lock, Queue has the queues of all members, and Own is the first of the
	// attempt's nodes that was found; Parted means that some of the others were not.
	Listed struct {
		Epoch
		Queue   []events.Name
		Own     Own
		Entered bool
		Parted  bool
		InUse   int32
		Size    int32
	}

	// Claimed answers [Claim]: the node existed and the session was alive when the quorum
	// accepted the write. A warm session knows as much without one; see [Warmth]. Fresh
	// means that the lease is good at the time of the answer. Recorded means that the
	// claim had a Record. Abandoned is then the holder that left a record without
	// releasing; nil means that there is none, and that a record created by the claim is
	// our own. Held is as in the claim: a claim with Held only verifies a hold, so it
	// does not end a holder's rest; see [Contention].
	Claimed struct {
		Epoch
		Fresh     bool
		Recorded  bool
		Abandoned *events.Abandoned
		Held      bool
	}

	// Delayed answers a [Claim] with a Record: a holder has crashed, and the lock is not
	// granted for the given time.
	Delayed struct {
		Epoch
		For time.Duration
	}

	// Advanced answers [Advance]. It proves the same as [Claimed], and Fresh is as there.
	// Floor means that the missing blocker left as a holder, so no older contender is
	// left. Stands means that the next older node exists and is watched; it is
	// meaningless with Floor, because that node was not read.
	Advanced struct {
		Epoch
		Floor  bool
		Stands bool
		Fresh  bool
	}

	// Surveyed answers [Survey] with the number of permits, the version of the size node,
	// and how many permits are in use. InUse includes every permit of our own session
	// that existed when the survey was made.
	Surveyed struct {
		Epoch
		Size    int32
		Version int32
		InUse   int32
	}

	// Entered answers [Enter]: Permits are now ours, and our node is gone. InUse is how
	// many permits were in use then or later, including ours. Fresh is as in [Claimed].
	//
	// It also answers [Create] if the permits of a semaphore of that Size were taken at
	// once, without a node in the queue. Token is then the zxid that created the permits.
	// Spare means that there was no room for them, or a contender in the queue: they must
	// be given back.
	Entered struct {
		Epoch
		Permits []string
		InUse   int32
		Fresh   bool
		Size    int32
		Token   int64
		Spare   bool
	}

	// Armed answers [Arm]: the directory and the holder's node are watched. Others means
	// that the directory has another contender.
	Armed struct {
		Epoch
		Others bool
	}

	// Deleted answers [Delete]: the node no longer exists.
	Deleted struct{ Epoch }

	// Refused answers any request that the server refused for good. The request had no
	// effect.
	Refused struct {
		Epoch
		Op      Op
		Node    events.Name // of Watch: the node to be watched
		Missing bool        // the request's node does not exist
		Stale   bool        // of Enter: the size node has another version by now
		Held    bool        // of Claim: as in the claim
	}

	// Unknown answers any request that may or may not have had an effect. Held is as in
	// Refused.
	Unknown struct {
		Epoch
		Op   Op
		Held bool
	}
)

// Own is an acquisition's node, as a listing found it. The zero value means that it was
// not found.
type Own struct {
	Name  events.Name
	Owner int64 // the session that owns the node
	Token int64 // the zxid that created it, or, for a reader in a writer's place, the writer's
}

// Op is a kind of request.
type Op uint8

// The kinds of requests, named like their effects.
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

// String returns the name of the request's effect.
func (o Op) String() string {
	return [...]string{"no request", "Create", "List", "Watch", "Claim", "Delete", "Advance", "Survey",
		"Enter", "Arm"}[o]
}

func (Started) isInput()     {}
func (Withdrawn) isInput()   {}
func (Adopted) isInput()     {}
func (Opened) isInput()      {}
func (Suspended) isInput()   {}
func (Reconnected) isInput() {}
func (LeaseRanOut) isInput() {}
func (Expired) isInput()     {}
func (Overdue) isInput()     {}

// isInput makes every type that embeds an Epoch an Input.
func (Epoch) isInput() {}
