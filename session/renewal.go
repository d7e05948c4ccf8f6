package session

import (
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file removes directories of which the numbers come to their end, see [recipes.Renewal].

// renew removes the directory, and with it the own node in it unless own is empty. It reports whether it has. If not, nothing has changed
// or the outcome is unknown, and the delete of the own node that follows finds out.
func (c *client) renew(t *Seat, dir, own string) bool {
	data, stat, err := c.conn.Get(dir)
	if err != nil {
		return false
	}
	p := recipes.Renewal{
		Data: recipes.ParseDirectoryData(data), Children: stat.NumChildren, Own: own != "", Stays: t.kind.Kazoo(),
	}.Plan()
	var ops []any
	for i := range p.Len() {
		switch o := p.At(i); {
		case o.Do == recipes.DoCreate:
			ops = append(ops, &zk.CreateRequest{Path: dir, Data: recipes.Marker(), Acl: t.acl, Flags: zk.FlagPersistent})
		case o.On == recipes.OnOwn:
			ops = append(ops, &zk.DeleteRequest{Path: own, Version: anyVersion})
		default:
			ops = append(ops, &zk.DeleteRequest{Path: dir, Version: stat.Version})
		}
	}
	if len(ops) == 0 {
		return false
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
