package recipes

import (
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// This file is about the lock-delay (Chubby, OSDI 2006, section 2.4; Consul's sessions
// have one, too): after a holder that did not release, the next grant waits until some
// time has passed since a contender noticed. It is for holders that cannot be trusted to
// notice their loss.
//
// The delay is part of the record of crash.go, so a lock with a delay reports crashes.
// The holder writes its delay there, and the next contender may ask for a longer one.
// Perhaps no contender sees the holder's node disappear. So the delay begins with a mark
// in the record, and keeps running while contenders come and go:
//
//  1. A holds, with its record, and ends without a release.
//  2. B claims the lock, finds A's record, and marks it. The answer has the servers' time
//     of the mark.
//  3. B gives up. C claims and marks the record again, which keeps the time of the first
//     mark. The difference of the two times is how much of the delay has passed.
//  4. When the whole delay has passed, C takes over the record: it names C as the holder,
//     and the mark is removed. If C ends without a release, the next delay begins with
//     the next mark.
//  5. C releases, and the record is deleted. The next contender does not wait.
//
// Each of these writes checks the contender's node and the version of the record that was
// read. So what was read is still true when the write is executed, and only the first in
// the queue marks or takes over. If several readers mark at once, all but one fail and
// read again. A reader enters after the delay and leaves the record as it is.

// delaying is the next transaction of a claim.
type delaying uint8

const (
	claims    delaying = iota // the claim itself
	marks                     // mark the record
	takesOver                 // take over the record
)

// delayed is the state of an errand that has found a record.
type delayed struct {
	next delaying
	left *events.Abandoned

	Found
}

// delayPlan writes to the record.
func (e *Errand) delayPlan() Plan {
	data := e.delayed.Mark
	if e.delayed.next == takesOver {
		data = e.delayed.TakeOver
	}
	return Plan{check(OnOwn, e.Nodes[0]), set(OnRecord, e.Holder, data).of(e.delayed.Version)}
}

// wrote handles the answer to a write to the record. The delay runs from the first mark
// on.
func (e *Errand) wrote(p Plan, a Answer) Meaning {
	marked := time.Duration(0)
	if stat := a.stat(); stat.Czxid != 0 {
		e.delayed.Version = stat.Version
		if e.delayed.Marked {
			marked = max(0, time.Duration(stat.Mtime-e.delayed.Since)*time.Millisecond)
		}
	}
	switch record := p.Refused(a).On == OnRecord; {
	case record && (a.Result == ResultBadVersion || a.Result == ResultNoNode): // there is another record by now
		e.delayed = delayed{}
		return Meaning{Then: ThenAgain}
	case a.Result != ResultDone:
		return e.refused(!record && a.Result == ResultNoNode)
	case e.delayed.next == marks && e.delayed.Delay > marked:
		return Meaning{In: Delayed{Epoch: e.Epoch, For: e.delayed.Delay - marked}}
	case e.delayed.next == marks && e.Record == RecordMade:
		e.delayed.next = takesOver
		return Meaning{Then: ThenAgain}
	default:
		return Meaning{In: e.recorded(e.delayed.left)}
	}
}
