package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
)

// This file is about observers of queues.

// Form is where a lock's contenders have their nodes.
type Form uint8

// The forms.
const (
	FormDirectory Form = iota // in the lock's directory
	FormNode                  // the lock's own node
	FormSemaphore             // in the two directories of a semaphore
)

// QueueNodes are the nodes of a lock's contenders.
type QueueNodes struct {
	Queue   []Found // by name
	Permits []Found // a semaphore's, by name
	Size    int     // of a semaphore, or 0; with Names
}

// QueuePlace is the place of a queue.
type QueuePlace struct {
	Path  string // without the chroot
	Form  Form
	Names bool // Found has the names alone, and a semaphore's Size is read
}

// WatchQueues calls show with the nodes of the contenders at each place, in that order,
// and delivers its result, at once and after each change, until ctx ends or the session
// is closed. Then it closes the channel. It also does so if a server refuses to read a
// place, or if a node of [FormNode] is persistent. The channel has room for one value,
// which a later one replaces.
//
// All observers of a place share a watch and a listing, at most one per probe interval.
// Data are read once, except those of FormNode. While there is no connection the last
// value stands. show must not block or change the nodes, which other observers share.
func (s *Session) WatchQueues(ctx context.Context, places []QueuePlace, show func([]*QueueNodes) []events.Contender) <-chan []events.Contender {
	return s.queues.observe(ctx, show, places...)
}

// sameNodes reports whether both have the same contenders.
func sameNodes(a, b QueueNodes) bool {
	same := func(a, b Found) bool {
		return a.Name == b.Name && (a.Stat == nil || a.Stat.Czxid == b.Stat.Czxid) && bytes.Equal(a.Data, b.Data)
	}
	return a.Size == b.Size && slices.EqualFunc(a.Queue, b.Queue, same) && slices.EqualFunc(a.Permits, b.Permits, same)
}

// queueWatch reads the queue of a lock. A semaphore's has two directories, which have a
// watcher each, with one signal.
type queueWatch struct {
	form           Form
	names          bool
	queue, permits *watcher // permits is nil unless it is a semaphore's
	at, holding    string   // what they watch
	known          Known
}

func newQueueWatch(w *watcher, at QueuePlace) subject[QueueNodes] {
	q := &queueWatch{form: at.Form, names: at.Names, queue: w, at: under(w.session.chroot, at.Path)}
	if q.form == FormSemaphore {
		q.at, q.holding = SemaphoreDirs(q.at)
		q.permits = newWatcher(w.session)
		q.permits.changed = w.changed
	}
	return q
}

func (q *queueWatch) leave() {
	q.queue.leave()
	if q.permits != nil {
		q.permits.leave()
	}
}

// read reads the permits after the queue: a waiter that enters in between is found there,
// and not in neither.
func (q *queueWatch) read(ctx context.Context, c *client) (all QueueNodes, err error) {
	q.queue.begin()
	if q.form == FormNode {
		all.Queue, err = q.node(c)
		return all, err
	}
	if all.Queue, err = q.list(ctx, c, q.queue, q.at); err != nil || q.permits == nil {
		return all, err
	}
	if all.Permits, err = q.list(ctx, c, q.permits, q.holding); err != nil || !q.names {
		return all, err
	}
	data, _, err := c.conn.Get(path.Join(path.Dir(q.at), SizeNode))
	if errors.Is(err, zk.ErrNoNode) {
		err = nil
	}
	all.Size = int(ParseSize(data))
	return all, err
}

// list returns the contenders in a directory, which it watches.
func (q *queueWatch) list(ctx context.Context, c *client, w *watcher, dir string) ([]Found, error) {
	for range maxTries {
		s, err := c.readW(ofChildren, dir, w)
		if errors.Is(err, zk.ErrNoNode) {
			if missing, err := w.awaits(c, dir); missing || err != nil {
				q.known.Keep(dir, nil)
				return nil, err
			}
			continue // the directory was made meanwhile
		}
		if err != nil {
			return nil, err
		}
		names := slices.DeleteFunc(s.children, func(child string) bool {
			_, contends := events.ParseName(child)
			return !contends && w != q.permits
		})
		if q.names {
			slices.Sort(names)
			found := make([]Found, len(names))
			for i, name := range names {
				found[i].Name = name
			}
			return found, nil
		}
		found, news := q.known.split(dir, s.stat, names)
		read, err := c.readAll(ctx, dir, news, nil)
		if err != nil {
			return nil, err
		}
		found = append(found, read...)
		slices.SortFunc(found, func(a, b Found) int { return strings.Compare(a.Name, b.Name) })
		q.keep(dir, found)
		return found, nil
	}
	return nil, fmt.Errorf("%s changes as often as it is read", dir)
}

// keep notes what need not be read again. Each name there has a number of its own in the
// directory, unless it is another program's node among the permits.
func (q *queueWatch) keep(dir string, found []Found) {
	kept := make(map[string]Found, len(found))
	for _, f := range found {
		if dir == q.at || IsPermit(f.Name) {
			kept[f.Name] = f
		}
	}
	q.known.Keep(dir, kept)
}

// node returns the holder of a lock of one node, which it watches.
func (q *queueWatch) node(c *client) ([]Found, error) {
	for range maxTries {
		s, err := c.readW(ofData, q.at, q.queue)
		if errors.Is(err, zk.ErrNoNode) {
			if missing, err := q.queue.awaits(c, q.at); missing || err != nil {
				return nil, err
			}
			continue // it was made meanwhile
		}
		if err == nil && !Ephemeral(s.stat) {
			err = verdict{fmt.Errorf("the node %s is not a lock", q.at)}
		}
		if err != nil {
			return nil, err
		}
		return []Found{{Name: path.Base(q.at), Data: s.data, Stat: s.stat}}, nil
	}
	return nil, fmt.Errorf("%s changes as often as it is read", q.at)
}
