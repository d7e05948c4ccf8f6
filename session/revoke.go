package session

import (
	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about those who ask a holder to give its lock back, by writing to its node.

// revokeMessage is what Curator's Revoker writes. It takes the place of the holder's own data.
const revokeMessage = "__REVOKE__"

// asksBack tells whether the data of a node say that somebody wants its lock back.
func asksBack(data []byte) bool { return string(data) == revokeMessage }

// heed tells of a wish if the reading of a node has found one that has armed the watch on it.
func (c *client) heed(node string, data []byte, stat *zk.Stat, err error) {
	if err == nil && asksBack(data) {
		c.watches.wish(node)
		c.askedBack(node, stat.Czxid)
	}
}

// tellAskedBack passes the wish on to whoever is interested in the node; those to whom it
// belongs take it for theirs. The data are read whenever the node's watch is armed, and a change of
// them makes that fire, so no wish is missed that stands while the watch is armed again; and a
// watch that fires for it says nothing about the end of the node.
//
// The one node of a lock may be another one by the time that this is told: czxid says which was read.
func (s *Session) tellAskedBack(c *client, node string, czxid int64) {
	for _, seat := range c.watches.interested(node) {
		if seat.single != nil && seat.token(node) != czxid {
			continue
		}
		seat.post(recipes.AskedBack{Epoch: c.epoch, Node: seat.name(node)}, nil)
	}
}

// remind tells a seat of a wish that was told before the seat could take it for its own, and that nobody will read
// again. There are two ways to that.
//
//   - The machine did not know its node: 1. the reply to a create is lost; 2. somebody asks for the lock back;
//     3. the look for the GUID finds the node and the wish; 4. the machine hears of the wish before it hears which node
//     is its own.
//   - Another seat of the session had the node watched: 1. A is granted in one request, and its node is not
//     watched yet; 2. somebody asks for the lock back; 3. B, which waits for A, has the node watched, and is told; 4. A
//     finds the node watched, and does not read it.
//
// Who is told twice takes no notice.
func (c *client) remind(seat *Seat, own string) {
	if own != "" && c.watches.wished(seat.nodes(seat.at(own))...) {
		seat.post(recipes.AskedBack{Epoch: c.epoch, Node: own}, nil)
	}
}
