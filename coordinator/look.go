package coordinator

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
)

// This file is for callers that look at a lock without acquiring it.

// Queue returns the lock's holders and then its waiters, in order, those of other
// libraries included. It is a snapshot for people: Holding proves no Grant. It waits for
// a connection until ctx ends.
func (l *Lock) Queue(ctx context.Context) ([]events.Contender, error) {
	if m := l.members; m != nil && l.err != nil {
		return nil, l.err
	} else if m != nil {
		return m.queue(ctx)
	}
	if err := l.checkOptions(); err != nil {
		return nil, err
	}
	if recipes.Single(l.rule) {
		return l.holder(ctx)
	}
	found, err := l.c.readQueue(ctx, l.path, isContender)
	if err != nil {
		return nil, err
	}
	return l.contenders(session.QueueNodes{Queue: found}), nil
}

// contenders returns the holders and waiters whose nodes were found, in order.
func (l *Lock) contenders(at session.QueueNodes) []events.Contender {
	switch l.form() {
	case session.FormSemaphore:
		queue, permits := session.SemaphoreDirs(l.path)
		return withPermits(queueOf(queue, recipes.Mutex{}, at.Queue), permits, at.Permits)
	case session.FormNode:
		all := make([]events.Contender, len(at.Queue))
		for i, f := range at.Queue {
			all[i] = contender(path.Dir(l.path), f)
			all[i].Kind, all[i].Holding = events.KindUnfair, true
		}
		return all
	default:
		return queueOf(l.path, l.rule, at.Queue)
	}
}

// queueOf returns the contenders found in a directory, in order.
func queueOf(dir string, rule recipes.Rule, found []session.Found) []events.Contender {
	names := make([]events.Name, len(found))
	nodes := make(map[string]session.Found, len(found))
	for i, f := range found {
		names[i], _ = events.ParseName(f.Name)
		nodes[f.Name] = f
	}
	slices.SortFunc(names, events.CompareNames)
	queue := make([]events.Contender, len(names))
	for i, name := range names {
		queue[i] = contender(dir, nodes[name.Text])
		queue[i].Kind, queue[i].Holding = name.Kind, recipes.Holds(rule, names, name)
	}
	return queue
}

// isContender reports whether the name is a contender's.
func isContender(name string) bool {
	_, ok := events.ParseName(name)
	return ok
}

// holder returns the holder of an unfair lock.
func (l *Lock) holder(ctx context.Context) ([]events.Contender, error) {
	found, err := l.c.look(ctx, l.path, func(ctx context.Context) ([]session.Found, error) {
		return l.c.session.Look(ctx, l.path)
	})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	if !session.Ephemeral(found[0].Stat) {
		return nil, fmt.Errorf("%w: the node %s is not a lock", ErrKind, l.path)
	}
	return l.contenders(session.QueueNodes{Queue: found}), nil
}

// Queue returns the holders and waiters of both sides in order; see [Lock.Queue].
func (rw *ReadWrite) Queue(ctx context.Context) ([]events.Contender, error) {
	return rw.write.Queue(ctx)
}

// contender returns what a node shows about its contender. What it requests and holds
// depends on its name and its neighbours.
func contender(dir string, f session.Found) events.Contender {
	return events.Contender{
		Node:    path.Join(dir, f.Name),
		Session: f.Stat.EphemeralOwner,
		Since:   time.UnixMilli(f.Stat.Ctime),
		Data:    session.UserData(f.Name, f.Data),
		Token:   f.Stat.Czxid,
		Cached:  events.HasMark(f.Name, events.MarkCached),
	}
}

// readQueue reads the wanted nodes of a directory, in no particular order, with the
// errors of [Lock.Queue].
func (c *Coordinator) readQueue(
	ctx context.Context, dir string, wanted func(name string) bool,
) ([]session.Found, error) {
	return c.look(ctx, dir, func(ctx context.Context) ([]session.Found, error) {
		return c.session.ReadQueue(ctx, dir, wanted)
	})
}

// look reads something at the path until ctx ends or the coordinator is closed.
func (c *Coordinator) look(
	ctx context.Context, at string, read func(context.Context) ([]session.Found, error),
) (found []session.Found, _ error) {
	if err := c.checkPath(at); err != nil {
		return nil, err
	}
	err := c.whileOpen(ctx, func(bounded context.Context) (err error) {
		found, err = read(bounded)
		if err != nil && bounded.Err() == nil { // the server's error
			return fmt.Errorf("zkgrant: reading %s: %w", at, err)
		}
		return err
	})
	return found, err
}

// queue is [Lock.Queue] for a multi-lock.
func (m *members) queue(ctx context.Context) (all []events.Contender, _ error) {
	for _, l := range m.locks {
		queue, err := l.Queue(ctx)
		if err != nil {
			return nil, l.failed(err)
		}
		all = append(all, queue...)
	}
	return all, nil
}

// Queue returns the holders in the order of their grants, then the waiters; see
// [Lock.Queue].
func (s *Semaphore) Queue(ctx context.Context) ([]events.Contender, error) {
	c, path := s.lock.c, s.lock.path
	if err := cmp.Or(c.checkPath(path), s.lock.checkOptions()); err != nil {
		return nil, err
	}
	queue, permits := session.SemaphoreDirs(path)
	waiting, err := c.readQueue(ctx, queue, isContender)
	if err != nil {
		return nil, err
	}
	// Read the permits after the queue, so that a waiter that enters in between is not
	// missed in both.
	found, err := c.readQueue(ctx, permits, nil)
	if err != nil {
		return nil, err
	}
	return s.lock.contenders(session.QueueNodes{Queue: waiting, Permits: found}), nil
}

// withPermits puts the holders of permits before the waiters. A contender that entered
// between the two reads is in both.
func withPermits(waiting []events.Contender, dir string, permits []session.Found) []events.Contender {
	permits = slices.SortedFunc(slices.Values(permits), func(a, b session.Found) int {
		return cmp.Or(cmp.Compare(a.Stat.Czxid, b.Stat.Czxid), strings.Compare(a.Name, b.Name))
	})
	entered := map[string]int{} // the index of each holder
	all := make([]events.Contender, 0, len(permits)+len(waiting))
	for _, f := range permits {
		token, atOnce := session.TokenOf(f)
		older := func(w events.Contender) bool { return w.Token < token }
		if atOnce && slices.ContainsFunc(waiting, older) {
			continue // a waiter was ahead of it, so these are given back
		}
		attempt := session.AttemptOf(f.Name)
		if at, more := entered[attempt]; more {
			all[at].Permits++
			continue
		}
		entered[attempt] = len(all)
		holder := contender(dir, f)
		holder.Kind, holder.Holding, holder.Token, holder.Permits = events.KindLock, true, token, 1
		all = append(all, holder)
	}
	for _, w := range waiting {
		if _, holds := entered[session.AttemptOf(w.Node)]; !holds {
			w.Holding, w.Permits = false, max(1, events.PermitsOf(w.Node)) // even the first one waits for permits
			all = append(all, w)
		}
	}
	return all
}

// Watch delivers what [Lock.Queue] returns, and again after each change: the newest
// queue, at most one per probe interval. Data is what a contender arrived with.
// The channel is closed when ctx ends, after Close, or if the handle is invalid or the
// path cannot be read; in the last two cases Queue returns the error.
func (l *Lock) Watch(ctx context.Context) <-chan []events.Contender {
	locks, err := []*Lock{l}, error(nil)
	if l.members != nil {
		locks, err = l.members.locks, l.err
	}
	places := make([]session.QueuePlace, len(locks))
	for i := 0; i < len(locks) && err == nil; i++ {
		places[i], err = session.QueuePlace{Path: locks[i].path, Form: locks[i].form()},
			cmp.Or(l.c.checkPath(locks[i].path), locks[i].checkOptions())
	}
	if err != nil {
		l.c.cfg.Logger.Warn("cannot read the lock's queue", zap.String("path", l.path), zap.Error(err))
		none := make(chan []events.Contender)
		close(none)
		return none
	}
	return l.c.session.WatchQueues(ctx, places, func(seen []*session.QueueNodes) (all []events.Contender) {
		for i, nodes := range seen {
			all = append(all, locks[i].contenders(*nodes)...)
		}
		for i := range all {
			all[i].Data = bytes.Clone(all[i].Data) // the caller's
		}
		return all
	})
}

// form returns where the contenders have their nodes.
func (l *Lock) form() session.Form {
	switch {
	case recipes.Single(l.rule):
		return session.FormNode
	case l.kind == kindSemaphore:
		return session.FormSemaphore
	default:
		return session.FormDirectory
	}
}

// Watch is [Lock.Watch] for both sides.
func (rw *ReadWrite) Watch(ctx context.Context) <-chan []events.Contender { return rw.write.Watch(ctx) }

// Watch is [Lock.Watch]. With a permit for each contender, the queue is a list of
// members.
func (s *Semaphore) Watch(ctx context.Context) <-chan []events.Contender { return s.lock.Watch(ctx) }

// Watch is [Lock.Watch].
func (e *Election) Watch(ctx context.Context) <-chan []events.Contender { return e.lock.Watch(ctx) }
