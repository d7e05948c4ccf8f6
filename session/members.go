package session

// This file is about the nodes of a multi-lock, and where they stand. What is done with them is in multi.go.

import (
	"path"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// multi is the layout of a multi-lock. The seat's own directory is the first one's.
type multi struct {
	queued // except for the methods below

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

// size bounds what a create takes of a request, from above.
func (m *member) size(data int) int {
	const each = 96 // the name, and what is around the texts
	return each + len(m.dir) + data + SizeOfACL(m.acl)
}

// marks reports whether a request has room for the markers of all directories, beside the creates.
func (m *multi) marks(data int) bool {
	const fixed, each = 1 << 10, 64
	size := fixed
	for i := range m.members {
		size += m.members[i].size(data) + each + len(m.members[i].dir)
	}
	return size <= MaxRequest
}

// at returns the path of a member's node. Every node that the machine knows has a member's number before it.
func (m *multi) at(_ *Seat, name string) string {
	i, node, ok := recipes.ParseMember(name)
	if !ok || i >= len(m.members) {
		return name
	}
	return path.Join(m.members[i].dir, node)
}

// nameOf is the inverse of at.
func (m *multi) nameOf(node string) string {
	dir, base := path.Split(node)
	for i := range m.members {
		if m.members[i].dir == dir || m.members[i].dir+"/" == dir {
			return recipes.MemberName(i, base)
		}
	}
	return node
}

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

func (m *multi) several() []string { return m.own }

func (m *multi) anew() { m.own = nil } // they were of the attempt before

func (m *multi) leave(*client, *Seat) { m.own = nil }

func (m *multi) form() recipes.Layout { return recipes.LayoutSeveral }

func (m *multi) needs(string) int { return len(m.members) }

// nameMembers notes which nodes are the attempt's. A node that was known stays, though it may be gone. The reason: a seat that gives up the
// node that the machine knows by name has to give up all, and it does no harm to delete a node that is not there.
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

// known returns the zxids of the directories if all of them are ours, were empty the last time, and can be marked in one request. Otherwise
// it returns nil.
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

// makeParents makes the directory that a create did not find, and the ones behind it that are unknown. Those before it were there.
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

// each runs do for all members, some at a time. Of several errors it returns one that leaves something open, if there is one.
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

// reads returns all directories, which are listed in one flight. Each listing is of a moment of its own. That does no harm: no contender
// gets a place before a node that is in its queue, so a contender that is not listed before the own node will not stand there later.
func (m *multi) reads(*Seat) []string {
	dirs := make([]string, len(m.members))
	for i := range m.members {
		dirs[i] = m.members[i].dir
	}
	return dirs
}

// MemberError says at which path of a multi-lock a request has failed. Its text is that of the error.
type MemberError struct {
	Path string // as the caller named it
	Err  error
}

func (e *MemberError) Error() string { return e.Err.Error() }

func (e *MemberError) Unwrap() error { return e.Err }

// inFlight is how many requests of one multi-lock are under way at a time.
const inFlight = 64
