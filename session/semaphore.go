package session

import (
	"errors"
	"path"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about semaphores, in the layout of Curator's InterProcessSemaphoreV2:
//
//	<path>/locks/_c_<guid>-lock-N    a waiter: the queue of a mutex
//	<path>/leases/_c_<guid>-lease-N  a permit that is taken
//	<path>/size                      how many permits there are, in decimal; ours alone
//
// Every node in leases/ is a permit that is taken, of any library: Curator calls it a lease. The size is a
// persistent node, and stays when the semaphore is not in use any more. Our permits are called
// `_c_<guid>-<token>-lease-N`. The token, in hexadecimal digits, is that of the place in the queue, of which the
// node is gone by then.
const (
	// SizeNode is the name of the node that says how many permits there are.
	SizeNode = "size"

	queueDir     = "locks"
	permitDir    = "leases"
	permitMarker = "lease-"
)

// turnAway ends the subscription to changes of the semaphore. It is called with mu held.
func (t *Seat) turnAway(c *client) {
	c.looks.Drop(t.permits.dir, t)
}

// namePermits notes the own permits, in the place of the own node in the queue.
func (t *Seat) namePermits(c *client, epoch recipes.Epoch, permits []string) {
	t.mu.Lock()
	if t.closed || epoch < t.epoch {
		t.mu.Unlock()
		return
	}
	t.permits.held = permits
	t.turnAway(c)
	t.mu.Unlock()
	t.drop(c, t.nameOwn(epoch, permits[0], 0))
}

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

// permitHead is what the names of an attempt's permits begin with. The token is 0 if it is not known.
func permitHead(id guid, token int64) string {
	if token == 0 {
		return head(0, id) + permitMarker
	}
	return head(0, id) + strconv.FormatInt(token, 16) + "-" + permitMarker
}

// TokenOf returns the fencing token in the name of a permit, or 0 if the name has none.
func TokenOf(permit string) int64 {
	_, ours := events.MarksOf(permit)
	text, _, named := strings.Cut(strings.TrimPrefix(permit, AttemptOf(permit)+"-"), "-"+permitMarker)
	token, err := strconv.ParseInt(text, 16, 64)
	if !ours || !named || err != nil || token < 0 {
		return 0
	}
	return token
}

// SemaphoreDirs returns the directory of a semaphore's waiters, and that of its holders.
func SemaphoreDirs(semaphore string) (waiting, holding string) {
	return path.Join(semaphore, queueDir), path.Join(semaphore, permitDir)
}

func (p *permits) needs(own string) int {
	if path.Dir(own) == p.dir {
		return int(p.wanted)
	}
	return 1
}

func (p *permits) at(t *Seat, name string) string {
	if strings.HasPrefix(name, permitDir+"/") {
		return path.Join(p.root, name)
	}
	return below(t.dir, name)
}

// nameOf puts the directory before the name of a permit. The name of a contender in the queue goes without.
func (p *permits) nameOf(node string) string {
	if path.Dir(node) == p.dir {
		return permitDir + "/" + path.Base(node)
	}
	return path.Base(node)
}

func (p *permits) several() []string { return p.held }

func (p *permits) anew() { p.held = nil } // they were of the attempt before

func (p *permits) leave(c *client, t *Seat) {
	p.held = nil
	t.turnAway(c)
}

func (p *permits) firstHolds() bool { return false } // there may be no room
