package session

import (
	"path"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// This file removes directories whose numbers are almost used up, see
// [recipes.Renewal].

// renew removes the directory, and with it the own node in it unless own is empty. It
// reports whether it has. If not, nothing has changed or the outcome is unknown, and the
// delete of the own node that follows finds out.
func (c *client) renew(t *Seat, dir, own string) bool {
	data, stat, err := c.conn.Get(dir)
	if err != nil {
		return false
	}
	p := recipes.Renewal{
		Dir: dir, Version: stat.Version, Data: recipes.ParseDirectoryData(data), Children: stat.NumChildren,
		Own: own, Stays: t.kind.Kazoo(),
	}.Plan()
	if len(p) == 0 {
		return false
	}
	a, _ := c.perform(t, p)
	if a.Result != recipes.ResultDone {
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
