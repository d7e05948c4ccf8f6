package session

import (
	"errors"
	"path"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about multi-locks: a node in each of several directories. All of them have one GUID, are made in one transaction, and are
// given up in one. Each stands in its directory as that of a single lock would. [recipes.Multi] says why they are made together, and
// together anew.

// Members returns the nodes of a multi-lock, without the chroot and in the order in which its locks were given, if all of them are known.
// It returns nil if the seat is not one of a multi-lock.
func (t *Seat) Members() []events.Member {
	m, ok := t.layout.(*multi)
	if !ok {
		return nil
	}
	t.mu.Lock()
	own := m.own
	t.mu.Unlock()
	if len(own) != len(m.members) {
		return nil
	}
	all := make([]events.Member, len(own))
	for i, node := range own {
		all[i] = events.Member{Path: m.members[i].path, Node: path.Join(m.members[i].path, path.Base(node))}
	}
	return all
}

func (m *multi) create(c *client, t *Seat, epoch recipes.Epoch, id guid) (recipes.Input, error) {
	nodes := make([]string, len(m.members))
	for i, p := range m.members {
		nodes[i] = path.Join(p.dir, head(p.kind, id)+p.kind.Marker())
	}
	return c.carryOut(errand{
		Errand: recipes.Errand{Op: recipes.OpCreate, Epoch: epoch, Layout: recipes.LayoutSeveral}, seat: t, own: nodes[0], nodes: nodes, multi: m,
	})
}

// list reads the own nodes in one flight.
func (m *multi) list(c *client, t *Seat, e recipes.List, id guid, read []*names) (recipes.Input, error) {
	queues, own := make([][]events.Name, len(m.members)), make([]string, len(m.members))
	for i := range m.members {
		p := &m.members[i]
		queues[i] = read[i].as(i)
		if name, ok := read[i].own(p.kind, id); ok {
			own[i] = path.Join(p.dir, name.Text)
		}
	}
	known := slices.DeleteFunc(slices.Clone(own), func(node string) bool { return node == "" })
	t.nameMembers(c, m, e.Epoch, known, 0)
	stats := make([]*zk.Stat, len(own))
	err := m.each(func(i int) error {
		if own[i] == "" {
			return nil
		}
		node, err := c.follow(ofNode, own[i], t)
		if err == nil {
			stats[i] = node.stat
		}
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		return m.refusedAt(i, err)
	})
	if err != nil {
		return unanswered(e.Epoch, recipes.OpList, err)
	}
	found := make([]recipes.Own, len(own))
	for i, stat := range stats {
		if stat != nil {
			name, _ := events.ParseName(path.Base(own[i]))
			name.Text = recipes.MemberName(i, name.Text)
			found[i] = recipes.Own{Name: name, Owner: stat.EphemeralOwner, Token: stat.Czxid}
		}
	}
	listed := recipes.Listed{Epoch: e.Epoch, Queue: slices.Concat(queues...)}.WithMembers(found)
	t.nameMembers(c, m, e.Epoch, known, listed.Own.Token)
	return listed, nil
}

func (m *multi) remove(c *client, t *Seat, e recipes.Delete) (recipes.Input, error) {
	return c.giveBack(t, e, t.nodes(t.at(e.Node)))
}
