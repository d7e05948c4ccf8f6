package recipes

import (
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// This file is about a lock that reports crashes. A Grant reports whether an earlier
// holder has ended without a release, if no holder has released since.
//
// A holder leaves a record: a node of its own that stays when its session ends. The
// transaction that claims the lock makes the record, so there is no grant without one.
// The transaction that deletes the holder's node removes the record, but only if the
// holder has released. The order of these transactions decides:
//
//  1. A claims: its node exists, and so does its record from then on.
//  2. A ends without a release. Its node goes, and nothing removes the record.
//  3. B claims, finds a record and reads it, after that claim. The record does not name
//     B's node, so it is not B's. Hence a contender has held the lock since the last
//     release, and has not released.
//  4. B releases, and the record is deleted with its node. Or B crashes as well: then A's
//     record stands until a holder has released.
//
// A claim of unknown outcome is made again. If the record then names our own node, the
// first claim made it. There was no other holder in between: we are the first in the
// queue, and no node's name is used twice.
//
// So every grant of such a lock is claimed. This includes a contender that the answer to
// its create proves to be alone, and one that a floor proves to be the first. A claim
// proves all that these would.
//
// The create does not make the record, though that would save a round trip:
//
//  1. H releases, and its record goes. A is the next in the queue, and has not claimed.
//  2. X creates its node and a record. It finds A, and waits.
//  3. A claims, and takes X's record for that of a crash.
//
// To tell the two apart, a record would have to name a node whose name and token are not
// known yet.
//
// If no function can have acted under a Grant, its record reports no crash. That is so
// for a Grant that was not taken, and for a claim that was answered after its caller gave
// up. Such a record goes as after a release, if it is our own. Hence a caller that gives
// up while a claim is in progress waits for the answer, which tells whose record it is. A
// contender that finds the record of a crash, and gives up, leaves that record for the
// next one.
//
// Readers make no record and remove none: a crashed reader leaves no partial write. While
// a reader holds, no writer holds, so a record that stands then reports a crash.
// Exception: the record of a writer in whose place the reader stands.

// recording returns what the machine's claims do with the record.
func (m *Machine) recording() Recording {
	switch {
	case !m.detect:
		return RecordNothing
	case m.rule.Exclusive():
		return RecordMade
	default:
		return RecordRead
	}
}

// leavesClean notes, when a caller ends its tenure, whether the record is deleted with
// the node. It goes if the caller has taken the Grant and has released, because then its
// work is done. It also goes if the caller found no crash and did not take the Grant.
// Both hold after a loss, too: the caller may have been faster than the news of it.
func (m *Machine) leavesClean(in Withdrawn) {
	if m.recording() == RecordMade && (m.state == Held && m.why == 0 || m.state == Lapsed) {
		m.clean = m.recorded
		if in.Taken {
			m.clean = in.Why == WhyReleased
		}
	}
}

// claimPlan checks the own nodes. In the same transaction it makes a record, or looks
// whether one stands.
func (e *Errand) claimPlan() Plan {
	if e.delayed.next != claims {
		return e.delayPlan()
	}
	p := make(Plan, 0, 1+len(e.Nodes))
	for _, node := range e.Nodes {
		p = append(p, check(OnOwn, node))
	}
	switch e.Record {
	case RecordMade:
		p = append(p, create(OnRecord, e.Holder, e.Holding, Persistent))
	case RecordRead:
		p = append(p, check(OnRecord, e.Holder))
	case RecordNothing:
	}
	return p
}

// claimed takes the answer to a claim. If only the part about the record was refused,
// that is a proof as well: at that point of the servers' order the own node was there.
func (e *Errand) claimed(p Plan, a Answer) Meaning {
	done, record := a.Result == ResultDone, p.Refused(a).On == OnRecord
	switch {
	case e.delayed.next != claims:
		return e.wrote(p, a)
	case e.Layout == LayoutNode && done:
		return Meaning{Then: ThenLook}
	case e.Record == RecordNothing && done:
		return Meaning{In: Claimed{Epoch: e.Epoch}}
	case e.Record == RecordMade && done, e.Record == RecordRead && record && a.Result == ResultNoNode:
		return Meaning{In: e.recorded(nil)}
	case done, e.Record == RecordMade && record && a.Result == ResultNodeExists:
		return Meaning{Then: ThenReadRecord}
	default:
		return e.refused(!record && a.Result == ResultNoNode) // if the record's part is refused, the own node is not missing
	}
}

// Incomplete is the answer to a claim for a contender whose needed nodes are only partly
// known, or nil if all are known. Some of the nodes prove nothing, so no server is asked.
func (e Claim) Incomplete(known, needed int) Input {
	if known == needed {
		return nil
	}
	return Refused{Epoch: e.Epoch, Op: OpClaim, Missing: true}
}

func (e *Errand) recorded(left *events.Abandoned) Claimed {
	return Claimed{Epoch: e.Epoch, Recorded: true, Abandoned: left}
}

// Found is a record that a claim has found.
type Found struct {
	Own    bool // the record names the own node: an earlier claim was executed, and its answer lost
	Writer bool // the record is of the writer in whose place the contender stands
	Stands bool // and the writer's node exists
	Gone   bool // the record is gone, or another one stands

	Delay  time.Duration // the longer one of the record's lock-delay and the contender's; in a writer's place the record's
	Marked bool          // the delay has begun,
	Since  int64         // at this time of the servers, in milliseconds since 1970
	Taken  bool          // the own node, or the writer's in whose place the contender stands, has taken the record over

	Version  int32  // of the record
	Mark     []byte // what the record says with a mark. A mark that there is keeps its time
	TakeOver []byte // what it says if the own node takes it over
}

// Read takes the record, and the crashed holder that it names. It is read after the
// transaction that found it. No other record replaces it in between: only a releasing
// holder deletes the record, in the transaction that deletes its node, and there is no
// other holder while our node is first. The one case is the writer whose place a reader
// takes. Its record reports no crash while its node exists, nor if both are gone:
//
//  1. The record is read.
//  2. The writer releases, which deletes both.
//  3. Its node does not exist.
func (e *Errand) Read(f Found, left *events.Abandoned) Meaning {
	switch {
	case e.Record == RecordMade && f.Own, f.Writer && f.Stands:
		return Meaning{In: e.recorded(nil)}
	case f.Gone:
		return Meaning{Then: ThenAgain}
	case f.Taken, f.Delay == 0 && !f.Marked:
		return Meaning{In: e.recorded(left)}
	default:
		e.delayed = delayed{marks, left, f}
		return Meaning{Then: ThenAgain}
	}
}
