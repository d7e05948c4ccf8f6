package session

import (
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// claimants holds a client's books of the owners of single nodes, see [recipes.OwnerBook], by path. It is safe for concurrent use.
type claimants struct {
	mu sync.Mutex
	at map[string]recipes.OwnerBook[*Seat]
}

func newClaimants() *claimants { return &claimants{at: map[string]recipes.OwnerBook[*Seat]{}} }

// enter makes the seat the claimant, unless another one is.
func (cs *claimants) enter(t *Seat) (entered bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	b, entered := cs.at[t.single.node].Enter(t)
	cs.put(t, b)
	return entered
}

// leave notes that the seat has no node at the path, and has sent for none.
func (cs *claimants) leave(t *Seat) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.put(t, cs.at[t.single.node].Leave(t))
}

// heard takes what the seat is told.
func (cs *claimants) heard(t *Seat, in recipes.Input) {
	token := t.token(t.single.node)
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.put(t, cs.at[t.single.node].Heard(t, in, token))
}

// put is called with mu held.
func (cs *claimants) put(t *Seat, b recipes.OwnerBook[*Seat]) {
	if b == (recipes.OwnerBook[*Seat]{}) {
		delete(cs.at, t.single.node)
		return
	}
	cs.at[t.single.node] = b
}

// is reports whether the seat is the claimant.
func (cs *claimants) is(t *Seat) bool { return cs.of(t.single.node) == t }

// owns reports whether the node that the zxid created, one of this session's, is the seat's.
func (cs *claimants) owns(t *Seat, czxid int64) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.at[t.single.node].Owns(t, czxid)
}

// shake notes that for the moment it is unknown whether the nodes are still there.
func (cs *claimants) shake() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, b := range cs.at {
		if t := b.Owner(); t != nil {
			t.single.uncertain.Store(true)
		}
	}
}

// of returns the claimant at the path, or nil.
func (cs *claimants) of(node string) *Seat {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.at[node].Owner()
}

// found takes each reading of a node, by a seat or, without one, for those that subscribe to the node. If the node is another one
// than the one that a seat of the session has made there, that seat's node is gone, and nothing else may tell:
//
//  1. A holds, and has its node watched.
//  2. B writes to the node, and the watch fires.
//  3. B deletes the node, which fires no watch, and makes the next one.
//  4. A has its node watched again, as it believes.
func (c *client) found(node string, reader *Seat, stat *zk.Stat, err error) {
	if err != nil {
		return
	}
	if t := c.claimants.of(node); t != nil && t != reader && t.token(node) != stat.Czxid {
		c.verify(t) // it knows whether the reading is older than its node
	}
}

// as is the node for the machine.
func (l *single) as() events.Name { return events.Name{Text: l.name, Kind: events.KindUnfair} }
