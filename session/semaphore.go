package session

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file is about semaphores, which have the layout of Curator's
// InterProcessSemaphoreV2:
//
//	<path>/locks/_c_<guid>-lock-N    a waiter: the queue of a mutex
//	<path>/leases/_c_<guid>-lease-N  a permit that is taken
//	<path>/size                      the number of permits, in decimal; ours alone
//
// Every node in leases/ is a permit in use, by any library; Curator calls it a lease. The
// size is a persistent node, which stays when the semaphore is no longer used. Our
// permits are named `_c_<guid>-<token>-lease-N`. The token, in hexadecimal, is that of
// the contender's place in the queue, whose node no longer exists. Permits taken without
// a place in the queue are named `_c_<guid>-lease-N`, and their token is the zxid that
// created them.
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
		s, err := c.readW(ofChildren, node, t)
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
	c.dirs.read(node, data, stat) // if the directory is ours, an enter can count the permits
	return stat.NumChildren, nil
}

// permitHead returns the prefix of the names of an attempt's permits. token is 0 if it is
// unknown.
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
		token, _ = strconv.ParseInt(text, 16, 64) // 0 if a user created the node
		return max(0, token), false
	}
}

// InnerOf returns the path of the semaphore that would use this path, or "".
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

// showsSemaphore reports whether a directory with these children is part of a semaphore.
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

// listSemaphore searches the queue for the seat's node, and for permits if it may have
// some.
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

// findPermits looks for permits with the GUID, and watches them.
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
	// Name them before the reads, because a seat gets no watch on a node that it does not
	// follow.
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
	// Every node there is a permit in use, of any library, so all children count.
	return listed.Permits(recipes.PermitName(permits[0]), owner, int32(len(children))), nil
}

// survey asks in parallel how many permits there are, how many are in use, and, with
// Watch, whether the seat's node still exists.
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
			// The machine must not conclude from another node's error that its own node
			// is gone.
			return notOwn(unanswered(e.Epoch, recipes.OpSurvey, err))
		}
	}
	return e.Means(found), nil
}

// ErrSizeNode reports that the data of a semaphore's size node are not a size.
var ErrSizeNode = errors.New("zkgrant: not a semaphore size")

// size reads how many permits there are. If no size was written yet, it writes the seat's
// own.
func (c *client) size(t *Seat) (size, version int32, _ error) {
	node := t.permits.size
	for range maxTries {
		data, stat, err := c.conn.Get(node)
		if err == nil {
			if size, version = ParseSize(data), stat.Version; size == 0 {
				return 0, 0, fmt.Errorf("%w: %s holds %.20q", ErrSizeNode, node, data)
			}
			c.dirs.sized(node, sizeRead{size, version})
			return size, version, nil
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return 0, 0, err
		}
		if err := c.makeSize(context.Background(), node, t.permits.opinion, t.acl); err != nil {
			return 0, 0, err
		}
	}
	return 0, 0, fmt.Errorf("%s is deleted as often as it is made: %w", node, zk.ErrNoNode)
}

// ParseSize returns the number of permits in the data of a size node, or 0 if the data
// are not a number of permits.
func ParseSize(data []byte) int32 {
	n, err := strconv.ParseInt(string(data), 10, 32)
	if err != nil || n <= 0 {
		return 0
	}
	return int32(n)
}

// makeSize creates the size node, and the semaphore's path, if they are missing.
func (c *client) makeSize(ctx context.Context, node string, size int32, acl []zk.ACL) error {
	text := []byte(strconv.Itoa(int(size)))
	_, err := c.conn.Create(node, text, zk.FlagPersistent, acl)
	if errors.Is(err, zk.ErrNoNode) && ctx.Err() == nil {
		if err := c.makeParents(path.Dir(node), nil, acl, false); err != nil || ctx.Err() != nil {
			return err
		}
		_, err = c.conn.Create(node, text, zk.FlagPersistent, acl)
	}
	if errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode) {
		return nil // the caller reads again
	}
	return err
}

// Resize sets the size of the semaphore at the path, which does not include the chroot.
// It creates missing nodes, with the given access control list or that of the config. It
// waits for a connection and for the answer until ctx ends. The zxid is that of the
// write. The error is the cause of ctx, a server's refusal, [ErrKind] if the path is the
// node of an unfair lock, or [ErrClosed].
func (s *Session) Resize(ctx context.Context, semaphore string, size int32, acl []zk.ACL) (zxid int64, _ error) {
	if acl == nil {
		acl = s.cfg.ACL
	}
	node := path.Join(under(s.chroot, semaphore), SizeNode)
	zxid, err := call(ctx, s, callOptions{urgent: joining},
		func(c *client) (int64, error) { return c.resize(ctx, node, size, acl) })
	return zxid, otherKind(err)
}

// resize writes the size and, in the same transaction, creates and deletes a node among
// the permits. The first in the queue watches the permits' directory while it waits for
// room, so it learns of the new size, too. The size node itself is not watched: every
// waiter would have to arm that watch, it would fire only at a resize, and it would stay
// forever, because a client cannot remove a watch.
func (c *client) resize(ctx context.Context, node string, size int32, acl []zk.ACL) (zxid int64, _ error) {
	wake := path.Join(path.Dir(node), permitDir, wakingNode)
	set := &zk.SetDataRequest{Path: node, Data: []byte(strconv.Itoa(int(size))), Version: anyVersion}
	for range maxTries {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx) // the call has returned, so nothing more is written
		}
		answers, err := c.conn.Multi(set,
			&zk.CreateRequest{Path: wake, Acl: acl, Flags: zk.FlagEphemeral},
			&zk.DeleteRequest{Path: wake, Version: anyVersion})
		outcome, failed, err := zkerr.ClassifyMulti(answers, err)
		if err != nil && ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		// Without permits, there is no waiter to notify. Permits may appear between the
		// read and the write, so read again.
		if failed > 0 && outcome == zkerr.Refused {
			var done bool
			if zxid, done, err = c.resizeUnheard(node, size, err); done {
				return zxid, nil
			}
			failed = 0
		}
		switch {
		case failed == 0 && errors.Is(err, zk.ErrNoNode):
			if err := c.makeSize(ctx, node, size, acl); err != nil {
				return 0, err
			}
		case err != nil:
			return 0, err
		case failed < 0:
			return answers[0].Stat.Mzxid, nil
		}
	}
	return 0, zk.ErrNoNode
}

// resizeUnheard writes the size if no waiter can be notified, for the reason in unheard.
// It reports whether that was enough.
func (c *client) resizeUnheard(node string, size int32, unheard error) (zxid int64, done bool, _ error) {
	stat, err := c.conn.Set(node, []byte(strconv.Itoa(int(size))), anyVersion)
	if err != nil {
		return 0, false, err
	}
	if !errors.Is(unheard, zk.ErrNoNode) {
		c.logger.Warn("semaphore resized; waiters see the new size when the next permit is taken or released",
			zap.String("node", node), zap.Error(unheard))
		return stat.Mzxid, true, nil
	}
	exists, _, err := c.conn.Exists(path.Join(path.Dir(node), permitDir))
	return stat.Mzxid, err == nil && !exists, err
}

// wakingNode never stays among the permits: it is created and deleted in one transaction.
const wakingNode = "resized"
