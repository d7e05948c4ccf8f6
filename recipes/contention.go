package recipes

import "github.com/zkgrant/zkgrant/events"

// Contention is what a holder knows about the contenders that it keeps out. It is a
// comparable value. The zero value is for a contender that does not hold the lock.
//
// A holder without news knows that no other contender has arrived if:
//
//  1. The directory is watched on the current connection, and
//  2. a recently sent write was answered, because the answer follows all earlier events
//     of the connection. If the servers are far away, perhaps no answered write is
//     recent. Then the answer to a claim for the next grant proves as much, for that
//     grant only.
//
// A holder may also rest: the session then renews no lease for it, until a claim. A claim
// by which the machine verifies that it holds does not end the rest; see [Claimed].
type Contention struct {
	epoch Epoch
	node  events.Name // the holder's

	Watched bool // watch the directory while the node exists
	Found   bool // there is or may be another contender; cleared when the node is given up
	Blind   bool // a server has refused a listing or a claim
	Paced   bool // do not read the directory again now, unless the answer is needed

	up      bool // there is a connection
	arming  bool // an Arm is in progress
	armed   bool // the directory and the node are watched on this connection
	changed bool // the directory has changed since it was last armed
	missed  bool // it has changed since the Arm in progress began
	proving bool // a Claim is in progress
	proved  bool // one was answered just now
	resting bool // the session renews no lease for the node
}

// Grant resets what the holder knows when its node is granted the lock, except for Found:
// it may have found another contender while it waited.
func (c *Contention) Grant(epoch Epoch, node string) {
	*c = Contention{epoch: epoch, node: events.Name{Text: node}, Found: c.Found, up: true}
}

// Next reports whether the holder knows every contender that arrived more than two probe
// intervals ago, or before the last round trip if that took longer. If not, it returns
// the next request needed to find out, or nil. Call it after each change. Once another
// contender has been found, only the proof is missing.
//
// waits means that a grant follows if all are known; without it, the directory is only
// watched, and nothing is proven. proven reports whether the epoch's lease is alive, and
// whether a write sent within two probe intervals was answered.
func (c *Contention) Next(waits bool, proven func(Epoch) (alive, recent bool)) (known bool, request Effect) {
	proved := c.proved
	c.proved = false // it is valid for one Grant only, and only now
	switch {
	case !c.up:
	case c.armed || c.Found:
		if !waits || c.proving {
			return false, nil
		}
		if alive, recent := proven(c.epoch); !c.resting && alive && (recent || proved) {
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

// Rest reports whether the session should stop renewing a lease for the node. If so, the
// holder rests from now on.
func (c *Contention) Rest() (rests bool) {
	rests = c.up && !c.resting && !c.proving
	c.resting = c.resting || rests
	return rests
}

// Rests reports whether the holder rests, and no claim is about to end that.
func (c *Contention) Rests() bool { return c.resting && !c.proving }

// Hear processes an input of the holder's machine.
func (c *Contention) Hear(in Input) {
	if d, ok := in.(dated); ok && d.of() != c.epoch {
		return // it is about another session
	}
	switch in := in.(type) {
	case Suspended:
		c.up, c.armed = false, false
	case Reconnected:
		c.up = true
	case Changed:
		c.armed, c.changed, c.missed = false, true, c.arming
	case Armed:
		c.Found = c.Found || in.Others
		c.armed = c.up && !c.missed
		c.changed = c.changed && !c.armed
		c.arming, c.missed = false, false
	case Refused:
		own := c.answered(in.Op, in.Held)
		c.Blind = c.Blind || own
	case Unknown:
		own := c.answered(in.Op, in.Held)
		c.Found = c.Found || own && in.Op == OpArm
	case Claimed:
		if c.answered(OpClaim, in.Held) {
			c.proved = in.Fresh
			c.resting = c.resting && !in.Fresh
		}
	}
}

// answered notes an answer, and reports whether it is one to a request of its own.
func (c *Contention) answered(op Op, held bool) (own bool) {
	switch {
	case op == OpArm:
		own = c.arming
		c.arming, c.missed = false, false
	case op == OpClaim && !held: // a claim with Held is the machine's
		own = c.proving
		c.proving = false
	}
	return own
}
