package recipes

import (
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// This file is about locks that report crashes. A Grant reports an earlier holder that
// ended without a release, unless a later holder has released since.
//
// A holder leaves a record: a separate node that outlives its session. The transaction
// that claims the lock creates the record, so there is no grant without one. The
// transaction that deletes the holder's node deletes the record only if the holder
// releases. The order of these transactions decides:
//
//  1. A claims. Its node exists, and from then on so does its record.
//  2. A ends without a release. Its node is gone, but nothing removes the record.
//  3. B claims, finds a record, and reads it after the claim. The record does not name
//     B's node, so it is not B's. Hence a contender has held the lock since the last
//     release, and has not released it.
//  4. B releases, and the record is deleted with B's node. Or B crashes, too: then A's
//     record stays until a holder releases.
//
// A claim whose outcome is unknown is sent again. If the record then names our own node,
// the first claim created it. There was no other holder in between: we are first in the
// queue, and no node name is used twice.
//
// So every grant of such a lock is claimed, even if the answer to the create proves that
// the contender is alone, or a floor proves that it is first. The claim proves all of
// that, too.
//
// The create does not create the record, although that would save a round trip:
//
//  1. H releases, and its record is deleted. A is next in the queue, and has not claimed
//     yet.
//  2. X creates its node and a record. It finds A, and waits.
//  3. A claims, and mistakes X's record for one left by a crash.
//
// To avoid that, X's record would have to name X's node, but its name and token are not
// known before the create.
//
// If no caller can have acted under a Grant, its record reports no crash. That is the
// case for a Grant that was not taken, and for a claim answered after the caller gave up.
// Such a record, if it is our own, is deleted as after a release. Hence a caller that
// gives up while a claim is in progress waits for the answer, which says whose record it
// is. A contender that finds the record of a crash and then gives up leaves it for the
// next one.
//
// Readers neither create nor remove a record: a crashed reader leaves no partial write.
// While a reader holds, no writer holds, so any record reports a crash, except that of a
// writer whose place the reader has taken.

// recording returns what this machine's claims do with the record.
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

// leavesClean decides, when a caller leaves, whether the record is deleted with the node.
// It is if the caller took the Grant and has released, because its work is then done, or
// if the caller never took the Grant and the record is our own. Both are true even after
// a loss: the caller may have released before it knew.
func (m *Machine) leavesClean(in Withdrawn) {
	if m.recording() == RecordMade && (m.state == Held && m.why == 0 || m.state == Lapsed) {
		m.clean = m.recorded
		if in.Taken {
			m.clean = in.Why == WhyReleased
		}
	}
}

// claimPlan checks the contender's nodes. In the same transaction, it creates a record or
// checks whether one exists.
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

// claimed handles the answer to a claim. If only the operation on the record was refused,
// the claim is still proven: at that point in the servers' order, the contender's node
// existed.
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
		return e.refused(!record && a.Result == ResultNoNode) // the record was refused, so our node still exists
	}
}

// Incomplete returns the answer to a claim if the session does not know all the nodes
// that it needs, else nil. Checking only some of the nodes proves nothing, so no request
// is sent.
func (e Claim) Incomplete(known, needed int) Input {
	if known == needed {
		return nil
	}
	return Refused{Epoch: e.Epoch, Op: OpClaim, Missing: true}
}

func (e *Errand) recorded(left *events.Abandoned) Claimed {
	return Claimed{Epoch: e.Epoch, Recorded: true, Abandoned: left}
}

// Found is an existing record, as read after a claim.
type Found struct {
	Own    bool // the record names our own node: the answer to an earlier claim was lost
	Writer bool // the record is that of the writer whose place the contender has taken
	Stands bool // and the writer's node still exists
	Gone   bool // the record is gone, or was replaced by another one

	Delay  time.Duration // the longer of the record's lock-delay and the contender's; in a writer's place, the record's
	Marked bool          // the delay has begun
	Since  int64         // if Marked: when, by the servers' clock, in milliseconds since 1970
	Taken  bool          // the contender, or the writer whose place it has, has taken it over

	Version  int32  // of the record
	Mark     []byte // the record with a mark; an existing mark keeps its time
	TakeOver []byte // the record once the contender has taken it over
}

// Read handles the record that the claim has found, and the crashed holder that it names.
// The record was read after the claim, but no other one can have replaced it: only a
// releasing holder deletes the record, along with its node, and while our node is first
// there is no other holder. The only exception is the writer whose place a reader has
// taken. Its record reports no crash while its node exists, nor if both are gone:
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
