package recipes

import (
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// This file is about how a claim deals with the record of crash.go: it makes one, or
// finds one and reads it.

// claimPlan checks the own nodes. In the same transaction it makes a record, or looks
// whether one stands.
func (e Errand) claimPlan() Plan {
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
func (e Errand) claimed(p Plan, a Answer) Meaning {
	done, record := a.Result == ResultDone, p.Refused(a).On == OnRecord
	switch {
	case e.delayed.next != claims:
		return e.wrote(p, a)
	case e.Layout == LayoutNode && done:
		return e.next(ThenLook)
	case e.Record == RecordNothing && done:
		return tell(Claimed{Epoch: e.Epoch})
	case e.Record == RecordMade && done, e.Record == RecordRead && record && a.Result == ResultNoNode:
		return tell(e.recorded(nil))
	case done, e.Record == RecordMade && record && a.Result == ResultNodeExists:
		return e.next(ThenReadRecord)
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

func (e Errand) recorded(left *events.Abandoned) Claimed {
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
func (e Errand) Read(f Found, left *events.Abandoned) Meaning {
	switch {
	case e.Record == RecordMade && f.Own, f.Writer && f.Stands:
		return tell(e.recorded(nil))
	case f.Gone:
		return e.next(ThenAgain)
	case f.Taken, f.Delay == 0 && !f.Marked:
		return tell(e.recorded(left))
	default:
		e.delayed = delayed{marks, left, f}
		return e.next(ThenAgain)
	}
}
