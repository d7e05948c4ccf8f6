package session

import (
	"errors"
	"path"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about multi-locks: a node in each of several directories, all made in one transaction and bearing one
// GUID, and given up in one. Each stands in its directory as that of a lock of its own would. See
// [recipes.Multi] for why they are made together, and together anew.

// multi is the layout of a multi-lock. The seat's own directory is the first one's.
type multi struct {
	queued // but for what is said here

	members []member
	own     []string // the paths of the attempt's nodes, in order, as far as they are known; guarded by the seat's mu, and never written to
}

// member is one place of a multi-lock.
type member struct {
	path string // as the caller named it
	dir  string // with the chroot
	kind events.Kind
	acl  []zk.ACL
}

// Members returns the nodes of a multi-lock, without the chroot and in the order in which its locks were given, if all of them are
// known; nil if the seat is none of a multi-lock.
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

// size is more than what a create takes of a request.
func (m *member) size(data int) int {
	const each = 96 // the name, and what is around the texts
	size := each + len(m.dir) + data
	for _, a := range m.acl {
		size += aclOverhead + len(a.Scheme) + len(a.ID)
	}
	return size
}

// marks tells whether a request has room for the markers of all directories, beside the creates.
func (m *multi) marks(data int) bool {
	const fixed, each = 1 << 10, 64
	size := fixed
	for i := range m.members {
		size += m.members[i].size(data) + each + len(m.members[i].dir)
	}
	return size <= MaxRequest
}

// at returns the path of the node of a member. Every node that the machine knows has a member's number before it.
func (m *multi) at(_ *Seat, name string) string {
	i, node, ok := recipes.ParseMember(name)
	if !ok || i >= len(m.members) {
		return name
	}
	return path.Join(m.members[i].dir, node)
}

// nameOf is the other way of at.
func (m *multi) nameOf(node string) string {
	dir, base := path.Split(node)
	for i := range m.members {
		if m.members[i].dir == dir || m.members[i].dir+"/" == dir {
			return recipes.MemberName(i, base)
		}
	}
	return node
}

// MemberError says at which path of a multi-lock a request has failed. Its text is that of the error.
type MemberError struct {
	Path string // as the caller named it
	Err  error
}

func (e *MemberError) Error() string { return e.Err.Error() }

func (e *MemberError) Unwrap() error { return e.Err }

// refusedAt marks an error, if there is one, with a member.
func (m *multi) refusedAt(i int, err error) error {
	if err == nil {
		return nil
	}
	return &MemberError{m.members[i].path, err}
}

func (m *multi) blame(node string, err error) error {
	for i := range m.members {
		if dir := m.members[i].dir; dir == node || dir == path.Dir(node) {
			return m.refusedAt(i, err)
		}
	}
	return err
}

func (m *multi) ownLeases() []string { return m.own }

func (m *multi) anew() { m.own = nil } // they were the last attempt's

func (m *multi) leave(*client, *Seat) { m.own = nil }

func (m *multi) turnsOver() bool { return false } // a transaction of its own is one round trip, too

// nameMembers notes which nodes are the attempt's. One that was known stays, though it may be gone: who gives up the one that
// the machine knows by name has to give up all, and it does no harm to delete what is not there.
func (t *Seat) nameMembers(c *client, m *multi, epoch recipes.Epoch, own []string, born int64) {
	if len(own) == 0 {
		return
	}
	t.mu.Lock()
	if t.closed || epoch < t.epoch {
		t.mu.Unlock()
		return
	}
	if len(m.own) < len(own) || AttemptOf(m.own[0]) != AttemptOf(own[0]) {
		m.own = own
	}
	first := m.own[0]
	t.mu.Unlock()
	t.drop(c, t.nameOwn(epoch, first, born))
}

func (m *multi) create(c *client, t *Seat, epoch recipes.Epoch, id string) (recipes.Input, error) {
	nodes := make([]string, len(m.members))
	for i, p := range m.members {
		nodes[i] = path.Join(p.dir, head(p.kind, id)+p.kind.Marker())
	}
	return c.carryOut(errand{
		Errand: recipes.Errand{Op: recipes.OpCreate, Epoch: epoch, Form: recipes.FormSeveral}, seat: t, own: nodes[0], nodes: nodes, multi: m,
	})
}

// known returns the zxids of the directories, if all of them are ours, were empty the last time, and can be marked in one request.
func (m *multi) known(c *client, t *Seat) (dirs []int64) {
	if !m.marks(len(t.dataIn(c))) {
		return nil
	}
	for _, p := range m.members {
		dir := c.dirs.book(p.dir).Markable()
		if dir == 0 {
			return nil
		}
		dirs = append(dirs, dir)
	}
	return dirs
}

// makeParents makes the directory that a create has missed, and those behind it that nobody knows: the ones before it
// were there.
func (m *multi) makeParents(c *client, missing int) error {
	c.dirs.forget(m.members[missing].dir)
	return m.each(func(i int) error {
		p := m.members[i]
		if i < missing || i > missing && c.dirs.book(p.dir).Writable() != 0 {
			return nil
		}
		return m.refusedAt(i, c.makeParents(p.dir, recipes.Marker(), p.acl, false))
	})
}

// reads: all directories, in one flight. Each listing is of a moment of its own, and that does no harm: nobody comes before a node that
// is in its queue, so who is not listed before it will not stand there later.
func (m *multi) reads(*Seat) []string {
	dirs := make([]string, len(m.members))
	for i := range m.members {
		dirs[i] = m.members[i].dir
	}
	return dirs
}

// list reads the own nodes in one flight.
func (m *multi) list(c *client, t *Seat, e recipes.List, id string, found []*names) (recipes.Input, error) {
	queues, own := make([][]events.Name, len(m.members)), make([]string, len(m.members))
	for i := range m.members {
		p := &m.members[i]
		queues[i] = found[i].as(i)
		if name, ok := found[i].own(p.kind, id); ok {
			own[i] = path.Join(p.dir, name.Text)
		}
	}
	known := slices.DeleteFunc(slices.Clone(own), func(node string) bool { return node == "" })
	t.nameMembers(c, m, e.Epoch, known, 0)
	stats := make([]*zk.Stat, len(own))
	err := m.each(func(i int) (err error) {
		if own[i] == "" {
			return nil
		}
		stats[i], err = c.observe(own[i], t)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		return m.refusedAt(i, err)
	})
	if err != nil {
		return unanswered(e.Epoch, recipes.OpList, err)
	}
	listed := recipes.Listed{Epoch: e.Epoch, Queue: slices.Concat(queues...)}
	for i, stat := range stats {
		switch {
		case stat == nil:
			listed.Parted = true
		case listed.Own == recipes.Own{}:
			name, _ := events.ParseName(path.Base(own[i]))
			name.Text = recipes.MemberName(i, name.Text)
			listed.Own = recipes.Own{Name: name, Owner: stat.EphemeralOwner, Token: stat.Czxid}
		}
	}
	if listed.Own == (recipes.Own{}) {
		listed.Parted = false // nothing is left
	}
	t.nameMembers(c, m, e.Epoch, known, listed.Own.Token)
	return listed, nil
}

// claimed: all nodes are. Of a part of them it is no use.
func (m *multi) claimed(t *Seat, own string) []string {
	nodes := t.nodes(own)
	if len(nodes) != len(m.members) {
		return nil
	}
	return nodes
}

func (m *multi) remove(c *client, t *Seat, e recipes.Delete) (recipes.Input, error) {
	return c.giveBack(t, e, t.nodes(t.at(e.Node)))
}

// inFlight is how many requests of one multi-lock are under way at a time.
const inFlight = 64

// each does something for all members, for some at a time. Of several errors it returns one that leaves something open, if there is one.
func (m *multi) each(do func(i int) error) (worst error) {
	var wait sync.WaitGroup
	room, errs := make(chan struct{}, inFlight), make([]error, len(m.members))
	for i := range m.members {
		room <- struct{}{}
		wait.Go(func() {
			errs[i] = do(i)
			<-room
		})
	}
	wait.Wait()
	for _, err := range errs {
		worst = worse(worst, err)
	}
	return worst
}
