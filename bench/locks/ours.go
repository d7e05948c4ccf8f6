package main

import (
	"context"

	"github.com/zkgrant/zkgrant/coordinator"
)

// ours is a client of zkgrant.
type ours struct{ c *coordinator.Coordinator }

func openOurs(ctx context.Context, addr string, m *meter) (client, error) {
	c, err := coordinator.Connect(ctx, addr, coordinator.WithDialer(m.dial),
		coordinator.WithSessionTimeout(sessionTimeout), coordinator.WithTickTime(serverTick))
	if err != nil {
		return nil, err
	}
	return ours{c}, nil
}

func (o ours) lock(path string) (mutex, error)      { return &ourMutex{handle: o.c.Mutex(path)}, nil }
func (o ours) contender(path string) (mutex, error) { return o.lock(path) }
func (o ours) close() error                         { return o.c.Close() }

type ourMutex struct {
	handle  *coordinator.Lock
	current *coordinator.Acquisition
}

func (m *ourMutex) acquire(ctx context.Context) error {
	m.current = m.handle.Acquire(ctx)
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
