package recipes

// This file has the parts of a world for the record of crashed holders: the record, and
// the truth that it should show.

// A truth is what has happened to the holders since the last release.
type truth uint8

const (
	truthCrashed truth = 1 << iota // a holder that knew of its grant has ended without a release
	truthClaimed                   // or one whose claim was executed, although its caller may never have known
)

const (
	unrecorded violation = "a crash without a record"
	untrue     violation = "a record without a crash"
	unreported violation = "a grant that hides a crash"
	falseAlarm violation = "a grant that reports a crash that never was"
)

// The mask of a world's Claim.
const (
	maskRecord uint8 = 3 // what the claim does with the record
	maskLeft   uint8 = 4 // the answer: a holder has crashed
	maskDelay  uint8 = 8 // and the lock-delay is not over
)

const maskClean uint8 = 1

// readRecord returns the meaning of a claim that has read the record.
func (w *world) readRecord(c int, r *request, x *Errand) Meaning {
	record, writer := w.records[0], w.forms[r.arg&7].writer()
	f := Found{Own: record == r.arg+1, Writer: writer != noNode && record == writer+1, Mark: []byte(markedRecord)}
	f.Stands = f.Writer && w.past[0]&(1<<writer) != 0
	return x.Read(w.foundDelay(c, r.arg, writer, f), &somebody)
}

// parting returns the input for a caller that ends its tenure. A caller that was notified
// of a loss before has not released.
func (e *environment) parting(cl *client, why Why) Withdrawn {
	lost := cl.told&toldLost != 0
	in := Withdrawn{Why: why, Taken: e.detect && cl.told&toldGrant != 0, Ran: lost && cl.flags&flagKeep != 0}
	if in.Taken && lost {
		in.Why = WhyLost
	}
	return in
}

// parts notes that a node is about to be deleted by its owner. The truth is what the
// owner's caller did.
func (e *environment) parts(w *world, c int, r *request) {
	cl, bit := &w.clients[c], uint8(1)<<(r.arg&7)
	if !e.detect {
		return
	}
	switch {
	case w.forms[r.arg&7].reads(): // a reader's end does not matter
	case cl.told&toldClean != 0:
		w.truth, w.delay.behind = 0, behindAll
	case cl.told&(toldWithdrawn|toldLost) == toldWithdrawn && w.acted&bit == 0: // its caller did nothing under the lock
	default:
		w.ended(bit)
	}
	w.acted &^= bit
	w.claimed &^= bit
}

func (w *world) ended(nodes uint8) {
	if nodes&w.acted != 0 {
		w.truth |= truthCrashed
		w.delayedBy(nodes & w.acted)
	}
	if nodes&(w.acted|w.claimed) != 0 {
		w.truth |= truthClaimed
	}
	w.acted &^= nodes
	w.claimed &^= nodes
}

// takes notes that the lock was granted, and checks that the Grant reports the truth. Two
// grants are not checked: one whose node is gone by then, and that of a reader in the
// place of a writer that may have ended since the claim.
func (e *environment) takes(w *world, c int, ef Grant) violation {
	own := e.node(ef.Node)
	if !e.detect || own >= maxNodes || w.past[0]&(1<<own) == 0 {
		return ""
	}
	if !w.forms[own].reads() {
		w.acted |= 1 << own
	}
	switch {
	case w.forms[own].writer() != noNode:
		return ""
	case w.within(c):
		return early
	case ef.Abandoned == nil && w.truth&truthCrashed != 0:
		return unreported
	case ef.Abandoned != nil && w.truth == 0:
		return falseAlarm
	default:
		return ""
	}
}

// tellsTruth is called in every world. After a crash there must be a record, and any
// other record must be that of a node whose claim has created it.
func (e *environment) tellsTruth(w *world) violation {
	switch {
	case w.truth&truthCrashed != 0 && w.records[0] == 0:
		return unrecorded
	case w.records[0] != 0 && w.truth == 0 && w.claimed&(1<<(w.records[0]-1)) == 0:
		return untrue
	default:
		return ""
	}
}

// This part is about a world's lock-delay: what the record says about it, and the truth,
// which is how much of it has passed since a crash.

type delay struct {
	taken  uint8 // 1 + the node that has taken the record over
	mark   mark
	says   bool // the record has a delay
	behind behind
}

type mark uint8

const (
	markNone mark = iota
	markMade
	markOver // the delay has passed since the mark
)

// behind is how much of the delay has passed since the latest crashed holder's node was
// gone.
type behind uint8

const (
	behindAll   behind = 0 // or no holder has crashed
	behindCrash behind = 1 << iota
	behindMark         // only the time since a mark that was made after the crash
	behindSays         // with one of these: the holder had the delay
)

const early violation = "a grant within the lock-delay"

func (cl *client) delays() bool { return cl.role&roleDelays != 0 }

// foundDelay adds what a client's session finds in the record, and in its own option.
func (w *world) foundDelay(c int, own, writer uint8, f Found) Found {
	if w.delay.says || w.clients[c].delays() && w.clients[c].role&roleTakes == 0 {
		f.Delay = 1
	}
	f.Marked = w.delay.mark != markNone
	f.Taken = w.delay.taken == own+1 || writer != noNode && w.delay.taken == writer+1
	return f
}

// marked returns the record with a mark, which is made now if there is none.
func (w *world) marked(on delay) delay {
	if on.mark == markNone {
		on.mark = markMade
		if on.behind&behindCrash != 0 {
			on.behind += behindMark - behindCrash
		}
	}
	return on
}

// since returns how much of the delay, which is 1 in all, has passed since the mark.
func (d delay) since() (passed int64) {
	if d.mark == markOver {
		return 1
	}
	return 0
}

func (w *world) delayOver() {
	w.delay.mark = markOver
	if w.delay.behind&behindMark != 0 {
		w.delay.behind = behindAll
	}
}

func (w *world) delayedBy(nodes uint8) {
	says, counts := behind(0), false
	for c := range w.clients {
		if counts = counts || w.clients[c].delays(); w.clients[c].delays() && w.mineOf(c, 0, nodes) != 0 {
			says = behindSays
		}
	}
	if counts {
		w.delay.behind = behindCrash | says | w.delay.behind&behindSays
	}
}

// within reports whether a client that was granted the lock should have waited.
func (w *world) within(c int) bool {
	return w.delay.behind&(behindCrash|behindMark) != 0 && (w.delay.behind&behindSays != 0 || w.clients[c].delays())
}
