package coordinator

import (
	"bytes"
	"context"

	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
)

// Watch delivers what [Lock.Queue] returns, and again after each change: the newest
// queue, at most one per probe interval. Data are those with which a contender arrived.
// The channel is closed when ctx ends, after Close, or if the path cannot be read; Queue
// then returns the error.
func (l *Lock) Watch(ctx context.Context) <-chan []events.Contender {
	locks, err := []*Lock{l}, error(nil)
	if l.members != nil {
		locks, err = l.members.locks, l.err
	}
	places := make([]session.QueuePlace, len(locks))
	for i := 0; i < len(locks) && err == nil; i++ {
		places[i], err = session.QueuePlace{Path: locks[i].path, Form: locks[i].form()}, l.c.checkPath(locks[i].path)
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

// form says where the contenders have their nodes.
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
