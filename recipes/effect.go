package recipes

import (
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// Effect is something to do. Only types of this file implement it.
type Effect interface{ isEffect() }

// Requests to the session, which makes most of them to ZooKeeper. A request with an Epoch
// is for that epoch only.
type (
	// Create creates an ephemeral sequential node whose name contains the attempt's GUID,
	// and the directory if it is missing. Back, if set, is the first of the attempt's
	// permits, which the same transaction gives back.
	Create struct {
		Epoch   Epoch
		Attempt Attempt
		Back    events.Name
	}

	// Cancel withdraws a Create. If nothing has been created yet and the Create needs
	// further requests, these are not sent, and the Create is answered with [Canceled].
	// Otherwise it is answered as usual. Cancel itself is not answered.
	Cancel struct{ Epoch Epoch }

	// List reads the directory and searches it for the attempt's GUID, unless Attempt is
	// 0. With Barrier, a write through the quorum precedes the read, so that it sees the
	// effects of all earlier requests. With Size, it also reads the semaphore's size.
	// With both, it also searches the permits for the GUID.
	List struct {
		Epoch   Epoch
		Attempt Attempt
		Barrier bool
		Size    bool
	}

	// Watch requests a [Gone] once the node no longer exists, which may be at once. The
	// watch may be lost with the connection.
	Watch struct {
		Epoch Epoch
		Node  events.Name
	}

	// Claim sends a write that succeeds only if the contender's node exists. A warm
	// session sends nothing; see [Warmth]. With a Record, the same write creates or
	// checks the record, and an existing one is read after the write. The answer is then
	// Claimed with Recorded.
	Claim struct {
		Epoch  Epoch
		Node   events.Name
		Record Recording
		Held   bool // a holder checks that it still holds; the answer grants nothing
	}

	// Advance finds out whose turn it is after the end of a blocker that was not the only
	// contender ahead. In one batch, it reads the directory's floor and claims the
	// contender's node; see [Claim]. If the floor does not name the blocker, it watches
	// the next older node that is remembered; Gone reports its end, as for a Watch.
	Advance struct {
		Epoch Epoch
		Node  events.Name // the contender's own node
		Past  events.Name // the blocker that is gone
		Next  events.Name // the nearest older node that may still exist
	}

	// Survey asks how many permits a semaphore has, and how many are in use. With Watch,
	// [Changed] reports that either may have changed, and [Gone] that the contender's
	// node is gone. If no size was written yet, the survey writes the acquisition's own.
	// Without a Node, the acquisition is not in the queue yet.
	Survey struct {
		Epoch Epoch
		Node  events.Name
		Watch bool
	}

	// Enter trades the contender's node, the first in the queue, for Permits permits: all
	// or none, and only if the size node still has that version. Floor is as in [Delete].
	Enter struct {
		Epoch   Epoch
		Node    events.Name
		Permits int32
		Version int32
		Floor   bool
	}

	// Delete deletes the contender's node, or whatever is left of its permits. A missing
	// node counts as deleted. With Floor, the same transaction leaves a floor in a
	// directory of ours: no contender older than this node is left. With Clean, the same
	// transaction deletes the record; if the node is gone already, the record stays.
	Delete struct {
		Epoch Epoch
		Node  events.Name
		Floor bool
		Clean bool
	}

	// Pause requests a [Paused] after a random time, so that the waiters for a single
	// node do not all come back at once. The time grows with the number of attempts. With
	// Yield, it is long enough for an idle node of a cached lock to be given up. With
	// For, it is exactly that time.
	Pause struct {
		Epoch   Epoch
		Attempt Attempt
		Yield   bool
		For     time.Duration
	}

	// Arm lists the directory, and watches it and the holder's node. [Changed] reports
	// that contenders may have arrived, and [Gone] that the holder's node is gone. No
	// machine returns it; see [Contention].
	Arm struct {
		Epoch Epoch
		Node  events.Name
	}

	// Warm keeps the session warm for a contender that is next in line, for one session
	// timeout; see [Warmth]. It is not answered.
	Warm struct{}

	// Rest stops the renewal of the lease for the holder's node, and the report of the
	// lease's end, until a [Claim] without Held is answered. It is not answered itself.
	// No machine returns it; see [Contention].
	Rest struct{}

	// Discard deletes a node that the machine no longer needs. It is not answered. The
	// session retries until the node is gone.
	Discard struct{ Node events.Name }
)

// Requested returns the kind and the epoch of a request to ZooKeeper, and the contender's
// own node if the request is about that. The kind of any other effect is 0.
func Requested(e Effect) (op Op, epoch Epoch, own events.Name) {
	switch e := e.(type) {
	case Create:
		return OpCreate, e.Epoch, own
	case List:
		return OpList, e.Epoch, own
	case Watch:
		return OpWatch, e.Epoch, own
	case Claim:
		return OpClaim, e.Epoch, e.Node
	case Delete:
		return OpDelete, e.Epoch, e.Node
	case Advance:
		return OpAdvance, e.Epoch, e.Node
	case Survey:
		return OpSurvey, e.Epoch, e.Node
	case Enter:
		return OpEnter, e.Epoch, e.Node
	case Arm:
		return OpArm, e.Epoch, e.Node
	default:
		return 0, 0, own
	}
}

// Notifications for the caller.
type (
	// Grant grants the lock to the caller.
	Grant struct {
		Node      string
		Token     int64
		Session   int64             // the session that owns the node
		Abandoned *events.Abandoned // a holder that never released, or nil
		Turn      uint64            // for a cached lock: the number of earlier grants under the node
	}

	// Lose takes the lock away from the caller.
	Lose struct{ Reason events.Reason }

	// Queue reports how many contenders are ahead. If there are none, Delay is how much
	// of the lock-delay after a crash remains.
	Queue struct {
		Ahead int
		Delay time.Duration
	}

	// Requeue reports that the place in the queue is lost.
	Requeue struct{}

	// Revoke reports a revocation request to the holder. If By is not 0, the session
	// sends [Overdue] at that moment. Revoke never precedes the Grant. It comes again
	// only with an earlier deadline.
	Revoke struct{ By Moment }

	// Finish reports that the acquisition is over and holds nothing. It comes once. The
	// machine may still have to delete a node after it.
	Finish struct{ Why Why }
)

// Why is the reason that an acquisition ended.
type Why uint8

// The reasons for an end.
const (
	// WhyReleased: the caller released it.
	WhyReleased Why = iota + 1
	// WhyContext: the context that bounded the wait ended.
	WhyContext
	// WhyTimeout: the maximum wait ran out.
	WhyTimeout
	// WhyClosed: the coordinator was closed.
	WhyClosed
	// WhyBusy: a Try found another contender ahead, and not only an idle node.
	WhyBusy
	// WhyLost: the lock was lost.
	WhyLost
	// WhyRefused: the server refused a request.
	WhyRefused
	// WhySequenceEnd: the directory's numbers are used up, or another contender has our
	// number.
	WhySequenceEnd
	// WhySizeMismatch: other contenders use another size of the semaphore.
	WhySizeMismatch
	// WhyPermits: the acquisition needs more permits than the semaphore has.
	WhyPermits
	// WhyMixed: the lock uses kazoo's names, and its queue has a contender that kazoo
	// does not see.
	WhyMixed
	// WhyPanicked: the work under the lock was not finished.
	WhyPanicked
	// WhyNoSession: no server answered a Try in time.
	WhyNoSession
)

// String returns the reason in lower case.
func (w Why) String() string {
	names := [...]string{
		WhyReleased: "released", WhyContext: "context ended", WhyTimeout: "waited too long",
		WhyClosed: "closed", WhyBusy: "busy",
		WhyLost: "lost", WhyRefused: "refused", WhySequenceEnd: "end of sequence",
		WhySizeMismatch: "size mismatch", WhyPermits: "more permits than there are", WhyMixed: "mixed queue",
		WhyPanicked: "panicked", WhyNoSession: "no session",
	}
	if int(w) < len(names) && names[w] != "" {
		return names[w]
	}
	return "none"
}

func (Create) isEffect()  {}
func (Cancel) isEffect()  {}
func (List) isEffect()    {}
func (Watch) isEffect()   {}
func (Claim) isEffect()   {}
func (Advance) isEffect() {}
func (Survey) isEffect()  {}
func (Enter) isEffect()   {}
func (Delete) isEffect()  {}
func (Pause) isEffect()   {}
func (Discard) isEffect() {}
func (Arm) isEffect()     {}
func (Warm) isEffect()    {}
func (Rest) isEffect()    {}
func (Grant) isEffect()   {}
func (Lose) isEffect()    {}
func (Queue) isEffect()   {}
func (Requeue) isEffect() {}
func (Revoke) isEffect()  {}
func (Finish) isEffect()  {}

// Recording is what a claim does with the record.
type Recording uint8

const (
	// RecordNothing ignores it: the lock has no record, or it was created or read at the
	// grant.
	RecordNothing Recording = iota
	// RecordMade creates the record if there is none.
	RecordMade
	// RecordRead only looks for the record.
	RecordRead
)

// String returns a description in a few words.
func (r Recording) String() string {
	return [...]string{"no record", "make the record", "read the record"}[r]
}
