package recipes

import (
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// This file is how a claim deals with the record of crash.go: it makes one, or finds one and reads it.

// claimPlan checks the own node, and looks in the same transaction whether a record stands, or makes one.
func (e Errand) claimPlan() Plan {
	if e.delayed.next != claims {
		return e.delayPlan()
	}
	p := planOf(0, Operation{Do: DoCheck, On: OnOwn})
	switch e.Record {
	case RecordMade:
		p = p.and(Operation{Do: DoCreate, On: OnRecord})
	case RecordRead:
		p = p.and(Operation{Do: DoCheck, On: OnRecord})
	case RecordNothing:
	}
	return p
}

// claimed takes the answer to a claim. If the part about the record was refused it is a proof as well: the other was not, at
// that point of the servers' order.
func (e Errand) claimed(a Answer) Meaning {
	done, record := a.Result == ResultDone, a.At.On == OnRecord
	switch {
	case e.delayed.next != claims:
		return e.wrote(a)
	case e.Layout == LayoutNode && done:
		return e.next(ThenLook)
	case e.Record == RecordNothing && done:
		return tell(Claimed{Epoch: e.Epoch})
	case e.Record == RecordMade && done, e.Record == RecordRead && record && a.Result == ResultNoNode:
		return tell(e.recorded(nil))
	case done, e.Record == RecordMade && record && a.Result == ResultNodeExists:
		return e.next(ThenReadRecord)
	default:
		return e.refused(!record && a.Result == ResultNoNode) // what is missing beside the record is not the own node
	}
}

func (e Errand) recorded(left *events.Abandoned) Claimed {
	return Claimed{Epoch: e.Epoch, Recorded: true, Abandoned: left}
}

// Found is what a claim has found: a record.
type Found struct {
	Own    bool // it names the own node: a claim before this one was executed, and its answer lost
	Writer bool // it is that of the writer in whose place the contender stands
	Stands bool // and the writer's node exists
	Gone   bool // the record does not stand any more, or is another one

	Delay  time.Duration // the longer one of the record's lock-delay and the contender's
	Marked bool          // the delay has begun
	Taken  bool          // the own node has taken the record over, or that of the writer in whose place the contender stands
}

// Read takes the record, and what somebody has left behind by it. It is read behind the transaction that has found it. In
// between it does not become another one: only a holder that releases removes it, in the transaction that deletes its node. While
// ours is the first there is none. Exception: the writer in whose place a reader stands. Its record is no crash while its node
// stands, and none if both are gone:
//
// 1. The record was read; 2. the writer released, which removed both; 3. its node is not there.
func (e Errand) Read(f Found, left *events.Abandoned) Meaning {
	switch {
	case e.Record == RecordMade && f.Own, f.Writer && f.Stands:
		return tell(e.recorded(nil))
	case f.Gone:
		return e.next(ThenAgain)
	case f.Taken, f.Delay == 0 && !f.Marked:
		return tell(e.recorded(left))
	default:
		e.delayed = delayed{marks, f.Delay, left}
		return e.next(ThenAgain)
	}
}
