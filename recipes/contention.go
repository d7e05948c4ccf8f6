package recipes

import "github.com/zkgrant/zkgrant/events"

// Contention is what a holder knows of the contenders that it keeps out. It is a
// comparable value. The zero value is that of a contender that does not hold.
//
// A holder that receives no news may believe that no other contender has arrived, if:
//
//  1. The directory is watched on the current connection, and
//  2. a recently sent write was answered; that answer follows all earlier events of the
//     connection.
//
// A holder may also rest: then the session renews no lease for it. A claim ends the rest.
type Contention struct {
	epoch Epoch
	node  events.Name // the holder's

	Watched bool // the directory is to be watched as long as the node exists
	Found   bool // another contender is or may be there; never cleared
	Blind   bool // a server refuses to list
	Paced   bool // the directory is not read again now, unless the answer is needed

	up      bool // there is a connection
	arming  bool // an Arm is in progress
	armed   bool // the directory and the node are watched on this connection
	changed bool // the directory has changed since it was last known to be watched
	missed  bool // it has changed since the Arm that is in progress
	proving bool // a Claim is in progress
	resting bool // the session renews no lease for the node
}

// NewContention returns what the holder of a node knows at its Grant.
func NewContention(epoch Epoch, node string) Contention {
	return Contention{epoch: epoch, node: events.Name{Text: node}, up: true}
}

// Next reports whether every contender that has arrived is known, except those of the
// last two probe intervals. If not, it returns the next request to find out, or nil. It
// is called after each change. If one was found, there is
// nothing more to learn about contenders, and only the proof is missing.
//
// waits means that the answer is needed; otherwise the directory is watched, and nothing
// is proven. proven reports two facts: the lease is alive, and a write sent within two
// intervals was answered.
func (c *Contention) Next(waits bool, proven func() bool) (known bool, request Effect) {
	switch {
	case !c.up:
	case c.armed || c.Found:
		if !waits || c.proving {
			return false, nil
		}
		if !c.resting && proven() {
			return true, nil
		}
		c.proving = true
		return false, Claim{Epoch: c.epoch, Node: c.node}
	case c.Watched && !c.Blind && !c.arming && (waits || !c.Paced):
		// In a directory in which other nodes come and go, an event may follow each Arm.
		c.arming, c.Paced = true, c.Paced || c.changed
		return false, Arm{Epoch: c.epoch, Node: c.node}
	}
	return false, nil
}

// Rest reports whether the session should stop renewing a lease for the node.
func (c *Contention) Rest() (rests bool) {
	rests = c.up && !c.resting && !c.proving
	c.resting = c.resting || rests
	return rests
}

// Hear takes an input of the holder's machine.
func (c *Contention) Hear(in Input) {
	switch in := in.(type) {
	case Suspended:
		c.up, c.armed = false, false
	case Reconnected:
		c.up = true
	case Changed:
		if in.Epoch == c.epoch {
			c.armed, c.changed, c.missed = false, true, c.arming
		}
	case Armed:
		c.Found = c.Found || in.Others
		c.armed = c.up && !c.missed
		c.changed = c.changed && !c.armed
		c.arming, c.missed = false, false
	case Refused:
		c.Blind = c.Blind || in.Op == OpArm || in.Op == OpClaim && c.proving
		c.answered(in.Op)
	case Unknown:
		c.Found = c.Found || in.Op == OpArm && c.arming
		c.answered(in.Op)
	case Claimed:
		c.resting = c.resting && (!c.proving || !in.Fresh)
		c.answered(OpClaim)
	}
}

func (c *Contention) answered(op Op) {
	if op == OpArm {
		c.arming, c.missed = false, false
	}
	if op == OpClaim {
		c.proving = false
	}
}
