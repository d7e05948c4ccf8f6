package session

import "sync"

// claimants says which seat of the client's has the node at a path, or may have made it. It is
// about locks of one node only, whose name does not tell who made it.
//
// Nor does the session that owns a node, for two seats of one session may ask for the same
// lock: 1. A sends its create, and B does; 2. the connection breaks, and both are of unknown
// fate; 3. on the next one both look, find a node of their own session, and take it for
// theirs. So a session has one claimant at a path at a time: until it is known what has become of A's
// create, B's is not sent, and B waits as if A had the lock. Whatever node of this session is
// found then is A's, with one exception: that of a seat that has held it, and may not delete it.
//
// It is safe for concurrent use.
type claimants struct {
	mu sync.Mutex
	at map[string]claimant
}

// claimant is who may have the node at a path.
type claimant struct {
	seat *Seat
	past int64 // the zxid that created a node which was held, and which the servers would not let us remove
}

func newClaimants() *claimants { return &claimants{at: map[string]claimant{}} }

// enter makes the seat the claimant, unless another one is.
func (cs *claimants) enter(t *Seat) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.at[t.single.node]
	if c.seat != nil && c.seat != t {
		return false
	}
	c.seat = t
	cs.at[t.single.node] = c
	return true
}

// leave says that the seat has no node at the path, and has sent for none. It reports whether
// it was the claimant.
func (cs *claimants) leave(t *Seat) bool { return cs.give(t, 0) }

// abandon is leave for a seat whose node was held and could not be removed.
func (cs *claimants) abandon(t *Seat, czxid int64) { cs.give(t, czxid) }

func (cs *claimants) give(t *Seat, past int64) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.at[t.single.node]
	if c.seat != t {
		return false
	}
	c.seat = nil
	if past != 0 {
		c.past = past
	}
	if c.past == 0 {
		delete(cs.at, t.single.node)
		return true
	}
	cs.at[t.single.node] = c
	return true
}

// is tells whether the seat is the claimant.
func (cs *claimants) is(t *Seat) bool { return cs.of(t.single.node) == t }

// owns tells whether the node that the zxid created, one of this session's, is the seat's.
func (cs *claimants) owns(t *Seat, czxid int64) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.at[t.single.node]
	return c.seat == t && c.past != czxid
}

// shake says that nobody can tell for the moment whether the nodes are still there.
func (cs *claimants) shake() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range cs.at {
		if c.seat != nil {
			c.seat.single.shaken.Store(true)
		}
	}
}

// of returns the claimant at the path, or nil.
func (cs *claimants) of(node string) *Seat {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.at[node].seat
}
