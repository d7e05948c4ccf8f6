package session

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about semaphores, in the layout of Curator's InterProcessSemaphoreV2:
//
//	<path>/locks/_c_<guid>-lock-N    a waiter: the queue of a mutex
//	<path>/leases/_c_<guid>-lease-N  a permit that is taken
//	<path>/size                      the number of permits, in decimal; ours alone
//
// Every node in leases/ is a taken permit, of any library: Curator calls it a lease. The
// size is a persistent node, which stays after the semaphore is no longer used. Our
// permits have names `_c_<guid>-<token>-lease-N`. The token, in hexadecimal, is that of
// the contender's place in the queue, whose node no longer exists then. Permits that were
// taken without a place in the queue have names `_c_<guid>-lease-N`, and their token is
// the zxid that created them.
const (
	// SizeNode is the name of the node with the number of permits.
	SizeNode = "size"

	queueDir     = "locks"
	permitDir    = "leases"
	permitMarker = "lease-"
)

// inUse counts the permits.
func (c *client) inUse(t *Seat, watch bool) (int32, error) {
	node := t.permits.dir
	if watch {
		s, err := c.readW(ofChildren, node, lookout{t})
		if errors.Is(err, zk.ErrNoNode) {
			return 0, nil
		}
		return int32(len(s.children)), err
	}
	data, stat, err := c.conn.Get(node)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		c.dirs.forget(node)
		return 0, nil
	case err != nil:
		return 0, err
	}
	c.dirs.saw(node, stat)
	c.dirs.read(node, data, stat) // if it is a directory of ours, an enter can count it
	return stat.NumChildren, nil
}

// permitHead is what the names of an attempt's permits begin with. The token is 0 if it
// is not known.
func permitHead(id guid, token int64) string {
	if token == 0 {
		return head(0, id) + permitMarker
	}
	return head(0, id) + strconv.FormatInt(token, 16) + "-" + permitMarker
}

// TokenOf returns the fencing token of a permit, or 0 if it is another library's. atOnce
// reports whether it was taken without a place in the queue; see [recipes.Semaphore].
func TokenOf(permit Found) (token int64, atOnce bool) {
	_, ours := events.MarksOf(permit.Name)
	text, named := strings.CutPrefix(permit.Name, AttemptOf(permit.Name)+"-")
	text, _, numbered := strings.Cut(text, "-"+permitMarker)
	switch {
	case !ours || !named:
		return 0, false
	case !numbered:
		return permit.Stat.Czxid, true
	default:
		token, _ = strconv.ParseInt(text, 16, 64) // 0 if a user has made the node
		return max(0, token), false
	}
}

// InnerOf returns the path of the semaphore that would use this path, or "" if no
// semaphore would.
func InnerOf(at string) (semaphore string) {
	switch path.Base(at) {
	case queueDir, permitDir, SizeNode:
		return path.Dir(at)
	default:
		return ""
	}
}

// ErrInner returns the error of a lock at a path inside a semaphore.
func ErrInner(at string) error {
	return fmt.Errorf("%w: %q belongs to the semaphore at %s and cannot be a lock; %s",
		ErrKind, path.Base(at), path.Dir(at), escaping)
}

// showsSemaphore reports whether a directory with these children is a part of a
// semaphore.
func showsSemaphore(dir string, children []string) bool {
	switch path.Base(dir) {
	case queueDir:
		return slices.ContainsFunc(children, func(name string) bool { return events.PermitsOf(name) > 0 })
	case permitDir:
		return slices.ContainsFunc(children, IsPermit)
	default:
		return false
	}
}

// SemaphoreDirs returns the directories of a semaphore's waiters and of its holders.
func SemaphoreDirs(semaphore string) (waiting, holding string) {
	return path.Join(semaphore, queueDir), path.Join(semaphore, permitDir)
}

// listSemaphore looks through the queue, and through the permits if these may be there.
func (c *client) listSemaphore(t *Seat, e recipes.List, id guid, found *names) (recipes.Input, error) {
	var wait sync.WaitGroup
	var size int32
	var unsized error
	if e.Size {
		wait.Go(func() { size, _, unsized = c.size(t) })
	}
	in, err := c.list(t, e, id, found)
	wait.Wait()
	listed, ok := in.(recipes.Listed)
	switch {
	case !ok:
		return in, err
	case errors.Is(unsized, ErrSizeNode):
		return recipes.Refused{Epoch: e.Epoch, Op: recipes.OpList}, unsized
	case unsized != nil:
		return unanswered(e.Epoch, recipes.OpList, unsized)
	}
	listed.Size = size
	if e.LooksForPermits(listed) {
		return c.findPermits(t, listed, id)
	}
	return listed, nil
}

// findPermits looks for permits with the GUID, and has them watched.
func (c *client) findPermits(t *Seat, listed recipes.Listed, id guid) (recipes.Input, error) {
	children, _, err := c.conn.Children(t.permits.dir)
	if errors.Is(err, zk.ErrNoNode) {
		return listed, nil
	}
	if err != nil {
		return unanswered(listed.Epoch, recipes.OpList, err)
	}
	var permits []string
	mine := head(0, id)
	for _, child := range children {
		if id != (guid{}) && strings.HasPrefix(child, mine) {
			permits = append(permits, path.Join(t.permits.dir, child))
		}
	}
	if len(permits) == 0 {
		return listed, nil
	}
	slices.Sort(permits) // the first one has the data that others see
	t.nameOwn(c, listed.Epoch, permits, 0)
	owner := int64(0)
	for _, permit := range permits {
		node, err := c.follow(ofNode, permit, t)
		switch {
		case errors.Is(err, zk.ErrNoNode): // the claim will find out
		case err != nil:
			return unanswered(listed.Epoch, recipes.OpList, err)
		default:
			owner = node.stat.EphemeralOwner
		}
	}
	if owner == 0 {
		return recipes.Listed{Epoch: listed.Epoch, Queue: listed.Queue}, nil // all of them are gone by now
	}
	return listed.Permits(recipes.PermitName(permits[0]), owner, int32(len(children))), nil
}

// survey asks in one flight how many permits there are, how many are taken, and with
// Watch, whether the own node is still there.
func (c *client) survey(t *Seat, e recipes.Survey) (recipes.Input, error) {
	var found recipes.Findings
	var wait sync.WaitGroup
	var unsized, uncounted, unplaced error
	wait.Go(func() { found.Size, found.Version, unsized = c.size(t) })
	wait.Go(func() { found.InUse, uncounted = c.inUse(t, e.Watch) })
	if e.Looks() {
		_, unplaced = c.follow(ofNode, t.at(e.Node), t)
	}
	wait.Wait()
	found.Gone = errors.Is(unplaced, zk.ErrNoNode)
	switch {
	case found.Gone:
		return e.Means(found), unplaced
	case errors.Is(unsized, ErrSizeNode):
		return e.Means(found), unsized
	}
	for _, err := range [...]error{unsized, uncounted, unplaced} {
		if err != nil {
			return notOwn(unanswered(e.Epoch, recipes.OpSurvey, err))
		}
	}
	return e.Means(found), nil
}
