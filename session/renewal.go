package session

import (
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file is about directories whose sequence numbers come to their end. Whoever removes a node with a late number (see
// [events.Late]) removes the directory as well, if it is one that we have made and there is nothing else in it. The next
// contender makes it anew, as it does when the servers have removed an empty container, and numbers begin at 0. Tokens are zxids and go on
// growing, and so do floors, which are named by them.
//
// A server refuses to delete a directory with a node in it, so a contender that has queued up meanwhile keeps it. The next one that leaves
// tries again. Where contenders bear kazoo's names the directory is made anew in the same transaction: kazoo's locks make theirs once.
//
// The other contenders see a delete and, right behind it, the end of an empty container. The explorer has that already: in its worlds
// a server may remove an empty directory at any step.

// renew removes the directory, and with it the own node in it unless that is empty. It reports whether it has: if not, nothing has changed, or
// the outcome is unknown, and the delete of the own node that follows finds out.
func (c *client) renew(t *Seat, dir, own string) bool {
	data, stat, err := c.conn.Get(dir)
	if err != nil {
		return false
	}
	var ops []any
	if own != "" {
		ops = append(ops, &zk.DeleteRequest{Path: own, Version: anyVersion})
	}
	if !recipes.ParseDirectoryData(data).Ours || int(stat.NumChildren) > len(ops) {
		return false
	}
	ops = append(ops, &zk.DeleteRequest{Path: dir, Version: stat.Version})
	if t.kind.Kazoo() {
		ops = append(ops, &zk.CreateRequest{Path: dir, Data: recipes.Marker(), Acl: t.acl, Flags: zk.FlagPersistent})
	}
	if _, err := zkerr.ClassifyMulti(c.conn.Multi(ops...)); err != nil {
		return false
	}
	c.dirs.forget(dir)
	return true
}

// renewBehind renews the directories of nodes that are gone.
func (c *client) renewBehind(t *Seat, nodes []string) {
	for _, node := range nodes {
		if events.Late(node) {
			c.renew(t, path.Dir(node), "")
		}
	}
}
