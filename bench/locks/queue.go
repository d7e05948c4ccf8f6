package main

import (
	"context"
	"sync"
	"time"
)

// queue has the contenders at one path. Each is a goroutine that acquires the lock, waits
// for leave, and releases it.
type queue struct {
	path    string
	size    int // how many were added so far
	holder  *waiter
	granted chan *waiter
	failed  chan error

	cancel context.CancelFunc
	all    sync.WaitGroup
}

type waiter struct {
	at       time.Time      // the time of the grant
	leave    chan struct{}  // closed to make it release
	released chan time.Time // receives the time at which the release began
}

// fill adds contenders. It creates all of them before the first one acquires, so that
// creating them does not delay the waiters.
func (p *player) fill(ctx context.Context, path string, n int) error {
	if p.queue == nil || p.queue.path != path {
		if p.queue != nil {
			p.queue.stop()
		}
		p.queue = &queue{path: path, granted: make(chan *waiter), failed: make(chan error, 1)}
	}
	q := p.queue
	// The last contenders of a queue never get the lock: they wait until their session or
	// this context ends.
	ctx, cancel := context.WithCancel(ctx)
	if before := q.cancel; before == nil {
		q.cancel = cancel
	} else {
		q.cancel = func() { before(); cancel() }
	}
	mutexes := make([]mutex, n)
	for i := range mutexes {
		m, err := p.lock(p.sessions[(q.size+i)%len(p.sessions)], path, true)
		if err != nil {
			return err
		}
		mutexes[i] = m
	}
	q.size += n
	for _, m := range mutexes {
		q.all.Go(func() { q.contend(ctx, m) })
	}
	if q.holder != nil {
		return nil
	}
	var err error
	q.holder, err = q.next(ctx)
	return err
}

func (q *queue) contend(ctx context.Context, m mutex) {
	err := m.acquire(ctx)
	w := &waiter{at: time.Now(), leave: make(chan struct{}), released: make(chan time.Time, 1)}
	if err == nil {
		select {
		case q.granted <- w:
		case <-ctx.Done():
			return
		}
		select {
		case <-w.leave:
		case <-ctx.Done():
			return
		}
		w.released <- time.Now()
		err = m.release()
	}
	if err != nil {
		select {
		case q.failed <- err:
		default: // one error is enough
		}
	}
}

func (q *queue) next(ctx context.Context) (*waiter, error) {
	select {
	case w := <-q.granted:
		return w, nil
	case err := <-q.failed:
		return nil, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// drain hands the lock on n times.
func (p *player) drain(ctx context.Context, n int) ([]int64, error) {
	q := p.queue
	if q == nil || q.holder == nil {
		return nil, errNotOffered
	}
	took := make([]int64, 0, n)
	for range n {
		close(q.holder.leave)
		w, err := q.next(ctx)
		if err != nil {
			return nil, err
		}
		took = append(took, w.at.Sub(<-q.holder.released).Nanoseconds())
		q.holder = w
	}
	return took, nil
}

// stop cancels the wait of all contenders. A call that cannot be cancelled ends with the
// session.
func (q *queue) stop() { q.cancel() }
