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

// This file is about multi-locks: a node in each of several directories. All nodes have
// the same GUID, and are created and deleted in one transaction. In its directory, each
// is like the node of a single lock. [recipes.Multi] says why they are always created
// together.

// Members returns the nodes of a multi-lock, without the chroot and in the order of its
// locks, or nil if some are unknown or the lock is another kind.
func (t *Seat) Members() []events.Member {
	if t.members == nil {
		return nil
	}
	t.mu.Lock()
	own := t.several.nodes
	t.mu.Unlock()
	if len(own) != len(t.members) {
		return nil
	}
	all := make([]events.Member, len(own))
	for i, node := range own {
		all[i] = events.Member{Path: t.members[i].path, Node: path.Join(t.members[i].path, path.Base(node))}
	}
	return all
}

// listMembers finds the seat's nodes in the listed queues, and reads and watches all of
// them at once.
func (c *client) listMembers(t *Seat, e recipes.List, id guid, read []*names) (recipes.Input, error) {
	queues, own := make([][]events.Name, len(t.members)), make([]string, len(t.members))
	for i, p := range t.members {
		queues[i] = read[i].as(i)
		if name, ok := read[i].own(p.kind, id); ok {
			own[i] = path.Join(p.dir, name.Text)
		}
	}
	// Name them before the reads, because a seat gets no watch on a node that it does not
	// follow.
	known := slices.DeleteFunc(slices.Clone(own), func(node string) bool { return node == "" })
	t.nameOwn(c, e.Epoch, known, 0)
	stats := make([]*zk.Stat, len(own))
	err := t.eachMember(func(i int) error {
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
		return t.refusedAt(i, err)
	})
	if err != nil {
		return unanswered(e.Epoch, recipes.OpList, err)
	}
	found := make([]recipes.Own, len(own))
	for i, stat := range stats {
		if stat != nil {
			name, _ := events.ParseName(path.Base(own[i]))
			name.Member = int32(i)
			found[i] = recipes.Own{Name: name, Owner: stat.EphemeralOwner, Token: stat.Czxid}
		}
	}
	listed := recipes.Listed{Epoch: e.Epoch, Queue: slices.Concat(queues...)}.WithMembers(found)
	t.nameOwn(c, e.Epoch, known, listed.Own.Token)
	return listed, nil
}

// refusedAt adds the member to a non-nil error.
func (t *Seat) refusedAt(i int, err error) error {
	if err == nil {
		return nil
	}
	return &MemberError{t.members[i].path, err}
}

// makeMembers creates the directory that a create did not find, and those of later
// members, which may be missing, too: servers remove directories that are idle for the
// same time together. Those of earlier members exist.
func (c *client) makeMembers(t *Seat, missing int) error {
	c.dirs.forget(t.members[missing].dir)
	return t.eachMember(func(i int) error {
		if i < missing {
			return nil
		}
		p := t.members[i]
		err := c.makeParents(p.dir, recipes.Marker(), p.acl, false)
		if i > missing && errors.Is(err, zk.ErrNoAuth) {
			return nil // servers check this first, so the directory may exist; the next create shows it
		}
		return t.refusedAt(i, err)
	})
}

// eachMember runs do for all members, up to inFlight at a time. Of several errors, it
// prefers one that leaves the outcome open.
func (t *Seat) eachMember(do func(i int) error) (worst error) {
	var wait sync.WaitGroup
	room, errs := make(chan struct{}, inFlight), make([]error, len(t.members))
	for i := range t.members {
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

// marksFit reports whether a request of room bytes can hold the creates and the markers
// of all directories.
func (t *Seat) marksFit(data, room int) bool {
	const fixed, each = 1 << 10, 64
	size := fixed
	for i := range t.members {
		size += t.members[i].size(data) + each + len(t.members[i].dir)
	}
	return size <= room
}

// size returns an upper bound for the bytes that a create takes in a request.
func (m *member) size(data int) int {
	const each = 96 // the name, and what is around the texts
	return each + len(m.dir) + data + SizeOfACL(m.acl)
}

// MemberError names the member of a multi-lock whose request failed. Its text is that of
// Err.
type MemberError struct {
	Path string // as the caller wrote it
	Err  error
}

func (e *MemberError) Error() string { return e.Err.Error() }

func (e *MemberError) Unwrap() error { return e.Err }

// inFlight is how many requests of one multi-lock may be in progress at a time.
const inFlight = 64
