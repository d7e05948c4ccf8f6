package session

import (
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/recipes"
)

// owners holds a client's books of the owners of single nodes, see [recipes.OwnerBook],
// by path. It is safe for concurrent use.
type owners struct {
	mu sync.Mutex
	at map[string]recipes.OwnerBook[*Seat]
}

// enter makes the seat the owner, unless another one is.
func (o *owners) enter(t *Seat) (entered bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b, entered := o.at[t.single.node].Enter(t)
	o.put(t, b)
	return entered
}

// leave notes that the seat has no node at the path, and has sent for none.
func (o *owners) leave(t *Seat) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.put(t, o.at[t.single.node].Leave(t))
}

// lost notes that the node of a seat that holds is gone.
func (o *owners) lost(t *Seat) {
	if t.single != nil {
		o.leave(t)
	}
}

// heard takes what the seat receives.
func (o *owners) heard(t *Seat, in recipes.Input) {
	token := t.token(t.single.node)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.put(t, o.at[t.single.node].Heard(t, in, token))
}

// put is called with mu held.
func (o *owners) put(t *Seat, b recipes.OwnerBook[*Seat]) {
	if b == (recipes.OwnerBook[*Seat]{}) {
		delete(o.at, t.single.node)
		return
	}
	o.at[t.single.node] = b
}

// is reports whether the seat is the owner.
func (o *owners) is(t *Seat) bool { return o.of(t.single.node) == t }

// owns reports whether the node that the zxid created, one of this session's, is the
// seat's.
func (o *owners) owns(t *Seat, czxid int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.at[t.single.node].Owns(t, czxid)
}

// shake notes that for the moment it is unknown whether the nodes are still there.
func (o *owners) shake() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, b := range o.at {
		if t := b.Owner(); t != nil {
			t.single.uncertain.Store(true)
		}
	}
}

// of returns the owner at the path, or nil.
func (o *owners) of(node string) *Seat {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.at[node].Owner()
}

// found takes each reading of a node, by a seat or, without one, for those that subscribe
// to the node. If the node is another one than the one that a seat of the session has
// made there, that seat's node is gone, and nothing else may tell:
//
//  1. A holds, and has its node watched.
//  2. B writes to the node, and the watch fires.
//  3. B deletes the node, which fires no watch, and makes the next one.
//  4. A has its node watched again, as it believes.
func (c *client) found(node string, reader *Seat, stat *zk.Stat) {
	if t := c.owners.of(node); t != nil && t != reader && t.token(node) != stat.Czxid {
		c.verify(t) // it knows whether the reading is older than its node
	}
}
