package recipes

import "github.com/zkgrant/zkgrant/events"

// Contention is what a holder knows about the contenders that it keeps out. It is a
// comparable value. The zero value is for a contender that does not hold.
//
// A holder without news knows that no other contender has arrived if:
//
//  1. The directory is watched on the current connection, and
//  2. a recently sent write was answered, because the answer follows all earlier events
//     of the connection.
//
// A holder may also rest: the session then renews no lease for it, until a claim.
type Contention struct {
	epoch Epoch
	node  events.Name // the holder's

	Watched bool // watch the directory while the node exists
	Found   bool // there is or may be another contender; never cleared
	Blind   bool // a server has refused a listing or a claim
	Paced   bool // do not read the directory again now, unless the answer is needed

	up      bool // there is a connection
	arming  bool // an Arm is in progress
	armed   bool // the directory and the node are watched on this connection
	changed bool // the directory has changed since it was last armed
	missed  bool // it has changed since the Arm in progress began
	proving bool // a Claim is in progress
	resting bool // the session renews no lease for the node
}

// NewContention returns what the holder of the node knows at its Grant.
func NewContention(epoch Epoch, node string) Contention {
	return Contention{epoch: epoch, node: events.Name{Text: node}, up: true}
}

// Next reports whether every contender is known that arrived earlier than two probe
// intervals ago. If not, it returns the next request needed to find out, or nil. Call it
// after each change. Once a contender was found, only the proof is still missing.
//
// waits means that the answer is needed; without it, the directory is only watched, and
// nothing is proven. proven reports whether the lease is alive and a write sent within
// two probe intervals was answered.
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
		// If other nodes come and go in the directory, every Arm may be followed by an
		// event.
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

// Hear processes an input of the holder's machine.
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
