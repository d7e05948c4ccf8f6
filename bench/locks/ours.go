package main

import (
	"context"
	"strconv"

	"github.com/zkgrant/zkgrant/coordinator"
)

type ours struct {
	c       *coordinator.Coordinator
	options []coordinator.LockOption // for its mutexes
}

func openOurs(ctx context.Context, addr string, m *meter, options []coordinator.LockOption) (client, error) {
	c, err := coordinator.Connect(ctx, addr, coordinator.WithDialer(m.dial),
		coordinator.WithSessionTimeout(sessionTimeout), coordinator.WithTickTime(serverTick),
		// Enough for 100,000 locks in one session, which is more than a restarting server
		// can cope with.
		coordinator.WithNodeBudget(32<<20))
	if err != nil {
		return nil, err
	}
	return ours{c, options}, nil
}

func (o ours) lock(path string) (mutex, error)      { return o.mutex(path), nil }
func (o ours) contender(path string) (mutex, error) { return o.lock(path) }
func (o ours) close() error                         { return o.c.Close() }

func (o ours) other(u use, path string) (mutex, error) {
	switch u.kind {
	case kindCached:
		return ours{o.c, cached()}.lock(path)
	case kindSemaphore:
		return &ourMutex{ask: o.c.Semaphore(path, u.size).Acquire}, nil
	case kindMulti:
		var all []*coordinator.Lock
		for i := range u.size {
			all = append(all, o.c.Mutex(path+"-"+strconv.Itoa(i)))
		}
		return &ourMutex{ask: o.c.Multi(all...).Acquire}, nil
	case kindElection:
		return &ourMutex{ask: o.c.Election(path).Acquire}, nil
	default:
		return nil, errNotOffered
	}
}

// cached returns the options for a cached mutex.
func cached() []coordinator.LockOption { return []coordinator.LockOption{coordinator.Cached()} }

func (o ours) mutex(path string) *ourMutex {
	return &ourMutex{ask: o.c.Mutex(path, o.options...).Acquire}
}

// ourMutex is a zkgrant lock of any kind.
type ourMutex struct {
	ask     func(context.Context, ...coordinator.AcquireOption) *coordinator.Acquisition
	current *coordinator.Acquisition
}

func (m *ourMutex) acquire(ctx context.Context) error {
	m.current = m.ask(ctx)
	select {
	case <-m.current.Granted():
		return nil
	case <-m.current.Done():
		return m.current.Err()
	}
}

func (m *ourMutex) release() error {
	m.current.Release()
	return nil
}

func (m *ourMutex) await(ctx context.Context) error {
	select {
	case <-m.current.Done():
		return m.current.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
