package recipes

import (
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// Effect is something to be done. The types of this file are all there are.
type Effect interface{ isEffect() }

// Requests to ZooKeeper. They are meant for one epoch and for no other.
type (
	// Create makes an ephemeral sequential node that bears the attempt's GUID,
	// and the directory if there is none.
	Create struct {
		Epoch   Epoch
		Attempt Attempt
	}

	// Cancel takes a Create back that nobody wants any more. If that was not sent it never will be, and Canceled answers it; if it
	// was, it is answered as it would have been, and Cancel is not.
	Cancel struct{ Epoch Epoch }

	// List reads the directory and looks for the attempt's GUID in it. With
	// Barrier, a write that goes through the quorum comes before the reading, so
	// that whatever an earlier request did is seen. Attempt 0 looks for nothing. With Size
	// the semaphore's size is read as well, and with Barrier the GUID is looked for
	// among its permits, too.
	List struct {
		Epoch   Epoch
		Attempt Attempt
		Barrier bool
		Size    bool
	}

	// Watch asks for a Gone as soon as the node does not exist, which may be at
	// once. A watch does not outlive the connection for certain.
	Watch struct {
		Epoch Epoch
		Node  string
	}

	// Claim sends a write that succeeds only if the own node exists, or nothing of the kind if the session is warm, see
	// [Warmth]. With a Record it looks in the same write whether a record stands, and reads it behind that if one does. It is
	// then answered Claimed with Recorded.
	Claim struct {
		Epoch  Epoch
		Node   string
		Record Recording
		Held   bool // the contender holds, and asks whether it does still: the answer makes no holder of it
	}

	// Advance asks what it means that a blocker is gone when there was more than
	// that one ahead. In one flight it reads the directory's floor and claims the own
	// node; see Claim. If the floor does not name the blocker it goes on and watches the next older
	// one that was remembered, of which Gone will tell as with Watch.
	Advance struct {
		Epoch Epoch
		Node  string // the own one
		Past  string // the blocker that is gone
		Next  string // the nearest older one that may still stand
	}

	// Survey asks how many permits of a semaphore there are and how many are taken. With
	// Watch, Changed tells when either may have changed, and Gone when the own node
	// has. If nobody has said how many there are, the acquisition's own opinion is
	// written down. Without a Node nothing is queued up yet.
	Survey struct {
		Epoch Epoch
		Node  string
		Watch bool
	}

	// Enter trades the own node, the first in the queue, for as many permits as there
	// are permits to be taken, all or none, on condition that the size is still
	// the one of that version. Floor is meant as in Delete.
	Enter struct {
		Epoch   Epoch
		Node    string
		Permits int32
		Version int32
		Floor   bool
	}

	// Delete removes the own node, or all that are left of the own permits. No such node is success. With Floor it leaves
	// word in the directory, in the same transaction, that nobody older than this
	// node is left, if the directory is one of ours. With Clean the record goes with the node, in the same transaction;
	// if the node was gone before, the record stays.
	Delete struct {
		Epoch Epoch
		Node  string
		Floor bool
		Clean bool
	}

	// Pause asks for a Paused after a random time, so that those who wait for the same node do
	// not all come back at once. The more attempts there have been the longer it may be. With Yield the time is what
	// an idle node of a cached lock takes to go, and with For it is that.
	Pause struct {
		Epoch   Epoch
		Attempt Attempt
		Yield   bool
		For     time.Duration
	}

	// Arm lists the directory and watches it, and the own node: Changed tells when contenders may have come, and Gone when the own node
	// is gone. It is a [Stay]'s.
	Arm struct {
		Epoch Epoch
		Node  string
	}

	// Rest has the session renew its lease for the own node no more, and tell nothing of the lease's end, until a Claim is answered. It
	// is not answered. It is a [Stay]'s.
	Rest struct{}

	// Discard removes a node that a request of a past epoch left behind. It is
	// not answered; whoever carries it out keeps at it until the node is gone.
	Discard struct{ Node string }
)

// Things to tell the caller.
type (
	// Grant hands the lock over.
	Grant struct {
		Node      string
		Token     int64
		Session   int64             // that owns the node
		Abandoned *events.Abandoned // what a holder left behind who never released; nil if nothing
		Turn      uint64            // of a cached lock: how many grants there were with the node before
	}

	// Lose takes it away.
	Lose struct{ Reason events.Reason }

	// Queue tells how many stand ahead. If nobody does, Delay is for how long the lock is not granted yet, behind a crash.
	Queue struct {
		Ahead int
		Delay time.Duration
	}

	// Requeue tells that the place in the queue is lost.
	Requeue struct{}

	// Revoke tells the holder that somebody wants the lock back. At that moment, unless it is 0, the session says Overdue. It comes
	// behind the Grant, once, and again with each wish that leaves less time than those before.
	Revoke struct{ By Moment }

	// Finish tells that it is over and nothing is held. It comes once. The
	// machine may still have a node to remove after it.
	Finish struct{ Why Why }
)

// Why tells for what reason an acquisition ended.
type Why uint8

// The reasons for an end.
const (
	// WhyReleased: the caller released it.
	WhyReleased Why = iota + 1
	// WhyContext: the context that bounded the wait ended.
	WhyContext
	// WhyTimeout: the longest wait that was asked for ran out.
	WhyTimeout
	// WhyClosed: the coordinator was closed.
	WhyClosed
	// WhyBusy: it was only to be tried, and somebody stood ahead.
	WhyBusy
	// WhyLost: it was lost.
	WhyLost
	// WhyRefused: the server turned a request down.
	WhyRefused
	// WhySequenceEnd: the directory's numbers are used up.
	WhySequenceEnd
	// WhySizeMismatch: others have another opinion of the semaphore's size.
	WhySizeMismatch
	// WhyPermits: more permits are wanted than there are.
	WhyPermits
	// WhyMixed: the lock bears kazoo's names, and somebody is in its queue whom kazoo does not see.
	WhyMixed
	// WhyPanicked: the function that ran under the lock did not return.
	WhyPanicked
)

// String names the reason in lower case.
func (w Why) String() string {
	names := [...]string{
		WhyReleased: "released", WhyContext: "context ended", WhyTimeout: "waited too long", WhyClosed: "closed", WhyBusy: "busy",
		WhyLost: "lost", WhyRefused: "refused", WhySequenceEnd: "end of sequence",
		WhySizeMismatch: "size mismatch", WhyPermits: "more permits than there are", WhyMixed: "mixed queue", WhyPanicked: "panicked",
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
func (Rest) isEffect()    {}
func (Grant) isEffect()   {}
func (Lose) isEffect()    {}
func (Queue) isEffect()   {}
func (Requeue) isEffect() {}
func (Revoke) isEffect()  {}
func (Finish) isEffect()  {}

// Recording is what a claim has to do with the record.
type Recording uint8

const (
	// RecordNothing says that the lock has none, or it was seen to when the lock was granted.
	RecordNothing Recording = iota
	// RecordMade says that it is made if there is none.
	RecordMade
	// RecordRead says that it is looked for.
	RecordRead
)

// String says what is done.
func (r Recording) String() string {
	return [...]string{"no record", "make the record", "read the record"}[r]
}
